/* follow.h - the logs of the job's processes, read while they are being written.
 *
 * A log belongs to a process of the job when its name has the process's id and start (docs/log-format.md): of the logs in a
 * run's folder others may be those of another launcher. Nothing in a log is trusted, and of one that grows faster than it
 * can be read, what is behind comes later.
 */
#ifndef SPARKSHIM_FOLLOW_H
#define SPARKSHIM_FOLLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "fact_read.h"
#include "jobtree.h"

enum { FOLLOW_MAX = 64 }; /* processes at once; what is beyond is left to report */

struct followed {
  int pid;
  uint64_t start; /* with the pid it names the process for good */
  char *log;      /* path; NULL: this place is free */
  char *ring;     /* path of its ring, once its header was read; NULL: none that can be read */
  off_t at;       /* behind the last whole line that was read */
  void *owner;    /* for the caller */
};

/* All zero but for `dir`, the run's folder: none yet. */
struct follows {
  const char *dir;
  uint64_t since; /* not 0: a process that began then or later is one of the job, also when the tree has it not */
  struct timespec changed; /* private: of the folder, at the last look */
  struct followed one[FOLLOW_MAX];
};

/* Looks for new logs of processes in the tree, when the folder has changed or `anyway`. `news` is called for each new
 * one. True when some log of this host is there whose process the tree does not have: the tree may be stale. */
bool follow_find(struct follows *f, const struct jobtree *tree, bool anyway, void (*news)(struct followed *one));
/* Hands on every whole line that was written since the last call, at most 256 KiB a process. `take` is given records of
 * any kind, bad ones too. */
void follow_read(struct follows *f, void (*take)(struct followed *one, const struct record *record));
/* Its process is gone, and nothing more is expected in its log: the place is free. */
void follow_drop(struct followed *one);
/* Whether the process still is there. */
bool follow_lives(const struct followed *one);

#endif
