/* judged.c - see judged.h. */
#include "judged.h"
#include "detector.h"

#include <stdlib.h>
#include <string.h>

struct collector {
  struct det_out out;
  struct judged *judged;
  bool is_end; /* the fact tells of an end */
  bool lost;
};

static bool is_same(const struct finding *a, const struct finding *b) {
  return a->g == b->g && !strcmp(a->cause, b->cause) && !strcmp(a->object, b->object);
}

static struct process_finding *find(const struct judged *j, const struct finding *f) {
  for (size_t i = 0; i < j->findings; i++)
    if (is_same(&j->finding[i].f, f)) return &j->finding[i];
  return NULL;
}

const struct process_finding *judged_find(const struct judged *j, const struct finding *f) { return find(j, f); }

static struct process_finding *add(struct judged *j) {
  size_t n = j->findings;
  if (!(n & (n - 1))) { /* grown at each power of two */
    struct process_finding *bigger = realloc(j->finding, (n ? 2 * n : 1) * sizeof *bigger);
    if (!bigger) return NULL;
    j->finding = bigger;
  }
  memset(&j->finding[n], 0, sizeof *j->finding);
  j->findings++;
  return &j->finding[n];
}

static void collect(struct det_out *out, const struct finding *f) {
  struct collector *c = (struct collector *)out;
  struct judged *j = c->judged;
  struct process_finding *p = find(j, f);
  bool is_news = !p || p->f.verdict != f->verdict;
  if (!p && !(p = add(j))) {
    c->lost = true;
    return;
  }
  /* What is judged at the end is about what came before it. */
  if ((f->g == 3 || f->g == 6) && !(c->is_end && p->memory.t)) splits_latest(&j->memory, &p->memory);
  if (is_news) p->before = p->count ? p->f.verdict : VERDICT_PASS;
  p->f = *f;
  p->count++;
  if (is_news && j->heard) j->heard(j, f);
}

bool judged_observe(struct judged *j, const struct fact *fact) {
  struct fact ordered = *fact;
  struct collector c;
  if (!j->state && !(j->state = calloc(1, det_state_size() + 16))) return false;
  if (ordered.t < j->last_t) ordered.t = j->last_t;
  j->last_t = ordered.t;
  c.out.emit = collect;
  c.judged = j;
  c.lost = false;
  c.is_end = fact->kind == FACT_KIND_exit || fact->kind == FACT_KIND_job_end;
  splits_observe(&j->memory, &ordered);
  det_observe(j->state, j->detectors, &ordered, &c.out);
  return !c.lost;
}

void judged_close(struct judged *j) {
  free(j->state);
  j->state = NULL;
}

void judged_free(struct judged *j) {
  judged_close(j);
  free(j->finding);
  j->finding = NULL;
  j->findings = 0;
}
