/* report_page.c - what stands on a report's page. See report_page.h. */
#include "report_page.h"
#include "report.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { PROCESSES_SHOWN = 64 };

struct page {
  FILE *to;
  const struct page_style *style;
};

/* ---- pieces ------------------------------------------------------------------------------------------------------ */
#define LIKE_PRINTF __attribute__((format(printf, 2, 3)))

static void heading(const struct page *page, const char *label, const char *text) {
  page->style->heading(page->to, label, text);
}

static void put_item(const struct page *page, bool below, const char *format, va_list args) {
  char *text;
  if (vasprintf(&text, format, args) < 0) return; /* no memory: the rest of the page is better than none */
  page->style->item(page->to, below, text);
  free(text);
}

static void item(const struct page *page, const char *format, ...) LIKE_PRINTF;
static void item(const struct page *page, const char *format, ...) {
  va_list args;
  va_start(args, format);
  put_item(page, false, format, args);
  va_end(args);
}

static void item_below(const struct page *page, const char *format, ...) LIKE_PRINTF;
static void item_below(const struct page *page, const char *format, ...) {
  va_list args;
  va_start(args, format);
  put_item(page, true, format, args);
  va_end(args);
}

static void sentence(const struct page *page, const char *format, ...) LIKE_PRINTF;
static void sentence(const struct page *page, const char *format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  page->style->sentence(page->to, text);
}

static void sentences(const struct page *page, const struct outcome_lines *lines) {
  size_t n = lines->n < OUTCOME_LINES ? lines->n : OUTCOME_LINES;
  for (size_t i = 0; i < n; i++) sentence(page, "%s.", lines->line[i]);
  if (lines->n > n) sentence(page, "And so for %zu more.", lines->n - n);
}

/* ---- the job and its processes ------------------------------------------------------------------------------------- */
static void jobs(const struct page *page, const struct runlog *run) {
  for (size_t i = 0; i < run->jobs; i++) {
    const struct job_record *job = &run->job[i];
    char from[64], until[64];
    report_time(job->start, from, sizeof from);
    report_time(job->end, until, sizeof until);
    heading(page, "Job", job->argv ? job->argv : "(command not recorded)");
    if (job->started)
      item(page, "started %s on %s, pid %llu", from, job->host ? job->host : "?", (unsigned long long)job->pid);
    if (!job->ended)
      item(page, "no record of its end: it is running, or the machine or the launcher went down");
    else if (job->signal != FACT_NO_I64)
      item(page, "ended %s, killed by signal %lld (%s)%s", until, (long long)job->signal, strsignal((int)job->signal),
           job->core ? ", core written" : "");
    else
      item(page, "ended %s, status %lld", until, (long long)job->exit);
  }
}

static void add_size(FILE *to, const char *label, uint64_t bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = (double)bytes;
  size_t unit = 0;
  if (bytes == FACT_NO_U64) return;
  while (value >= 1024 && unit + 1 < sizeof units / sizeof units[0]) value /= 1024, unit++;
  fprintf(to, unit ? "%s%.1f %s" : "%s%.0f %s", label, value, units[unit]);
}

static void add_count(FILE *to, const char *label, uint64_t n) {
  if (n != FACT_NO_U64 && n) fprintf(to, ", %llu %s", (unsigned long long)n, label);
}

static void allocations(const struct page *page, const struct process *p) {
  for (size_t i = 0; i < p->allocations; i++) {
    const struct allocation_row *row = &p->allocation[i];
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    if (!to) return;
    fprintf(to, "%-8s", row->route);
    add_size(to, " at most ", row->peak);
    add_size(to, ", at the last count ", row->live);
    add_count(to, "granted", row->count);
    add_count(to, "freed", row->frees);
    add_count(to, "refused", row->failed);
    add_count(to, "not followed", row->untracked);
    if (!fclose(to)) item_below(page, "%s", text);
    free(text);
  }
}

/* Of a process that could not tell of its end: what the ring still knows. */
static void last_call(const struct page *page, const struct process *p) {
  char at[64];
  if (p->end == END_EXIT || !p->last_call[0] || p->last_activity == FACT_NO_U64) return;
  report_time(p->last_activity, at, sizeof at);
  item_below(page, "last call that did its work: %s, %s", p->last_call, at);
}

static void differences(const struct page *page, const struct process *p) {
  for (size_t i = 0; i < p->differences; i++) {
    const struct difference *d = &p->difference[i];
    item_below(page, "differs: G%u %s (%s) was %s live, and is %s by the facts in the log", d->g, d->cause, d->object,
               d->logged < 0 ? "not said" : verdict_word((enum verdict)d->logged),
               d->derived < 0 ? "not found" : verdict_word((enum verdict)d->derived));
  }
}

static void process(const struct page *page, const struct process *p) {
  char who[128], end[128];
  report_who(p, who, sizeof who);
  report_end(p, end, sizeof end);
  item(page, "%s: %s; %s", who, end, p->argv ? p->argv : p->exe ? p->exe : "(command not recorded)");
  allocations(page, p);
  last_call(page, p);
  if (p->bad) item_below(page, "%lu unreadable lines in its log", p->bad);
  differences(page, p);
}

static void processes(const struct page *page, const struct runlog *run) {
  size_t shown = 0, more = 0;
  for (size_t i = 0; i < run->processes; i++) {
    const struct process *p = &run->process[i];
    if (!outcome_is_watched(p)) continue;
    if (shown == 0) heading(page, "Processes watched", NULL);
    if (shown++ < PROCESSES_SHOWN || p->findings || p->differences)
      process(page, p);
    else
      more++;
  }
  if (more) item(page, "and %zu more without a finding", more);
  if (shown) return;
  sentence(page, "No process of this run was watched: none touched CUDA, or sparkshim was kept out of it (static, "
                 "set-user-id, in a "
                 "container, SPARKSHIM_SKIP); `sparkshim doctor -- CMD` looks into it.");
}

static void reading_troubles(const struct page *page, const struct runlog *run) {
  if (run->unreadable) sentence(page, "%lu of %lu log files could not be opened.", run->unreadable, run->files);
  if (run->bad) sentence(page, "%lu lines could not be read (torn or foreign writing); the rest is judged.", run->bad);
  if (run->foreign) sentence(page, "%lu records are of a newer version and were skipped.", run->foreign);
}

/* ---- memory ---------------------------------------------------------------------------------------------------------- */
static void memory_at(const struct page *page, const char *when, const struct split_at *at) {
  char line[512], time[64];
  if (!at->t) return;
  split_line(&at->split, line, sizeof line);
  report_time(at->t, time, sizeof time);
  item(page, "%s, %s: %s", when, time, line);
}

/* By what its launcher saw; without one, by what a process saw itself. */
static void memory_over_time(const struct page *page, const struct runlog *run) {
  for (size_t i = 0; i < run->processes; i++) {
    struct split_course m;
    if (!report_memory(run, &run->process[i], &m)) continue;
    heading(page, "Memory", NULL);
    memory_at(page, "at first", &m.first);
    if (m.lowest.t != m.first.t && m.lowest.t != m.last.t) memory_at(page, "least available", &m.lowest);
    if (m.last.t != m.first.t) memory_at(page, *m.last.split.why ? "just after the end" : "at last", &m.last);
  }
}

/* "1.2 s before: 121.6 GiB = ..."; empty where it is not known. */
static void memory_before(const struct process_finding *p, char *out, size_t size) {
  const struct split_at *at = &p->memory;
  size_t n = 0;
  out[0] = '\0';
  if (!at->t) return;
  if (p->f.t > at->t) n = (size_t)snprintf(out, size, "%.1f s before: ", (double)(p->f.t - at->t) / 1e6);
  split_line(&at->split, out + n, size - n);
}

/* ---- what was found -------------------------------------------------------------------------------------------------- */
static void finding(const struct page *page, const struct finding_ref *ref) {
  const struct finding *f = &ref->finding->f;
  char line[1024], who[128], at[64], details[512], memory[512];
  finding_line(f, ref->process->simulated, line, sizeof line);
  report_who(ref->process, who, sizeof who);
  report_time(f->t, at, sizeof at);
  snprintf(details, sizeof details, "%s; %s, %s; confidence %s%s", f->cause, who, at, confidence_word(f->confidence),
           f->retry == RETRY_USELESS    ? "; trying again is useless"
           : f->retry == RETRY_MAY_HELP ? "; trying again may help"
                                        : "");
  memory_before(ref->finding, memory, sizeof memory);
  page->style->finding(page->to, &(struct page_finding){f, line, details, memory[0] ? memory : NULL});
}

static void findings(const struct page *page, const struct runlog *run, const struct outcome *outcome) {
  struct finding_ref *refs;
  size_t n = runlog_findings(run, VERDICT_INFO, &refs);
  const struct process *first = report_first_failing(run);
  char who[128];
  if (!n && outcome->verdict == VERDICT_PASS) sentence(page, "Nothing was found.");
  for (size_t i = 0; i < n; i++) finding(page, &refs[page->style->findings_first ? n - 1 - i : i]);
  free(refs);
  if (n && page->style->gap && (first || outcome->unexplained.n)) page->style->gap(page->to);
  sentences(page, &outcome->unexplained);
  if (!first) return;
  report_who(first, who, sizeof who);
  heading(page, "First to fail", who);
}

static bool is_simulated(const struct runlog *run) {
  for (size_t i = 0; i < run->processes; i++)
    if (run->process[i].simulated) return true;
  return false;
}

static void circumstances(const struct page *page, const struct runlog *run, const struct outcome *outcome) {
  heading(page, "Log", run->path);
  if (is_simulated(run))
    heading(page, "Machine", "simulated: its memory and other processes are none of this machine's");
  jobs(page, run);
  processes(page, run);
  memory_over_time(page, run);
  reading_troubles(page, run);
  sentences(page, &outcome->remarks);
}

void report_page(const struct runlog *run, const struct outcome *outcome, const struct page_style *style, FILE *to) {
  const struct page page = {to, style};
  style->begin(to, run->id, outcome->verdict);
  if (style->findings_first) findings(&page, run, outcome);
  circumstances(&page, run, outcome);
  if (!style->findings_first) findings(&page, run, outcome);
  style->end(to);
}
