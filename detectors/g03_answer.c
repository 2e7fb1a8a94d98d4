/* g03_answer.c - page_cache_counted: the free figure of cudaMemGetInfo, when nothing was refused.
 *
 * On GB10 that figure is MemFree, and page cache counts as used (facts: 60 GiB of file reads moved it from 103 to 42 GiB while
 * MemAvailable stayed). A program that reads it and gives up fails with memory left. Nobody sees why a program gives
 * up: so this is a failure only where nothing else was seen to fail after the figure, and never with high confidence.
 * Freestanding: no libc, no I/O, no clock, no lock.
 */
#include "ending.h"
#include "g03_memory.h"
#include "number.h"
#include "text.h"
#include "words.h"

/* Is the free figure that a program was given far below what it could have, and is page cache the reason?
 * Far below: less than four fifths, and an eighth of the machine. A Spark just booted is 15 % off (97.3 against
 * 114.4 GiB) and no budget fails there; the reported refusals to start were 33 % off and more. */
static bool misleading(const struct g03_answer *a) {
  struct reading r = reading_of(&a->mem);
  uint64_t off_by = num_less(a->free, r.free) + num_less(r.free, a->free);
  if (!r.known || r.huge || !num_known(a->free)) return false;
  if (off_by > r.total / 16) return false; /* not MemFree: newer stacks and drivers may count otherwise */
  uint64_t gap = num_less(r.available, a->free);
  return gap >= r.available / 5 && gap >= r.total / 8 && r.cache >= gap / 2;
}

static void evidence(struct finding *f, const struct g03_answer *a, const struct fact *end) {
  words_memory(&f->evidence, &a->mem);
  text_item_add(&f->evidence,
                a->refused ? "requests had been refused before" : "no request had been refused until then");
  if (!end) return;
  text_item_add(&f->evidence, "not excluded: the process failed for a reason that has nothing to do with memory");
  ending_say(&f->evidence, a->t, end);
}

static void say(struct finding *f, const struct g03_answer *a, enum verdict v, const struct fact *end) {
  struct reading r = reading_of(&a->mem);
  struct text t = text_in(f->text, sizeof f->text);
  words_begin(f, 3, v, "page_cache_counted", "free");
  f->confidence = end ? CONFIDENCE_MEDIUM : CONFIDENCE_HIGH;
  f->retry = RETRY_USELESS;
  f->t = end ? end->t : a->t;
  text_add(&t, a->call);
  text_sized(&t, " says ", a->free, " free");
  text_sized(&t, " although ", r.available, " can be had: ");
  text_sized(&t, "it counts ", reading_droppable(&r), " of page cache as used");
  if (end) text_add(&t, "; the process ended unsuccessfully right after it");
  evidence(f, a, end);
  if (!a->refused)
    text_item_sized(&f->ruled_out, "alloc_refused_exhausted: MemAvailable ", r.available, " and no refusal until then");
  if (end) words_fix_cache(&f->fixes);
  text_item_add(&f->fixes, "size the budget from MemAvailable, not from cudaMemGetInfo (or set it by hand)");
  if (!end) words_fix_cache(&f->fixes);
}

void g03_on_answer(struct g03_state *s, const struct fact *fact, struct det_out *out) {
  const struct fact_mem_query *q = &fact->u.mem_query;
  struct g03_answer *a = &s->answer;
  a->refused = s->turn != 0;
  a->t = fact->t;
  a->free = q->free;
  a->total = q->total;
  a->mem = q->mem;
  a->failed_since = false;
  text_copy(a->call, sizeof a->call, q->call);
  a->misleading = misleading(a);
  if (!a->misleading || a->shown) return;
  a->shown = true;
  say(&out->f, a, VERDICT_INFO, NULL);
  out->emit(out, &out->f);
}

/* Errors that programs meet in good health: the runtime is being unloaded, it is so already, this machine cannot do that
 * (driver_types.h); NCCL is at it (nccl.h). Error 2 is told by the refusal that it belongs to. */
static bool is_harmless(const char *call, int64_t result) {
  enum { MEMORY = 2, UNLOADING = 4, PEER_ENABLED = 704, REGISTERED = 712, NOT_REGISTERED = 713, UNSUPPORTED = 801 };
  enum { NCCL_IN_PROGRESS = 7 };
  if (result == 0 || result == FACT_NO_I64) return true;
  if (text_starts(call, "nccl")) return result == NCCL_IN_PROGRESS;
  return result == MEMORY || result == UNLOADING || result == PEER_ENABLED || result == REGISTERED ||
         result == NOT_REGISTERED || result == UNSUPPORTED;
}

/* Is this a failure that may end a program? Programs try libraries that they can do without; one of the CUDA families
 * whose error they read is another matter. */
static bool is_failure(const struct fact *fact) {
  switch (fact->kind) {
  case FACT_KIND_call_failed: return !is_harmless(fact->u.call_failed.call, fact->u.call_failed.result);
  case FACT_KIND_comm: return !is_harmless(fact->u.comm.call, fact->u.comm.result);
  case FACT_KIND_launch_failed:
  case FACT_KIND_image_failed: return true;
  case FACT_KIND_load_failed: return fact->u.load_failed.family && text_equal(fact->u.load_failed.how, "dlerror");
  default: return false;
  }
}

void g03_on_other_failure(struct g03_state *s, const struct fact *fact) {
  if (is_failure(fact)) s->answer.failed_since = true;
}

/* No request was refused, and nothing else failed: the program read the figure and gave up. */
void g03_answer_at_exit(struct g03_state *s, const struct fact *end, struct det_out *out) {
  const struct g03_answer *a = &s->answer;
  if (!a->misleading || s->turn || a->failed_since || !ending_gave_up(end) || !ending_follows(a->t, end)) return;
  say(&out->f, a, VERDICT_FAIL, end);
  out->emit(out, &out->f);
}
