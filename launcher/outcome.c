/* outcome.c - see outcome.h. */
#include "outcome.h"
#include "detector.h"
#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void add(struct outcome_lines *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct outcome_lines *to, const char *format, ...) {
  va_list args;
  va_start(args, format);
  if (to->n < OUTCOME_LINES) vsnprintf(to->line[to->n], OUTCOME_LINE, format, args);
  va_end(args);
  to->n++;
}

#define UNEXPLAINED "; nothing that sparkshim knows explains it"

bool outcome_is_watched(const struct process *p) { return !p->launcher && p->records + p->bad + p->foreign; }

static enum verdict gravest(const struct runlog *run) {
  enum verdict worst = VERDICT_PASS;
  for (size_t i = 0; i < run->processes; i++)
    for (size_t k = 0; k < run->process[i].findings; k++) {
      enum verdict v = run->process[i].finding[k].f.verdict;
      if (v >= VERDICT_INFO && v > worst) worst = v;
    }
  return worst;
}

/* The Gs that this version has a detector for, as det_mask() counts them. */
static uint32_t built(void) {
  uint32_t mask = 0;
  for (size_t i = 0; det_all[i]; i++) mask |= (uint32_t)1 << det_all[i]->g;
  return mask;
}

static void names_of(uint32_t mask, char *out, size_t size) {
  size_t at = 0;
  *out = '\0';
  for (unsigned g = 1; g <= 10; g++)
    if (mask >> g & 1 && at < size) at += (size_t)snprintf(out + at, size - at, "%sG%u", at ? ", " : "", g);
}

/* What of the watched processes no detector could see. Returns whether anything was judged. */
static bool look_at_judging(const struct runlog *run, struct outcome *ret) {
  uint32_t off = 0;
  unsigned long watched = 0, injected = 0, judged = 0;
  char names[64];
  for (size_t i = 0; i < run->processes; i++) {
    const struct process *p = &run->process[i];
    if (!outcome_is_watched(p)) continue;
    watched++;
    injected += p->injected;
    off |= built() & ~p->own.detectors;
    judged += !p->injected && built() & p->own.detectors;
  }
  names_of(off, names, sizeof names);
  if (off) add(&ret->remarks, "%s: not judged, switched off by SPARKSHIM_DETECTORS", names);
  if (injected)
    add(&ret->remarks,
        "%lu of %lu processes: the driver loaded the library (CUDA_INJECTION64_PATH), so that their calls were not "
        "seen",
        injected, watched);
  return judged > 0;
}

/* Who else holds GPU memory, only NVML tells. A launcher asks it; a preloaded library never does. */
static void look_at_nvml(const struct runlog *run, struct outcome *ret) {
  const uint32_t g6 = (uint32_t)1 << 6;
  bool asked = false, wanted = false;
  const char *error = NULL;
  for (size_t i = 0; i < run->processes; i++) {
    const struct process *p = &run->process[i];
    wanted = wanted || (outcome_is_watched(p) && p->own.detectors & g6);
    for (size_t k = 0; k < p->seen.n; k++) {
      const struct fact *f = &p->seen.fact[k];
      if (f->kind != FACT_KIND_nvml) continue;
      if (f->u.nvml.answered) return;
      asked = true;
      if (f->u.nvml.error) error = f->u.nvml.error;
    }
  }
  if (!wanted) return;
  if (asked)
    add(&ret->remarks, "G6 SKIP: NVML gave no answer (%.200s): who else holds GPU memory is not known",
        error ? error : "it did not come back");
  else if (run->jobs)
    add(&ret->remarks, "G6 SKIP: the job ended before NVML was asked who else holds GPU memory");
  else
    add(&ret->remarks,
        "G6 SKIP: NVML was not asked who else holds GPU memory; the launcher does that (sparkrun CMD), a "
        "preloaded library never does");
}

static bool same_host(const char *a, const char *b) { return a && b && !strcmp(a, b); }

static void judge_job(const struct job_record *job, struct outcome_lines *bad) {
  char who[160], pid[32];
  snprintf(pid, sizeof pid, "%llu", (unsigned long long)job->pid);
  snprintf(who, sizeof who, "The job (pid %s on %s)", job->pid == FACT_NO_U64 ? "?" : pid, job->host ? job->host : "?");
  if (!job->ended)
    add(bad, "%s left no record of its end: it is running, or the launcher or the machine went down before it", who);
  else if (job->signal != FACT_NO_I64)
    add(bad, "%s was killed by signal %lld (%s)" UNEXPLAINED, who, (long long)job->signal, strsignal((int)job->signal));
  else if (job->exit)
    add(bad, "%s ended with status %lld" UNEXPLAINED, who, (long long)job->exit);
}

/* Its parent was watched too, and ended well: whatever happened to the child, that handled it. */
static bool is_handled(const struct runlog *run, const struct process *child) {
  for (size_t i = 0; i < run->processes; i++) {
    const struct process *p = &run->process[i];
    if (p->end == END_EXIT && p->status == 0 && p->pid == child->ppid && same_host(p->host, child->host)) return true;
  }
  return false;
}

static void judge_process(const struct runlog *run, const struct process *p, struct outcome_lines *bad) {
  char who[128];
  report_who(p, who, sizeof who);
  if (p->end == END_EXEC || p->end == END_RUNNING || is_handled(run, p)) return;
  if (p->end == END_UNKNOWN)
    add(bad, "%s wrote no record of its end: a signal ended it, or _exit" UNEXPLAINED, who);
  else if (p->status != 0)
    add(bad, "%s ended with status %lld" UNEXPLAINED, who, (long long)p->status);
}

/* A job that ended well has handled what happened to its processes. Without a launcher they speak for themselves. */
static void look_at_ends(const struct runlog *run, struct outcome *ret) {
  bool running = false;
  for (size_t i = 0; i < run->processes; i++) running = running || run->process[i].end == END_RUNNING;
  if (running) add(&ret->remarks, "Still running: this is what has been found so far");
  for (size_t i = 0; i < run->jobs; i++)
    if (run->job[i].ended || !running) judge_job(&run->job[i], &ret->unexplained);
  for (size_t i = 0; i < run->processes && !run->jobs; i++)
    if (outcome_is_watched(&run->process[i])) judge_process(run, &run->process[i], &ret->unexplained);
}

void outcome_of(const struct runlog *run, struct outcome *ret) {
  memset(ret, 0, sizeof *ret);
  bool judged = look_at_judging(run, ret);
  ret->verdict = gravest(run);
  look_at_ends(run, ret);
  look_at_nvml(run, ret);
  if (ret->verdict >= VERDICT_WARN) ret->unexplained.n = 0;
  if (ret->verdict == VERDICT_PASS && (!judged || ret->unexplained.n)) ret->verdict = VERDICT_SKIP;
}
