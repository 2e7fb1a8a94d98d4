/* prune.c - see prune.h. */
#include "prune.h"
#include "rundir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A run with files of another host, of which we cannot tell what lives there, stays this long after its last
 * change. */
enum { OTHER_HOST_DAYS = 7, DAY_S = 86400 };

struct old_run {
  char name[RUN_ID];
  struct timespec changed;
  uint64_t bytes;
  bool live;
};

static void limits(unsigned long *ret_runs, uint64_t *ret_bytes) {
  const char *keep = getenv("SPARKSHIM_KEEP");
  *ret_runs = 50;
  *ret_bytes = (uint64_t)1 << 30;
  if (!keep || !*keep) return;
  if (!strcmp(keep, "all")) {
    *ret_runs = (unsigned long)-1;
    *ret_bytes = UINT64_MAX;
    return;
  }
  char *end;
  unsigned long runs = strtoul(keep, &end, 10);
  if (end == keep) return;
  *ret_runs = runs;
  if (*end == ':') *ret_bytes = (uint64_t)strtoul(end + 1, NULL, 10) << 20;
}

/* Whether the process that writes "[launcher-]<host>-<pid>..." may be alive. */
static bool may_be_alive(const char *name, time_t changed) {
  char host[RUN_HOST];
  rundir_host(host);
  size_t length = strlen(host);
  if (!strncmp(name, "launcher-", 9)) name += 9;
  if (strncmp(name, host, length) || name[length] != '-') return time(NULL) - changed < (time_t)OTHER_HOST_DAYS * DAY_S;
  long pid = strtol(name + length + 1, NULL, 10);
  return pid > 0 && (!kill((pid_t)pid, 0) || errno == EPERM);
}

static bool is_before(struct timespec a, struct timespec b) {
  return a.tv_sec < b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec < b.tv_nsec);
}

/* Sizes and liveness of one run's folder. False when it is not one. */
static bool look_at(int runs, const char *name, struct old_run *run) {
  struct stat st;
  int fd = openat(runs, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR *dir = fd < 0 ? NULL : fdopendir(fd);
  if (!dir) {
    if (fd >= 0) close(fd);
    return false;
  }
  memset(run, 0, sizeof *run);
  snprintf(run->name, sizeof run->name, "%s", name);
  const struct dirent *entry;
  if (!fstat(fd, &st)) run->changed = st.st_mtim;
  while ((entry = readdir(dir))) {
    if (entry->d_name[0] == '.' || fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) continue;
    run->bytes += (uint64_t)st.st_blocks * 512;
    if (is_before(run->changed, st.st_mtim)) run->changed = st.st_mtim;
    run->live = run->live || may_be_alive(entry->d_name, st.st_mtime);
  }
  closedir(dir);
  return true;
}

static void remove_run(int runs, const char *name) {
  int fd = openat(runs, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR *dir = fd < 0 ? NULL : fdopendir(fd);
  const struct dirent *entry;
  if (!dir) {
    if (fd >= 0) close(fd);
    return;
  }
  while ((entry = readdir(dir)))
    if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) unlinkat(fd, entry->d_name, 0);
  closedir(dir);
  unlinkat(runs, name, AT_REMOVEDIR);
}

void prune_remove(const char *runs, const char *name) {
  int fd = open(runs, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  remove_run(fd, name);
  close(fd);
}

static int oldest_first(const void *a, const void *b) {
  const struct old_run *x = a, *y = b;
  return is_before(x->changed, y->changed) ? -1 : is_before(y->changed, x->changed);
}

static size_t list_runs(int fd, struct old_run **ret) {
  struct old_run *list = NULL;
  size_t n = 0, room = 0;
  DIR *dir = fdopendir(dup(fd));
  const struct dirent *entry;
  while (dir && (entry = readdir(dir))) {
    if (entry->d_name[0] == '.' || strlen(entry->d_name) >= RUN_ID) continue;
    if (n == room) {
      struct old_run *bigger = realloc(list, (room ? 2 * room : 64) * sizeof *list);
      if (!bigger) break;
      list = bigger;
      room = room ? 2 * room : 64;
    }
    n += look_at(fd, entry->d_name, &list[n]);
  }
  if (dir) closedir(dir);
  if (n) qsort(list, n, sizeof *list, oldest_first);
  *ret = list;
  return n;
}

void prune_runs(const char *runs, const char *except) {
  struct old_run *list = NULL;
  unsigned long keep;
  uint64_t keep_bytes, bytes = 0;
  int fd = open(runs, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  limits(&keep, &keep_bytes);
  size_t n = list_runs(fd, &list), left = n;
  for (size_t i = 0; i < n; i++) bytes += list[i].bytes;
  for (size_t i = 0; i < n && (left > keep || bytes > keep_bytes); i++) {
    if (list[i].live || !strcmp(list[i].name, except)) continue;
    remove_run(fd, list[i].name);
    left--;
    bytes -= list[i].bytes;
  }
  free(list);
  close(fd);
}
