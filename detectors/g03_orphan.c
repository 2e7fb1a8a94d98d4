/* g03_orphan.c - G3, driver_orphan: memory that the GPU driver holds for no process that NVML lists.
 *
 * /proc/meminfo accounts for everything but what drivers take page by page; on an idle Spark 1.1 to 1.35 GiB are left over.
 * What exceeds that, and is in no process of NVML's lists, is what a crash has left behind - or comes back in a moment (2 to
 * 5 s were seen), or is page-locked memory, which NVML's figures do not have, or belongs to another kernel module. So it is
 * said of a job only when the figure rose as a process ended, by what that held, and has stayed for 10 s: WARN, and FAIL
 * when a request was refused that would have fitted, and the process failed by it. Before a job (preflight) all that is
 * there and stays for 10 s is worth a note, and whose it is stays open.
 * Freestanding: no libc, no I/O, no clock, no lock.
 */
#include "detector.h"
#include "doubts.h"
#include "ending.h"
#include "holder_list.h"
#include "number.h"
#include "reading.h"
#include "split.h"
#include "want.h"
#include "words.h"

#define GIB ((uint64_t)1 << 30)

enum way { WAY_FOUND = 1, WAY_CRASH };

/* The figure in the latest splits. */
struct g03_orphan_state {
  struct want want;
  struct holders holders;
  struct split_watch split;
  bool seen;           /* a split with the figure */
  uint64_t now, total; /* the figure, MemTotal */
  uint64_t t;          /* time of that split */
  bool preflight;
  uint64_t first_t;        /* of the first split */
  uint64_t least;          /* smallest figure since */
  uint64_t held;           /* by processes, at the same time */
  uint64_t base;           /* the figure before it rose */
  uint64_t risen, risen_t; /* it rose by so much, at the least since risen_t, when a process ended; 0: it did not */
  struct holder ended;     /* the one, where a look had listed it; pid 0: none */
  enum verdict shown;
  unsigned shown_mode;
};

enum doubt { DOUBT_MODULE = 1, DOUBT_PINNED = 2, DOUBT_END = 4 };

/* What is lost, how it is known, and what is left in doubt. */
struct loss {
  enum way way; /* 0: nothing is lost */
  uint64_t bytes, since;
  unsigned doubts;
};

static uint64_t least_that_counts(const struct g03_orphan_state *s) { return num_max(s->total / 64, GIB); }

static struct loss loss_of(const struct g03_orphan_state *s) {
  uint64_t least = least_that_counts(s);
  if (s->risen >= least && s->t - s->risen_t >= HOLDER_PATIENCE_US)
    return (struct loss){WAY_CRASH, s->risen, s->risen_t, 0};
  if (s->preflight && s->least >= least && s->t - s->first_t >= HOLDER_PATIENCE_US)
    return (struct loss){WAY_FOUND, s->least, s->first_t, DOUBT_MODULE | DOUBT_PINNED};
  return (struct loss){0, 0, 0, 0};
}

/* ---- words ------------------------------------------------------------------------------------------------------------------ */
struct say {
  const struct g03_orphan_state *state;
  const struct loss *loss;
  enum { LISTED, REFUSED, GAVE_UP, OVER } mode;
  const struct fact *end;
};

static void add_loss(struct text *t, const struct say *say) {
  text_sized(t, "the GPU driver holds ", say->loss->bytes, " for no process that NVML lists");
}

static void add_request(struct text *t, const struct want *w) {
  text_add(t, w->call);
  if (!text_equal(w->route, "query") && num_known(w->size)) text_sized(t, " of ", w->size, "");
}

static void say_sentence(struct text *t, const struct say *say) {
  const struct want *w = &say->state->want;
  if (say->mode == REFUSED) {
    add_request(t, w);
    text_add(t, " was refused while ");
  } else if (say->mode == GAVE_UP) {
    text_sized(t, "the process gave up after reading that ", w->free, " are free: ");
  }
  add_loss(t, say);
  if (say->mode == REFUSED) text_add(t, ": without that the request would have fitted");
  if (say->mode == LISTED) text_add(t, say->loss->way == WAY_CRASH ? ": a crash has left it behind" : " and keeps it");
  if (say->mode == OVER) text_add(t, say->end ? ", and the process ended well" : ", and it came back");
}

static void evidence(struct finding *f, const struct say *say) {
  const struct g03_orphan_state *s = say->state;
  const struct loss *l = say->loss;
  struct text t = text_item(&f->evidence);
  text_sized(&t, "MemTotal less all that /proc/meminfo and NVML account for, and less the driver's own: ", l->bytes,
             " for ");
  text_number(&t, (s->t - l->since) / 1000000);
  text_add(&t, " s");
  if (l->way == WAY_CRASH && s->ended.pid) {
    t = text_item(&f->evidence);
    holder_who(&t, &s->holders, &s->ended);
    text_sized(&t, " held ", s->ended.bytes, " and has ended; they did not come back");
  } else if (l->way == WAY_CRASH) {
    text_item_sized(&f->evidence, "processes that held as much have ended; ", l->bytes, " did not come back");
  }
  if (say->mode == REFUSED)
    text_item_sized(&f->evidence, "for the refused request ", want_missing(&s->want),
                    " more would have been needed, the machine's reserve included");
  if (l->doubts & DOUBT_MODULE)
    text_item_add(&f->evidence,
                  "not excluded: another kernel module that takes memory by the page (ZFS, virtual machines, RDMA)");
  if (l->doubts & DOUBT_PINNED)
    text_item_add(&f->evidence,
                  "not excluded: page-locked memory of a process that computes, which NVML's figures do not have");
  if (l->doubts & DOUBT_END)
    text_item_add(&f->evidence, "not excluded: the process failed for a reason that has nothing to do with memory");
  if (say->end && say->mode != OVER) ending_say(&f->evidence, s->want.t, say->end);
}

static void fill(struct finding *f, const struct say *say, enum verdict v) {
  const struct g03_orphan_state *s = say->state;
  struct text t;
  words_begin(f, 3, v, "driver_orphan", "driver");
  t = text_in(f->text, sizeof f->text);
  f->confidence = doubts_confidence(say->loss->doubts);
  f->t = say->mode == REFUSED || say->mode == GAVE_UP ? s->want.t : s->t;
  say_sentence(&t, say);
  evidence(f, say);
  if (v == VERDICT_INFO) return;
  f->retry = RETRY_USELESS;
  text_item_add(&f->ruled_out, "memory that is still coming back after a crash: it has stayed for 10 s");
  text_item_add(&f->ruled_out, "page_cache_counted: page cache is accounted for, and is not in it");
  text_item_add(&f->ruled_out, "other_holder, orphan_holder: it is in no process that NVML lists");
  text_item_add(&f->fixes, "end what still has the GPU open and is not listed: sudo fuser -v /dev/nvidia*");
  text_item_add(&f->fixes, "with nothing left on the GPU: sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm");
  text_item_add(&f->fixes, "restart the machine; dropping caches gives none of it back");
}

/* ---- judging ---------------------------------------------------------------------------------------------------------------- */
static void say(struct g03_orphan_state *s, const struct say *words, enum verdict v, struct det_out *out) {
  if (s->shown == v && s->shown_mode == (unsigned)words->mode && !(words->end && v > VERDICT_INFO)) return;
  s->shown = v;
  s->shown_mode = (unsigned)words->mode;
  fill(&out->f, words, v);
  out->emit(out, &out->f);
}

static bool is_refused_for_it(const struct g03_orphan_state *s, const struct loss *l) {
  uint64_t missing = want_missing(&s->want);
  return s->want.open && missing && l->bytes >= missing;
}

static void speak(struct g03_orphan_state *s, struct det_out *out) {
  struct loss l = loss_of(s);
  struct say words = {s, &l, is_refused_for_it(s, &l) ? REFUSED : LISTED, NULL};
  if (s->want.discrete) return;
  if (l.way) {
    say(s, &words, l.way == WAY_CRASH ? VERDICT_WARN : VERDICT_INFO, out);
  } else if (s->shown == VERDICT_WARN) {
    struct loss gone = {WAY_FOUND, s->now, s->t, 0};
    words = (struct say){s, &gone, OVER, NULL};
    say(s, &words, VERDICT_INFO, out);
  }
}

/* From one split to the next a process ended, and the figure rose by what it held: by no more than twice as much. */
static void watch_rise(struct g03_orphan_state *s, uint64_t now, uint64_t held) {
  uint64_t rise = num_less(now, s->now), fell = num_less(s->held, held);
  if (!s->risen && s->seen && rise >= least_that_counts(s) && fell >= rise / 2) {
    bool it = s->holders.left.pid && num_known(s->holders.left.bytes) && s->holders.left.bytes >= rise / 2;
    s->base = s->now;
    s->risen_t = s->t;
    s->risen = rise;
    s->ended = it ? s->holders.left : (struct holder){.pid = 0};
  }
  if (s->risen) s->risen = num_min(s->risen, num_less(now, s->base));
  if (s->risen < least_that_counts(s)) s->risen = 0;
}

static void on_split(struct g03_orphan_state *s, const struct fact_split *p, uint64_t t, struct det_out *out) {
  if (!num_known(p->device_nobody) || !num_known(p->total)) return;
  uint64_t held = num_plus(num_or_zero(p->device_job), num_or_zero(p->device_others));
  s->t = t;
  s->total = p->total;
  watch_rise(s, p->device_nobody, held);
  if (!s->seen) {
    s->first_t = t;
    s->least = p->device_nobody;
  }
  s->seen = true;
  s->preflight = s->preflight || text_equal(p->why, "preflight");
  s->now = p->device_nobody;
  s->held = held;
  s->least = num_min(s->least, s->now);
  speak(s, out);
}

/* A split is made of every reading: those that are logged are few. Looks that show nothing new are not logged at all, and
 * the latest counts until the next is due. */
static void on_reading(struct g03_orphan_state *s, const struct fact *fact, struct det_out *out) {
  struct fact_split split;
  if (!split_watch(&s->split, fact, &split)) return;
  if (!num_known(split.device_nobody) && holders_tell(&s->holders, fact->t))
    split_make(&s->split.follow.in, "", &split);
  on_split(s, &split, fact->t, out);
}

/* The free figure alone: the loss is the greater part of what is in use, and less than half of the machine can be had. */
static bool is_figure_for_it(const struct g03_orphan_state *s, struct loss *l, const struct fact *end) {
  struct reading r = reading_of(&s->want.mem);
  if (s->want.kind != WANT_FIGURE || !ending_gave_up(end) || !ending_follows(s->want.t, end)) return false;
  if (!r.known || r.huge || r.available >= r.total / 2 || l->bytes < (r.total - r.available) / 2) return false;
  if (r.available > r.total / 8 || l->bytes < r.total / 2) l->doubts |= DOUBT_END;
  return true;
}

static void on_exit_fact(struct g03_orphan_state *s, const struct fact *end, struct det_out *out) {
  struct loss l = loss_of(s);
  struct say words = {s, &l, LISTED, end};
  enum verdict v = VERDICT_WARN;
  if (l.way != WAY_CRASH || s->want.discrete || s->shown < VERDICT_WARN) return;
  if (end->u.exit.status == 0) {
    words.mode = OVER;
    v = VERDICT_INFO;
  } else if (is_refused_for_it(s, &l)) {
    words.mode = REFUSED;
    v = ending_verdict(s->want.t, false, end);
  } else if (is_figure_for_it(s, &l, end)) {
    words.mode = GAVE_UP;
    v = VERDICT_FAIL;
  }
  if (v == VERDICT_FAIL && doubts_are_many(l.doubts)) v = VERDICT_WARN, words.mode = LISTED;
  if (words.mode == LISTED) return;
  say(s, &words, v, out);
}

/* As the launcher sees it, with its facts alone. */
static void on_job_end(struct g03_orphan_state *s, const struct fact *fact, struct det_out *out) {
  const struct fact end = ending_of_good_job(fact);
  if (fact->u.job_end.exit == 0) on_exit_fact(s, &end, out);
}

static void observe(void *state, const struct fact *fact, struct det_out *out) {
  struct g03_orphan_state *s = state;
  enum want_news news = want_observe(&s->want, fact);
  bool looked = holders_observe(&s->holders, fact);
  if (fact->kind == FACT_KIND_split) on_split(s, &fact->u.split, fact->t, out);
  on_reading(s, fact, out);
  if ((looked || news == WANT_REFUSED || news == WANT_GRANTED) && s->seen) speak(s, out);
  if (fact->kind == FACT_KIND_exit) on_exit_fact(s, fact, out);
  if (fact->kind == FACT_KIND_job_end) on_job_end(s, fact, out);
}

const struct detector det_g03_orphan = {
    .g = 3, .name = "g03_orphan", .state_size = sizeof(struct g03_orphan_state), .observe = observe};
