/* number.h - sums of readings that may be missing (FACT_NO_U64) or nonsense: a log can come from a torn file.
 * Freestanding; nothing here wraps around. */
#ifndef SPARKSHIM_NUMBER_H
#define SPARKSHIM_NUMBER_H

#include "fact.h"

static inline bool num_known(uint64_t n) { return n != FACT_NO_U64; }
static inline uint64_t num_or_zero(uint64_t n) { return num_known(n) ? n : 0; }
static inline uint64_t num_min(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t num_max(uint64_t a, uint64_t b) { return a > b ? a : b; }
/* `now`, or what it was `before` where it is not known now. */
static inline uint64_t num_or(uint64_t now, uint64_t before) { return num_known(now) ? now : before; }
/* a - b, 0 where that would be negative. */
static inline uint64_t num_less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }
/* a + b, UINT64_MAX where that would wrap around. */
static inline uint64_t num_plus(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

#endif
