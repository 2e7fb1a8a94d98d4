/* detector.h - a detector turns facts into findings, and does nothing else.
 *
 * The same object code judges live in the preloaded library, afterwards in `sparkshim report`, and in unit
 * tests: that is why a detector does no I/O, takes no lock, reads no clock and no environment, and calls
 * no libc function (it is built freestanding; memcpy, memmove, memset and memcmp, which the compiler may
 * emit, are the only undefined symbols a test allows). What it knows comes from facts; what it remembers
 * lies in a state of fixed size that the caller owns, one per process judged.
 *
 * The caller serialises: one thread at a time per state. Facts come in the order of their times.
 */
#ifndef SPARKSHIM_DETECTOR_H
#define SPARKSHIM_DETECTOR_H

#include "fact.h"
#include "finding.h"

/* Where findings go. `f` is room for one finding, so that a detector needs no stack for it. */
struct det_out {
  void (*emit)(struct det_out *out, const struct finding *f);
  struct finding f;
};

struct detector {
  unsigned g;       /* 1..10 */
  const char *name; /* file name without folder */
  size_t state_size;
  /* A zeroed state is a fresh one: there is no init. */
  void (*observe)(void *state, const struct fact *fact, struct det_out *out);
};

/* All detectors, NULL-ended, in order of G. */
extern const struct detector *const det_all[];

/* Which detectors run: bit g set = on. det_mask parses SPARKSHIM_DETECTORS ("-G4,-G5": all but these;
 * "G3,G7": only these; NULL or empty: all). Unknown words are ignored. */
uint32_t det_mask(const char *text);

/* Bytes of state for all detectors together, and one fact handed to every detector in `mask`.
 * `state` is zeroed memory of det_state_size() bytes, aligned to 16. */
size_t det_state_size(void);
void det_observe(void *state, uint32_t mask, const struct fact *fact, struct det_out *out);

#endif
