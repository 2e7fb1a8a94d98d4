/* g06_pace.c - G6, speed lost to another GPU process: the job goes at a part of its pace since others came.
 *
 * The pace is the number of hooked calls a second that did something (launches, copies, collectives), over all processes of
 * the job. Programs have phases of their own, so a slower one proves nothing: said is only what was even for 20 s at least,
 * began when processes that compute came to the GPU in mid-run, and stayed at half or less for 20 s. That the memory went
 * down with their coming, and that the change came at once, are two readings; with one of them alone the finding is of
 * medium confidence, without both it is none. Freestanding: no libc, no I/O, no clock, no lock.
 */
#include "detector.h"
#include "holder_list.h"
#include "number.h"
#include "words.h"

#define MIB ((uint64_t)1 << 20)
#define SECOND ((uint64_t)1000 * 1000)

/* Times are the least: a log of many hours has a look every ten seconds or more. */
#define SPAN_US (5 * SECOND)    /* over which a pace is taken: many steps of a server, some of a training job */
#define GAP_US (300 * SECOND)   /* nobody has looked for so long: what was before is not compared with */
#define SOON_US (30 * SECOND)   /* servers load their weights in 10 to 30 s */
#define WATCH_US (120 * SECOND) /* a change that comes later is not put down to them */

enum { SPANS_KEPT = 16, SPANS_BASE = 8, SPANS_LEAST = 4, WARNINGS_MAX = 3 };

struct span {
  uint64_t from, until;
  uint64_t pace;      /* calls in 1000 s */
  uint64_t available; /* MemAvailable at its end */
};

enum phase { PHASE_EVEN, PHASE_WATCHED, PHASE_SLOW };

/* Others have come. */
struct episode {
  enum phase phase;
  uint64_t first, last;           /* looks that listed the first and the last of them first */
  uint64_t base_least, base_most; /* pace before */
  uint64_t base_us, base_available;
  unsigned run; /* spans at half of the pace or less, one after the other */
  uint64_t run_from, run_least, run_most, available;
  unsigned back; /* spans at the old pace, one after the other */
};

struct g06_pace_state {
  struct holders holders;
  bool open; /* a span has begun */
  uint64_t from, work;
  struct span span[SPANS_KEPT]; /* oldest first */
  unsigned spans;
  struct episode episode;
  unsigned warnings;
};

enum doubt { DOUBT_MEMORY = 1, DOUBT_LATE = 2 };

/* ---- who came ------------------------------------------------------------------------------------------------------------ */
struct newcomers {
  unsigned n;
  uint64_t bytes; /* as far as NVML tells */
  const struct holder *who;
};

/* Those of the episode that are still there; `since` 0: of the latest look alone. */
static struct newcomers newcomers_of(const struct holders *h, uint64_t since) {
  struct newcomers c = {0, 0, NULL};
  for (unsigned i = 0; i < h->now.n; i++) {
    const struct holder *p = &h->now.at[i];
    if (p->graphics || p->maybe_ours || !p->newcomer || p->came < since) continue;
    if (!c.who || num_or_zero(p->bytes) > num_or_zero(c.who->bytes)) c.who = p;
    c.bytes = num_plus(c.bytes, num_or_zero(p->bytes));
    c.n++;
  }
  return c;
}

/* ---- words ------------------------------------------------------------------------------------------------------------------ */
/* "14.8 calls a second". */
static void add_pace(struct text *t, const char *before, uint64_t pace, const char *after) {
  text_add(t, before);
  text_number(t, pace / 1000);
  text_add(t, ".");
  text_number(t, pace % 1000 / 100);
  text_add(t, after);
}

static void add_newcomers(struct text *t, const struct g06_pace_state *s, const struct newcomers *c) {
  if (c->n > 1) {
    text_number(t, c->n);
    text_add(t, " processes, among them ");
  }
  holder_who(t, &s->holders, c->who);
  if (num_known(c->who->bytes)) text_sized(t, " with ", c->who->bytes, "");
}

static void say_evidence(struct finding *f, const struct g06_pace_state *s, const struct newcomers *c,
                         unsigned doubts) {
  const struct episode *e = &s->episode;
  struct text t = text_item(&f->evidence);
  add_pace(&t, "pace of the job before: ", e->base_least, " to ");
  add_pace(&t, "", e->base_most, " calls a second for ");
  text_number(&t, e->base_us / SECOND);
  add_pace(&t, " s; after they came: ", e->run_least, " to ");
  add_pace(&t, "", e->run_most, "");
  holder_evidence(&f->evidence, c->who);
  t = text_item(&f->evidence);
  text_sized(&t, "MemAvailable was ", e->base_available, " before and is ");
  text_sized(&t, "", e->available, "");
  if (doubts & DOUBT_MEMORY)
    text_item_add(&f->evidence, "not excluded: another phase of the job itself; memory did not go down as they came");
  if (doubts & DOUBT_LATE)
    text_item_add(&f->evidence,
                  "not excluded: another phase of the job itself; the pace fell more than 30 s after they came");
  text_item_add(&f->ruled_out,
                "a phase of the job itself: its pace was even until they came, and at half or less for 20 s after");
  text_item_add(&f->ruled_out, "a desktop's graphics processes: NVML lists these for compute");
}

static void say_slow(struct g06_pace_state *s, const struct newcomers *c, unsigned doubts, struct det_out *out) {
  const struct episode *e = &s->episode;
  struct finding *f = &out->f;
  words_begin(f, 6, VERDICT_WARN, "other_holder", "pace");
  struct text t = text_in(f->text, sizeof f->text);
  f->confidence = doubts ? CONFIDENCE_MEDIUM : CONFIDENCE_HIGH;
  f->t = e->run_from;
  f->retry = RETRY_USELESS;
  text_add(&t, "the job goes at ");
  text_number(&t, e->run_most * 100 / e->base_least);
  text_add(&t, " % of its pace since ");
  add_newcomers(&t, s, c);
  text_add(&t, c->n > 1 ? ", came to the GPU" : " came to the GPU");
  say_evidence(f, s, c, doubts);
  holder_fix(&f->fixes, &s->holders, c->who, false);
  out->emit(out, f);
}

/* They are still there, and the job goes as before: it was not they. */
static void say_back(struct g06_pace_state *s, const struct newcomers *c, struct det_out *out) {
  struct finding *f = &out->f;
  words_begin(f, 6, VERDICT_INFO, "other_holder", "pace");
  struct text t = text_in(f->text, sizeof f->text);
  f->confidence = CONFIDENCE_MEDIUM;
  f->t = s->span[s->spans - 1].until;
  text_add(&t, "the job has its pace back, with ");
  add_newcomers(&t, s, c);
  text_add(&t, " still there: its own phase was slower");
  say_evidence(f, s, c, 0);
  out->emit(out, f);
}

/* ---- judging ---------------------------------------------------------------------------------------------------------------- */
/* What the job did before the look at `until`: false when that was not even, or too little is known of it. */
static bool take_base(const struct g06_pace_state *s, uint64_t until, struct episode *e) {
  unsigned n = 0;
  uint64_t end = 0;
  for (unsigned i = s->spans; i-- > 0 && n < SPANS_BASE;) {
    const struct span *p = &s->span[i];
    if (p->until > until) continue;
    if (!n++) {
      end = p->until;
      e->base_available = p->available;
      e->base_least = e->base_most = p->pace;
    }
    e->base_least = num_min(e->base_least, p->pace);
    e->base_most = num_max(e->base_most, p->pace);
    e->base_us = end - p->from;
  }
  return n >= SPANS_LEAST && e->base_least > 0 && e->base_most <= e->base_least + e->base_least / 2;
}

static void on_look(struct g06_pace_state *s) {
  struct newcomers c = newcomers_of(&s->holders, s->holders.t);
  struct episode *e = &s->episode;
  if (!c.n || e->phase == PHASE_SLOW) return;
  if (e->phase == PHASE_EVEN) {
    struct episode fresh = {.phase = PHASE_WATCHED, .first = s->holders.t};
    if (!take_base(s, s->holders.before, &fresh)) return;
    *e = fresh;
  }
  e->last = s->holders.t;
  e->run = 0;
}

static unsigned doubts_of(const struct episode *e, const struct newcomers *c) {
  unsigned doubts = 0;
  uint64_t fell = num_less(e->base_available, e->available);
  if (!num_known(e->base_available) || !num_known(e->available) || fell < num_max(c->bytes / 2, 256 * MIB))
    doubts |= DOUBT_MEMORY;
  if (e->run_from > e->last + SOON_US) doubts |= DOUBT_LATE;
  return doubts;
}

/* A whole span after the last of them came. */
static void watch(struct g06_pace_state *s, const struct span *p, struct det_out *out) {
  struct episode *e = &s->episode;
  struct newcomers c = newcomers_of(&s->holders, e->first);
  bool slow = p->pace > 0 && p->pace <= e->base_least / 2;
  if (!c.n || (!slow && p->from > e->last + WATCH_US)) {
    e->phase = PHASE_EVEN;
    return;
  }
  if (!slow) {
    e->run = 0;
    return;
  }
  if (!e->run++) e->run_from = p->from, e->run_least = e->run_most = p->pace;
  e->run_least = num_min(e->run_least, p->pace);
  e->run_most = num_max(e->run_most, p->pace);
  e->available = p->available;
  if (e->run < SPANS_LEAST) return;
  unsigned doubts = doubts_of(e, &c);
  e->phase = PHASE_EVEN;
  if (doubts == (DOUBT_MEMORY | DOUBT_LATE) || s->warnings == WARNINGS_MAX) return;
  e->phase = PHASE_SLOW;
  e->back = 0;
  s->warnings++;
  say_slow(s, &c, doubts, out);
}

/* They have been named. Is the old pace back while they are there? */
static void watch_end(struct g06_pace_state *s, const struct span *p, struct det_out *out) {
  struct episode *e = &s->episode;
  struct newcomers c = newcomers_of(&s->holders, e->first);
  e->back = p->pace >= e->base_least - e->base_least / 3 ? e->back + 1 : 0;
  if (c.n && e->back < SPANS_LEAST) return;
  if (c.n) say_back(s, &c, out);
  e->phase = PHASE_EVEN;
}

static void keep_span(struct g06_pace_state *s, const struct span *p) {
  if (s->spans == SPANS_KEPT) {
    for (unsigned i = 1; i < SPANS_KEPT; i++) s->span[i - 1] = s->span[i];
    s->spans--;
  }
  s->span[s->spans++] = *p;
}

static void begin_span(struct g06_pace_state *s, uint64_t t, uint64_t work) {
  s->open = true;
  s->from = t;
  s->work = work;
}

static void on_sample(struct g06_pace_state *s, const struct fact *fact, struct det_out *out) {
  const struct fact_sample *m = &fact->u.sample;
  if (!num_known(m->job_work)) return;
  uint64_t passed = num_less(fact->t, s->from), did = num_less(m->job_work, s->work);
  bool counted = s->open && m->job_work >= s->work && did <= UINT32_MAX;
  if (!counted || passed > GAP_US) { /* a process has ended, or nobody has looked */
    if (passed > GAP_US) s->spans = 0, s->episode.phase = PHASE_EVEN;
    begin_span(s, fact->t, m->job_work);
    return;
  }
  if (passed < SPAN_US) return;
  struct span p = {s->from, fact->t, did * 1000 * SECOND / passed, m->mem.available};
  begin_span(s, fact->t, m->job_work);
  keep_span(s, &p);
  if (s->episode.phase == PHASE_WATCHED && p.from >= s->episode.last) watch(s, &p, out);
  if (s->episode.phase == PHASE_SLOW) watch_end(s, &p, out);
}

static void observe(void *state, const struct fact *fact, struct det_out *out) {
  struct g06_pace_state *s = state;
  if (holders_observe(&s->holders, fact)) on_look(s);
  if (fact->kind == FACT_KIND_sample) on_sample(s, fact, out);
}

const struct detector det_g06_pace = {
    .g = 6, .name = "g06_pace", .state_size = sizeof(struct g06_pace_state), .observe = observe};
