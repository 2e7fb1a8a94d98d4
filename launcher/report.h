/* report.h - a judged run as a page for people (text, Markdown, HTML) and as JSON. */
#ifndef SPARKSHIM_REPORT_H
#define SPARKSHIM_REPORT_H

#include <limits.h>
#include <stdio.h>
#include "outcome.h"
#include "report_page.h"
#include "runlog.h"

/* For people: the job, its processes, the findings with their evidence. */
void report_page(const struct runlog *run, const struct outcome *outcome, const struct page_style *style, FILE *to);

/* What `run` says on stderr at the end: a line for each finding of WARN or more, the root cause last, but for those that stand
 * there already, put on this very file by processes that have just ended; then the command that shows the report. Nothing
 * when there is none. */
void report_summary(const struct runlog *run);

/* For programs: one JSON object (docs/report.md). 0, or -ENOMEM or -EIO. */
int report_json(const struct runlog *run, const struct outcome *outcome, FILE *to);

/* All runs that are kept, newest first, on standard output. 0, or -EIO, which was said. */
int report_list(bool json);

/* The process with the earliest FAIL, by its time; NULL when nothing failed. */
const struct process *report_first_failing(const struct runlog *run);

/* Where memory was over the time of the run: by a launcher's log and those of its processes, or by that of a process that
 * looked for itself and had no launcher. False: this log does not tell. */
bool report_memory(const struct runlog *run, const struct process *p, struct split_course *out);

/* "rank 1, pid 4711 on spark-2": as much of it as is known. */
void report_who(const struct process *p, char *out, size_t size);

/* "exited with status 1", "killed by signal 9 (Killed)", "still running", ... */
void report_end(const struct process *p, char *out, size_t size);

/* "2026-11-30 03:30:07 UTC" */
void report_time(uint64_t us, char *out, size_t size);

/* How to call `sparkshim report` for this run from where the user stands, as a shell reads it. */
enum { REPORT_COMMAND = 8 * PATH_MAX + 32 }; /* two paths, four bytes for each that has to be quoted */
void report_command(const struct runlog *run, char out[REPORT_COMMAND]);

#endif
