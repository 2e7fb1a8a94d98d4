/* follow.c - see follow.h. */
#include "follow.h"
#include "procstat.h"
#include "rundir.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 256 << 10 };

/* ---- finding ------------------------------------------------------------------------------------------------------- */

/* Pid and start out of "<host>-<pid>-<start>.ndjson" or "<host>-<pid>-<start>-<n>.ndjson". False: it is no log of this
 * host. */
static bool read_name(const char *name, const char *host, int *ret_pid, uint64_t *ret_start) {
  size_t n = strlen(host);
  int pid, used = 0;
  unsigned long long start;
  if (strncmp(name, host, n) || name[n] != '-') return false;
  if (sscanf(name + n, "-%d-%llu%n", &pid, &start, &used) < 2 || !used) return false;
  const char *rest = name + n + used;
  if (*rest == '-') rest += 1 + strspn(rest + 1, "0123456789");
  if (strcmp(rest, ".ndjson")) return false;
  *ret_pid = pid;
  *ret_start = start;
  return true;
}

static bool is_followed(const struct follows *f, const char *path) {
  for (size_t i = 0; i < FOLLOW_MAX; i++)
    if (f->one[i].log && !strcmp(f->one[i].log, path)) return true;
  return false;
}

static struct followed *free_place(struct follows *f) {
  for (size_t i = 0; i < FOLLOW_MAX; i++)
    if (!f->one[i].log) return &f->one[i];
  return NULL;
}

static bool has_changed(struct follows *f) {
  struct stat st;
  if (stat(f->dir, &st) < 0) return false;
  bool changed = st.st_mtim.tv_sec != f->changed.tv_sec || st.st_mtim.tv_nsec != f->changed.tv_nsec;
  f->changed = st.st_mtim;
  return changed;
}

bool follow_find(struct follows *f, const struct jobtree *tree, bool anyway, void (*news)(struct followed *one)) {
  char host[RUN_HOST], path[PATH_MAX];
  const struct dirent *entry;
  bool strangers = false;
  if (!has_changed(f) && !anyway) return false;
  DIR *dir = opendir(f->dir);
  rundir_host(host);
  while (dir && (entry = readdir(dir))) {
    struct followed one = {0}, *place;
    if (!read_name(entry->d_name, host, &one.pid, &one.start)) continue;
    bool ours = jobtree_has(tree, one.pid, one.start) || (f->since && one.start >= f->since);
    if (snprintf(path, sizeof path, "%s/%s", f->dir, entry->d_name) >= (int)sizeof path) continue;
    strangers = strangers || !ours;
    if (!ours || is_followed(f, path) || !(place = free_place(f)) || !(one.log = strdup(path))) continue;
    *place = one;
    news(place);
  }
  if (dir) closedir(dir);
  return strangers;
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */
static void note_ring(struct followed *one, const struct fact_header *h) {
  free(one->ring);
  one->ring = NULL;
  if (!h->ring) return;
  const char *slash = strrchr(one->log, '/');
  if (*h->ring == '/')
    one->ring = strdup(h->ring);
  else if (asprintf(&one->ring, "%.*s/%s", (int)(slash - one->log), one->log, h->ring) < 0)
    one->ring = NULL;
}

static void read_one(struct followed *one, char *piece,
                     void (*take)(struct followed *one, const struct record *record)) {
  int file = open(one->log, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW);
  ssize_t n = file < 0 ? -1 : pread(file, piece, PIECE, one->at);
  if (file >= 0) close(file);
  char *at = piece, *end = piece + (n > 0 ? n : 0), *newline;
  while ((newline = memchr(at, '\n', (size_t)(end - at)))) {
    struct record record;
    record_read(at, (size_t)(newline - at), &record);
    if (record.kind == RECORD_FACT && record.fact.kind == FACT_KIND_header) note_ring(one, &record.fact.u.header);
    take(one, &record);
    at = newline + 1;
  }
  if (at == piece && n == PIECE) at = end; /* no record is that long */
  one->at += at - piece;
}

void follow_read(struct follows *f, void (*take)(struct followed *one, const struct record *record)) {
  static char piece[PIECE + 1];
  struct stat st;
  for (size_t i = 0; i < FOLLOW_MAX; i++)
    if (f->one[i].log && stat(f->one[i].log, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > f->one[i].at)
      read_one(&f->one[i], piece, take);
}

bool follow_lives(const struct followed *one) {
  struct procstat now;
  return procstat_read(one->pid, &now) == 0 && now.start == one->start;
}

void follow_drop(struct followed *one) {
  free(one->log);
  free(one->ring);
  *one = (struct followed){0};
}
