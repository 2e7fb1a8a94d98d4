/* report_words.c - phrases that all formats of a report share. */
#include "report.h"
#include "launcher.h"
#include "plain.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runs.h"

const struct process *report_first_failing(const struct runlog *run) {
  struct finding_ref *refs;
  size_t n = runlog_findings(run, VERDICT_FAIL, &refs);
  const struct process *p = n ? refs[n - 1].process : NULL;
  free(refs);
  return p;
}

bool report_memory(const struct runlog *run, const struct process *p, struct split_course *out) {
  struct split_course course = p->own.memory.course;
  if (!course.first.t || (p->has_launcher && !p->launcher)) return false;
  for (size_t i = 0; i < run->processes; i++) {
    const struct process *q = &run->process[i];
    const struct split_course *own = &q->merged.memory.course;
    if (!q->has_launcher || &run->process[q->by] != p || !own->lowest.t) continue;
    if (course.lowest.t && own->least >= course.least) continue;
    course.lowest = own->lowest;
    course.least = own->least;
  }
  *out = course;
  return true;
}

void report_who(const struct process *p, char *out, size_t size) {
  size_t at = 0;
  *out = '\0';
  if (p->launcher) {
    snprintf(out, size, "the job, on %s", p->host ? shown(p->host) : "an unnamed host");
    return;
  }
  if (p->rank != FACT_NO_I64) at += (size_t)snprintf(out, size, "rank %lld, ", (long long)p->rank);
  if (p->pid == FACT_NO_U64) {
    snprintf(out + at, size - at, "a process without a header");
  } else {
    snprintf(out + at, size - at, "pid %llu on %s", (unsigned long long)p->pid,
             p->host ? shown(p->host) : "an unnamed host");
  }
}

void report_end(const struct process *p, char *out, size_t size) {
  switch (p->end) {
  case END_UNKNOWN: snprintf(out, size, "ended without a word"); return;
  case END_EXEC: snprintf(out, size, "went on as another program"); return;
  case END_RUNNING: snprintf(out, size, "still running"); return;
  case END_EXIT:
  case END_JOB: break;
  }
  if (p->signal != FACT_NO_I64) {
    snprintf(out, size, "killed by signal %lld (%s)", (long long)p->signal, strsignal((int)p->signal));
  } else if (p->status != FACT_NO_I64) {
    snprintf(out, size, "exited with status %lld", (long long)p->status);
  } else {
    snprintf(out, size, "exited");
  }
}

void report_time(uint64_t us, char *out, size_t size) {
  time_t seconds = (time_t)(us / 1000000);
  struct tm tm;
  if (!gmtime_r(&seconds, &tm) || !strftime(out, size, "%Y-%m-%d %H:%M:%S UTC", &tm)) snprintf(out, size, "?");
}

/* Whether `sparkshim report <id>` finds this very folder. */
static bool id_suffices(const struct runlog *run) {
  struct stat here, there;
  for (int place = 0; place < RUNDIR_PLACES; place++) {
    char path[PATH_MAX], runs[RUN_PATH + 8];
    if (!runs_place((enum rundir_place)place, runs, sizeof runs)) continue;
    if (snprintf(path, sizeof path, "%s/%s", runs, run->id) >= (int)sizeof path) continue;
    if (!stat(path, &there) && !stat(run->path, &here))
      return here.st_dev == there.st_dev && here.st_ino == there.st_ino;
  }
  return false;
}

/* The program's name where PATH leads to this very program, else its path. */
static void program_name(char *out, size_t size) {
  char self[PATH_MAX], found[PATH_MAX], candidate[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  const char *path = getenv("PATH");
  snprintf(out, size, "sparkshim");
  if (n <= 0) return;
  self[n] = '\0';
  while (path && *path) {
    size_t length = strcspn(path, ":");
    int fits = snprintf(candidate, sizeof candidate, "%.*s/sparkshim", (int)length, path);
    if (length && fits < (int)sizeof candidate && realpath(candidate, found)) {
      if (strcmp(found, self)) break; /* another sparkshim comes first */
      return;
    }
    path += length + (path[length] == ':');
  }
  snprintf(out, size, "%s", self);
}

/* Appends `word` as a shell reads it: in quotes where it has to be, and as $'...' where a terminal would not show it. */
static size_t add_word(char *out, size_t size, size_t at, const char *word) {
  static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=@%+,-";
  bool plain = true;
  size_t length = strlen(word);
  if (*word && strspn(word, safe) == length) return at + (size_t)snprintf(out + at, size - at, "%s", word);
  for (size_t i = 0, n; i < length && plain; i += n) plain = (n = plain_length(word + i, length - i)) != 0;
  at += (size_t)snprintf(out + at, size - at, plain ? "'" : "$'");
  for (; *word; word++) {
    unsigned char c = (unsigned char)*word;
    if (!plain && (c < 0x20 || c >= 0x7f || c == '\'' || c == '\\'))
      at += (size_t)snprintf(out + at, size - at, "\\%03o", c);
    else
      at += (size_t)snprintf(out + at, size - at, c == '\'' ? "'\\''" : "%c", c);
  }
  return at + (size_t)snprintf(out + at, size - at, "'");
}

void report_command(const struct runlog *run, char out[REPORT_COMMAND]) {
  char name[PATH_MAX];
  program_name(name, sizeof name);
  size_t at = add_word(out, REPORT_COMMAND, 0, name);
  const char *run_name = id_suffices(run) ? run->id : run->path;
  at += (size_t)snprintf(out + at, REPORT_COMMAND - at, *run_name == '-' ? " report -- " : " report ");
  add_word(out, REPORT_COMMAND, at, run_name);
}
