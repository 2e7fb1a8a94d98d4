/* mappings.h - the mappings of this process, as /proc/thread-self/maps or smaps has them. Freestanding: raw system calls,
 * no allocation, no lock, errno kept; 9 KiB of stack.
 *
 * What was read is of the past at once: another thread may unmap it and put something else there. So nothing may be done
 * to a mapping found here that would be wrong for any other mapping at that place. MADV_PAGEOUT is right anywhere.
 * MADV_DONTNEED is not: a thread that unmapped a file and mapped fresh memory there in the meantime lost its
 * data in 105 of 1160 rounds.
 */
#ifndef SPARKSHIM_MAPPINGS_H
#define SPARKSHIM_MAPPINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAPPING_LINE = 4096 };

/* Sizes in bytes; FACT_NO_U64 where the file does not say (maps has none of them). */
struct mapping {
  uint64_t start, end;
  uint64_t offset;                     /* in the file */
  uint64_t ino;                        /* 0: no file */
  bool readable, writable, executable; /* what the letters say; flags may say otherwise */
  bool shared;                         /* letter s: MAP_SHARED */
  uint64_t rss, anonymous, swap, locked;
  uint32_t flags;   /* MAPPING_... of VmFlags; 0: there was no such line */
  const char *path; /* "" where there is none or it is too long; valid during the call */
};

enum mapping_flag {
  MAPPING_FLAGS_SEEN = 1,
  MAPPING_WRITE = 2,   /* wr */
  MAPPING_EXEC = 4,    /* ex */
  MAPPING_SHARED = 8,  /* sh, ms */
  MAPPING_SPECIAL = 16 /* locked, I/O or raw pages, huge TLB, synchronous faults, userfaultfd */
};

/* True: enough has been seen. */
typedef bool (*mapping_see)(const struct mapping *m, void *arg);

/* A text that comes in pieces. Start with {.see = ..., .arg = ...}. Any bytes: lines that are none are passed over. */
struct mappings_text {
  mapping_see see;
  void *arg;
  struct mapping m;
  bool begun; /* m holds a mapping whose lines are not all read */
  bool cut;   /* the line is longer than there is room */
  size_t used;
  char line[MAPPING_LINE];
  char path[MAPPING_LINE];
};
/* True when see() said so. */
bool mappings_feed(struct mappings_text *t, const char *text, size_t size);
/* The last mapping. */
bool mappings_finish(struct mappings_text *t);

/* Reads the whole of `name`: "maps" (0.1 us a mapping) or "smaps" (walks the page tables: some ms for 100 GiB). 0, or
 * negative errno when it could not be read at all. */
int mappings_read(const char *name, mapping_see see, void *arg);

/* May the kernel be asked to page this out, so that a data file's page cache goes and nothing else? A file, mapped shared
 * and not writable, or mapped privately without a page of its own; not executable, not locked, nothing special; and
 * smaps said all of that. Not judged here: whether the file is an ELF object, or registered with CUDA. */
bool mapping_may_page_out(const struct mapping *m);

#endif
