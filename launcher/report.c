/* report.c - `sparkshim report [RUN...] [--format text|json|md|html]`. */
#include "launcher.h"
#include "report.h"
#include "rundir.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { STATUS_UNREADABLE = 3 };

static void usage(FILE *to) {
  fputs("Usage: sparkshim report [RUN...] [--format text|json|md|html]\n\n"
        "Judges a run again by the facts in its logs. RUN is a run's name, the beginning of one, or the path of its\n"
        "folder or of one log; without it, the newest run. Several are taken as one run, such as the folders that two\n"
        "hosts kept.\n\n"
        "  -f, --format FORMAT  text (default): root cause last; json: one object, described in docs/report.md; md: a "
        "section\n"
        "                       to paste into an issue; html: a page in one file\n"
        "  -h, --help           this text\n\n"
        "Status: that of the findings, 0 nothing above INFO, 1 WARN, 2 FAIL; 3 no such run or nothing readable in it.\n"
        "A job that failed from a cause that sparkshim does not know has no finding: 0, and the verdict SKIP.\n",
        to);
}

static const char *environment(const char *name) { return getenv(name); }

/* Folders that match `name` (NULL: all) below <base>/runs: the newest one, and how many there are. An exact match
 * stands alone. */
struct match {
  char path[PATH_MAX];
  struct timespec changed;
  unsigned count;
  bool exact;
};

static void consider(struct match *m, const char *runs, const char *entry, const char *name) {
  char path[PATH_MAX];
  struct stat st;
  bool exact = name && !strcmp(entry, name);
  if (entry[0] == '.' || (name && strncmp(entry, name, strlen(name))) || (m->exact && !exact)) return;
  if (snprintf(path, sizeof path, "%s/%s", runs, entry) >= (int)sizeof path) return;
  if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode)) return;
  bool newer = st.st_mtim.tv_sec > m->changed.tv_sec ||
               (st.st_mtim.tv_sec == m->changed.tv_sec && st.st_mtim.tv_nsec > m->changed.tv_nsec);
  if (!m->count || newer || (exact && !m->exact)) {
    snprintf(m->path, sizeof m->path, "%s", path);
    m->changed = st.st_mtim;
  }
  m->count = exact ? 1 : m->count + 1;
  m->exact = exact;
}

static void search(struct match *m, const char *name) {
  for (int place = 0; place < RUNDIR_PLACES; place++) {
    char base[RUN_PATH], runs[RUN_PATH + 8];
    if (rundir_base(environment, (enum rundir_place)place, base, sizeof base) < 0) continue;
    snprintf(runs, sizeof runs, "%s/runs", base);
    DIR *dir = opendir(runs);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir))) consider(m, runs, entry->d_name, name);
    if (dir) closedir(dir);
  }
}

/* The path that `name` stands for. False, with a line said, when there is none or several. */
static bool find_run(const char *name, char path[PATH_MAX]) {
  struct match m = {.count = 0};
  struct stat st;
  if (name && (strchr(name, '/') || (!stat(name, &st) && S_ISREG(st.st_mode)))) {
    snprintf(path, PATH_MAX, "%s", name);
    return true;
  }
  search(&m, name);
  if (m.count == 1 || (m.count && !name)) {
    snprintf(path, PATH_MAX, "%s", m.path);
    return true;
  }
  if (m.count)
    say("%u runs begin with '%s'", m.count, name);
  else if (name)
    say("there is no run '%s'", name);
  else
    say("there is no run yet; `sparkrun CMD` makes one");
  return false;
}

static int read_run(struct runlog *run, const char *name) {
  char path[PATH_MAX];
  if (!find_run(name, path)) return -ENOENT;
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

int verb_report(int argc, char **argv) {
  static const struct option options[] = {
      {"format", required_argument, NULL, 'f'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
  struct runlog run = {0};
  const struct page_style *style = &page_text;
  int option, error = 0;
  optind = 1;
  while ((option = getopt_long(argc, argv, "f:h", options, NULL)) != -1) {
    if (option == 'h') {
      usage(stdout);
      return 0;
    }
    if (option != 'f' || !style_of(optarg, &style)) {
      usage(stderr);
      return STATUS_LAUNCHER_FAILED;
    }
  }
  if (optind == argc) error = read_run(&run, NULL);
  for (int i = optind; i < argc && !error; i++) error = read_run(&run, argv[i]);
  if (error) {
    runlog_free(&run);
    return STATUS_UNREADABLE;
  }
  runlog_finish(&run);
  int status = print(&run, style);
  runlog_free(&run);
  return status;
}
