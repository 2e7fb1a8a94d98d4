/* jobtree.h - the processes of the job: the job, its descendants, and those whose parents have ended since they were
 * first seen. Looks at the real /proc, also under the simulator.
 */
#ifndef SPARKSHIM_JOBTREE_H
#define SPARKSHIM_JOBTREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JOBTREE_MAX = 256 }; /* what is beyond is not followed */

/* All zero but for `job`: only that is known. */
struct jobtree {
  int job;
  size_t n;
  int pid[JOBTREE_MAX];
  uint64_t start[JOBTREE_MAX]; /* as in struct procstat: with the pid it names a process for good */
  uint64_t forks;              /* private: the kernel's last process id at the last update */
};

/* Looks again: some 10 us for each process of the machine. False when there is no memory for that. */
bool jobtree_update(struct jobtree *tree);
/* Whether a process has been started anywhere on the machine since the last update: one small file. */
bool jobtree_is_stale(const struct jobtree *tree);
bool jobtree_has(const struct jobtree *tree, int pid, uint64_t start);

#endif
