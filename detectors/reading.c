/* reading.c - see reading.h. Runs inside the preloaded library: no libc, no state. */
#include "reading.h"

#include "number.h"

#define GIB ((uint64_t)1 << 30)

struct reading reading_of(const struct fact_memory *m) {
  struct reading r = {.known = num_known(m->total) && m->total && num_known(m->free) && num_known(m->available)};
  if (!r.known) return r;
  /* `CmaTotal: 0 kB` with CmaFree above 0 is a bug of some kernels: the figure is then worth nothing. */
  uint64_t cma = num_or_zero(m->cma_total) ? num_or_zero(m->cma_free) : 0;
  uint64_t locked = num_known(m->unevictable) ? m->unevictable : num_or_zero(m->mlocked);
  uint64_t kernel_caches = num_plus(num_or_zero(m->buffers), num_or_zero(m->kreclaimable));
  r.total = m->total;
  r.free = num_less(m->free, cma);
  r.available = num_less(m->available, cma);
  r.huge = num_or_zero(m->huge_total) > 0;
  r.obtainable = r.huge ? num_or_zero(m->huge_free) : r.available;
  r.cache = num_plus(num_less(num_or_zero(m->cached), num_or_zero(m->shmem)), kernel_caches);
  r.swap_total = num_or_zero(m->swap_total);
  r.swap_free = num_or_zero(m->swap_free);
  r.swappable = num_min(r.swap_free, num_less(num_plus(num_or_zero(m->anon), num_or_zero(m->shmem)), locked));
  /* The driver holds 1.1 to 1.35 GiB on an idle Spark, and machines were seen to wedge with MemFree at 1 to
   * 2 GiB: the last 2 % (1.9 of 121.6 GiB) are nobody's to have. */
  r.reserve = num_max(m->total / 64, GIB);
  return r;
}

uint64_t reading_gap(const struct reading *r) { return num_less(r->available, r->free); }

uint64_t reading_droppable(const struct reading *r) { return num_min(r->cache, reading_gap(r)); }
