/* report_text.c - a run for people. They read tails: the root cause and what to do come last. */
#include "report.h"
#include "clock.h"
#include "launcher.h"
#include "plain.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PROCESSES_SHOWN = 64 };

static void print_size(FILE *to, uint64_t bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = (double)bytes;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < sizeof units / sizeof units[0]) value /= 1024, unit++;
  fprintf(to, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

static void print_count(FILE *to, const char *label, uint64_t n) {
  if (n != FACT_NO_U64 && n) fprintf(to, ", %llu %s", (unsigned long long)n, label);
}

static void print_allocations(FILE *to, const struct process *p) {
  for (size_t i = 0; i < p->allocations; i++) {
    const struct allocation_row *row = &p->allocation[i];
    fprintf(to, "      %-8s", shown(row->route));
    if (row->peak != FACT_NO_U64) fputs(" at most ", to), print_size(to, row->peak);
    if (row->live != FACT_NO_U64) fputs(", at the last count ", to), print_size(to, row->live);
    print_count(to, "granted", row->count);
    print_count(to, "freed", row->frees);
    print_count(to, "refused", row->failed);
    print_count(to, "not followed", row->untracked);
    fputc('\n', to);
  }
}

static void print_jobs(FILE *to, const struct runlog *run) {
  for (size_t i = 0; i < run->jobs; i++) {
    const struct job_record *job = &run->job[i];
    char from[64], until[64];
    report_time(job->start, from, sizeof from);
    report_time(job->end, until, sizeof until);
    fprintf(to, "Job: %s\n", job->argv ? shown(job->argv) : "(command not recorded)");
    if (job->started)
      fprintf(to, "  started %s on %s, pid %llu\n", from, job->host ? shown(job->host) : "?",
              (unsigned long long)job->pid);
    if (!job->ended)
      fputs("  no record of its end: it is running, or the machine or the launcher went down\n", to);
    else if (job->signal != FACT_NO_I64)
      fprintf(to, "  ended %s, killed by signal %lld (%s)%s\n", until, (long long)job->signal,
              strsignal((int)job->signal), job->core ? ", core written" : "");
    else
      fprintf(to, "  ended %s, status %lld\n", until, (long long)job->exit);
  }
}

/* Of a process that could not tell of its end: what the ring still knows. */
static void print_last_call(FILE *to, const struct process *p) {
  char at[64];
  if (p->end == END_EXIT || !p->last_call[0] || p->last_activity == FACT_NO_U64) return;
  report_time(p->last_activity, at, sizeof at);
  fprintf(to, "      last call that did its work: %s, %s\n", shown(p->last_call), at);
}

static void print_process(FILE *to, const struct process *p) {
  char who[128], end[128];
  report_who(p, who, sizeof who);
  report_end(p, end, sizeof end);
  fprintf(to, "  %s: %s; %s\n", who, end, shown(p->argv ? p->argv : p->exe ? p->exe : "(command not recorded)"));
  print_allocations(to, p);
  print_last_call(to, p);
  if (p->bad) fprintf(to, "      %lu unreadable lines in its log\n", p->bad);
  for (size_t i = 0; i < p->differences; i++) {
    const struct difference *d = &p->difference[i];
    fprintf(to, "      differs: G%u %s (%s) was %s live, and is %s by the facts in the log\n", d->g, shown(d->cause),
            shown(d->object), d->logged < 0 ? "not said" : verdict_word((enum verdict)d->logged),
            d->derived < 0 ? "not found" : verdict_word((enum verdict)d->derived));
  }
}

static void print_processes(FILE *to, const struct runlog *run) {
  size_t listed = 0, more = 0;
  for (size_t i = 0; i < run->processes; i++) {
    const struct process *p = &run->process[i];
    if (!outcome_is_watched(p)) continue;
    if (listed == 0) fputs("Processes watched:\n", to);
    if (listed++ < PROCESSES_SHOWN || p->findings || p->differences)
      print_process(to, p);
    else
      more++;
  }
  if (more) fprintf(to, "  and %zu more without a finding\n", more);
  if (!listed)
    fputs(
        "No process of this run was watched: none touched CUDA, or sparkshim was kept out of it (static, set-user-id,\n"
        "in a container, SPARKSHIM_SKIP); `sparkshim doctor -- CMD` looks into it.\n",
        to);
}

static void print_list(FILE *to, const char *label, const struct finding_list *list) {
  for (unsigned i = 0; i < list->n && i < FINDING_ITEMS; i++) {
    char item[FINDING_ITEM + 1];
    plain_text(list->item[i], FINDING_ITEM, item, sizeof item);
    fprintf(to, "    %-9s %s\n", i ? "" : label, item);
  }
}

static void print_finding(FILE *to, const struct finding_ref *ref) {
  const struct finding *f = &ref->finding->f;
  char line[1024], who[128], at[64];
  finding_line(f, ref->process->simulated, line, sizeof line);
  report_who(ref->process, who, sizeof who);
  report_time(f->t, at, sizeof at);
  fprintf(to, "\n%s\n    %s; %s, %s; confidence %s%s\n", line, f->cause, who, at, confidence_word(f->confidence),
          f->retry == RETRY_USELESS    ? "; trying again is useless"
          : f->retry == RETRY_MAY_HELP ? "; trying again may help"
                                       : "");
  print_list(to, "seen:", &f->evidence);
  print_list(to, "not:", &f->ruled_out);
  print_list(to, "do:", &f->fixes);
}

static void print_reading_troubles(FILE *to, const struct runlog *run) {
  if (run->unreadable) fprintf(to, "%lu of %lu log files could not be opened.\n", run->unreadable, run->files);
  if (run->bad) fprintf(to, "%lu lines could not be read (torn or foreign writing); the rest is judged.\n", run->bad);
  if (run->foreign) fprintf(to, "%lu records are of a newer version and were skipped.\n", run->foreign);
}

static void print_sentences(FILE *to, const struct outcome_lines *lines) {
  size_t n = lines->n < OUTCOME_LINES ? lines->n : OUTCOME_LINES;
  for (size_t i = 0; i < n; i++) fprintf(to, "%s.\n", shown(lines->line[i]));
  if (lines->n > n) fprintf(to, "And so for %zu more.\n", lines->n - n);
}

void report_text(const struct runlog *run, const struct outcome *outcome, FILE *to) {
  struct finding_ref *refs;
  size_t n = runlog_findings(run, VERDICT_INFO, &refs);
  char who[128];
  fprintf(to, "Run %s: %s\n", shown(run->id), verdict_word(outcome->verdict));
  fprintf(to, "Log: %s\n", shown(run->path));
  print_jobs(to, run);
  print_processes(to, run);
  print_reading_troubles(to, run);
  print_sentences(to, &outcome->remarks);
  if (!n && outcome->verdict == VERDICT_PASS) fputs("Nothing was found.\n", to);
  for (size_t i = 0; i < n; i++) print_finding(to, &refs[i]);
  if (n && outcome->unexplained.n) fputc('\n', to);
  print_sentences(to, &outcome->unexplained);
  free(refs);
  const struct process *first = report_first_failing(run);
  if (!first) return;
  report_who(first, who, sizeof who);
  fprintf(to, "\nFirst to fail: %s\n", who);
}

/* Its process put the line on this file when it ended, and that was just now: nothing much can stand behind it. */
static bool stands_there(const struct finding_ref *ref, const char *file) {
  enum { JUST_NOW_US = 10 * 1000 * 1000 };
  return *ref->finding->shown && !strcmp(ref->finding->shown, file) && clock_us() - ref->process->end_t <= JUST_NOW_US;
}

void report_summary(const struct runlog *run) {
  struct finding_ref *refs;
  struct stat st;
  char line[1024], command[REPORT_COMMAND], file[FINDING_SHOWN] = "";
  size_t n = runlog_findings(run, VERDICT_WARN, &refs);
  if (!fstat(STDERR_FILENO, &st)) snprintf(file, sizeof file, "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
  for (size_t i = 0; i < n; i++) {
    if (stands_there(&refs[i], file)) continue;
    finding_line(&refs[i].finding->f, refs[i].process->simulated, line, sizeof line);
    put_line(line);
  }
  free(refs);
  if (!n) return;
  report_command(run, command);
  put_line(command);
}
