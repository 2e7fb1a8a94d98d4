/* reading.h - what one reading of /proc/meminfo means for CUDA on a machine with one memory. Freestanding. */
#ifndef SPARKSHIM_READING_H
#define SPARKSHIM_READING_H

#include "fact.h"

/* All in bytes. Nothing but `known` says anything when that is false. */
struct reading {
  bool known; /* MemTotal, MemFree and MemAvailable were readable */
  uint64_t total;
  uint64_t free;       /* MemFree without the free part of a CMA area, which CUDA does not get */
  uint64_t available;  /* MemAvailable, less the same */
  uint64_t obtainable; /* what CUDA can get at best: free HugeTLB pages where HugeTLB is in use, else `available` */
  uint64_t cache;      /* page cache and kernel caches that reclaim may take, locked ones included */
  uint64_t swap_total, swap_free;
  uint64_t swappable; /* anonymous memory that swap has room for */
  uint64_t reserve;   /* what kernel and driver keep for themselves: a 64th of MemTotal, 1 GiB at least */
  bool huge;          /* HugeTLB is in use */
};

struct reading reading_of(const struct fact_memory *m);
/* What MemAvailable promises beyond the free figure. */
uint64_t reading_gap(const struct reading *r);
/* Page cache that could go: that promise, as far as there is cache. */
uint64_t reading_droppable(const struct reading *r);

#endif
