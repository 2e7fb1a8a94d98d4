/* report_json.c - a run for programs, as docs/report.md describes it. What is not known is left out. */
#include "report.h"
#include "json_value.h"
#include "split_json.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

static json_t *list_of(const struct finding_list *list) {
  json_t *array = json_array();
  for (unsigned i = 0; i < list->n && i < FINDING_ITEMS; i++) json_array_append_new(array, json_text(list->item[i]));
  return array;
}

static json_t *allocation_of(const struct allocation_row *row) {
  json_t *o = json_object();
  json_set_text(o, "route", row->route);
  json_set_u64(o, "count", row->count);
  json_set_u64(o, "frees", row->frees);
  json_set_u64(o, "failed", row->failed);
  json_set_u64(o, "bytes", row->bytes);
  json_set_u64(o, "live", row->live);
  json_set_u64(o, "peak", row->peak);
  json_set_u64(o, "untracked", row->untracked);
  return o;
}

static json_t *difference_of(const struct difference *d) {
  json_t *o = json_object();
  json_set_u64(o, "g", d->g);
  json_set_text(o, "cause", d->cause);
  json_set_text(o, "object", d->object);
  if (d->logged >= 0) json_set_text(o, "logged", verdict_word((enum verdict)d->logged));
  if (d->derived >= 0) json_set_text(o, "derived", verdict_word((enum verdict)d->derived));
  return o;
}

static json_t *process_of(const struct process *p) {
  static const char *const ends[] = {"unknown", "exit", "job", "exec", "running"};
  json_t *o = json_object(), *allocations = json_array(), *differences = json_array();
  json_set_text(o, "host", p->host);
  json_set_u64(o, "pid", p->pid);
  json_set_u64(o, "ppid", p->ppid);
  json_set_i64(o, "rank", p->rank);
  json_set_i64(o, "world_size", p->world_size);
  json_set_u64(o, "start", p->start);
  json_set_text(o, "exe", p->exe);
  json_set_text(o, "argv", p->argv);
  json_set_text(o, "cwd", p->cwd);
  json_set_text(o, "version", p->version);
  json_set_text(o, "log", p->path);
  json_set_text(o, "end", ends[p->end]);
  json_set_i64(o, "status", p->status);
  json_set_i64(o, "signal", p->signal);
  if (p->end == END_EXIT || p->end == END_JOB) json_set_u64(o, "end_t", p->end_t);
  json_set_u64(o, "last_activity", p->last_activity);
  json_set_text(o, "last_call", p->last_call[0] ? p->last_call : NULL);
  json_set_u64(o, "records", p->records);
  json_set_u64(o, "unreadable", p->bad);
  json_set_u64(o, "foreign", p->foreign);
  if (p->simulated) json_object_set_new(o, "simulated", json_true());
  if (p->injected) json_object_set_new(o, "injected", json_true());
  for (size_t i = 0; i < p->allocations; i++) json_array_append_new(allocations, allocation_of(&p->allocation[i]));
  for (size_t i = 0; i < p->differences; i++) json_array_append_new(differences, difference_of(&p->difference[i]));
  json_object_set_new(o, "allocations", allocations);
  json_object_set_new(o, "differences", differences);
  return o;
}

static json_t *job_of(const struct job_record *job) {
  json_t *o = json_object();
  json_set_text(o, "host", job->host);
  json_set_u64(o, "pid", job->pid);
  json_set_text(o, "argv", job->argv);
  if (job->started) json_set_u64(o, "start", job->start);
  if (!job->ended) return o;
  json_set_u64(o, "end", job->end);
  json_set_i64(o, "exit", job->exit);
  json_set_i64(o, "signal", job->signal);
  json_object_set_new(o, "core", json_boolean(job->core));
  return o;
}

static json_t *finding_of(const struct finding_ref *ref) {
  const struct finding *f = &ref->finding->f;
  json_t *o = json_object();
  json_set_u64(o, "g", f->g);
  json_set_text(o, "verdict", verdict_word(f->verdict));
  json_set_text(o, "cause", f->cause);
  json_set_text(o, "confidence", confidence_word(f->confidence));
  json_set_text(o, "object", f->object);
  json_set_text(o, "text", f->text);
  json_object_set_new(o, "evidence", list_of(&f->evidence));
  json_object_set_new(o, "fixes", list_of(&f->fixes));
  json_object_set_new(o, "ruled_out", list_of(&f->ruled_out));
  json_set_text(o, "retry", retry_word(f->retry));
  json_set_text(o, "host", ref->process->host);
  json_set_i64(o, "rank", ref->process->rank);
  json_set_u64(o, "pid", ref->process->launcher ? ref->process->job_pid : ref->process->pid);
  json_set_u64(o, "t", f->t);
  json_set_u64(o, "count", ref->finding->count);
  if (ref->finding->memory.t) json_object_set_new(o, "memory", split_json(&ref->finding->memory));
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

static json_t *memory_of(const struct process *p, const struct split_course *m) {
  json_t *o = json_object();
  json_set_text(o, "host", p->host);
  json_object_set_new(o, "first", split_json(&m->first));
  if (m->lowest.t) json_object_set_new(o, "lowest", split_json(&m->lowest));
  json_object_set_new(o, "last", split_json(&m->last));
  return o;
}

static json_t *memories_of(const struct runlog *run) {
  json_t *array = json_array();
  for (size_t i = 0; i < run->processes; i++) {
    struct split_course m;
    if (report_memory(run, &run->process[i], &m)) json_array_append_new(array, memory_of(&run->process[i], &m));
  }
  return array;
}

static json_t *first_failing_of(const struct process *p) {
  json_t *o = json_object();
  json_set_text(o, "host", p->host);
  json_set_u64(o, "pid", p->launcher ? p->job_pid : p->pid);
  json_set_i64(o, "rank", p->rank);
  return o;
}

static json_t *sentences_of(const struct outcome_lines *lines) {
  json_t *array = json_array();
  for (size_t i = 0; i < lines->n && i < OUTCOME_LINES; i++) json_array_append_new(array, json_text(lines->line[i]));
  return array;
}

int report_json(const struct runlog *run, const struct outcome *outcome, FILE *to) {
  json_t *o = json_object(), *processes = json_array(), *jobs = json_array();
  const struct process *first = report_first_failing(run);
  json_set_u64(o, "v", 1);
  json_set_text(o, "run", run->id);
  json_set_text(o, "path", run->path);
  json_set_text(o, "verdict", verdict_word(outcome->verdict));
  if (first) json_object_set_new(o, "first_failing", first_failing_of(first));
  for (size_t i = 0; i < run->jobs; i++) json_array_append_new(jobs, job_of(&run->job[i]));
  for (size_t i = 0; i < run->processes; i++) {
    const struct process *p = &run->process[i];
    if (outcome_is_watched(p)) json_array_append_new(processes, process_of(p));
  }
  json_object_set_new(o, "jobs", jobs);
  json_object_set_new(o, "processes", processes);
  json_object_set_new(o, "memory", memories_of(run));
  json_object_set_new(o, "findings", findings_of(run));
  json_object_set_new(o, "unexplained", sentences_of(&outcome->unexplained));
  json_object_set_new(o, "remarks", sentences_of(&outcome->remarks));
  json_set_u64(o, "files", run->files);
  json_set_u64(o, "files_unreadable", run->unreadable);
  json_set_u64(o, "records", run->records);
  json_set_u64(o, "lines_unreadable", run->bad);
  json_set_u64(o, "records_foreign", run->foreign);
  int failed = json_dumpf(o, to, JSON_INDENT(2) | JSON_ENSURE_ASCII);
  json_decref(o);
  return failed || fputc('\n', to) == EOF ? -EIO : 0;
}
