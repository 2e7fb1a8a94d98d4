/* relief.c - see relief.h.
 *
 * First what the job needs least: of every data file that was found so far what nobody maps is dropped (fadvise: works for
 * who may read the file), closed files among them. Then the mappings of this process (smaps): the pages of
 * data files that it has mapped are paged out (MADV_PAGEOUT: works for who owns the file or may write it, and is otherwise
 * without effect). After each step MemFree is read, and when that is enough, the rest is left alone: what is dropped has to be
 * read again.
 */
#include "relief.h"

#include <sys/mman.h>

#include "alloc.h"
#include "datafile.h"
#include "hooks.h"
#include "meminfo.h"
#include "pagecache.h"
#include "reading.h"
#include "sys.h"

#include "poison.h"

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21 /* since Linux 5.4, the same on every machine */
#endif

#define STEP ((uint64_t)1 << 30) /* bytes paged out between two looks at MemFree: 11 to 160 ms */

enum {
  LONGEST_US = 30 * 1000 * 1000, /* the job waits meanwhile */
  PAUSE_US = 10 * 1000 * 1000,   /* after a relief that did not help: refusals may come by the thousand */
};

static uint64_t no_use_us; /* when one has not helped, or found nothing to drop; 0: never */

static struct fact_memory read_memory(void) {
  struct fact_memory m;
  meminfo_read(shim_settings.root, &m);
  return m;
}

static bool is_enough(const struct relief *r) {
  struct fact_memory m = read_memory();
  struct reading now = reading_of(&m);
  return !now.known || now.free >= r->need || clock_us() - r->start_us > LONGEST_US;
}

/* ---- one file ------------------------------------------------------------------------------------------------------ */
/* Memory that is registered with CUDA stays where it is. */
static bool may_page_out(const struct mapping *m) {
  return mapping_may_page_out(m) && !live_overlaps(LIVE_REGISTERED, m->start, m->end);
}

static void page_out(const struct relief *r, const struct mapping *m) {
  for (uint64_t at = m->start; at < m->end; at += STEP) {
    uint64_t size = m->end - at < STEP ? m->end - at : STEP;
    sys_call6(SYS_madvise, (long)at, (long)size, MADV_PAGEOUT, 0, 0, 0);
    if (is_enough(r)) return;
  }
}

static uint64_t fall(uint64_t before, uint64_t after) {
  return before == FACT_NO_U64 || after == FACT_NO_U64 || before < after ? 0 : before - after;
}

/* Of the whole machine, and of this one also under the simulator: the files are real there. */
static uint64_t all_cached(void) {
  struct fact_memory m;
  meminfo_read(NULL, &m);
  return m.cached;
}

/* m NULL: only what is not mapped. */
static void drop(struct relief *r, const char *path, const struct mapping *m) {
  struct pagecache before, after;
  uint64_t gone;
  int fd = datafile_open(path);
  if (fd < 0) return;
  uint64_t cached = all_cached();
  bool counted = pagecache_read(fd, &before) == 0;
  if (m) page_out(r, m);
  pagecache_drop(fd);
  if (counted && pagecache_read(fd, &after) == 0)
    gone = fall(before.cached, after.cached);
  else /* the file is somebody else's */
    gone = fall(cached, all_cached());
  sys_close(fd);
  r->dropped += gone;
  r->files += gone > 0;
}

static bool see_file(const char *path, void *arg) {
  struct relief *r = arg;
  drop(r, path, NULL);
  return is_enough(r);
}

static bool see_mapping(const struct mapping *m, void *arg) {
  struct relief *r = arg;
  if (!datafile_is_mapping(m) || !may_page_out(m)) return false;
  drop(r, m->path, m);
  return is_enough(r);
}

/* ---- one refusal ---------------------------------------------------------------------------------------------------- */
/* Would page cache make up for what MemFree falls short of? */
static bool is_of_use(struct relief *r) {
  struct reading now = reading_of(&r->before);
  uint64_t free_and_cache = now.free + reading_droppable(&now);
  if (!now.known || now.huge || __builtin_add_overflow(r->size, now.reserve, &r->need)) return false;
  return now.free < r->need && free_and_cache >= r->need;
}

static bool is_paused(uint64_t now) {
  uint64_t last = __atomic_load_n(&no_use_us, __ATOMIC_RELAXED);
  return last && now - last < PAUSE_US;
}

/* The runtime keeps its last error until it is asked for: where that cannot be cleared, a granted call would look refused
 * to the job's next check. */
static bool can_be_forgotten(struct relief *r, const void *real) {
  if (hook_library(r->id) != HOOK_LIB_CUDART) return true;
  *(void **)&r->last_error = linkmap_beside(real, "cudaGetLastError");
  return r->last_error != NULL;
}

bool relief_begin(struct relief *r, enum hook_id id, enum alloc_route route, uint64_t size, int64_t result,
                  const void *real) {
  if (result != CUDA_OUT_OF_MEMORY || route == ROUTE_NCCL) return false; /* inside, NCCL asks the driver */
  *r = (struct relief){.id = id, .route = route, .size = size, .start_us = clock_us()};
  if (is_paused(r->start_us)) return false;
  r->before = read_memory();
  if (!is_of_use(r) || !can_be_forgotten(r, real)) return false;
  datafile_look(true);
  datafile_each(see_file, r);
  if (!is_enough(r)) mappings_read("smaps", see_mapping, r);
  if (!r->files) __atomic_store_n(&no_use_us, clock_us(), __ATOMIC_RELAXED);
  return r->files > 0;
}

void relief_end(struct relief *r, int64_t result) {
  struct fact fact = {.kind = FACT_KIND_relief};
  uint64_t now = clock_us();
  if (!result && r->last_error) r->last_error();
  if (result) __atomic_store_n(&no_use_us, now, __ATOMIC_RELAXED);
  fact.u.relief = (struct fact_relief){.call = hook_name(r->id),
                                       .route = route_word(r->route),
                                       .size = r->size,
                                       .result = result,
                                       .files = r->files,
                                       .dropped = r->dropped,
                                       .free_after = read_memory().free,
                                       .wall_us = now - r->start_us,
                                       .mem = r->before};
  call_observe(&fact);
}
