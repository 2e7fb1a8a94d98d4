/* live.h - which allocations live, and how large each is: a fixed lock-free table.
 *
 * A free tells a pointer, not a size; live bytes need both. Any thread, any time, no lock, no allocation, no
 * system call but one mmap when the first few thousand entries are in use. Async-signal-safe, keeps errno.
 */
#ifndef SPARKSHIM_LIVE_H
#define SPARKSHIM_LIVE_H

#include <stdbool.h>
#include <stdint.h>

/* Addresses, VMM handles, arrays and registered host ranges are counted apart: their numbers may coincide. */
enum live_space { LIVE_ADDRESS, LIVE_HANDLE, LIVE_ARRAY, LIVE_REGISTERED };

enum {
  LIVE_NEAR_LINES = 1 << 11, /* 128 KiB, in the library's own memory: all that most jobs ever touch */
  LIVE_FAR_LINES = 1 << 19,  /* 32 MiB, reserved when the first few thousand entries are in use */
  LIVE_LINE_ENTRIES = 3,
  LIVE_CAPACITY = (LIVE_NEAR_LINES + LIVE_FAR_LINES) * LIVE_LINE_ENTRIES,
};

struct live_entry {
  uint64_t size;  /* bytes, less than 2^56 */
  unsigned route; /* enum alloc_route */
};

/* One number for an address or handle in its space. Never 0 or 1. */
static inline uint64_t live_key(enum live_space space, uint64_t value) { return value ^ ((uint64_t)space + 1) << 60; }

enum live_result { LIVE_UNTRACKED, LIVE_NEW, LIVE_REPLACED };

/* Enters `key`. LIVE_REPLACED: it was there (its free went past us); *ret_old is what it stood for. LIVE_UNTRACKED:
 * no room where this key may stand. A key must not be entered or taken by two threads at once; different keys may. */
enum live_result live_insert(uint64_t key, struct live_entry entry, struct live_entry *ret_old);

/* Takes `key` out. False, and *ret_entry untouched: it is not there. */
bool live_remove(uint64_t key, struct live_entry *ret_entry);

/* Does a range that was entered in `space` under its address touch [start, end)? Walks the whole table: 0.1 ms, 10 ms
 * when the far part is in use. */
bool live_overlaps(enum live_space space, uint64_t start, uint64_t end);

#endif
