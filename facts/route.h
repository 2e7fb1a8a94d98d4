/* route.h - the ways by which memory is asked for: their numbers in the ring, and their words in records.
 *
 * Freestanding, no state. The order is part of the ring's format (ring_format.h): new routes come last.
 */
#ifndef SPARKSHIM_ROUTE_H
#define SPARKSHIM_ROUTE_H

#include <stdint.h>

#include "ring_format.h"

enum alloc_route {
  ROUTE_DEVICE,
  ROUTE_MANAGED,
  ROUTE_PINNED,
  ROUTE_POOL,
  ROUTE_VMM,
  ROUTE_ARRAY,
  ROUTE_NCCL,
  ROUTE_COUNT
};

_Static_assert((int)ROUTE_COUNT <= (int)RING_ROUTES, "the ring has no room for a route");

/* "device", ...; NULL for what is no route. */
static inline const char *route_word(unsigned route) {
  static const char words[ROUTE_COUNT][8] = {"device", "managed", "pinned", "pool", "vmm", "array", "nccl"};
  return route < ROUTE_COUNT ? words[route] : (const char *)0;
}

/* The class of a size among the ring's counters: the number of its bits. */
static inline unsigned route_size_class(uint64_t size) {
  unsigned bits = size ? 64U - (unsigned)__builtin_clzll(size) : 0;
  return bits < RING_SIZE_CLASSES ? bits : RING_SIZE_CLASSES - 1;
}

#endif
