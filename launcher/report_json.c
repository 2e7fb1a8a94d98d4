/* report_json.c - a run for programs, as docs/report.md describes it. What is not known is left out. */
#include "report.h"
#include "fact_json.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

/* jansson refuses what is not UTF-8: bytes that are not are written as the log does, as U+F700 + byte. */
static json_t *text(const char *s) {
  json_t *plain = s ? json_string(s) : NULL;
  if (plain || !s) return plain;
  struct fact fact = {.kind = FACT_KIND_note, .u.note.text = s};
  char line[FACT_JSON_MAX];
  fact_json(&fact, line, sizeof line);
  json_t *record = json_loads(line, 0, NULL), *escaped = json_incref(json_object_get(record, "text"));
  json_decref(record);
  return escaped;
}

static void set_text(json_t *o, const char *key, const char *s) {
  if (s) json_object_set_new(o, key, text(s));
}

static void set_u64(json_t *o, const char *key, uint64_t n) {
  if (n <= INT64_MAX) json_object_set_new(o, key, json_integer((json_int_t)n));
}

static void set_i64(json_t *o, const char *key, int64_t n) {
  if (n != FACT_NO_I64) json_object_set_new(o, key, json_integer((json_int_t)n));
}

static json_t *list_of(const struct finding_list *list) {
  json_t *array = json_array();
  for (unsigned i = 0; i < list->n && i < FINDING_ITEMS; i++) json_array_append_new(array, text(list->item[i]));
  return array;
}

static json_t *allocation_of(const struct allocation_row *row) {
  json_t *o = json_object();
  set_text(o, "route", row->route);
  set_u64(o, "count", row->count);
  set_u64(o, "frees", row->frees);
  set_u64(o, "failed", row->failed);
  set_u64(o, "bytes", row->bytes);
  set_u64(o, "live", row->live);
  set_u64(o, "peak", row->peak);
  set_u64(o, "untracked", row->untracked);
  return o;
}

static json_t *difference_of(const struct difference *d) {
  json_t *o = json_object();
  set_u64(o, "g", d->g);
  set_text(o, "cause", d->cause);
  set_text(o, "object", d->object);
  if (d->logged >= 0) set_text(o, "logged", verdict_word((enum verdict)d->logged));
  if (d->derived >= 0) set_text(o, "derived", verdict_word((enum verdict)d->derived));
  return o;
}

static json_t *process_of(const struct process *p) {
  static const char *const ends[] = {"unknown", "exit", "job", "exec", "running"};
  json_t *o = json_object(), *allocations = json_array(), *differences = json_array();
  set_text(o, "host", p->host);
  set_u64(o, "pid", p->pid);
  set_u64(o, "ppid", p->ppid);
  set_i64(o, "rank", p->rank);
  set_i64(o, "world_size", p->world_size);
  set_u64(o, "start", p->start);
  set_text(o, "exe", p->exe);
  set_text(o, "argv", p->argv);
  set_text(o, "cwd", p->cwd);
  set_text(o, "version", p->version);
  set_text(o, "log", p->path);
  set_text(o, "end", ends[p->end]);
  set_i64(o, "status", p->status);
  set_i64(o, "signal", p->signal);
  if (p->end == END_EXIT || p->end == END_JOB) set_u64(o, "end_t", p->end_t);
  set_u64(o, "last_activity", p->last_activity);
  set_text(o, "last_call", p->last_call[0] ? p->last_call : NULL);
  set_u64(o, "records", p->records);
  set_u64(o, "unreadable", p->bad);
  set_u64(o, "foreign", p->foreign);
  if (p->simulated) json_object_set_new(o, "simulated", json_true());
  for (size_t i = 0; i < p->allocations; i++) json_array_append_new(allocations, allocation_of(&p->allocation[i]));
  for (size_t i = 0; i < p->differences; i++) json_array_append_new(differences, difference_of(&p->difference[i]));
  json_object_set_new(o, "allocations", allocations);
  json_object_set_new(o, "differences", differences);
  return o;
}

static json_t *job_of(const struct job_record *job) {
  json_t *o = json_object();
  set_text(o, "host", job->host);
  set_u64(o, "pid", job->pid);
  set_text(o, "argv", job->argv);
  if (job->started) set_u64(o, "start", job->start);
  if (!job->ended) return o;
  set_u64(o, "end", job->end);
  set_i64(o, "exit", job->exit);
  set_i64(o, "signal", job->signal);
  json_object_set_new(o, "core", json_boolean(job->core));
  return o;
}

static json_t *finding_of(const struct finding_ref *ref) {
  const struct finding *f = &ref->finding->f;
  json_t *o = json_object();
  set_u64(o, "g", f->g);
  set_text(o, "verdict", verdict_word(f->verdict));
  set_text(o, "cause", f->cause);
  set_text(o, "confidence", confidence_word(f->confidence));
  set_text(o, "object", f->object);
  set_text(o, "text", f->text);
  json_object_set_new(o, "evidence", list_of(&f->evidence));
  json_object_set_new(o, "fixes", list_of(&f->fixes));
  json_object_set_new(o, "ruled_out", list_of(&f->ruled_out));
  set_text(o, "retry", retry_word(f->retry));
  set_text(o, "host", ref->process->host);
  set_i64(o, "rank", ref->process->rank);
  set_u64(o, "pid", ref->process->launcher ? ref->process->job_pid : ref->process->pid);
  set_u64(o, "t", f->t);
  set_u64(o, "count", ref->finding->count);
  return o;
}

static json_t *findings_of(const struct runlog *run) {
  struct finding_ref *refs;
  json_t *array = json_array();
  size_t n = runlog_findings(run, VERDICT_PASS, &refs);
  for (size_t i = 0; i < n; i++) json_array_append_new(array, finding_of(&refs[i]));
  free(refs);
  return array;
}

static json_t *first_failing_of(const struct process *p) {
  json_t *o = json_object();
  set_text(o, "host", p->host);
  set_u64(o, "pid", p->launcher ? p->job_pid : p->pid);
  set_i64(o, "rank", p->rank);
  return o;
}

int report_json(const struct runlog *run, FILE *to) {
  json_t *o = json_object(), *processes = json_array(), *jobs = json_array();
  const struct process *first = report_first_failing(run);
  set_u64(o, "v", 1);
  set_text(o, "run", run->id);
  set_text(o, "path", run->path);
  set_text(o, "verdict", verdict_word(runlog_verdict(run)));
  if (first) json_object_set_new(o, "first_failing", first_failing_of(first));
  for (size_t i = 0; i < run->jobs; i++) json_array_append_new(jobs, job_of(&run->job[i]));
  for (size_t i = 0; i < run->processes; i++) {
    const struct process *p = &run->process[i];
    if (!p->launcher && p->records + p->bad + p->foreign) json_array_append_new(processes, process_of(p));
  }
  json_object_set_new(o, "jobs", jobs);
  json_object_set_new(o, "processes", processes);
  json_object_set_new(o, "findings", findings_of(run));
  set_u64(o, "files", run->files);
  set_u64(o, "files_unreadable", run->unreadable);
  set_u64(o, "records", run->records);
  set_u64(o, "lines_unreadable", run->bad);
  set_u64(o, "records_foreign", run->foreign);
  int failed = json_dumpf(o, to, JSON_INDENT(2));
  json_decref(o);
  return failed || fputc('\n', to) == EOF ? -EIO : 0;
}
