/* splits.c - see splits.h. */
#include "splits.h"

#include <string.h>

static bool after_the_end(const struct fact *fact) {
  switch (fact->kind) {
  case FACT_KIND_exit:
  case FACT_KIND_job_end: return true;
  case FACT_KIND_sample: return fact->u.sample.why && !strcmp(fact->u.sample.why, "end");
  case FACT_KIND_mem: return fact->u.mem.why && !strcmp(fact->u.mem.why, "exit");
  default: return false;
  }
}

/* MemAvailable of a fact with a reading of memory; FACT_NO_U64: it has none. */
static uint64_t available_in(const struct fact *fact) {
  switch (fact->kind) {
  case FACT_KIND_sample: return fact->u.sample.mem.available;
  case FACT_KIND_alloc_failed: return fact->u.alloc_failed.mem.available;
  case FACT_KIND_alloc_large: return fact->u.alloc_large.mem.available;
  case FACT_KIND_mem_query: return fact->u.mem_query.mem.available;
  default: return FACT_NO_U64;
  }
}

static void take(struct split_course *c, const struct split_follow *now, const struct fact *fact) {
  bool over = after_the_end(fact);
  struct split_at at = {.t = fact->t};
  uint64_t available = available_in(fact);
  if (!split_now(now, over ? "end" : "", &at.split)) return;
  if (fact->kind == FACT_KIND_sample) {
    if (!c->first.t) c->first = at;
    c->last = at;
  }
  if (over || available == FACT_NO_U64 || (c->lowest.t && available >= c->least)) return;
  c->lowest = at;
  c->least = available;
}

void splits_observe(struct splits *s, const struct fact *fact) {
  if (!s->begun) split_follow_init(&s->now);
  s->begun = true;
  struct split_follow next = s->now;
  if (split_follow(&next, fact)) take(&s->course, &next, fact);
  if (!after_the_end(fact)) s->now = next;
}

bool splits_latest(const struct splits *s, struct split_at *out) {
  struct split_at at = {.t = s->now.t};
  if (!s->begun || !split_now(&s->now, "", &at.split)) return false;
  *out = at;
  return true;
}
