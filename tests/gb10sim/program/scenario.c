/* scenario.c - reads a scenario file into a world. The line format is described in docs/gb10sim.md.
 *
 * A scenario describes the world only. Unknown words are errors that name file and line, also in lines that
 * are to be applied later: each of those is tried on a copy of the world first.
 */
#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scenario.h"

enum { INCLUDE_DEPTH = 8, LINE = 1300 };

static int complain(const char *path, int line, const char *text) {
  fprintf(stderr, "%s:%d: %s\n", path, line, text);
  return -1;
}

static const char *const known_standins[] = {"cuda", "cudart13", "cudart12", "nvml", "cublas", "cublasLt", "nccl"};

static bool add_standin(struct scenario *out, const char *word) {
  for (unsigned i = 0; i < sizeof known_standins / sizeof known_standins[0]; i++) {
    if (strcmp(known_standins[i], word) || out->n_standins >= STANDINS_MAX) continue;
    strcpy(out->standin[out->n_standins++], word);
    return true;
  }
  return false;
}

/* "preload WORD..." or "preload none". */
static int preload(const struct words *in, struct scenario *out) {
  out->n_standins = 0;
  if (in->n == 2 && !strcmp(in->w[1], "none")) return 0;
  for (int i = 1; i < in->n; i++)
    if (!add_standin(out, in->w[i])) return -1;
  return in->n > 1 ? 0 : -1;
}

/* "runtime 13", "runtime 12", "runtime 13 12", "runtime none": the default set with these runtimes. */
static int runtime(const struct words *in, struct scenario *out) {
  static const char *const rest[] = {"cuda", "nvml", "cublas", "cublasLt", "nccl"};
  out->n_standins = 0;
  for (unsigned i = 0; i < sizeof rest / sizeof rest[0]; i++) add_standin(out, rest[i]);
  if (in->n == 2 && !strcmp(in->w[1], "none")) return 0;
  for (int i = 1; i < in->n; i++) {
    if (strcmp(in->w[i], "12") && strcmp(in->w[i], "13")) return -1;
    add_standin(out, in->w[i][1] == '2' ? "cudart12" : "cudart13");
  }
  return in->n > 1 ? 0 : -1;
}

static bool is_file(const char *path) {
  struct stat st;
  return !stat(path, &st) && !S_ISDIR(st.st_mode) && !access(path, R_OK);
}

/* A file of that name beside `from`, in $GB10SIM_SCENARIOS or among the base worlds; or the base world that is called so:
 * "idle" is gb10-idle.scn. */
static bool find_scenario(const char *from, const char *name, char *out, size_t size) {
  char copy[4096];
  const char *const extra = getenv("GB10SIM_SCENARIOS");
  if (name[0] == '/') return snprintf(out, size, "%s", name) > 0;
  snprintf(copy, sizeof copy, "%s", from);
  const struct {
    const char *folder, *before, *behind;
  } places[] = {{dirname(copy), "", ""},
                {extra ? extra : "", "", ""},
                {GB10SIM_BASE_DIR, "", ""},
                {GB10SIM_BASE_DIR, "", ".scn"},
                {GB10SIM_BASE_DIR, "gb10-", ".scn"}};
  for (unsigned i = 0; i < sizeof places / sizeof places[0]; i++) {
    if (!places[i].folder[0]) continue;
    snprintf(out, size, "%s/%s%s%s", places[i].folder, places[i].before, name, places[i].behind);
    if (is_file(out)) return true;
  }
  return false;
}

static int read_file(const char *path, struct world *w, struct scenario *out, int depth);

static int include(const char *path, int line, const struct words *in, struct world *w, struct scenario *out,
                   int depth) {
  char found[4096];
  if (in->n != 2) return complain(path, line, "include takes one file name");
  if (depth >= INCLUDE_DEPTH) return complain(path, line, "includes are nested too deeply");
  if (!find_scenario(path, in->w[1], found, sizeof found)) return complain(path, line, "no such file to include");
  return read_file(found, w, out, depth + 1);
}

/* A line for later is tried now, on a copy, so that its mistakes have a place. */
static int try_event(const struct world *w, const char *text, char *error, size_t size) {
  struct world *copy = malloc(sizeof *copy);
  if (!copy) return -1;
  memcpy(copy, w, sizeof *copy);
  memset(copy->job, 0, sizeof copy->job);
  int rc = world_setting_locked(copy, text, error, size);
  free(copy);
  return rc;
}

static int read_line(const char *path, int line, const char *text, struct world *w, struct scenario *out, int depth) {
  struct words in;
  char error[WORLD_TEXT] = "";
  if (words_split(&in, text) < 0) return complain(path, line, "too many words, or a quote without its end");
  if (!in.n) return 0;
  if (!strcmp(in.w[0], "include")) return include(path, line, &in, w, out, depth);
  if (!strcmp(in.w[0], "preload"))
    return preload(&in, out) ? complain(path, line, "preload takes names of stand-ins, or none") : 0;
  if (!strcmp(in.w[0], "runtime"))
    return runtime(&in, out) ? complain(path, line, "runtime takes 12, 13, both, or none") : 0;
  int before = w->n_events;
  if (world_setting_locked(w, text, error, sizeof error)) return complain(path, line, error);
  if (w->n_events > before && !w->event[before].ramp && try_event(w, w->event[before].text, error, sizeof error))
    return complain(path, line, error);
  return 0;
}

static int read_file(const char *path, struct world *w, struct scenario *out, int depth) {
  char text[LINE];
  FILE *f = fopen(path, "re");
  if (!f) {
    fprintf(stderr, "gb10sim: %s: %s\n", path, strerror(errno));
    return -1;
  }
  int rc = 0;
  for (int line = 1; !rc && fgets(text, sizeof text, f); line++) {
    size_t n = strlen(text);
    if (n && text[n - 1] == '\n')
      text[n - 1] = '\0';
    else if (!feof(f))
      rc = complain(path, line, "line too long");
    if (!rc) rc = read_line(path, line, text, w, out, depth);
  }
  fclose(f);
  return rc;
}

/* The names of the base worlds, for who has mistyped one. */
static void list_base(void) {
  struct dirent **entries;
  int n = scandir(GB10SIM_BASE_DIR, &entries, NULL, alphasort);
  fputs("gb10sim: base worlds:", stderr);
  for (int i = 0; i < n; i++) {
    const char *name = entries[i]->d_name;
    size_t length = strcspn(name, ".");
    if (length > 5 && !strncmp(name, "gb10-", 5)) fprintf(stderr, " %.*s", (int)length - 5, name + 5);
    free(entries[i]);
  }
  if (n >= 0) free(entries);
  fputc('\n', stderr);
}

int scenario_read(const char *name, struct world *w, struct scenario *out) {
  char path[4096];
  if (strchr(name, '/')) return read_file(name, w, out, 0);
  if (find_scenario("./", name, path, sizeof path)) return read_file(path, w, out, 0);
  fprintf(stderr, "gb10sim: %s: no such file, and no base world of that name\n", name);
  list_base();
  return -1;
}
