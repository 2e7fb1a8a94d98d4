/* jobtree.c - see jobtree.h. */
#include "jobtree.h"
#include "procstat.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

struct seen {
  int pid, ppid;
  uint64_t start;
  bool ours;
};

struct seen_list {
  struct seen *at;
  size_t n;
};

static bool add(struct seen_list *list, const struct seen *one) {
  if (!(list->n & (list->n - 1))) { /* grown at each power of two */
    struct seen *bigger = realloc(list->at, (list->n ? 2 * list->n : 1) * sizeof *bigger);
    if (!bigger) return false;
    list->at = bigger;
  }
  list->at[list->n++] = *one;
  return true;
}

bool jobtree_has(const struct jobtree *tree, int pid, uint64_t start) {
  for (size_t i = 0; i < tree->n; i++)
    if (tree->pid[i] == pid && tree->start[i] == start) return true;
  return false;
}

/* All processes that /proc shows, in order of their ids. */
static bool look_around(const struct jobtree *tree, struct seen_list *list) {
  DIR *proc = opendir("/proc");
  const struct dirent *entry;
  bool good = proc != NULL;
  while (good && (entry = readdir(proc))) {
    struct seen one = {.pid = atoi(entry->d_name)};
    struct procstat stat;
    if (one.pid <= 0 || procstat_read(one.pid, &stat) < 0) continue;
    one.ppid = stat.ppid;
    one.start = stat.start;
    one.ours = one.pid == tree->job || jobtree_has(tree, one.pid, one.start);
    good = add(list, &one);
  }
  if (proc) closedir(proc);
  return good;
}

static int by_pid(const void *a, const void *b) {
  int x = ((const struct seen *)a)->pid, y = ((const struct seen *)b)->pid;
  return x < y ? -1 : x > y;
}

/* Children become ours until there are no more of them: as many rounds as the tree is deep, mostly two or three. */
static void mark_descendants(struct seen_list *list) {
  bool more = true;
  if (!list->n) return;
  qsort(list->at, list->n, sizeof *list->at, by_pid);
  while (more) {
    more = false;
    for (size_t i = 0; i < list->n; i++) {
      struct seen parent = {.pid = list->at[i].ppid};
      if (list->at[i].ours || !parent.pid) continue;
      const struct seen *p = bsearch(&parent, list->at, list->n, sizeof parent, by_pid);
      if (p && p->ours) list->at[i].ours = more = true;
    }
  }
}

/* The process id that the kernel gave out last: the fifth word of /proc/loadavg, "0.10 0.05 0.01 1/420 4711". */
static uint64_t last_pid(void) {
  char text[128];
  if (proc_text_read(NULL, "/proc/loadavg", text, sizeof text) < 0) return 0;
  const char *space = strrchr(text, ' ');
  return space ? strtoull(space + 1, NULL, 10) : 0;
}

bool jobtree_is_stale(const struct jobtree *tree) { return !tree->n || last_pid() != tree->forks; }

static void keep(struct jobtree *tree, const struct seen *one) {
  if (tree->n == JOBTREE_MAX) return;
  tree->pid[tree->n] = one->pid;
  tree->start[tree->n++] = one->start;
}

bool jobtree_update(struct jobtree *tree) {
  struct seen_list list = {NULL, 0};
  tree->forks = last_pid();
  bool good = look_around(tree, &list);
  if (good) {
    mark_descendants(&list);
    tree->n = 0;
    for (size_t i = 0; i < list.n; i++)
      if (list.at[i].pid == tree->job) keep(tree, &list.at[i]);
    for (size_t i = 0; i < list.n; i++)
      if (list.at[i].ours && list.at[i].pid != tree->job) keep(tree, &list.at[i]);
  }
  free(list.at);
  return good;
}
