/* around.h - what else is on the machine beside the job, as facts: the limits that bind it, what kills when memory runs low,
 * whom the kernel has killed, and, once the job uses the GPU, who else holds GPU memory (probe/host/collect.h) and where memory
 * is (split.h). Each at its own pace; nothing here waits. One thread at a time.
 */
#ifndef SPARKSHIM_AROUND_H
#define SPARKSHIM_AROUND_H

#include <stdbool.h>
#include <stdint.h>

#include "cgroup.h"
#include "fact.h"
#include "jobtree.h"

struct around_of {
  const char *root; /* SPARKSHIM_ROOT or NULL */
  const struct jobtree *tree;
  const struct cgroup_place *place;
  void (*write)(const struct fact *fact);
};

/* Begins; the strings and structs stay the caller's. */
void around_begin(const struct around_of *of);

/* After each look at the machine. `sample`: that look; `uses_gpu`: a process of the job has a log; `coarse`: how much
 * more seldom what has not changed is written, a power of two's exponent. */
void around_look(const struct fact *sample, bool uses_gpu, unsigned coarse);

/* The job has ended, and the last look was written: victims; of a job that failed also what was never asked for, so that a short
 * one has it as well. For an answer of NVML a second is waited, if the job used the GPU and no look came in time. */
void around_end(bool failed, bool uses_gpu);

#endif
