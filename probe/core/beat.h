/* beat.h - how often the machine is looked at, by the launcher or the library's own thread, and which looks become records.
 * Freestanding and pure: no clock, no I/O.
 *
 * One look a second. Faster, up to twenty a second, when MemAvailable falls so quickly that it would be used up within
 * seconds, and some four a second near the edge; slower again by degrees. A job that makes memory fall and rise all day
 * has a stock of fast looks, which is filled up slowly.
 *
 * Of the looks only some are written: those that differ from the last one written, and one every now and then. A look at
 * which nothing had happened yet is written late, when the next one shows a change, so that a slope begins where it
 * began. The more was written the coarser it gets, so that a run of weeks has a log of some MiB.
 */
#ifndef SPARKSHIM_BEAT_H
#define SPARKSHIM_BEAT_H

#include <stdbool.h>
#include <stddef.h>
#include "fact.h"

enum {
  BEAT_SLOWEST_US = 1000 * 1000,
  BEAT_FASTEST_US = 50 * 1000,
  BEAT_NEAR_US = 250 * 1000, /* near the edge, and when the stock of fast looks is used up */
  BEAT_STOCK = 1200,         /* fast looks at once: a minute at 20 Hz */
};

/* All zero: no look yet. */
struct beat {
  uint64_t t, available; /* of the last look */
  uint64_t interval;     /* until the next one, us */
  uint64_t used;         /* fast looks out of the stock */
  uint64_t refilled;     /* when some were last given back */
};

/* After a look at time `t` (us): how long until the next one, us. */
uint64_t beat_next(struct beat *b, uint64_t t, const struct fact_memory *m);

/* Which looks are written. All zero: none yet. Strings of samples are constant text. */
struct thinner {
  bool has_last, has_held;
  struct fact last; /* written */
  struct fact held; /* the latest since then, which was not */
  uint64_t first;   /* time of the first */
  uint64_t bytes;   /* of the log so far; the writer counts them here */
};

enum {
  THIN_STEP = 2 << 20,   /* bytes: what counts as a change gets twice as coarse with each so many */
  THIN_LIMIT = 14 << 20, /* bytes: from here on nothing is written but what must be */
};

enum thin {
  THIN_NO,      /* hold it: thin_hold() */
  THIN_REGULAR, /* write it: it is time */
  THIN_CHANGE,  /* write what is held, if anything, then this one */
};

/* How much coarser it is than at the start: the exponent of a power of two. */
unsigned thin_coarseness(const struct thinner *th);
/* What to do with the look. `must`: it is written in any case. */
enum thin thin_judge(const struct thinner *th, const struct fact *sample, bool must);
void thin_hold(struct thinner *th, const struct fact *sample);
/* The look that is held, or NULL; it no longer is. Valid until the next thin_hold(). */
const struct fact *thin_take_held(struct thinner *th);
/* The look was written. */
void thin_written(struct thinner *th, const struct fact *sample);

#endif
