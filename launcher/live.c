/* live.c - see live.h. */
#include "live.h"
#include "clock.h"
#include "detector.h"
#include "fact_list.h"
#include "joblog.h"
#include "judged.h"
#include "launcher.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A process of the job. Its library has the same state as `own`, and says what that finds. */
struct live {
  struct judged own, merged;
  struct followed *log;
  bool exit_waits, has_ended;
  struct fact exit;
  char last_call[64];
};

/* What was said, once for each g, cause and object, however many processes have it. */
struct told {
  unsigned g;
  enum verdict verdict;
  const char *cause;
  char object[FINDING_OBJECT];
};
enum { TOLD = 64 };

static struct {
  bool on, quiet, simulated;
  int log;
  struct judged launcher;
  struct fact_list seen; /* what the launcher wrote and processes are judged with */
  struct follows follows;
  struct told told[TOLD];
  size_t tolds;
  uint64_t tree_t; /* when the tree was last renewed for a log that it did not know */
  bool unknown;    /* there is such a log, and it was not renewed yet */
} s = {.log = -1};

/* ---- telling ------------------------------------------------------------------------------------------------------- */

static struct told *told_of(const struct finding *f) {
  for (size_t i = 0; i < s.tolds; i++) {
    struct told *t = &s.told[i];
    if (t->g == f->g && !strcmp(t->cause, f->cause) && !strcmp(t->object, f->object)) return t;
  }
  return NULL;
}

/* Whether it was not told yet with this verdict or a greater one. */
static bool is_news(const struct finding *f) {
  struct told *known = told_of(f);
  if (known) {
    if (known->verdict >= f->verdict) return false;
    known->verdict = f->verdict;
    return true;
  }
  if (s.tolds == TOLD) return false;
  struct told *t = &s.told[s.tolds++];
  *t = (struct told){.g = f->g, .verdict = f->verdict, .cause = f->cause};
  memcpy(t->object, f->object, sizeof t->object);
  return true;
}

/* A warning that stands on stderr is answered there when it is taken back, for no report will name it. */
static bool is_answer(const struct finding *f) {
  struct told *told = told_of(f);
  if (!told || told->verdict <= f->verdict || f->verdict != VERDICT_INFO) return false;
  told->verdict = f->verdict;
  return true;
}

static bool is_to_be_said(const struct finding *f) {
  return f->verdict >= VERDICT_WARN ? !s.quiet && is_news(f) : is_answer(f);
}

static void tell(const struct finding *f, int pid) {
  bool shown = is_to_be_said(f) && say_finding(f, s.simulated);
  const struct finding_telling how = {
      .count = 1, .last = f->t, .pid = (uint64_t)pid, .shown = shown ? stderr_file() : NULL};
  joblog_finding(s.log, f, &how);
}

static void launcher_heard(struct judged *j, const struct finding *f) {
  (void)j;
  tell(f, 0);
}

static struct live *live_of(struct judged *merged) {
  return (struct live *)(void *)((char *)merged - offsetof(struct live, merged));
}

static bool taken_back(const struct judged *j, const struct finding *f) {
  return judged_find(j, f)->before > f->verdict;
}

/* What its own facts show as well, the process says itself; what the launcher's show alone was told there. */
static void merged_heard(struct judged *j, const struct finding *f) {
  struct live *p = live_of(j);
  const struct process_finding *own = judged_find(&p->own, f), *outside = judged_find(&s.launcher, f);
  if (own && own->f.verdict >= f->verdict) return;
  /* Also what is taken back for this process, as it ended well: of the machine, or of another process, it stands. */
  if (outside && outside->f.verdict >= f->verdict && (outside->f.verdict > f->verdict || !taken_back(j, f))) return;
  tell(f, p->log->pid);
}

/* ---- processes ----------------------------------------------------------------------------------------------------- */
static void merge(struct live *p, const struct fact *fact) {
  if (!p->has_ended && fact_concerns(fact, (uint64_t)p->log->pid)) judged_observe(&p->merged, fact);
}

static void begin_process(struct followed *log) {
  struct live *p = calloc(1, sizeof *p);
  if (!p) return;
  p->log = log;
  p->own.detectors = p->merged.detectors = s.launcher.detectors;
  p->merged.heard = merged_heard;
  log->owner = p;
  for (size_t i = 0; i < s.seen.n; i++) merge(p, &s.seen.fact[i]);
}

static void end_process(struct followed *log) {
  struct live *p = log->owner;
  if (p) judged_free(&p->own), judged_free(&p->merged);
  free(p);
  follow_drop(log);
}

/* It is kept until the next sample: only that can tell what happened between the last one and the end. */
static void hold_exit(struct live *p, const struct fact *fact) {
  p->exit = *fact;
  snprintf(p->last_call, sizeof p->last_call, "%s", fact->u.exit.last_call ? fact->u.exit.last_call : "");
  p->exit.u.exit.last_call = fact->u.exit.last_call ? p->last_call : NULL;
  p->exit_waits = true;
}

static void take(struct followed *log, const struct record *record) {
  struct live *p = log->owner;
  if (!p || record->kind != RECORD_FACT) return;
  if (record->fact.kind == FACT_KIND_header)
    p->own.detectors = p->merged.detectors = det_mask(record->fact.u.header.detectors_off);
  judged_observe(&p->own, &record->fact);
  if (record->fact.kind == FACT_KIND_exit)
    hold_exit(p, &record->fact);
  else
    judged_observe(&p->merged, &record->fact);
}

void live_exits(void) {
  for (size_t i = 0; i < FOLLOW_MAX; i++) {
    struct live *p = s.follows.one[i].owner;
    if (!p || !p->exit_waits) continue;
    judged_observe(&p->merged, &p->exit);
    p->exit_waits = false;
    p->has_ended = true;
  }
}

static bool somebody_waits(void) {
  for (size_t i = 0; i < FOLLOW_MAX; i++) {
    const struct live *p = s.follows.one[i].owner;
    if (p && p->exit_waits) return true;
  }
  return false;
}

/* A log that the tree does not know may be that of a process younger than it: it is renewed, at most once a second. */
static void find_logs(struct jobtree *tree) {
  enum { AGAIN_US = 1000 * 1000 };
  if (!follow_find(&s.follows, tree, s.unknown, begin_process)) {
    s.unknown = false;
    return;
  }
  s.unknown = clock_us() - s.tree_t < AGAIN_US;
  if (s.unknown) return;
  s.tree_t = clock_us();
  jobtree_update(tree);
  follow_find(&s.follows, tree, true, begin_process);
}

bool live_read(struct jobtree *tree) {
  bool gone[FOLLOW_MAX], ended = false;
  if (!s.on) return false;
  find_logs(tree);
  for (size_t i = 0; i < FOLLOW_MAX; i++) gone[i] = s.follows.one[i].log && !follow_lives(&s.follows.one[i]);
  follow_read(&s.follows, take);
  for (size_t i = 0; i < FOLLOW_MAX; i++) {
    const struct live *p = s.follows.one[i].owner;
    ended = ended || gone[i];
    if (gone[i] && (!p || !p->exit_waits)) end_process(&s.follows.one[i]);
  }
  return ended || somebody_waits();
}

const struct followed *live_process(size_t i) {
  for (size_t place = 0; place < FOLLOW_MAX; place++)
    if (s.follows.one[place].log && !i--) return &s.follows.one[place];
  return NULL;
}

/* ---- the launcher's own log ---------------------------------------------------------------------------------------- */
static void on_record(const struct fact *fact) {
  if (!s.on) return;
  judged_observe(&s.launcher, fact);
  if (!fact_concerns(fact, fact->kind == FACT_KIND_stall ? fact->u.stall.pid : 0)) return;
  fact_list_add(&s.seen, fact); /* no memory: processes that begin later do without */
  for (size_t i = 0; i < FOLLOW_MAX; i++)
    if (s.follows.one[i].owner) merge(s.follows.one[i].owner, fact);
}

void live_begin(const char *dir, bool simulated) {
  s.on = true;
  s.simulated = simulated;
  s.follows.dir = dir;
  s.launcher.detectors = det_mask(getenv("SPARKSHIM_DETECTORS"));
  s.launcher.heard = launcher_heard;
  joblog_listen(on_record);
}

void live_log(int file) { s.log = file; }

void live_end(struct jobtree *tree, uint64_t since) {
  s.quiet = true;
  s.follows.since = since;
  s.unknown = true;
  live_read(tree);
}

void live_stop(void) { s.on = false; }
