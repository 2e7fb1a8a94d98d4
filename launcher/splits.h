/* splits.h - where memory was, over the time of a run: made of the facts of its logs (detectors/split.h). */
#ifndef SPARKSHIM_SPLITS_H
#define SPARKSHIM_SPLITS_H

#include "split.h"

struct split_at {
  uint64_t t; /* Unix us of the reading of memory; 0: there is none */
  struct fact_split split;
};

/* Over time: by the first and the latest sample, and by that reading of all with the least MemAvailable while the job
 * lived. split.why of `last` is "end" where that was taken just after the job's end. */
struct split_course {
  struct split_at first, lowest, last;
  uint64_t least; /* MemAvailable of lowest */
};

/* All zero: nothing seen. */
struct splits {
  struct split_follow now; /* what was seen while the job lived */
  bool begun;
  struct split_course course;
};

/* Facts in the order of their times. */
void splits_observe(struct splits *s, const struct fact *fact);
/* The latest before the present end of the facts: neither the reading in an `exit` fact nor a sample after the job's end
 * counts, for the memory that matters has come back then. False: none. */
bool splits_latest(const struct splits *s, struct split_at *out);

#endif
