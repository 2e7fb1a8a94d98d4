/* report.c - `sparkshim report [RUN...] [--format text|json|md|html]`, `sparkshim report --list`. */
#include "launcher.h"
#include "report.h"
#include "runs.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { STATUS_UNREADABLE = 3 };

static void usage(FILE *to) {
  fputs(
      "Usage: sparkshim report [RUN...] [--format text|json|md|html]\n"
      "       sparkshim report --list [--format text|json]\n\n"
      "Judges a run again by the facts in its logs. RUN is a run's name, the beginning of one, or the path of its\n"
      "folder or of one log; without it, the newest run of which a process was watched. Several are taken as one run,\n"
      "such as the folders that two hosts kept.\n\n"
      "  -f, --format FORMAT  text (default): root cause last; json: one object, described in docs/report.md; md: a "
      "section\n"
      "                       to paste into an issue; html: a page in one file\n"
      "  -l, --list           the runs there are, newest first: when, verdict, how it ended, command (text or json)\n"
      "  -h, --help           this text\n\n"
      "Status: that of the findings, 0 nothing above INFO, 1 WARN, 2 FAIL; 3 no such run or nothing readable in it.\n"
      "A job that failed from a cause that sparkshim does not know has no finding: 0, and the verdict SKIP.\n",
      to);
}

static int read_run(struct runlog *run, const char *name) {
  char path[PATH_MAX];
  if (!runs_find(name, path)) return -ENOENT;
  int error = runlog_read(run, path);
  if (error) say("cannot read %s: %s", path, strerror(-error));
  return error;
}

static int status_of(const struct outcome *outcome) {
  switch (outcome->verdict) {
  case VERDICT_FAIL: return 2;
  case VERDICT_WARN: return 1;
  default: return 0;
  }
}

/* NULL for JSON. False: there is no such format. */
static bool style_of(const char *format, const struct page_style **ret) {
  static const struct {
    const char *name;
    const struct page_style *style;
  } formats[] = {{"text", &page_text}, {"json", NULL}, {"md", &page_markdown}, {"html", &page_html}};
  for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
    if (strcmp(format, formats[i].name)) continue;
    *ret = formats[i].style;
    return true;
  }
  return false;
}

static int print(const struct runlog *run, const struct page_style *style) {
  struct outcome outcome;
  outcome_of(run, &outcome);
  if (style)
    report_page(run, &outcome, style, stdout);
  else if (report_json(run, &outcome, stdout))
    return STATUS_UNREADABLE;
  if (fflush(stdout) == EOF) {
    say("cannot write the report: %s", strerror(errno));
    return STATUS_UNREADABLE;
  }
  if (!run->records) {
    say("nothing readable in %s", run->path);
    return STATUS_UNREADABLE;
  }
  return status_of(&outcome);
}

static int report(char **names, int n, const struct page_style *style) {
  struct runlog run = {0};
  int error = n ? 0 : read_run(&run, NULL), status = STATUS_UNREADABLE;
  for (int i = 0; i < n && !error; i++) error = read_run(&run, names[i]);
  if (!error) {
    runlog_finish(&run);
    status = print(&run, style);
  }
  runlog_free(&run);
  return status;
}

int verb_report(int argc, char **argv) {
  static const struct option options[] = {{"format", required_argument, NULL, 'f'},
                                          {"list", no_argument, NULL, 'l'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  const struct page_style *style = &page_text;
  bool list = false;
  int option;
  optind = 1;
  while ((option = getopt_long(argc, argv, "f:lh", options, NULL)) != -1) {
    if (option == 'h') {
      usage(stdout);
      return 0;
    }
    list = list || option == 'l';
    if (option != 'l' && (option != 'f' || !style_of(optarg, &style))) {
      usage(stderr);
      return STATUS_LAUNCHER_FAILED;
    }
  }
  if (!list) return report(argv + optind, argc - optind, style);
  if (optind < argc || (style && style != &page_text)) {
    usage(stderr);
    return STATUS_LAUNCHER_FAILED;
  }
  return report_list(!style) ? STATUS_UNREADABLE : 0;
}
