/* g03_fragments.c - G3: memory is there, but only in small pieces (fragmentation).
 *
 * After a week of uptime a Spark was seen with 118 GiB available and not one free block of 32 MiB; a load then crawled
 * for minutes in single allocations while compaction failed by the million, and only a restart helped (a fresh boot has
 * some 780 such blocks). A machine full of page cache has no large free block either, and that is ordinary: it counts
 * only where much memory is free and there is none among it, or where compaction fails while this job waits for it.
 *
 * From the samples (facts.def); `stall` tells of an allocation that does not return. Freestanding: no libc, no I/O.
 */
#include "detector.h"
#include "number.h"
#include "text.h"
#include "words.h"

#define SECOND ((uint64_t)1000 * 1000)

/* Memory of which something could be expected: an eighth available; a sixteenth free (7.6 GiB, 240 blocks if whole). */
enum { AVAILABLE_PART = 8, FREE_PART = 16 };
/* Compaction has been tried and has failed since boot; a fresh machine has not tried. */
enum { FAILED_LEAST = 1000 };
/* It fails for this job: the reported machine had 1.35 million in a week, 2 a second; at 100 in one stalled allocation
 * somebody waits for it. */
enum { FAILED_MEANWHILE = 100 };
#define STALLED_US (10 * SECOND)

struct state {
  bool seen, fragmented; /* at the first reading: nothing of 32 MiB or more although memory is there */
  struct fact_memory mem;
  uint64_t block_max, compact_stall, compact_fail, failed_now;
  bool shown;
  uint64_t large_now; /* FACT_NO_U64: not known */
};

static void say(struct state *s, uint64_t t_now, const char *call, uint64_t age, struct det_out *out) {
  struct finding *f = &out->f;
  words_begin(f, 3, VERDICT_WARN, "fragmentation", "memory");
  struct text t = text_in(f->text, sizeof f->text);
  f->confidence = CONFIDENCE_HIGH;
  f->retry = RETRY_USELESS;
  f->t = t_now;
  text_sized(&t, "memory is fragmented: ", s->mem.available, " can be had");
  text_sized(&t, ", ", s->mem.free, " is free, and no free block has 32 MiB");
  t = text_item(&f->evidence);
  text_sized(&t, "at the start: MemAvailable ", s->mem.available, "");
  text_sized(&t, ", MemFree ", s->mem.free, "");
  text_sized(&t, " of ", s->mem.total, "");
  if (num_known(s->block_max))
    text_item_sized(&f->evidence, "largest free block in /proc/buddyinfo ", s->block_max, "");
  t = text_item(&f->evidence);
  text_add(&t, "compactions that failed since boot: ");
  text_number(&t, s->compact_fail);
  if (num_known(s->compact_stall)) {
    text_add(&t, " of ");
    text_number(&t, s->compact_stall);
  }
  if (call) {
    t = text_item(&f->evidence);
    text_add(&t, call);
    text_add(&t, " in flight for ");
    text_number(&t, age / SECOND);
    text_add(&t, " s, failed compactions meanwhile: ");
    text_number(&t, num_less(s->failed_now, s->compact_fail));
  }
  text_item_sized(&f->ruled_out, "memory in use: MemAvailable ", s->mem.available, " before the job took any");
  text_item_add(&f->ruled_out, call ? "page cache in the way: compaction failed while the job waited for it"
                                    : "page cache in the way: what is free as it is has no large block");
  text_item_add(&f->fixes, "restart the machine: large blocks come back by nothing else that was tried");
  text_item_add(&f->fixes, "until then load one model at a time, and end what holds memory for long before it");
  out->emit(out, f);
  s->shown = true;
}

static void on_sample(struct state *s, const struct fact *fact, struct det_out *out) {
  const struct fact_sample *m = &fact->u.sample;
  s->failed_now = m->compact_fail;
  s->large_now = m->blocks_large;
  if (s->seen || !num_known(m->mem.total) || !m->mem.total || !num_known(m->mem.free) || !num_known(m->mem.available))
    return;
  s->seen = true;
  s->mem = m->mem;
  s->block_max = m->block_max;
  s->compact_stall = m->compact_stall;
  s->compact_fail = m->compact_fail;
  /* The free part of a CMA area is in few, large blocks, and no part of this. */
  s->fragmented = m->blocks_large == 0 && m->mem.available >= m->mem.total / AVAILABLE_PART;
  if (s->fragmented && num_known(m->compact_fail) && m->compact_fail >= FAILED_LEAST &&
      m->mem.free >= m->mem.total / FREE_PART)
    say(s, fact->t, NULL, 0, out);
}

static bool starts(const char *s, const char *with) {
  while (*with && *s == *with) s++, with++;
  return !*with;
}

static bool allocates(const char *call) {
  return starts(call, "cudaMalloc") || starts(call, "cudaHost") || starts(call, "cuMemAlloc") ||
         starts(call, "cuMemCreate") || starts(call, "cuMemHost");
}

/* The machine began without a large block, and this job waits for one. */
static void on_stall(struct state *s, const struct fact *fact, struct det_out *out) {
  const struct fact_stall *stall = &fact->u.stall;
  if (!s->fragmented || s->shown || stall->over || !stall->call || !num_known(stall->age)) return;
  if (!num_known(s->compact_fail) || !num_known(s->failed_now) || s->large_now != 0) return;
  if (!allocates(stall->call) || stall->age < STALLED_US) return;
  if (num_less(s->failed_now, s->compact_fail) >= FAILED_MEANWHILE) say(s, fact->t, stall->call, stall->age, out);
}

static void observe(void *state, const struct fact *fact, struct det_out *out) {
  struct state *s = state;
  if (fact->kind == FACT_KIND_sample) on_sample(s, fact, out);
  if (fact->kind == FACT_KIND_stall) on_stall(s, fact, out);
}

const struct detector det_g03_fragments = {
    .g = 3, .name = "g03_fragments", .state_size = sizeof(struct state), .observe = observe};
