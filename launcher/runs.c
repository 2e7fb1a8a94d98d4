/* runs.c - see runs.h. */
#include "runs.h"
#include "launcher.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *environment(const char *name) { return getenv(name); }

/* Whoever sets SPARKSHIM_DIR wants to see what is there, and no more. A folder that cannot be written made the logs go to the
 * temporary one; a folder that is not there will be made by the first run. */
static bool is_elsewhere(const char *dir) {
  char base[RUN_PATH];
  if (!dir || !*dir || rundir_base(environment, RUNDIR_STATE, base, sizeof base) < 0) return true;
  return access(base, W_OK | X_OK) < 0 && errno != ENOENT;
}

/* In a folder that everybody may write to, only a folder of our own is ours. */
static bool is_own(const char *base) {
  struct stat st;
  return !lstat(base, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

bool runs_place(enum rundir_place place, char *path, size_t size) {
  if (place == RUNDIR_TEMPORARY && !is_elsewhere(getenv("SPARKSHIM_DIR"))) return false;
  if (rundir_base(environment, place, path, size) < 0) return false;
  if (place == RUNDIR_TEMPORARY && !is_own(path)) return false;
  size_t at = strlen(path);
  return snprintf(path + at, size - at, "/runs") < (int)(size - at);
}

static bool is_log_of_a_process(const char *name) {
  size_t n = strlen(name);
  return n > 7 && !strcmp(name + n - 7, ".ndjson") && strncmp(name, "launcher-", 9);
}

/* False when it is no folder. */
static bool look_at(const char *path, struct run_entry *run) {
  struct stat st;
  const struct dirent *entry;
  DIR *dir = opendir(path);
  if (!dir) return false;
  bool known = !fstat(dirfd(dir), &st);
  while ((entry = readdir(dir)) && !run->watched) run->watched = is_log_of_a_process(entry->d_name);
  closedir(dir);
  if (!known || !(run->path = strdup(path))) return false;
  run->id = strrchr(run->path, '/') + 1;
  run->changed = st.st_mtim;
  return true;
}

/* Adds the runs of one place to the n of *list. Without memory the list is shorter. */
static size_t add_place(const char *runs, struct run_entry **list, size_t n) {
  const struct dirent *entry;
  DIR *dir = opendir(runs);
  while (dir && (entry = readdir(dir))) {
    char path[PATH_MAX];
    if (entry->d_name[0] == '.') continue;
    if (snprintf(path, sizeof path, "%s/%s", runs, entry->d_name) >= (int)sizeof path) continue;
    struct run_entry *bigger = n & (n - 1) ? *list : realloc(*list, (n ? 2 * n : 1) * sizeof **list);
    if (!bigger) break;
    *list = bigger;
    bigger[n] = (struct run_entry){.path = NULL};
    n += look_at(path, &bigger[n]);
  }
  if (dir) closedir(dir);
  return n;
}

static int newest_first(const void *a, const void *b) {
  const struct run_entry *x = a, *y = b;
  if (x->changed.tv_sec != y->changed.tv_sec) return x->changed.tv_sec > y->changed.tv_sec ? -1 : 1;
  if (x->changed.tv_nsec != y->changed.tv_nsec) return x->changed.tv_nsec > y->changed.tv_nsec ? -1 : 1;
  return strcmp(y->path, x->path);
}

size_t runs_list(struct run_entry **ret) {
  size_t n = 0;
  *ret = NULL;
  for (int place = 0; place < RUNDIR_PLACES; place++) {
    char runs[RUN_PATH + 8];
    if (runs_place((enum rundir_place)place, runs, sizeof runs)) n = add_place(runs, ret, n);
  }
  if (n) qsort(*ret, n, sizeof **ret, newest_first);
  return n;
}

void runs_free(struct run_entry *list, size_t n) {
  for (size_t i = 0; i < n; i++) free(list[i].path);
  free(list);
}

static const struct run_entry *latest(const struct run_entry *list, size_t n) {
  size_t i = 0;
  while (i < n && !list[i].watched) i++;
  if (i == n) return n ? list : NULL;
  if (i) say("run %s is newer, but no process of it was watched", shown(list[0].id));
  return &list[i];
}

/* One that is called so, else the only one that begins so. */
static const struct run_entry *named(const struct run_entry *list, size_t n, const char *name) {
  const struct run_entry *found = NULL;
  unsigned many = 0;
  for (size_t i = 0; i < n; i++) {
    if (!strcmp(list[i].id, name)) return &list[i];
    if (strncmp(list[i].id, name, strlen(name))) continue;
    found = &list[i];
    many++;
  }
  if (many > 1) say("%u runs begin with '%s'; `sparkshim report --list` shows them", many, shown(name));
  if (!many) say("there is no run '%s'; `sparkshim report --list` shows those there are", shown(name));
  return many == 1 ? found : NULL;
}

void runs_say_none(void) {
  char runs[RUN_PATH + 8];
  if (runs_place(RUNDIR_STATE, runs, sizeof runs))
    say("there is no run below %s yet; `sparkrun CMD` makes one", shown(runs));
  else
    say("there is no run yet; `sparkrun CMD` makes one");
}

bool runs_find(const char *name, char path[PATH_MAX]) {
  struct run_entry *list;
  struct stat st;
  if (name && (strchr(name, '/') || (!stat(name, &st) && S_ISREG(st.st_mode)))) {
    snprintf(path, PATH_MAX, "%s", name);
    return true;
  }
  size_t n = runs_list(&list);
  const struct run_entry *run = name ? named(list, n, name) : latest(list, n);
  if (run) snprintf(path, PATH_MAX, "%s", run->path);
  if (!n && !name) runs_say_none();
  runs_free(list, n);
  return run != NULL;
}
