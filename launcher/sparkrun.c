/* sparkrun.c - `sparkrun` is a dispatcher.
 *
 * A widely used public tool, which starts inference containers from recipes, is called sparkrun as well.
 * Whoever has both must not lose it: its verbs and its shell completion go to the next `sparkrun` on PATH.
 * Every other first word is a program to run under the shim; a word with a slash, or behind `--`, always is.
 * Source of the verbs: that tool's command tables, releases 0.1 to 0.3.9 (github.com/spark-arena/sparkrun,
 * src/sparkrun/cli/__init__.py).
 */
#include "launcher.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const public_verbs[] = {
    "adv",    "agent",    "arena", "benchmark", "build", "cluster", "export", "list", "logs", "model-cache", "proxy",
    "recipe", "registry", "run",   "search",    "setup", "show",    "status", "stop", "tune", "update",
};

/* Identities of the copies of ours that have already handed this call on, "<dev:ino>" each. A wrapper that
 * comes back here for ever is noticed by the length of the list. */
#define HANDED_ON "SPARKSHIM_HANDED_ON"
enum { HANDED_ON_MOST = 16 };

static void usage(FILE *to) {
  fputs("Usage: sparkrun CMD [ARGUMENT...]\n"
        "       sparkrun -- CMD [ARGUMENT...]\n\n"
        "Runs CMD under sparkshim, as `sparkshim run -- CMD` does (which has options: `sparkshim run --help`).\n"
        "CMD with a slash, or behind `--`, is always a program.\n\n"
        "This is not the recipe launcher of the same name. Its verbs are handed to the next `sparkrun` on PATH:\n ",
        to);
  for (size_t i = 0; i < sizeof public_verbs / sizeof public_verbs[0]; i++) fprintf(to, " %s", public_verbs[i]);
  fputc('\n', to);
}

static bool is_public_verb(const char *word) {
  for (size_t i = 0; i < sizeof public_verbs / sizeof public_verbs[0]; i++)
    if (!strcmp(word, public_verbs[i])) return true;
  return false;
}

static bool format_identity(const char *path, char *out, size_t size) {
  struct stat st;
  if (stat(path, &st) < 0 || !S_ISREG(st.st_mode)) return false;
  snprintf(out, size, "<%lx:%lx>", (unsigned long)st.st_dev, (unsigned long)st.st_ino);
  return true;
}

/* The first executable `sparkrun` on PATH that is none of ours; false when there is none. */
static bool find_other(const char *ours, char *out, size_t size) {
  const char *path = getenv("PATH");
  while (path && *path) {
    size_t n = strcspn(path, ":");
    char identity[64];
    int len = snprintf(out, size, "%.*s/sparkrun", n ? (int)n : 1, n ? path : ".");
    bool fits = len > 0 && (size_t)len < size;
    if (fits && !access(out, X_OK) && format_identity(out, identity, sizeof identity) && !strstr(ours, identity))
      return true;
    path += n;
    if (*path == ':') path++;
  }
  return false;
}

static int list_length(const char *list) {
  int n = 0;
  for (; *list; list++) n += *list == '>';
  return n;
}

/* Replaces this process by the other tool. Returns false when there is none, and does not return otherwise. */
static bool hand_on(char **argv) {
  char ours[2048], self[64], other[PATH_MAX];
  const char *before = getenv(HANDED_ON);
  if (!format_identity("/proc/self/exe", self, sizeof self)) return false;
  int n = snprintf(ours, sizeof ours, "%s%s", before ? before : "", self);
  if (n >= (int)sizeof ours || list_length(ours) > HANDED_ON_MOST) {
    say("`sparkrun %s` comes back here again and again: which sparkrun stands behind this one on PATH?", argv[1]);
    exit(STATUS_LAUNCHER_FAILED);
  }
  if (!find_other(ours, other, sizeof other)) return false;
  setenv(HANDED_ON, ours, 1);
  execv(other, argv);
  say("cannot start %s: %s", other, strerror(errno));
  exit(STATUS_CANNOT_RUN);
}

static int no_other(const char *verb) {
  say("`%s` is a verb of another tool called sparkrun, and no other sparkrun is on PATH. To run a program of that "
      "name under sparkshim: `sparkrun ./%s`, or `sparkshim run -- %s`",
      verb, verb, verb);
  return STATUS_NOT_FOUND;
}

int sparkrun_main(int argc, char **argv) {
  if (getenv("_SPARKRUN_COMPLETE")) { /* a shell's completion call: silent where there is nothing to ask */
    hand_on(argv);
    return STATUS_NOT_FOUND;
  }
  if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
    usage(stdout);
    return 0;
  }
  if (argv[1][0] == '-' && strcmp(argv[1], "--")) {
    usage(stderr);
    return STATUS_LAUNCHER_FAILED;
  }
  if (is_public_verb(argv[1])) {
    hand_on(argv);
    return no_other(argv[1]);
  }
  return verb_run(argc, argv);
}
