/* beat.c - see beat.h. */
#include "beat.h"

enum {
  SECOND = 1000 * 1000,
  LOOKS_AHEAD = 20,   /* looks in the time that is left at the present rate */
  NEAR_SHARE = 16,    /* near the edge: a sixteenth of MemTotal available */
  FLOOR_SHARE = 64,   /* used up: at a 64th, where the machine begins to stall */
  REFILL_US = 500000, /* time that gives back one fast look */
};

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t most(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* ---- the beat ------------------------------------------------------------------------------------------------------ */

/* A part of the time in which, at the rate since the last look, available memory is used up. */
static uint64_t by_fall(const struct beat *b, uint64_t t, const struct fact_memory *m) {
  uint64_t floor = m->total / FLOOR_SHARE;
  if (b->available <= m->available || t <= b->t) return BEAT_SLOWEST_US;
  if (m->available <= floor) return BEAT_FASTEST_US;
  double rate = (double)(b->available - m->available) / (double)(t - b->t); /* bytes a microsecond */
  double left_us = (double)(m->available - floor) / rate / LOOKS_AHEAD;
  return left_us < BEAT_SLOWEST_US ? (uint64_t)left_us : BEAT_SLOWEST_US;
}

static uint64_t wanted(const struct beat *b, uint64_t t, const struct fact_memory *m) {
  uint64_t interval = by_fall(b, t, m);
  if (m->available < m->total / NEAR_SHARE) interval = least(interval, BEAT_NEAR_US);
  return most(interval, BEAT_FASTEST_US);
}

/* Takes a fast look out of the stock; when it is empty, it becomes one of the moderate kind. */
static uint64_t out_of_stock(struct beat *b, uint64_t t, uint64_t interval) {
  uint64_t given = t > b->refilled ? (t - b->refilled) / REFILL_US : 0;
  b->used -= least(b->used, given);
  b->refilled = b->used ? b->refilled + given * REFILL_US : t;
  if (interval >= BEAT_NEAR_US) return interval;
  if (b->used >= BEAT_STOCK) return BEAT_NEAR_US;
  b->used++;
  return interval;
}

uint64_t beat_next(struct beat *b, uint64_t t, const struct fact_memory *m) {
  if (m->available == FACT_NO_U64 || m->total == FACT_NO_U64) return b->interval = BEAT_SLOWEST_US;
  if (!b->interval) {
    b->interval = BEAT_SLOWEST_US;
    b->available = m->available;
    b->refilled = t;
  }
  uint64_t interval = wanted(b, t, m);
  if (interval > b->interval) interval = least(interval, b->interval + b->interval / 2);
  b->interval = out_of_stock(b, t, interval);
  b->available = m->available;
  b->t = t;
  return b->interval;
}

/* ---- what is written ----------------------------------------------------------------------------------------------- */
static uint64_t distance(uint64_t a, uint64_t b) {
  if (a == FACT_NO_U64 || b == FACT_NO_U64) return 0;
  return a > b ? a - b : b - a;
}

unsigned thin_coarseness(const struct thinner *th) { return (unsigned)(th->bytes / THIN_STEP); }

/* Time after which a look is written although nothing has changed: a second at first, ten after ten minutes. */
static uint64_t gap(const struct thinner *th, uint64_t t) {
  enum { LONGEST_US = 10 * SECOND, AGES = 60 };
  uint64_t age = t > th->first ? t - th->first : 0;
  return most(SECOND, least(age / AGES, LONGEST_US)) << thin_coarseness(th);
}

/* Somebody was killed, or a group ran into its limit. */
static bool is_death(const struct fact_sample *a, const struct fact_sample *b) {
  return distance(a->oom_kill, b->oom_kill) || distance(a->cgroup_oom_kill, b->cgroup_oom_kill);
}

static bool is_change(const struct fact_sample *a, const struct fact_sample *b, unsigned coarse) {
  enum { SHARE = 256, SWAP_PAGES = 25600, STALLS = 1000, PRESSURE = 500 /* 5 % */, WAITED_US = 500000 };
  uint64_t bytes = (b->mem.total == FACT_NO_U64 ? 1 << 30 : b->mem.total / SHARE) << coarse;
  uint64_t pages = (uint64_t)SWAP_PAGES << coarse, stalls = (uint64_t)STALLS << coarse;
  uint64_t pressure = (uint64_t)PRESSURE << coarse;
  return distance(a->mem.available, b->mem.available) >= bytes || distance(a->mem.free, b->mem.free) >= bytes ||
         distance(a->mem.swap_free, b->mem.swap_free) >= bytes || distance(a->pswpin, b->pswpin) >= pages ||
         distance(a->pswpout, b->pswpout) >= pages || distance(a->some_avg10, b->some_avg10) >= pressure ||
         distance(a->full_avg10, b->full_avg10) >= pressure ||
         distance(a->some_total, b->some_total) >= (uint64_t)WAITED_US << coarse ||
         distance(a->compact_stall, b->compact_stall) >= stalls || distance(a->allocstall, b->allocstall) >= stalls;
}

enum thin thin_judge(const struct thinner *th, const struct fact *sample, bool must) {
  if (must || !th->has_last) return THIN_CHANGE;
  const struct fact_sample *before = &th->last.u.sample, *now = &sample->u.sample;
  if (is_death(before, now)) return THIN_CHANGE;
  uint64_t since = sample->t > th->last.t ? sample->t - th->last.t : 0;
  if (th->bytes >= THIN_LIMIT || since < (uint64_t)BEAT_FASTEST_US << thin_coarseness(th) >> 1) return THIN_NO;
  if (is_change(before, now, thin_coarseness(th))) return THIN_CHANGE;
  /* A look comes a little early or late. */
  return since + BEAT_FASTEST_US >= gap(th, sample->t) ? THIN_REGULAR : THIN_NO;
}

void thin_hold(struct thinner *th, const struct fact *sample) {
  th->held = *sample;
  th->has_held = true;
}

const struct fact *thin_take_held(struct thinner *th) {
  bool had = th->has_held;
  th->has_held = false;
  return had ? &th->held : NULL;
}

void thin_written(struct thinner *th, const struct fact *sample) {
  if (!th->has_last) th->first = sample->t;
  th->last = *sample;
  th->has_last = true;
  th->has_held = false;
}
