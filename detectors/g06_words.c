/* g06_words.c - the sentences of G6 about memory: who holds it, how much, whose it is, and how it comes back.
 *
 * Here is no judging: verdict, cause and doubts come in. Freestanding, see detector.h.
 */
#include "g06_holders.h"

#include "doubts.h"
#include "ending.h"
#include "number.h"
#include "reading.h"
#include "words.h"

static const char *const cause_words[G06_CAUSES] = {"other_holder", "orphan_holder"};

static void add_request(struct text *t, const struct want *w) {
  text_add(t, w->call);
  if (!text_equal(w->route, "query") && num_known(w->size)) text_sized(t, " of ", w->size, "");
}

/* "ollama (pid 812, ...) holds 19.0 GiB of GPU memory", or all of them and the largest. */
static void add_holders(struct text *t, const struct g06_say *say) {
  const struct g06_blame *b = say->blame;
  if (b->n <= 1) {
    holder_who(t, &say->state->holders, &b->who);
    text_sized(t, b->doubts & G06_DOUBT_SIZE ? " holds about " : " holds ", b->who.bytes, " of GPU memory");
    return;
  }
  text_number(t, b->n);
  text_sized(t, " other processes hold ", b->sum, " of GPU memory");
  text_sized(t, ", the largest, ", b->who.bytes, ", ");
  holder_who(t, &say->state->holders, &b->who);
}

static void say_over(struct text *t, const struct g06_say *say) {
  const struct want *w = &say->state->want;
  add_holders(t, say);
  if (say->before != G06_REFUSED) {
    text_add(t, say->end ? ", and the process ended well" : ", and is not listed any more");
    return;
  }
  text_add(t, "; ");
  text_number(t, w->times);
  text_add(t, w->times == 1 ? " refusal" : " refusals");
  if (!w->open)
    text_add(t, " handled: the request was granted later");
  else
    text_add(t, say->end ? " handled: the process ended well" : ", told under another name");
}

static void say_sentence(struct text *t, const struct g06_say *say) {
  const struct want *w = &say->state->want;
  bool many = say->blame->n > 1, orphan = say->cause == G06_ORPHAN;
  switch (say->mode) {
  case G06_REFUSED:
    add_request(t, w);
    text_add(t, " was refused while ");
    add_holders(t, say);
    if (orphan) text_add(t, ", left behind by a program that has ended");
    text_add(t, many ? ": without them it would have fitted" : ": without it the request would have fitted");
    break;
  case G06_GAVE_UP:
    text_sized(t, "the process gave up after reading that ", w->free, " are free: ");
    add_holders(t, say);
    if (orphan) text_add(t, ", left behind by a program that has ended");
    break;
  case G06_LISTED:
    add_holders(t, say);
    if (orphan)
      text_add(t, ", left behind by a program that has ended: nobody uses it");
    else
      text_add(t, say->state->preflight ? ": a job has that much less" : " beside this job");
    break;
  default: say_over(t, say); break;
  }
}

/* ---- evidence ------------------------------------------------------------------------------------------------------------ */
static void evidence_holders(struct finding_list *list, const struct g06_say *say) {
  const struct holders_list *now = &say->state->holders.now;
  unsigned told = 1;
  holder_evidence(list, &say->blame->who);
  for (unsigned i = 0; i < now->n && told < 2 && say->blame->n > 1; i++) {
    if (now->at[i].pid == say->blame->who.pid || !holder_counts(&now->at[i])) continue;
    holder_evidence(list, &now->at[i]);
    told++;
  }
}

static void evidence_want(struct finding_list *list, const struct g06_say *say) {
  const struct want *w = &say->state->want;
  struct reading r = reading_of(&w->mem);
  struct text t = text_item(list);
  add_request(&t, w);
  if (say->mode == G06_GAVE_UP) {
    text_sized(&t, " answered ", w->free, " free");
    text_sized(&t, " of ", r.total, "; no request was refused");
    return;
  }
  text_add(&t, " returned ");
  text_number(&t, w->result < 0 ? 0 : (uint64_t)w->result);
  text_sized(&t, ": ", say->blame->missing, " more would have been needed, the machine's reserve included");
  if (w->times < 2) return;
  text_add(&t, "; ");
  text_number(&t, w->times);
  text_add(&t, " refusals in all");
}

static void evidence_doubts(struct finding_list *list, unsigned doubts) {
  static const char *const words[G06_DOUBTS] = {
      "not excluded: it is ending; it has been looked at for less than 10 s, and has no parent or is not in /proc",
      "not excluded: it was detached on purpose; it still works, or its processor time was not looked at",
      "not excluded: the job needs more than the machine has; what the other holds is small beside it",
      "not excluded: it came after the refusal; nobody had looked within 30 s before",
      "not excluded: the process failed for a reason that has nothing to do with memory",
      "not excluded: another user of the driver's memory; NVML tells no size, this is what MemTotal leaves",
      "not excluded: a process of this job; NVML lists none, and has other numbers for processes in a container",
  };
  for (unsigned i = 0; i < G06_DOUBTS; i++)
    if (doubts >> i & 1) text_item_add(list, words[i]);
}

static void evidence(struct finding *f, const struct g06_say *say) {
  const struct want *w = &say->state->want;
  bool about_want = say->mode == G06_REFUSED || say->mode == G06_GAVE_UP;
  evidence_holders(&f->evidence, say);
  if (about_want) evidence_want(&f->evidence, say);
  evidence_doubts(&f->evidence, say->blame->doubts);
  if (about_want && say->end) ending_say(&f->evidence, w->t, say->end);
  if (about_want && reading_of(&w->mem).known) words_memory(&f->evidence, &w->mem);
  if (say->mode == G06_REFUSED) words_live(&f->evidence, w->live_device, w->live_pinned);
}

/* ---- what was excluded ------------------------------------------------------------------------------------------------------ */
static void rule_out(struct finding *f, const struct g06_say *say) {
  const struct g06_blame *b = say->blame;
  struct reading r = reading_of(&say->state->want.mem);
  struct text t;
  if (say->cause == G06_ORPHAN) {
    text_item_add(&f->ruled_out,
                  "other_holder: its parent and the leader of its session are gone, its cgroup is neither "
                  "a service's nor a container's");
    t = text_item(&f->ruled_out);
    text_add(&t, "memory that is still coming back after a crash: it has been listed for ");
    text_number(&t, b->who.watched / 1000000);
    text_add(&t, " s");
  } else if (!(b->doubts & G06_DOUBT_ENDING)) {
    text_item_add(&f->ruled_out, b->who.manager != MANAGED_BY_NOTHING
                                     ? "orphan_holder: a service or a container runs it"
                                     : "orphan_holder: its parent or its session is there, or it cannot be seen");
  }
  if (!b->who.graphics) text_item_add(&f->ruled_out, "a desktop's graphics processes: NVML lists it for compute");
  if (say->mode != G06_REFUSED || !r.known) return;
  text_item_sized(&f->ruled_out, "page_cache_counted: MemAvailable ", r.available,
                  " has all cache that could go in it");
  if (!(b->doubts & G06_DOUBT_GROWTH))
    text_item_sized(&f->ruled_out, "oversize_request, a job too large by itself: with what it holds ",
                    num_plus(r.obtainable, b->sum), " could have been had");
}

static enum retry retry_of(const struct g06_say *say) {
  bool gone = say->state->holders.looks && !holders_find(&say->state->holders, say->blame->who.pid);
  if (say->mode != G06_REFUSED && say->mode != G06_GAVE_UP) return RETRY_UNKNOWN;
  return gone || say->blame->doubts & G06_DOUBT_ENDING ? RETRY_MAY_HELP : RETRY_USELESS;
}

void g06_fill(struct finding *f, const struct g06_say *say, enum verdict v) {
  const struct g06_state *s = say->state;
  bool about_want = say->mode == G06_REFUSED || say->mode == G06_GAVE_UP;
  words_begin(f, 6, v, cause_words[say->cause], "memory");
  struct text t = text_in(f->text, sizeof f->text);
  f->confidence = doubts_confidence(say->blame->doubts);
  f->t = about_want ? s->want.t : say->end ? say->end->t : s->holders.t;
  f->retry = retry_of(say);
  say_sentence(&t, say);
  evidence(f, say);
  if (v == VERDICT_INFO) return;
  rule_out(f, say);
  if (f->retry == RETRY_MAY_HELP)
    text_item_add(&f->fixes, "try again: what it holds may come back within 10 s, or has come back already");
  holder_fix(&f->fixes, &s->holders, &say->blame->who, say->cause == G06_ORPHAN);
}
