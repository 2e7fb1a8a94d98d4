/* killers.c - facts killer (collect.h): programs that kill processes when memory runs low, and from when on they act.
 *
 * Thresholds are those of the command line, else the documented defaults: earlyoom(1) of 1.7 and 1.8, oomd.conf(5) of
 * systemd, nohang.conf of nohang 0.2, Ray's ray_config_def.h. earlyoom 1.8 takes its percentages of MemAvailable + AnonPages
 * instead of MemTotal: what stands here is then the most that it can be.
 */
#include "collect.h"
#include "clock.h"
#include "job_of.h"
#include "meminfo.h"
#include "procstat.h"
#include "redact.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMMAND = 2048, PERCENT = 100 };

struct killer {
  char words[COMMAND]; /* of the command line, each NUL-ended, an empty one at the end */
  char argv[COMMAND];
  struct fact_memory mem;
  const char *root; /* of the process that is looked at */
};

struct threshold {
  uint64_t term, kill; /* 0.01 % */
};

/* ---- earlyoom -------------------------------------------------------------------------------------------------------- */

/* The value of option -<letter>, in the same word or the next; NULL where it is not given. */
static const char *option_of(const struct killer *k, char letter) {
  const char *found = NULL;
  for (const char *w = k->words + strlen(k->words) + 1; w < k->words + sizeof k->words && *w; w += strlen(w) + 1)
    if (w[0] == '-' && w[1] == letter) found = w[2] ? w + 2 : w + 3;
  return found;
}

/* "10", "10,5", "2.5": with one number alone, the other is half of it. `unit` is what one is worth in 0.01 %. */
static void pair_of(const char *text, double unit, struct threshold *t) {
  char *end;
  double term = strtod(text, &end);
  if (end == text || term < 0 || term * unit > 10000) return;
  double kill = term / 2;
  if (*end == ',') kill = strtod(end + 1, NULL);
  if (kill < 0 || kill > term) kill = term;
  t->term = (uint64_t)(term * unit + 0.5);
  t->kill = (uint64_t)(kill * unit + 0.5);
}

static struct threshold earlyoom_threshold(const struct killer *k, char percent, char size, uint64_t total) {
  struct threshold t = {10 * PERCENT, 5 * PERCENT};
  const char *text = option_of(k, size);
  if (text && total && total != FACT_NO_U64) pair_of(text, 1024.0 * 10000 / (double)total, &t);
  text = option_of(k, percent);
  if (text) pair_of(text, PERCENT, &t);
  return t;
}

static void earlyoom(const struct killer *k, struct fact_killer *f) {
  struct threshold mem = earlyoom_threshold(k, 'm', 'M', k->mem.total);
  struct threshold swap = earlyoom_threshold(k, 's', 'S', k->mem.swap_total);
  f->mem_min = mem.term;
  f->mem_kill = mem.kill;
  if (swap.term < 100 * PERCENT && k->mem.swap_total) f->swap_min = swap.term;
}

/* ---- the others ------------------------------------------------------------------------------------------------------ */

/* SwapUsedLimit: acts when both memory and swap are used beyond it. It kills cgroups for pressure too, whatever is
 * available then. */
static void systemd_oomd(const struct killer *k, struct fact_killer *f) {
  (void)k;
  f->mem_min = f->mem_kill = f->swap_min = 10 * PERCENT;
}

/* The value of a variable in the environment of a process that may be looked into; NULL: not set, or not readable. */
static const char *environment_of(const char *root, uint64_t pid, const char *name) {
  static char text[1 << 17];
  char path[64];
  size_t length = strlen(name);
  snprintf(path, sizeof path, "/proc/%llu/environ", (unsigned long long)pid);
  long n = proc_text_read(root, path, text, sizeof text);
  for (long at = 0; at < n; at += (long)strlen(text + at) + 1)
    if (!strncmp(text + at, name, length) && text[at + (long)length] == '=') return text + at + length + 1;
  return NULL;
}

/* The part of the memory that may be in use (its default is 0.95); swap is not looked at. */
static void raylet(const struct killer *k, struct fact_killer *f) {
  const char *set = environment_of(k->root, f->pid, "RAY_memory_usage_threshold");
  double used = set ? strtod(set, NULL) : 0;
  if (!(used > 0 && used <= 1)) used = 0.95;
  f->mem_min = f->mem_kill = (uint64_t)((1 - used) * 100 * PERCENT + 0.5);
}

static void nohang(const struct killer *k, struct fact_killer *f) {
  (void)k;
  f->mem_min = 5 * PERCENT;
  f->mem_kill = 2 * PERCENT;
  f->swap_min = 10 * PERCENT;
}

/* What it acts upon stands in a file of its own; there is no default. */
static void oomd(const struct killer *k, struct fact_killer *f) {
  (void)k;
  (void)f;
}

static const struct {
  const char *name, *program;
  void (*thresholds)(const struct killer *k, struct fact_killer *f);
} known[] = {{"earlyoom", "earlyoom", earlyoom},
             {"systemd-oomd", "systemd-oomd", systemd_oomd},
             {"raylet", "raylet", raylet},
             {"nohang", "nohang", nohang},
             {"oomd", "oomd", oomd},
             {"oomd", "oomd_bin", oomd}};

/* ---- the search ------------------------------------------------------------------------------------------------------ */
static bool is_named(const char *word, const char *program) {
  const char *slash = strrchr(word, '/');
  return !strcmp(slash ? slash + 1 : word, program);
}

/* The name alone would take a text editor with a file of that name for the program; a script's name stands in the second
 * word, behind its interpreter. */
static int which(const struct killer *k, const struct procuse *use) {
  const char *second = k->words + strlen(k->words) + 1;
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    if (is_named(k->words, known[i].program)) return (int)i;
    if (!strcmp(use->name, known[i].program) && (!k->words[0] || is_named(second, known[i].program))) return (int)i;
  }
  return -1;
}

/* In a PID namespace below ours ("NSpid: 5930 1" in its status): it sees none of our processes, and ends none. */
static bool is_shut_in(const char *root, int pid) {
  char path[64], text[8192];
  snprintf(path, sizeof path, "/proc/%d/status", pid);
  if (proc_text_read(root, path, text, sizeof text) < 0) return false;
  const char *line = strstr(text, "\nNSpid:");
  if (!line) return false;
  line += strlen("\nNSpid:");
  line += strspn(line, " \t");
  line += strspn(line, "0123456789");
  return isdigit((unsigned char)line[strspn(line, " \t")]);
}

static void look_at(struct killer *k, const struct job_view *view, const char *root, int pid, uint64_t t,
                    collect_emit emit, void *arg) {
  struct procuse use;
  struct fact fact;
  memset(k->words, 0, sizeof k->words);
  k->root = root;
  if (job_read_process(root, pid, &use) < 0 || use.state == 'Z') return;
  long n = procuse_command(root, pid, k->words, sizeof k->words - 2);
  int i = which(k, &use);
  if (i < 0 || is_shut_in(root, pid)) return;
  fact_init(&fact, FACT_KIND_killer);
  fact.t = t;
  fact.u.killer.name = known[i].name;
  fact.u.killer.pid = (uint64_t)pid;
  fact.u.killer.ancestor = !root && job_descends_from(view, pid);
  if (n > 0) {
    redact_words(k->words, (size_t)n, k->argv, sizeof k->argv);
    fact.u.killer.argv = k->argv;
  }
  known[i].thresholds(k, &fact.u.killer);
  emit(&fact, arg);
}

/* The processes of the machine below the root; the real ones too where there is no root, and the job's ancestors always:
 * they are real under the simulator. */
void collect_killers(const char *root, const struct collect_job *job, collect_emit emit, void *arg) {
  static struct killer room;
  const struct job_view view = {root, job};
  const uint64_t t = clock_us();
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/proc", root ? root : "");
  meminfo_read(root, &room.mem);
  DIR *proc = opendir(path);
  const struct dirent *entry;
  while (proc && (entry = readdir(proc))) {
    int pid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;
    if (pid > 0) look_at(&room, &view, root, pid, t, emit, arg);
  }
  if (proc) closedir(proc);
  if (!root) return;
  enum { DEPTH = 64 };
  struct procuse use;
  int pid = job && job->pid ? job->pid : 0;
  for (int depth = 0; depth < DEPTH && procuse_read(NULL, pid, &use) == 0 && use.ppid > 0; depth++) {
    pid = use.ppid;
    look_at(&room, &view, NULL, pid, t, emit, arg);
  }
}
