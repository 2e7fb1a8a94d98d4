/* report_summary.c - what `sparkshim run` says when the job has ended. */
#include "report.h"
#include "clock.h"
#include "launcher.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Its process put the line on this file. */
static bool was_shown(const struct finding_ref *ref, const char *file) {
  return *ref->finding->shown && !strcmp(ref->finding->shown, file);
}

/* It did so when it ended, and that was just now: nothing much can stand behind it. */
static bool stands_there(const struct finding_ref *ref, const char *file) {
  enum { JUST_NOW_US = 10 * 1000 * 1000 };
  return was_shown(ref, file) && ref->finding->shown_at_exit && clock_us() - ref->process->end_t <= JUST_NOW_US;
}

/* The root cause comes last. Where it stands there already, only what nobody has shown is said, and it again behind that. */
static void say_findings(const struct finding_ref *refs, size_t n, const char *file) {
  const bool root_stands = stands_there(&refs[n - 1], file);
  bool said = false;
  for (size_t i = 0; i < n; i++) {
    char line[1024];
    bool is_root = i + 1 == n;
    if (is_root ? root_stands && !said : root_stands ? was_shown(&refs[i], file) : stands_there(&refs[i], file))
      continue;
    finding_line(&refs[i].finding->f, refs[i].process->simulated, line, sizeof line);
    put_line(line);
    said = true;
  }
}

void report_summary(const struct runlog *run) {
  struct finding_ref *refs;
  struct stat st;
  char command[REPORT_COMMAND], file[FINDING_SHOWN] = "";
  size_t n = runlog_findings(run, VERDICT_WARN, &refs);
  if (!fstat(STDERR_FILENO, &st)) snprintf(file, sizeof file, "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
  if (n) say_findings(refs, n, file);
  free(refs);
  if (!n) return;
  report_command(run, command);
  put_line(command);
}
