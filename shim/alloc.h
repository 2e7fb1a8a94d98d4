/* alloc.h - what an allocation, a free or a question for free memory means.
 *
 * The hot part of a granted allocation is alloc_granted(): ring, live table, leave. Everything else (a refusal, a
 * request of a sixteenth of the machine, a first allocation, a memory query) reads /proc/meminfo and makes a fact,
 * bounded so that a job which does it thousands of times a second neither floods its log nor slows down.
 * Any thread. No libc, no lock.
 */
#ifndef SPARKSHIM_ALLOC_H
#define SPARKSHIM_ALLOC_H

#include "relief.h"

/* Requests of this many bytes take the slow way in: MemTotal / 16, 0 until MemTotal was read. */
extern uint64_t alloc_large_at;

enum { CUDA_OUT_OF_MEMORY = 2 }; /* cudaErrorMemoryAllocation, CUDA_ERROR_OUT_OF_MEMORY */

void alloc_large(enum hook_id id, enum alloc_route route, uint64_t size);
/* `value`: the address or handle that was granted; 0 (a request of nothing) is not kept. Leaves the call. */
void alloc_granted(const struct call *c, enum alloc_route route, enum live_space space, uint64_t value, uint64_t size);
/* Leaves the call. */
void alloc_refused(const struct call *c, enum alloc_route route, uint64_t size, int64_t result);
/* `held`: *entry was taken out of the live table before the call. Leaves the call. */
void alloc_freed(const struct call *c, uint64_t key, uint64_t value, bool held, struct live_entry entry,
                 int64_t result);
/* Figures are FACT_NO_U64 when the call failed. Leaves the call. */
void alloc_mem_query(const struct call *c, int64_t result, uint64_t free_bytes, uint64_t total_bytes);
/* At the end of the process: refusals that were held back, and alloc_stats of every route that was used. */
void alloc_at_exit(void);

#define BEFORE_ALLOC(route, space, asked, granted, key) \
  const uint64_t hook_asked = (uint64_t)(asked);        \
  const enum alloc_route hook_route = ROUTE_##route;    \
  BEFORE_ENTER(hook_asked, false)                       \
  if (unlikely(hook_on && hook_asked >= alloc_large_at)) alloc_large(id, ROUTE_##route, hook_asked);
#define AFTER_ALLOC(route, space, asked, granted, key)                                              \
  if (likely(hook_on)) {                                                                            \
    if (likely(!hook_result))                                                                       \
      alloc_granted(&hook_call, ROUTE_##route, LIVE_##space, (uint64_t)(key), (uint64_t)(granted)); \
    else                                                                                            \
      alloc_refused(&hook_call, ROUTE_##route, hook_asked, HOOK_ERROR);                             \
  }

/* The same call once more, where that may help: at most once. */
#define HOOK_AGAIN_ALLOC(route, space, asked, granted, key) , HOOK_AGAIN_RELIEVED
#define HOOK_AGAIN_RELIEVED(call)                                                                                 \
  if (unlikely(hook_result && hook_on && shim_settings.relief)) {                                                 \
    struct relief hook_relief;                                                                                    \
    if (relief_begin(&hook_relief, id, hook_route, hook_asked, HOOK_ERROR, (const void *)(uintptr_t)hook_real)) { \
      hook_result = call;                                                                                         \
      relief_end(&hook_relief, HOOK_ERROR);                                                                       \
    }                                                                                                             \
  }

/* The size stands behind a pointer: it is read only when the call has read it too and found it good. */
#define BEFORE_ALLOC_ARRAY(bytes, key) BEFORE_ENTER(0, false)
#define AFTER_ALLOC_ARRAY(bytes, key)                                                                             \
  if (hook_on) {                                                                                                  \
    if (likely(!hook_result))                                                                                     \
      alloc_granted(&hook_call, ROUTE_ARRAY, LIVE_ARRAY, (uint64_t)(key), bytes);                                 \
    else                                                                                                          \
      alloc_refused(&hook_call, ROUTE_ARRAY, HOOK_ERROR == CUDA_OUT_OF_MEMORY ? bytes : FACT_NO_U64, HOOK_ERROR); \
  }

#define BEFORE_FREE(space, key)          \
  BEFORE_ENTER(key, false)               \
  struct live_entry hook_entry = {0, 0}; \
  const bool hook_held = hook_on && (key) && live_remove(live_key(LIVE_##space, (uint64_t)(key)), &hook_entry);
#define AFTER_FREE(space, key)                                                                               \
  if (likely(hook_on))                                                                                       \
    alloc_freed(&hook_call, live_key(LIVE_##space, (uint64_t)(key)), (uint64_t)(key), hook_held, hook_entry, \
                HOOK_ERROR);

#define BEFORE_MEM_QUERY(free_out, total_out) BEFORE_ENTER(0, false)
#define AFTER_MEM_QUERY(free_out, total_out)                                                        \
  if (hook_on)                                                                                      \
    alloc_mem_query(&hook_call, HOOK_ERROR, !hook_result && (free_out) ? *(free_out) : FACT_NO_U64, \
                    !hook_result && (total_out) ? *(total_out) : FACT_NO_U64);

#endif
