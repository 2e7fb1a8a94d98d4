/* relief.h - SPARKSHIM_RELIEF=cache: an allocation is refused although page cache is in the way; the cache of this job's
 * data files is dropped, and the call is made once more.
 *
 * The one place where the library does something about what it sees, and only where the user has asked for it. The job
 * gets the second call's answer, whatever that is. Everything stays right in any case: what is dropped is
 * clean cache of files, which the next reader gets from the disk; see mappings.h for what is never done.
 *
 * Runs in the application's thread between its call and its answer. No allocation, no lock, no libc; errno kept.
 */
#ifndef SPARKSHIM_RELIEF_H
#define SPARKSHIM_RELIEF_H

#include "calls.h"

/* One refused call, on the wrapper's stack until the second one has returned. */
struct relief {
  enum hook_id id;
  enum alloc_route route;
  uint64_t size;
  uint64_t need; /* MemFree at which it has been enough */
  uint64_t start_us;
  uint64_t files, dropped;
  struct fact_memory before;
  int (*last_error)(void); /* cudaGetLastError of the runtime that refused; NULL: it was the driver */
};

/* Drops what it takes. True: make the call again, then relief_end(). False: nothing was dropped, the answer stands.
 * `real`: the function that has refused. */
bool relief_begin(struct relief *r, enum hook_id id, enum alloc_route route, uint64_t size, int64_t result,
                  const void *real);
/* `result` of the second call. Records it; where it was granted, the runtime forgets the first answer. */
void relief_end(struct relief *r, int64_t result);

#endif
