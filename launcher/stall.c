/* stall.c - see stall.h. */
#include "stall.h"

enum { OFTEN = 20, SELDOM = 120, SELDOM_PART = 10, RARE_PART = 60 }; /* times the limit */

static uint64_t since_when(uint64_t now, uint64_t then) { return now > then ? now - then : 0; }

static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

uint64_t stall_idle(const struct stall_state *s, const struct stall_view *v) {
  return since_when(v->t, later(s->changed, v->activity));
}

/* Every limit at first, then every ten, then every sixty of them. */
static uint64_t pause(uint64_t age, uint64_t limit) {
  return age < OFTEN * limit ? limit : age < SELDOM * limit ? SELDOM_PART * limit : RARE_PART * limit;
}

static bool goes_on(const struct stall_state *s, const struct stall_view *v) {
  return v->mark == s->mark && v->tid == s->tid && (s->mark || v->calls == s->calls);
}

static enum stall_event tell(struct stall_state *s, const struct stall_view *v, uint64_t age, uint64_t limit) {
  s->told = true;
  s->mark = v->mark;
  s->tid = v->tid;
  s->since = v->since ? v->since : v->activity;
  s->next = v->t + pause(age, limit);
  return STALL_LASTS;
}

enum stall_event stall_judge(struct stall_state *s, const struct stall_view *v, uint64_t limit) {
  bool same = !s->told || goes_on(s, v);
  if (s->calls != v->calls || !s->changed) {
    s->calls = v->calls;
    s->changed = v->t;
  }
  if (!same) {
    s->told = false;
    return STALL_OVER;
  }
  uint64_t idle = stall_idle(s, v), age = v->since ? since_when(v->t, v->since) : idle;
  if (s->told) return v->t >= s->next ? tell(s, v, age, limit) : STALL_NEAR;
  if (v->since) return age >= limit ? tell(s, v, age, limit) : age >= limit / 2 ? STALL_NEAR : STALL_NONE;
  /* None in flight: a job that computes on its processors, or is done. It counts where memory is short, and only of a
   * process that has worked. */
  if (!v->is_short || !v->activity) return STALL_NONE;
  return idle >= 2 * limit ? tell(s, v, idle, limit) : idle >= limit ? STALL_NEAR : STALL_NONE;
}
