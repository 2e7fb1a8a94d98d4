/* ring_format.h - the mapped ring beside each log: what must survive SIGKILL, readable by another program.
 *
 * One file per process, MAP_SHARED, written by the library with plain and atomic stores only (no system
 * call per event), read by the launcher and by `report` while the process lives or after it is gone.
 * All figures are in the byte order of the machine. Times are ticks (TSC, cntvct); two pairs of ticks and
 * microseconds in the header, one taken at the start and one renewed at every slow event, convert them.
 * Writers tear: an entry is valid when its seq is the one expected for its place.
 */
#ifndef SPARKSHIM_RING_FORMAT_H
#define SPARKSHIM_RING_FORMAT_H

#include <stdint.h>

#define RING_MAGIC "SPKRING1"
enum {
  RING_VERSION = 1,
  RING_SLOTS = 512,   /* threads that can be seen at once; later ones share the last slot */
  RING_ALLOCS = 4096, /* default number of allocation entries; SPARKSHIM_RING overrides, a power of two */
  RING_ALLOCS_MAX = 1 << 20,
  RING_ROUTES = 8,        /* allocation routes, see route.h */
  RING_TALLIES = 64,      /* threads with allocation counters of their own; later ones share the first */
  RING_SIZE_CLASSES = 48, /* class = bit length of the size */
  RING_NAME = 48,         /* longest hook name */
  RING_CHUNK = 16, /* running numbers that a thread takes at once, so that few events need a locked instruction */
  RING_HELD_BACK = 1 << 20, /* a thread keeps a change in live memory to itself up to a 64th of what is live, and at */
                            /* most this many bytes, before it tells the route */
};

/* One thread. 128 bytes: two cache lines, so that neighbours do not share one. */
struct ring_slot {
  uint32_t tid;           /* 0 = free */
  uint16_t call;          /* hook in flight (index into the name table), 0 = none */
  uint16_t depth;         /* nesting of hooked calls */
  uint64_t since;         /* ticks at which `call` was entered */
  uint64_t arg;           /* size, count or handle of the call in flight */
  uint16_t last_call;     /* last productive call that returned well */
  uint16_t tally;         /* index of this thread's counters; 0 = the shared ones, or none yet */
  uint32_t worked;        /* productive calls of this thread; wraps around */
  uint64_t last_activity; /* ticks at which it returned (an allocation or free: was entered) */
  uint64_t calls;         /* hooked calls made by this thread */
  uint64_t next, limit;   /* running numbers of allocation entries that this thread has taken and not used */
  uint64_t launches;      /* kernels, graphs and fills that it launched */
  uint64_t rounds; /* copies from host memory, launches and a wait, in this order: steps, as far as one can see */
  uint64_t copied; /* bytes that it copied from host memory */
  uint32_t round;  /* how far it is in the next round */
  uint32_t pad1;
  uint64_t pad[4];
};

/* One allocation or free. Running numbers order the events of one thread; ticks order those of several. Numbers that a
 * thread took and did not use have no entry. */
struct ring_alloc {
  uint64_t seq; /* 1 + running number, stored last; 0 = never used */
  uint64_t ticks;
  uint64_t ptr;  /* address or handle; 0 when refused */
  uint64_t size; /* bytes; for a free, what was held */
  uint32_t tid;
  uint16_t call;
  uint16_t result; /* error number, 0 = granted */
};

/* Counters are kept per thread, so that counting needs no locked instruction: their sum is what is asked for.
 * Tally 0 is shared and counted atomically. Counters only grow; a tally outlives its thread. */
struct ring_tally_route {
  uint64_t count;                       /* granted requests */
  uint64_t frees;                       /* frees of what was granted */
  uint64_t failed;                      /* refused requests */
  uint64_t bytes;                       /* sum of all granted */
  uint64_t freed;                       /* sum of all freed */
  int64_t held_back;                    /* change in bytes held that is not yet in ring_route.live; 0 in tally 0 */
  uint64_t by_class[RING_SIZE_CLASSES]; /* granted requests by size class */
};
struct ring_tally {
  struct ring_tally_route route[RING_ROUTES];
};

/* What cannot be summed afterwards. One cache line each. */
struct ring_route {
  int64_t live;       /* bytes held now, less what threads hold back; below 0 when frees are told before grants */
  uint64_t peak;      /* most bytes held at once, but for what threads hold back */
  uint64_t untracked; /* grants that did not fit the table of live allocations */
  uint64_t pad[5];
};

/* Sums for one route, made on reading; not part of the file. */
struct ring_counters {
  uint64_t count, frees, failed, bytes, live, peak, untracked;
  uint64_t by_class[RING_SIZE_CLASSES];
};

/* Sums of what threads did with memory and for the device; not part of the file. */
struct ring_work {
  uint64_t launches, rounds, copied;
};

struct ring_header {
  char magic[8];
  uint32_t version;
  uint32_t size; /* of this header */
  uint32_t pid;
  uint32_t slots, slot_at; /* number and file offset */
  uint32_t allocs, alloc_at;
  uint32_t names, name_at;    /* RING_NAME bytes each, NUL-padded; entry 0 is empty */
  uint32_t tallies, tally_at; /* struct ring_tally each */
  uint32_t routes, route_at;  /* struct ring_route each */
  uint32_t child_at;          /* one struct ring_child, for a vforked child */
  uint64_t tick0, us0;        /* first pair: ticks, Unix microseconds */
  uint64_t tick1, us1;        /* latest pair; pair_seq is odd while it is being written */
  uint32_t pair_seq;
  uint32_t pad;
  _Alignas(64) uint64_t alloc_next; /* running number of the next entry; every thread writes it: a line of its own */
};

/* Written between vfork and exec by the child, read by the parent when the child has ended. */
struct ring_child {
  uint32_t pid;
  uint32_t pad;
  char program[256];
  char argv[744];
};

/* Sums the counters of one route over all threads; `out` is zeroed first. `live` never shows below 0. */
static inline void ring_sum(const struct ring_tally *tallies, uint32_t n, const struct ring_route *routes,
                            unsigned route, struct ring_counters *out) {
  int64_t live = __atomic_load_n(&routes[route].live, __ATOMIC_RELAXED);
  *out = (struct ring_counters){.peak = __atomic_load_n(&routes[route].peak, __ATOMIC_RELAXED),
                                .untracked = __atomic_load_n(&routes[route].untracked, __ATOMIC_RELAXED)};
  for (uint32_t i = 0; i < n; i++) {
    const struct ring_tally_route *t = &tallies[i].route[route];
    out->count += __atomic_load_n(&t->count, __ATOMIC_RELAXED);
    out->frees += __atomic_load_n(&t->frees, __ATOMIC_RELAXED);
    out->failed += __atomic_load_n(&t->failed, __ATOMIC_RELAXED);
    out->bytes += __atomic_load_n(&t->bytes, __ATOMIC_RELAXED);
    live = (int64_t)((uint64_t)live + (uint64_t)__atomic_load_n(&t->held_back, __ATOMIC_RELAXED)); /* any, in garbage */
    for (unsigned c = 0; c < RING_SIZE_CLASSES; c++)
      out->by_class[c] += __atomic_load_n(&t->by_class[c], __ATOMIC_RELAXED);
  }
  if (live > 0) out->live = (uint64_t)live;
  if (out->live > out->peak) out->peak = out->live;
}

#endif
