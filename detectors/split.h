/* split.h - where memory is: the fact `split`, made of other facts. Pure and freestanding, like a detector: the launcher,
 * preflight and report make it by the same code, and facts that were logged give the split that was said.
 *
 * The classes of a split always add up to MemTotal. What the driver holds is no process's RSS and in no cgroup; it is
 * what /proc/meminfo does not account for:
 *
 *   MemTotal - (MemFree + Buffers + Cached + SwapCached + AnonPages + KReclaimable + SUnreclaim + KernelStack + PageTables
 *               + SecPageTables + Percpu + HugeTLB pool)
 *
 * Of it the job's CUDA calls and NVML's lists account for parts; 1.1 to 1.35 GiB are the driver's own on an idle Spark. What
 * is left over is nobody's where NVML gave a figure for everyone, else it is not accounted for.
 */
#ifndef SPARKSHIM_SPLIT_H
#define SPARKSHIM_SPLIT_H

#include <stddef.h>
#include "fact.h"

/* What the driver keeps for itself. */
#define SPLIT_DRIVER_OWN ((uint64_t)1350 << 20)
/* Up to here what is left over is the driver's own and noise: nobody's memory is not spoken of. */
#define SPLIT_DRIVER_MOST ((uint64_t)2 << 30)

/* Readings, in bytes; FACT_NO_U64 where not known. */
struct split_input {
  struct fact_memory mem;
  uint64_t job_anon;               /* anonymous memory of the job's processes */
  uint64_t job_device, job_pinned; /* through their hooked calls */
  bool nvml;                       /* NVML has answered; the next three are its figures */
  uint64_t nvml_job, nvml_others;
  bool nvml_untold; /* of some process it did not tell the size */
};

/* Fills *out. False, with *out untouched, where MemTotal or MemFree is not known. `why` is kept, not copied. */
bool split_make(const struct split_input *in, const char *why, struct fact_split *out);

/* Collects the readings from facts in the order of their times. All zero but for split_follow_init(): nothing seen. */
struct split_follow {
  struct split_input in;
  uint64_t t;      /* of the memory reading */
  uint64_t look_t; /* of NVML's latest whole answer */
  uint64_t next_t; /* of the look that is being told */
  uint64_t next_job, next_others;
  bool next_untold;
};
void split_follow_init(struct split_follow *s);
/* True when the fact brought a new reading of memory or a whole answer of NVML: split_now() may then say something new. */
bool split_follow(struct split_follow *s, const struct fact *fact);
/* What the readings say now. Nobody's memory is known only where NVML's answer and the reading of memory are at most 1.5 s
 * apart. */
bool split_now(const struct split_follow *s, const char *why, struct fact_split *out);

/* The same for detectors, whose states begin as zero. True when the fact gave a new split, which is in *out. */
struct split_watch {
  bool on;
  struct split_follow follow;
};
bool split_watch(struct split_watch *w, const struct fact *fact, struct fact_split *out);

/* The classes in the order in which they are shown; `bytes` FACT_NO_U64: not known (device_nobody alone). */
struct split_row {
  const char *key;  /* name of the field in facts.def */
  const char *name; /* for people */
  uint64_t bytes;
  bool negative; /* `bytes` is to be subtracted (rest alone) */
};
enum { SPLIT_ROWS = 13 };
void split_rows(const struct fact_split *s, struct split_row rows[SPLIT_ROWS]);

/* "121.6 GiB = 97.3 free + 16.2 page cache + ... + 1.4 not accounted for": what is below 0.05 GiB is left out, and the
 * figures are rounded so that they add up. NUL-ended in out[size]; 400 bytes suffice. Returns the length. */
size_t split_line(const struct fact_split *s, char *out, size_t size);

#endif
