/* runlog.c - see runlog.h. Streams: of a log only its header, its findings and its last counters are kept. */
#include "runlog.h"
#include "detector.h"
#include "fact_read.h"
#include "procstat.h"
#include "ring_read.h"
#include "route.h"
#include "rundir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  BUFFER = 1 << 20,
  /* Of a log that is garbage no more is kept than of a sound one, so that reading it takes no time that grows with its square. */
  IMAGES = 1000,            /* programs that write one after the other into one file */
  JOBS = 64,                /* of one launcher */
  LOGGED = 1024,            /* findings of one process, told apart */
  LINE_MAX_BYTES = 1 << 17, /* four times the longest record (FACT_JSON_MAX); a longer line is not ours */
};

struct logged {
  unsigned g;
  enum verdict verdict;
  char cause[64], object[FINDING_OBJECT], shown[FINDING_SHOWN];
  bool shown_at_exit;
};

/* ---- memory: a report of what is left is better than none, but there is nothing left to report without memory --- */
static void *must(void *p) {
  if (p) return p;
  static const char text[] = "sparkshim: out of memory\n";
  ssize_t n = write(STDERR_FILENO, text, sizeof text - 1);
  (void)n;
  _exit(3);
}

static char *copy(const char *s) { return s ? must(strdup(s)) : NULL; }

/* Room for one more of `size` bytes behind the n at `array`, zeroed. */
static void *grow(void *array, size_t n, size_t size) {
  if (n & (n - 1)) return array; /* grown at each power of two */
  char *bigger = must(realloc(array, (n ? 2 * n : 1) * size));
  memset(bigger + n * size, 0, ((n ? 2 * n : 1) - n) * size);
  return bigger;
}

static void keep_word(char *out, size_t size, const char *word) {
  size_t n = word ? strnlen(word, size - 1) : 0;
  if (n) memcpy(out, word, n);
  out[n] = '\0';
}

/* ---- findings -------------------------------------------------------------------------------------------------- */
static void judge(struct judged *j, const struct fact *fact) {
  if (!judged_observe(j, fact)) must(NULL);
}

static struct logged *find_logged(const struct process *p, unsigned g, const char *cause, const char *object) {
  for (size_t i = 0; i < p->loggeds; i++) {
    struct logged *l = &p->logged[i];
    if (l->g == g && !strcmp(l->cause, cause) && !strcmp(l->object, object)) return l;
  }
  return NULL;
}

static void note_logged(struct process *p, const struct logged_finding *f) {
  struct logged *l = find_logged(p, f->g, f->cause, f->object);
  if (!l && p->loggeds == LOGGED) return;
  if (!l) {
    p->logged = grow(p->logged, p->loggeds, sizeof *p->logged);
    l = &p->logged[p->loggeds++];
    l->g = f->g;
    keep_word(l->cause, sizeof l->cause, f->cause);
    keep_word(l->object, sizeof l->object, f->object);
  }
  /* A record without it counts repetitions of what stands there, or has a verdict that does not. */
  if (f->shown || f->verdict != l->verdict) {
    keep_word(l->shown, sizeof l->shown, f->shown);
    l->shown_at_exit = f->shown && p->end == END_EXIT;
  }
  l->verdict = f->verdict;
}

/* ---- records ----------------------------------------------------------------------------------------------------- */
static struct process *add_process(struct runlog *run, const char *path) {
  run->process = grow(run->process, run->processes, sizeof *run->process);
  struct process *p = &run->process[run->processes++];
  p->path = copy(path);
  p->rank = p->world_size = p->status = p->signal = FACT_NO_I64;
  p->last_activity = p->pid = p->ppid = p->start = p->job_pid = FACT_NO_U64;
  p->own.detectors = det_mask(NULL);
  return p;
}

static void on_header(struct process *p, const struct fact_header *h) {
  p->launcher = h->writer && !strcmp(h->writer, "launcher");
  p->injected = h->writer && !strcmp(h->writer, "inject");
  p->host = copy(h->host);
  p->boot_id = copy(h->boot_id);
  p->exe = copy(h->exe);
  p->argv = copy(h->argv);
  p->cwd = copy(h->cwd);
  p->version = copy(h->version);
  p->pid = h->pid;
  p->ppid = h->ppid;
  p->start = h->start;
  p->rank = h->rank;
  p->world_size = h->world_size;
  p->simulated = h->simulated;
  p->own.detectors = p->merged.detectors = det_mask(h->detectors_off);
}

static void on_data_file(struct process *p, const struct fact_data_file *file) {
  if (!file->path) return;
  p->data_file = grow(p->data_file, p->data_files, sizeof *p->data_file);
  p->data_file[p->data_files++] = (struct data_file){copy(file->path), file->size};
}

static void on_alloc_stats(struct process *p, const struct fact_alloc_stats *s) {
  size_t i = 0;
  while (i < p->allocations && strcmp(p->allocation[i].route, s->route ? s->route : "")) i++;
  if (i == RUNLOG_ROUTES) return;
  if (i == p->allocations) p->allocations++;
  struct allocation_row *row = &p->allocation[i];
  keep_word(row->route, sizeof row->route, s->route);
  row->count = s->count;
  row->frees = s->frees;
  row->failed = s->failed;
  row->bytes = s->bytes;
  row->live = s->live;
  row->peak = s->peak;
  row->untracked = s->untracked;
}

static void on_exit_record(struct process *p, const struct fact *fact) {
  const struct fact_exit *e = &fact->u.exit;
  p->end = END_EXIT;
  p->status = e->status;
  p->signal = e->signal;
  p->end_t = fact->t;
  p->last_activity = e->last_activity;
  keep_word(p->last_call, sizeof p->last_call, e->last_call);
}

/* NULL: more jobs than a launcher has. */
static struct job_record *job_of(struct runlog *run, struct process *p, uint64_t pid) {
  for (size_t i = run->jobs; i-- > 0;)
    if (run->job[i].pid == pid && run->job[i].host && p->host && !strcmp(run->job[i].host, p->host))
      return &run->job[i];
  if (p->jobs == JOBS) return NULL;
  p->jobs++;
  run->job = grow(run->job, run->jobs, sizeof *run->job);
  struct job_record *job = &run->job[run->jobs++];
  job->host = copy(p->host);
  job->pid = pid;
  job->exit = job->signal = FACT_NO_I64;
  return job;
}

static int64_t between(int64_t least, int64_t n, int64_t most) { return n < least || n > most ? FACT_NO_I64 : n; }

static void on_job_record(struct runlog *run, struct process *p, const struct fact *fact) {
  if (fact->kind == FACT_KIND_job_start) {
    p->job_pid = fact->u.job_start.pid;
    struct job_record *job = job_of(run, p, fact->u.job_start.pid);
    if (!job) return;
    job->started = true;
    job->start = fact->t;
    free(job->argv);
    job->argv = copy(fact->u.job_start.argv);
  } else {
    struct job_record *job = job_of(run, p, fact->u.job_end.pid);
    p->is_over = true;
    if (!job) return;
    job->end = fact->t;
    job->exit = between(0, fact->u.job_end.exit, 255);
    job->signal = between(1, fact->u.job_end.signal, 127);
    job->ended = job->exit != FACT_NO_I64 || job->signal != FACT_NO_I64;
    job->core = fact->u.job_end.core;
  }
}

/* ---- what the launcher saw ----------------------------------------------------------------------------------------- */
static bool same_host(const struct process *a, const struct process *b) {
  return a->host && b->host && !strcmp(a->host, b->host);
}

/* How sure it is that the launcher ran the process that begins at `t`: 0 not at all, 1 it was running a job then, more:
 * the process is a child of its job, or the job. */
static int kinship(const struct process *launcher, const struct process *p, uint64_t t) {
  if (!launcher->launcher || !launcher->seen.n || !same_host(launcher, p)) return 0;
  if (t < launcher->first || (launcher->is_over && t > launcher->last)) return 0;
  if (launcher->job_pid == FACT_NO_U64) return 1;
  return launcher->job_pid == p->pid ? 3 : launcher->job_pid == p->ppid ? 2 : 1;
}

/* One launcher, never several: each has counters of its own job among its facts. Several may have run one after the other,
 * or beside each other. Logs of launchers are read first. */
static void find_launcher(struct runlog *run, struct process *p, uint64_t t) {
  int closest = 0;
  for (size_t i = 0; i < run->processes; i++) {
    int close = kinship(&run->process[i], p, t);
    if (!close || close < closest) continue;
    if (close == closest && run->process[i].first < run->process[p->by].first) continue;
    closest = close;
    p->by = i;
  }
  p->has_launcher = closest > 0;
}

/* The launcher's facts up to, not including, `end` of its list. */
static void merge_to(struct runlog *run, struct process *p, size_t end) {
  const struct fact_list *seen = &run->process[p->by].seen;
  for (; p->seen_next < end; p->seen_next++)
    if (fact_concerns(&seen->fact[p->seen_next], p->pid)) judge(&p->merged, &seen->fact[p->seen_next]);
}

static void merge_until(struct runlog *run, struct process *p, uint64_t t) {
  const struct fact_list *seen = &run->process[p->by].seen;
  size_t end = p->seen_next;
  while (end < seen->n && seen->fact[end].t <= t) end++;
  merge_to(run, p, end);
}

/* Before the record of an end at `t`: the next look at the machine, for what happened since the last one is in no other. */
static void merge_look_after(struct runlog *run, struct process *p, uint64_t t) {
  enum { NEXT_LOOK_US = 2500 * 1000 }; /* the launcher looks when a process of its job has ended, and once a second */
  const struct fact_list *seen = &run->process[p->by].seen;
  size_t end = p->seen_next;
  for (bool looked = false; end < seen->n && seen->fact[end].t - t <= NEXT_LOOK_US; end++) {
    bool look = seen->fact[end].kind == FACT_KIND_sample;
    if (look && looked) break;
    looked = looked || look;
  }
  merge_to(run, p, end);
}

static void judge_process(struct runlog *run, struct process *p, const struct fact *fact) {
  judge(&p->own, fact);
  if (!p->has_launcher) return;
  if (!p->is_over) merge_until(run, p, fact->t);
  if (!p->is_over && fact->kind == FACT_KIND_exit) merge_look_after(run, p, fact->t);
  judge(&p->merged, fact);
  p->is_over = p->is_over || fact->kind == FACT_KIND_exit;
}

/* What is left of the launcher's facts belongs to a process whose end was not seen. */
static void judge_end(struct runlog *run, struct process *p, const struct fact *fact) {
  if (p->has_launcher && !p->is_over) merge_to(run, p, run->process[p->by].seen.n);
  if (fact) judge(p->has_launcher ? &p->merged : &p->own, fact);
}

static void judge_launcher(struct process *p, const struct fact *fact) {
  judge(&p->own, fact);
  if (fact->kind != FACT_KIND_header && !fact_list_add(&p->seen, fact)) must(NULL);
}

/* ---- records, again ---------------------------------------------------------------------------------------------- */
/* A second header in a file: the process went on with another program, whose library writes on here. */
static struct process *on_new_image(struct runlog *run, struct process *p, uint64_t t) {
  if (p->end == END_UNKNOWN) p->end = END_EXEC;
  if (p->has_launcher && !p->is_over) merge_until(run, p, t);
  unsigned image = p->image + 1;
  p = add_process(run, p->path);
  p->image = image;
  return p;
}

static struct process *on_fact(struct runlog *run, struct process *p, const struct fact *fact) {
  switch (fact->kind) {
  case FACT_KIND_header:
    if (p->image == IMAGES) return p;
    if (p->records) p = on_new_image(run, p, fact->t);
    on_header(p, &fact->u.header);
    if (!p->launcher) find_launcher(run, p, fact->t);
    break;
  case FACT_KIND_job_start:
  case FACT_KIND_job_end: on_job_record(run, p, fact); break;
  case FACT_KIND_alloc_stats: on_alloc_stats(p, &fact->u.alloc_stats); break;
  case FACT_KIND_data_file: on_data_file(p, &fact->u.data_file); break;
  case FACT_KIND_exit: on_exit_record(p, fact); break;
  default: break;
  }
  if (p->launcher)
    judge_launcher(p, fact);
  else
    judge_process(run, p, fact);
  if (!p->records++) p->first = fact->t;
  p->last = fact->t;
  return p;
}

/* One line. Returns the process that the next line belongs to. */
static struct process *on_line(struct runlog *run, struct process *p, char *line, size_t size) {
  struct record record;
  if (!size) return p;
  record_read(line, size, &record);
  switch (record.kind) {
  case RECORD_FACT: return on_fact(run, p, &record.fact);
  case RECORD_FINDING: note_logged(p, &record.finding); break;
  case RECORD_FOREIGN: p->foreign++; break;
  case RECORD_BAD: p->bad++; break;
  }
  return p;
}

/* ---- files -------------------------------------------------------------------------------------------------------- */
/* Hands the whole lines in buffer[0..n) on, and moves what is left to its front. Returns how much that is. */
static size_t split_lines(struct runlog *run, struct process **p, char *buffer, size_t n) {
  char *at = buffer, *end = buffer + n, *newline;
  while ((newline = memchr(at, '\n', (size_t)(end - at)))) {
    *p = on_line(run, *p, at, (size_t)(newline - at));
    at = newline + 1;
  }
  memmove(buffer, at, (size_t)(end - at));
  return (size_t)(end - at);
}

static void read_lines(struct runlog *run, struct process *p, int file) {
  char *buffer = must(malloc(BUFFER + 1));
  size_t kept = 0;
  bool skipping = false; /* inside a line that is too long, or a hole that somebody has made */
  ssize_t n;
  while ((n = read(file, buffer + kept, BUFFER - kept)) > 0) {
    size_t fresh = (size_t)n;
    if (skipping) {
      char *newline = memchr(buffer, '\n', fresh);
      if (!newline && lseek(file, lseek(file, 0, SEEK_CUR), SEEK_DATA) < 0 && errno == ENXIO) break; /* a hole */
      if (!newline) continue;
      skipping = false;
      fresh -= (size_t)(newline + 1 - buffer);
      memmove(buffer, newline + 1, fresh);
    }
    kept = split_lines(run, &p, buffer, kept + fresh);
    if (kept < LINE_MAX_BYTES) continue;
    p->bad++;
    kept = 0;
    skipping = true;
  }
  /* A last line without its newline was torn by a power-off or a kill, unless it happens to be whole. */
  if (kept) on_line(run, p, buffer, kept);
  free(buffer);
}

static void read_file(struct runlog *run, const char *path) {
  run->files++;
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  struct stat st;
  if (file < 0 || fstat(file, &st) < 0 || !S_ISREG(st.st_mode)) {
    run->unreadable++;
  } else {
    read_lines(run, add_process(run, path), file);
  }
  if (file >= 0) close(file);
}

/* Whether the file begins with the header of a launcher. */
static bool is_launchers(const char *path) {
  char line[LINE_MAX_BYTES / 4 + 1];
  struct record record = {.kind = RECORD_BAD};
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (file < 0) return false;
  ssize_t n = read(file, line, sizeof line - 1);
  close(file);
  char *newline = n > 0 ? memchr(line, '\n', (size_t)n) : NULL;
  if (newline) record_read(line, (size_t)(newline - line), &record);
  if (record.kind != RECORD_FACT || record.fact.kind != FACT_KIND_header) return false;
  const char *writer = record.fact.u.header.writer;
  return writer && !strcmp(writer, "launcher");
}

static bool is_log(const char *name) {
  size_t n = strlen(name);
  return n > 7 && !strcmp(name + n - 7, ".ndjson");
}

static int only_logs(const struct dirent *entry) { return is_log(entry->d_name); }

static const char *last_part(const char *path) {
  const char *end = path + strlen(path);
  while (end > path + 1 && end[-1] == '/') end--;
  const char *at = end;
  while (at > path && at[-1] != '/') at--;
  static char part[NAME_MAX + 1];
  snprintf(part, sizeof part, "%.*s", (int)(end - at), at);
  return part;
}

int runlog_read(struct runlog *run, const char *path) {
  struct dirent **entries = NULL;
  struct stat st;
  if (stat(path, &st) < 0) return -errno;
  if (!run->id) {
    run->id = copy(last_part(path));
    run->path = copy(path);
  }
  if (!S_ISDIR(st.st_mode)) {
    read_file(run, path);
    return 0;
  }
  int n = scandir(path, &entries, only_logs, alphasort);
  if (n < 0) return -errno;
  for (int launchers = 1; launchers >= 0; launchers--)
    for (int i = 0; i < n; i++) {
      char file[PATH_MAX + NAME_MAX + 2];
      snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
      if (is_launchers(file) == launchers) read_file(run, file);
    }
  for (int i = 0; i < n; i++) free(entries[i]);
  free(entries);
  return 0;
}

/* ---- ends --------------------------------------------------------------------------------------------------------- */
static const struct job_record *ended_job(const struct runlog *run, const struct process *p) {
  for (size_t i = run->jobs; i-- > 0;) {
    const struct job_record *job = &run->job[i];
    if (job->ended && p->host && job->host && !strcmp(job->host, p->host) && job->pid == p->pid && job->end >= p->last)
      return job;
  }
  return NULL;
}

/* A shell reports the signal that killed its child as 128 + n. When that is the job's status and one process
 * alone left no exit record, it is the one. */
static const struct job_record *told_by_shell(const struct runlog *run, const struct process *p) {
  enum { SIGNALS = 64 };
  const struct job_record *told = NULL;
  for (size_t i = 0; i < run->processes; i++)
    if (&run->process[i] != p && !run->process[i].launcher && run->process[i].end == END_UNKNOWN) return NULL;
  for (size_t i = 0; i < run->jobs; i++) {
    const struct job_record *job = &run->job[i];
    if (!job->ended || job->exit <= 128 || job->exit > 128 + SIGNALS) continue;
    if (!job->host || !p->host || strcmp(job->host, p->host) || job->end < p->last) continue;
    if (told) return NULL;
    told = job;
  }
  return told;
}

/* Written on this host since it was started. */
static bool on_this_boot(const struct process *p) {
  char host[RUN_HOST], boot_id[64];
  rundir_host(host);
  if (!p->host || strcmp(host, p->host)) return false;
  if (proc_text_read(NULL, "/proc/sys/kernel/random/boot_id", boot_id, sizeof boot_id) < 0) return false;
  return !p->boot_id || p->simulated || !strcmp(boot_id, p->boot_id);
}

_Static_assert((int)ROUTE_COUNT <= (int)RUNLOG_ROUTES, "a route that has no row");

/* What the mapped ring beside the log still knows of a process that could not write its last records. */
static void read_ring(struct process *p) {
  char path[PATH_MAX];
  struct ring_file ring;
  size_t n = strlen(p->path);
  if (n < 7 || n >= sizeof path) return;
  snprintf(path, sizeof path, "%.*s.ring", (int)(n - 7), p->path);
  if (ring_open_file(path, &ring)) return;
  if (on_this_boot(p)) ring_same_boot(&ring);
  for (unsigned i = 0; i < ring.header->slots; i++) {
    const struct ring_slot *slot = ring_thread(&ring, i);
    uint64_t us = slot ? ring_us(&ring, slot->last_activity) : 0;
    if (!us || (p->last_activity != FACT_NO_U64 && us <= p->last_activity)) continue;
    p->last_activity = us;
    keep_word(p->last_call, sizeof p->last_call, ring_name(&ring, slot->last_call));
  }
  p->allocations = 0;
  for (unsigned route = 0; route < ROUTE_COUNT; route++) {
    struct ring_counters c;
    ring_route_counters(&ring, route, &c);
    if (!c.count && !c.failed) continue;
    struct allocation_row *row = &p->allocation[p->allocations++];
    *row = (struct allocation_row){.count = c.count,
                                   .frees = c.frees,
                                   .failed = c.failed,
                                   .bytes = c.bytes,
                                   .live = c.live,
                                   .peak = c.peak,
                                   .untracked = c.untracked};
    keep_word(row->route, sizeof row->route, route_word(route));
  }
  ring_close(&ring);
}

static void end_by_job(struct runlog *run, struct process *p, const struct job_record *job) {
  struct fact fact = {.kind = FACT_KIND_exit, .t = job->end};
  struct fact_exit *e = &fact.u.exit;
  memset(&e->mem, 0xff, sizeof e->mem); /* every field FACT_NO_U64 */
  p->end = END_JOB;
  p->end_t = job->end;
  p->signal = job->signal != FACT_NO_I64 ? job->signal : job->exit > 128 ? job->exit - 128 : FACT_NO_I64;
  p->status = job->signal != FACT_NO_I64 ? 128 + job->signal : job->exit;
  e->status = p->status;
  e->signal = p->signal;
  e->last_activity = p->last_activity;
  e->last_call = p->last_call[0] ? p->last_call : NULL;
  judge_end(run, p, &fact);
}

static const char *base_name(const char *path) { return strrchr(path, '/') ? strrchr(path, '/') + 1 : path; }

static bool is_named(const char *path, void *arg) {
  const char *name = arg;
  return !strcmp(base_name(path), name);
}

/* Whether the process still lives: it has its log mapped, whose name tells it from a later process of that number. */
static bool is_running(const struct process *p) {
  if (p->pid == FACT_NO_U64 || p->pid > INT_MAX || !on_this_boot(p)) return false;
  return proc_mapped((int)p->pid, is_named, (void *)(uintptr_t)base_name(p->path));
}

static void add_difference(struct process *p, unsigned g, const char *cause, const char *object, int logged,
                           int derived) {
  p->difference = grow(p->difference, p->differences, sizeof *p->difference);
  struct difference *d = &p->difference[p->differences++];
  d->g = g;
  d->logged = logged;
  d->derived = derived;
  keep_word(d->cause, sizeof d->cause, cause);
  keep_word(d->object, sizeof d->object, object);
}

static void compare(struct process *p) {
  for (size_t i = 0; i < p->own.findings; i++) {
    const struct finding *f = &p->own.finding[i].f;
    const struct logged *l = find_logged(p, f->g, f->cause, f->object);
    if (!l || l->verdict != f->verdict)
      add_difference(p, f->g, f->cause, f->object, l ? (int)l->verdict : -1, (int)f->verdict);
  }
  for (size_t k = 0; k < p->loggeds; k++) {
    const struct logged *l = &p->logged[k];
    bool derived = false;
    for (size_t i = 0; i < p->own.findings && !derived; i++)
      derived = p->own.finding[i].f.g == l->g && !strcmp(p->own.finding[i].f.cause, l->cause) &&
                !strcmp(p->own.finding[i].f.object, l->object);
    if (!derived) add_difference(p, l->g, l->cause, l->object, (int)l->verdict, -1);
  }
}

static void find_end(struct runlog *run, struct process *p) {
  const struct job_record *job = NULL;
  if (p->end == END_UNKNOWN && is_running(p)) p->end = END_RUNNING;
  if (p->end != END_UNKNOWN && p->end != END_RUNNING) return;
  read_ring(p);
  if (p->end == END_UNKNOWN && !(job = ended_job(run, p))) job = told_by_shell(run, p);
  if (job)
    end_by_job(run, p, job);
  else
    judge_end(run, p, NULL);
}

/* Which of the findings its process has said itself. */
static void note_shown(struct process *p) {
  for (size_t i = 0; i < p->findings; i++) {
    const struct finding *f = &p->finding[i].f;
    const struct logged *l = find_logged(p, f->g, f->cause, f->object);
    if (!l || l->verdict != f->verdict) continue;
    keep_word(p->finding[i].shown, sizeof p->finding[i].shown, l->shown);
    p->finding[i].shown_at_exit = l->shown_at_exit;
  }
}

/* The state of the detectors is needed no longer, and a run may have thousands of processes. */
static void finish_process(struct runlog *run, struct process *p) {
  if (!p->launcher) {
    compare(p); /* before an end is made up that the process itself did not see */
    find_end(run, p);
  }
  struct judged *j = p->has_launcher ? &p->merged : &p->own;
  p->finding = j->finding;
  p->findings = j->findings;
  note_shown(p);
  judged_close(&p->own);
  judged_close(&p->merged);
}

void runlog_finish(struct runlog *run) {
  for (size_t i = 0; i < run->processes; i++) {
    struct process *p = &run->process[i];
    run->records += p->records;
    run->bad += p->bad;
    run->foreign += p->foreign;
    finish_process(run, p);
  }
}

void runlog_free(struct runlog *run) {
  for (size_t i = 0; i < run->processes; i++) {
    struct process *p = &run->process[i];
    free(p->path), free(p->host), free(p->boot_id), free(p->exe), free(p->argv), free(p->cwd), free(p->version);
    for (size_t k = 0; k < p->data_files; k++) free(p->data_file[k].path);
    free(p->data_file), free(p->difference), free(p->logged);
    judged_free(&p->own), judged_free(&p->merged), fact_list_free(&p->seen);
  }
  for (size_t i = 0; i < run->jobs; i++) free(run->job[i].host), free(run->job[i].argv);
  free(run->process), free(run->job), free(run->id), free(run->path);
  memset(run, 0, sizeof *run);
}

/* ---- what the report asks ------------------------------------------------------------------------------------------ */
static int lighter_then_later(const void *a, const void *b) {
  const struct finding *x = &((const struct finding_ref *)a)->finding->f,
                       *y = &((const struct finding_ref *)b)->finding->f;
  if (x->verdict != y->verdict) return x->verdict < y->verdict ? -1 : 1;
  return x->t > y->t ? -1 : x->t < y->t;
}

static bool same_cause(const struct finding *a, const struct finding *b) {
  return a->g == b->g && !strcmp(a->cause, b->cause);
}

/* Whether the second tells more than the first of what both tell. */
static bool tells_more(const struct process *than, const struct finding *less, const struct process *p,
                       const struct finding *more) {
  if (more->verdict != less->verdict) return more->verdict > less->verdict;
  if (p->launcher != than->launcher) return than->launcher;
  return more->t != less->t ? more->t < less->t : p < than;
}

/* What the launcher found as well concerns its machine or its job as a whole: it stands once, where most is told. */
static bool is_told_better(const struct runlog *run, const struct process *p, const struct finding *f) {
  const struct process *launcher = p->launcher ? p : p->has_launcher ? &run->process[p->by] : NULL;
  bool by_launcher = false, better = false;
  if (!launcher) return false;
  for (size_t k = 0; k < launcher->findings && !by_launcher; k++) by_launcher = same_cause(&launcher->finding[k].f, f);
  for (size_t i = 0; by_launcher && !better && i < run->processes; i++) {
    const struct process *q = &run->process[i];
    if (q != launcher && (!q->has_launcher || &run->process[q->by] != launcher)) continue;
    for (size_t k = 0; k < q->findings && !better; k++)
      better = same_cause(&q->finding[k].f, f) && q != p && tells_more(p, f, q, &q->finding[k].f);
  }
  return better;
}

size_t runlog_findings(const struct runlog *run, enum verdict least, struct finding_ref **ret) {
  struct finding_ref *refs = NULL;
  size_t n = 0;
  for (size_t i = 0; i < run->processes; i++)
    for (size_t k = 0; k < run->process[i].findings; k++) {
      const struct finding *f = &run->process[i].finding[k].f;
      if (f->verdict < least || is_told_better(run, &run->process[i], f)) continue;
      refs = grow(refs, n, sizeof *refs);
      refs[n++] = (struct finding_ref){&run->process[i], &run->process[i].finding[k]};
    }
  if (n) qsort(refs, n, sizeof *refs, lighter_then_later);
  *ret = refs;
  return n;
}
