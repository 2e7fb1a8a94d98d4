/* sample.h - the machine at one moment as a fact `sample` (facts.def). Freestanding: raw system calls, no allocation, no
 * lock, no state, errno kept; about 14 KiB of stack. What cannot be read is not known (FACT_NO_U64), never an error.
 */
#ifndef SPARKSHIM_SAMPLE_H
#define SPARKSHIM_SAMPLE_H

#include <stddef.h>

#include "cgroup.h"
#include "fact.h"

enum sample_part {
  SAMPLE_MACHINE = 1, /* meminfo, vmstat, pressure, buddyinfo: some 150 us */
  SAMPLE_CGROUP = 2,  /* the job's cgroup: some 50 us and 15 us for each group above it */
  SAMPLE_JOB = 4,     /* the processes: some 60 us each */
  SAMPLE_SHARES =
      8, /* with the first and the third: where the processes' figures add up to more than there is, as those
                         of forked ones do, their shares instead: smaps_rollup, see procuse.h */
  SAMPLE_ALL = SAMPLE_MACHINE | SAMPLE_CGROUP | SAMPLE_JOB
};

struct sample_from {
  const char *root;                 /* SPARKSHIM_ROOT, or NULL */
  const struct cgroup_place *place; /* of the job, from cgroup_find(); NULL: not looked at */
  const int *pid;                   /* processes of the job, real ones under the simulator too */
  size_t pids;
  unsigned parts;                  /* enum sample_part */
  uint64_t job_device, job_pinned; /* bytes held through hooked calls, from the rings; FACT_NO_U64: not known */
};

/* Fills *out: kind sample, t = clock_us() before the first file is read, tid 0. `why` is kept, not copied. Some 0.3 ms
 * for everything with one process. */
void sample_read(const struct sample_from *from, const char *why, struct fact *out);

/* Texts of the files: any bytes. They set the fields that they find. */
void sample_parse_vmstat(const char *text, size_t size, struct fact_sample *s);
void sample_parse_buddyinfo(const char *text, size_t size, struct fact_sample *s); /* after page_size is set */

/* /proc/pressure/memory, or memory.pressure of a cgroup. */
struct sample_pressure {
  uint64_t some_avg10, some_avg60, some_total, full_avg10, full_avg60, full_total; /* 0.01 %, us */
};
void sample_parse_pressure(const char *text, size_t size, struct sample_pressure *p);

/* /proc/swaps: sizes of all areas together, in bytes. */
struct sample_swaps {
  uint64_t total, used;
  unsigned areas;
};
void sample_parse_swaps(const char *text, size_t size, struct sample_swaps *s);

/* The kernel's page size in bytes, from the auxiliary vector in /proc/self/auxv; `root` may hold another machine's. */
uint64_t sample_page_size(const char *root);

#endif
