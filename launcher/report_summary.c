/* report_summary.c - what `sparkshim run` says when the job has ended. */
#include "report.h"
#include "clock.h"
#include "launcher.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
