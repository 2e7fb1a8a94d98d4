/* ring_read.h - reads a ring file (facts/ring_format.h). Command line only: allocates.
 *
 * The file is copied first: its process may live and write, and a file that is cut while it is mapped would kill the reader.
 * Nothing in it is trusted: a torn or hostile file gives -EINVAL, never a crash.
 */
#ifndef SPARKSHIM_RING_READ_H
#define SPARKSHIM_RING_READ_H

#include <stdbool.h>
#include <stddef.h>

#include "ring_format.h"

struct ring_file {
  char *data; /* owned: ring_close() */
  size_t size;
  const struct ring_header *header; /* in data, offsets and numbers checked */
  bool whole;                       /* the allocations were read as well */
  uint64_t tick1, us1;              /* the later pair; see ring_same_boot() */
};

/* 0, or negative errno; -EINVAL when it is no ring of this version. On success the caller calls ring_close(). */
int ring_open_file(const char *path, struct ring_file *ret);
/* The same without the allocations, for who looks at it again and again. */
int ring_open_state(const char *path, struct ring_file *ret);
void ring_close(struct ring_file *ring);

/* The ring was written on this machine since it booted (the log's header has the boot id): the present is then the
 * later pair, which makes times exact also where the process left one pair only. */
void ring_same_boot(struct ring_file *ring);

/* Unix time in microseconds of a time in the ring; 0 for 0, which stands for never. */
uint64_t ring_us(const struct ring_file *ring, uint64_t ticks);

/* Name of a hook, "" when the number is not one. Valid as long as the ring. */
const char *ring_name(const struct ring_file *ring, unsigned call);

/* Thread slot i < header->slots, or NULL when it was never used. The last one is shared by the threads that found no
 * other; its tid is 0. */
const struct ring_slot *ring_thread(const struct ring_file *ring, unsigned i);

/* Hooked calls that did something, over all threads. Each thread's count wraps around at 32 bits: of two readings the
 * later can be the smaller one. */
uint64_t ring_work(const struct ring_file *ring);

/* Counters of one route over all threads; zero for a route that the file does not have. */
void ring_route_counters(const struct ring_file *ring, unsigned route, struct ring_counters *out);

/* Allocations have running numbers from ring_first_alloc() up to, not including, header->alloc_next. ring_get_alloc
 * is false where an entry was being written when the process died, or was overwritten. */
uint64_t ring_first_alloc(const struct ring_file *ring);
bool ring_get_alloc(const struct ring_file *ring, uint64_t number, struct ring_alloc *out);

/* The child that was being started by vfork when the ring was last written, or NULL. */
const struct ring_child *ring_vfork_child(const struct ring_file *ring);

#endif
