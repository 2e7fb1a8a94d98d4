/* doubts.h - look-alikes that the readings do not exclude, one bit each, and what they make of a finding. Freestanding. */
#ifndef SPARKSHIM_DOUBTS_H
#define SPARKSHIM_DOUBTS_H

#include "finding.h"

/* More than one is left: too much for a FAIL. */
static inline bool doubts_are_many(unsigned doubts) { return (doubts & (doubts - 1)) != 0; }

/* None: high; one: medium; more: low (DESIGN section 1). */
static inline enum confidence doubts_confidence(unsigned doubts) {
  if (!doubts) return CONFIDENCE_HIGH;
  return doubts_are_many(doubts) ? CONFIDENCE_LOW : CONFIDENCE_MEDIUM;
}

#endif
