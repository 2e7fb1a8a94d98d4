/* g06_holders.c - G6, memory lost to another GPU process: who holds what was missing.
 *
 * On GB10 a server that idles beside the job (ollama, vLLM, a speech service) holds its weights in the same memory, and no
 * reading of /proc names it: device memory is in no process's RSS. NVML does. other_holder: without it the refused request
 * would have fitted. orphan_holder: the same, and what started it is gone (an engine whose server has died), so that nobody
 * uses what it holds. After a crash memory comes back within 2 to 5 s, so 10 s pass before a process is called an orphan.
 *
 * Readings come from whoever asks NVML (the launcher, preflight); in a process that is preloaded alone there is none, and
 * nothing is said here. That somebody holds memory is INFO; WARN when it has cost a request, or nobody uses it; FAIL when
 * the process failed by that. Freestanding: no libc, no I/O, no clock, no lock.
 */
#include "g06_holders.h"

#include "doubts.h"
#include "ending.h"
#include "number.h"
#include "reading.h"
#include "text.h"

#define GIB ((uint64_t)1 << 30)

/* A look that comes first after the refusal may still tell of it. */
#define LOOK_IS_NEAR_US ((uint64_t)10 * 1000 * 1000)

/* A warning that was withdrawn is repeated this often at most: PyTorch frees its cache and retries. */
enum { WARNINGS_MAX = 3 };

/* ---- who ---------------------------------------------------------------------------------------------------------------- */
/* NVML does not tell the size of one process: what /proc says of the driver's memory and nobody else accounts for. */
static bool estimate(const struct g06_state *s, struct holder *p) {
  unsigned untold = 0;
  for (unsigned i = 0; i < s->holders.now.n; i++) {
    const struct holder *q = &s->holders.now.at[i];
    untold += !q->graphics && !num_known(q->bytes);
  }
  p->bytes = s->unnamed;
  return untold == 1 && s->unnamed > 0;
}

static bool is_orphan(const struct holder *p) { return holder_is_alone(p) && holder_is_watched(p); }

/* The process is one that may be gone in a moment: dead already, or its owner is. */
static bool may_be_ending(const struct holder *p) { return (holder_is_alone(p) || p->unseen) && !holder_is_watched(p); }

static unsigned doubts_of(const struct holder *p) {
  unsigned doubts = 0;
  if (may_be_ending(p)) doubts |= G06_DOUBT_ENDING;
  if (is_orphan(p) && (!num_known(p->idle) || p->idle < HOLDER_PATIENCE_US)) doubts |= G06_DOUBT_BUSY;
  return doubts;
}

enum who { ANYBODY, ORPHANS, OTHERS };

static bool is_of(enum who who, const struct holder *p) { return who == ANYBODY || is_orphan(p) == (who == ORPHANS); }

/* The process itself had no device memory yet when it was refused. */
static bool holds_nothing(const struct want *w) { return w->kind == WANT_REQUEST && w->live_device == 0; }

/* All of them that can be what is missing, and the largest. */
static struct g06_blame sum_up(const struct g06_state *s, enum who who) {
  struct g06_blame b = {.look_t = s->holders.t};
  for (unsigned i = 0; i < s->holders.now.n; i++) {
    struct holder p = s->holders.now.at[i];
    bool untold = !num_known(p.bytes);
    bool ours = holder_may_be_ours(&p) && holds_nothing(&s->want);
    if (!(holder_counts(&p) || ours) || !is_of(who, &p) || (untold && !estimate(s, &p))) continue;
    if (!b.n || p.bytes > b.who.bytes) {
      b.who = p;
      b.doubts = doubts_of(&p) | (untold ? G06_DOUBT_SIZE : 0) | (ours ? G06_DOUBT_OURS : 0);
    }
    b.sum = num_plus(b.sum, p.bytes);
    b.n++;
  }
  return b;
}

/* They hold enough; the largest alone is named where that is enough. */
static void blame(struct g06_blame *b, uint64_t enough) {
  b->any = true;
  if (b->who.bytes >= enough) b->n = 1, b->sum = b->who.bytes;
}

/* What they hold would be a good part of the machine, or was asked for at once; else the job may be one that grows until
 * nothing is left, whoever else is there. */
static bool is_much(const struct g06_blame *b, const struct want *w, const struct reading *r) {
  uint64_t size = num_or_zero(w->size);
  return b->sum >= r->total / 16 || (size >= r->reserve && b->sum >= size);
}

static struct g06_blame blame_refusal(const struct g06_state *s, enum who who) {
  struct reading r = reading_of(&s->want.mem);
  struct g06_blame b = sum_up(s, who);
  b.missing = want_missing(&s->want);
  if (!b.n || !b.missing || b.sum < b.missing || b.sum < r.reserve) return b;
  blame(&b, num_max(b.missing, r.reserve));
  if (!is_much(&b, &s->want, &r)) b.doubts |= G06_DOUBT_GROWTH;
  return b;
}

/* The free figure alone: they hold the greater part of what is in use, and less than half of the machine can be had. That a
 * process fails by its free figure is sure where hardly any could start: less than an eighth is left, and half is theirs. */
static struct g06_blame blame_figure(const struct g06_state *s, enum who who) {
  struct reading r = reading_of(&s->want.mem);
  struct g06_blame b = sum_up(s, who);
  uint64_t used = num_less(r.total, r.available);
  if (!b.n || !r.known || r.huge || r.available >= r.total / 2 || b.sum < used / 2) return b;
  blame(&b, used / 2);
  if (r.available > r.total / 8 || b.sum < r.total / 2) b.doubts |= G06_DOUBT_END;
  return b;
}

/* What nobody uses can be had back without harm: where orphans are enough, they are named. */
static struct g06_blame orphans_first(const struct g06_state *s,
                                      struct g06_blame (*judge)(const struct g06_state *, enum who)) {
  struct g06_blame b = judge(s, ORPHANS);
  return b.any ? b : judge(s, ANYBODY);
}

/* The look that is at hand came after the refusal: had an earlier one listed the process before it? */
static bool was_there(const struct g06_state *s, const struct holder *p) {
  return num_less(s->holders.t, p->watched) <= s->want.t;
}

static void judge_refusal(struct g06_state *s, bool afterwards) {
  struct g06_blame b = orphans_first(s, blame_refusal);
  if (!s->holders.looks) return;
  if (afterwards ? !was_there(s, &b.who) : !holders_tell(&s->holders, s->want.t)) b.doubts |= G06_DOUBT_LOOK;
  s->blame = b;
}

/* It was judged by an earlier look: is it known by now to be an orphan? */
static void look_again(struct g06_state *s) {
  const struct holder *p = holders_find(&s->holders, s->blame.who.pid);
  uint64_t bytes = s->blame.who.bytes;
  if (!s->blame.any || !p) return;
  s->blame.doubts &= ~(unsigned)(G06_DOUBT_ENDING | G06_DOUBT_BUSY);
  s->blame.doubts |= doubts_of(p);
  if (s->holders.t >= s->want.t && was_there(s, p)) s->blame.doubts &= ~(unsigned)G06_DOUBT_LOOK; /* before and after */
  s->blame.who = *p;
  s->blame.who.bytes = bytes; /* at the refusal */
}

/* ---- what is said ------------------------------------------------------------------------------------------------------- */
struct target {
  enum verdict verdict; /* VERDICT_PASS: nothing */
  enum g06_mode mode;
  struct g06_blame blame;
};

static enum g06_cause cause_of(const struct g06_blame *b) { return is_orphan(&b->who) ? G06_ORPHAN : G06_OTHER; }

static void say(struct g06_state *s, enum g06_cause cause, const struct target *t, const struct fact *end,
                struct det_out *out) {
  struct g06_shown *shown = &s->shown[cause];
  bool same = shown->verdict == t->verdict && shown->mode == t->mode && shown->blame.who.pid == t->blame.who.pid;
  bool again = t->verdict == VERDICT_WARN && shown->verdict < VERDICT_WARN;
  if (same && !(end && t->verdict > VERDICT_INFO)) return;
  if (again && shown->warnings == WARNINGS_MAX && !end) return;
  const struct g06_say words = {s, cause, t->mode, &t->blame, shown->mode, end};
  *shown = (struct g06_shown){t->verdict, t->mode, t->blame, shown->warnings + again};
  g06_fill(&out->f, &words, t->verdict);
  out->emit(out, &out->f);
}

/* Without a refusal: an orphan is worth a warning, another holder a note; before a job it is what was asked. */
static struct target listed(const struct g06_state *s, enum g06_cause cause) {
  struct target t = {VERDICT_PASS, G06_LISTED, sum_up(s, cause == G06_ORPHAN ? ORPHANS : OTHERS)};
  struct reading r = reading_of(&s->want.mem);
  uint64_t least = s->want.kind != WANT_NOTHING && r.known ? r.reserve : GIB;
  if (t.blame.sum < least || s->want.discrete) return t;
  if (t.blame.doubts & G06_DOUBT_ENDING) return t; /* it may be gone in a moment */
  t.blame.any = true;
  t.verdict = cause == G06_ORPHAN || s->preflight ? VERDICT_WARN : VERDICT_INFO;
  return t;
}

/* What is to be said of each cause as things stand, in a job that goes on. */
static void aim(const struct g06_state *s, struct target t[G06_CAUSES]) {
  bool refused = s->blame.any && s->want.open;
  for (int c = 0; c < G06_CAUSES; c++) {
    t[c] = listed(s, (enum g06_cause)c);
    if (refused && t[c].blame.who.pid == s->blame.who.pid) t[c].verdict = VERDICT_PASS;
  }
  if (refused) t[cause_of(&s->blame)] = (struct target){VERDICT_WARN, G06_REFUSED, s->blame};
}

static void speak(struct g06_state *s, const struct target t[G06_CAUSES], const struct fact *end, struct det_out *out) {
  for (int c = 0; c < G06_CAUSES; c++) {
    struct target over = {VERDICT_INFO, G06_OVER, s->shown[c].blame};
    if (t[c].verdict > VERDICT_PASS)
      say(s, (enum g06_cause)c, &t[c], end, out);
    else if (s->shown[c].verdict > VERDICT_INFO)
      say(s, (enum g06_cause)c, &over, end, out);
  }
}

static void speak_now(struct g06_state *s, struct det_out *out) {
  struct target t[G06_CAUSES];
  aim(s, t);
  speak(s, t, NULL, out);
}

/* ---- facts ---------------------------------------------------------------------------------------------------------------- */
static void on_want(struct g06_state *s, enum want_news news, struct det_out *out) {
  if (news == WANT_REFUSED) judge_refusal(s, false);
  if (news == WANT_REFUSED || news == WANT_GRANTED) speak_now(s, out);
}

static void on_look(struct g06_state *s, struct det_out *out) {
  bool unjudged = s->want.kind == WANT_REQUEST && s->want.open && !s->blame.any;
  if (!unjudged)
    look_again(s);
  else if (s->holders.t >= s->want.t && s->holders.t - s->want.t <= LOOK_IS_NEAR_US)
    judge_refusal(s, true);
  speak_now(s, out);
}

/* What the driver holds beyond what anybody is known to hold. */
static void take_split(struct g06_state *s, const struct fact_split *p) {
  uint64_t told = num_plus(num_plus(num_or_zero(p->pinned), num_or_zero(p->device_job)), num_or_zero(p->device_others));
  s->unnamed = num_known(p->driver) ? num_less(p->driver, num_plus(told, SPLIT_DRIVER_OWN)) : 0;
}

static void on_split(struct g06_state *s, const struct fact_split *p, struct det_out *out) {
  take_split(s, p);
  if (!text_equal(p->why, "preflight")) return;
  s->preflight = true;
  if (s->holders.looks) speak_now(s, out);
}

/* A FAIL takes the rule of the end, and one doubt at most. */
static enum verdict at_most(enum verdict v, const struct g06_blame *b) {
  return v == VERDICT_FAIL && doubts_are_many(b->doubts) ? VERDICT_WARN : v;
}

static void on_exit_fact(struct g06_state *s, const struct fact *end, struct det_out *out) {
  struct target t[G06_CAUSES];
  bool well = end->u.exit.status == 0;
  aim(s, t);
  if (s->want.kind == WANT_FIGURE && ending_gave_up(end) && ending_follows(s->want.t, end)) {
    struct g06_blame b = orphans_first(s, blame_figure);
    if (b.any && at_most(VERDICT_FAIL, &b) == VERDICT_FAIL)
      t[cause_of(&b)] = (struct target){VERDICT_FAIL, G06_GAVE_UP, b};
  }
  for (int c = 0; c < G06_CAUSES; c++) {
    if (t[c].mode == G06_REFUSED) t[c].verdict = at_most(ending_verdict(s->want.t, false, end), &t[c].blame);
    if (well && t[c].verdict > VERDICT_INFO) t[c].verdict = VERDICT_INFO;
    if (t[c].verdict != VERDICT_INFO) continue;
    t[c].mode = G06_OVER;
    if (s->shown[c].verdict <= VERDICT_INFO) t[c].verdict = VERDICT_PASS; /* a note needs no end */
  }
  speak(s, t, end, out);
}

/* As the launcher sees it: with its facts alone nothing was refused, and only a warning about an orphan is left. */
static void on_job_end(struct g06_state *s, const struct fact *fact, struct det_out *out) {
  const struct fact end = ending_of_good_job(fact);
  if (fact->u.job_end.exit == 0) on_exit_fact(s, &end, out);
}

static void observe(void *state, const struct fact *fact, struct det_out *out) {
  struct g06_state *s = state;
  bool looked = holders_observe(&s->holders, fact);
  enum want_news news = want_observe(&s->want, fact);
  struct fact_split split;
  if (split_watch(&s->split, fact, &split)) take_split(s, &split);
  if (news != WANT_NO_NEWS) on_want(s, news, out);
  if (looked) on_look(s, out);
  if (fact->kind == FACT_KIND_split) on_split(s, &fact->u.split, out);
  if (fact->kind == FACT_KIND_exit) on_exit_fact(s, fact, out);
  if (fact->kind == FACT_KIND_job_end) on_job_end(s, fact, out);
}

const struct detector det_g06_holders = {
    .g = 6, .name = "g06_holders", .state_size = sizeof(struct g06_state), .observe = observe};
