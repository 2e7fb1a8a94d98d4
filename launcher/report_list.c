/* report_list.c - `sparkshim report --list`: the runs that are kept, newest first, each judged. */
#include "report.h"
#include "json_value.h"
#include "launcher.h"
#include "runs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A run in one line. */
struct row {
  uint64_t start;      /* Unix us; FACT_NO_U64: not known */
  const char *command; /* of the job, else of its first process; NULL: not recorded */
  unsigned long watched;
  char ended[64];
  enum verdict verdict;
};

static void say_end(char out[64], int64_t status, int64_t signal) {
  if (signal != FACT_NO_I64)
    snprintf(out, 64, "signal %lld (%s)", (long long)signal, strsignal((int)signal));
  else if (status != FACT_NO_I64)
    snprintf(out, 64, "status %lld", (long long)status);
  else
    snprintf(out, 64, "no record");
}

/* Of several jobs, or processes without one, the first that ended badly, else the first. */
static void fill_from_jobs(struct row *row, const struct runlog *run) {
  const struct job_record *bad = NULL;
  for (size_t i = run->jobs; i-- > 0;) {
    const struct job_record *job = &run->job[i];
    if (!job->ended || job->signal != FACT_NO_I64 || job->exit) bad = job;
    if (job->started && job->start < row->start) row->start = job->start;
  }
  if (!run->jobs) return;
  if (!bad) bad = run->job;
  row->command = run->job[0].argv;
  say_end(row->ended, bad->ended ? bad->exit : FACT_NO_I64, bad->ended ? bad->signal : FACT_NO_I64);
}

static void fill_from_processes(struct row *row, const struct runlog *run) {
  const struct process *first = NULL, *bad = NULL;
  for (size_t i = run->processes; i-- > 0;) {
    const struct process *p = &run->process[i];
    if (!outcome_is_watched(p)) continue;
    row->watched++;
    first = p;
    if (p->end == END_UNKNOWN || p->status > 0 || p->signal > 0) bad = p;
    if (p->end == END_RUNNING) snprintf(row->ended, sizeof row->ended, "running");
    if (!run->jobs && p->start < row->start) row->start = p->start;
  }
  if (!first || run->jobs) return;
  if (!bad) bad = first;
  row->command = first->argv ? first->argv : first->exe;
  if (!*row->ended) say_end(row->ended, bad->status, bad->signal);
}

static void fill(struct row *row, const struct runlog *run) {
  struct outcome outcome;
  outcome_of(run, &outcome);
  *row = (struct row){.start = FACT_NO_U64, .verdict = outcome.verdict};
  fill_from_jobs(row, run);
  fill_from_processes(row, run);
}

static void print_row(const char *id, const struct row *row) {
  char when[64] = "?";
  if (row->start != FACT_NO_U64) report_time(row->start, when, sizeof when);
  printf("%-24s  %-23s  %-7s  %-20s  %s\n", shown(id), when, verdict_word(row->verdict), row->ended,
         row->command ? shown(row->command) : "(command not recorded)");
  fflush(stdout); /* the next one may take a while */
}

static json_t *object_of(const struct run_entry *entry, const struct row *row) {
  json_t *o = json_object();
  json_set_text(o, "run", entry->id);
  json_set_text(o, "path", entry->path);
  json_set_u64(o, "start", row->start);
  json_set_text(o, "argv", row->command);
  json_set_text(o, "ended", row->ended);
  json_set_text(o, "verdict", verdict_word(row->verdict));
  json_set_u64(o, "watched", row->watched);
  return o;
}

static int finish(json_t *runs) {
  json_t *o = runs ? json_object() : NULL;
  int failed = 0;
  if (runs) {
    json_set_u64(o, "v", 1);
    json_object_set_new(o, "runs", runs);
    failed = json_dumpf(o, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII) || fputc('\n', stdout) == EOF;
    json_decref(o);
  }
  if (!failed && fflush(stdout) != EOF) return 0;
  say("cannot write the list: %s", strerror(errno));
  return -EIO;
}

int report_list(bool json) {
  struct run_entry *list;
  size_t n = runs_list(&list);
  json_t *runs = json ? json_array() : NULL;
  if (!n) runs_say_none();
  if (!json && n) printf("%-24s  %-23s  %-7s  %-20s  %s\n", "RUN", "STARTED", "VERDICT", "ENDED", "COMMAND");
  for (size_t i = 0; i < n; i++) {
    struct runlog run = {0};
    struct row row;
    if (runlog_read(&run, list[i].path)) continue; /* removed since, or not ours to read */
    runlog_finish(&run);
    fill(&row, &run);
    if (json)
      json_array_append_new(runs, object_of(&list[i], &row));
    else
      print_row(list[i].id, &row);
    runlog_free(&run);
  }
  runs_free(list, n);
  return finish(runs);
}
