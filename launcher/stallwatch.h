/* stallwatch.h - the rings of the job's processes, looked at from outside: what they hold and how much they work, and calls that
 * do not come back.
 *
 * A hooked call that is in flight for SPARKSHIM_STALL seconds (30; 0: nobody watches) becomes a fact `stall`, again and again
 * while it lasts and once when it is over; where the machine is short of memory, so does a process of which no call has
 * returned for twice that time. Facts only: a wait for a long kernel, for a peer or for a compiler is one, too.
 * One thread.
 */
#ifndef SPARKSHIM_STALLWATCH_H
#define SPARKSHIM_STALLWATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "fact.h"

/* Sums over the processes that are followed (live.h) and alive; FACT_NO_U64 where no ring could be read. */
struct ring_sums {
  uint64_t device, pinned; /* bytes held through hooked calls */
  uint64_t work;           /* calls that did something */
};
void stallwatch_sums(struct ring_sums *out);

/* Looks at all calls in flight, when it is time. `is_short`: the machine is short of memory. */
void stallwatch_look(bool is_short, void (*write)(const struct fact *fact));

#endif
