/* evict.h - what the files of `sparkshim evict` share: evict.c walks and says, evict_file.c looks at one file. */
#ifndef SPARKSHIM_EVICT_H
#define SPARKSHIM_EVICT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum evict_why {
  EVICT_FINE,      /* nothing of it is cached any more, or nothing ever was */
  EVICT_MAPPED,    /* a process has it mapped: see `mapper` */
  EVICT_DIRTY,     /* what is left has not been written to disk yet */
  EVICT_LEFT,      /* something is left, and nothing tells why (a lock, a process that cannot be looked at) */
  EVICT_UNKNOWN,   /* not the caller's file: what is cached is not told */
  EVICT_NO_CACHE,  /* its file system lies in memory: there is no copy elsewhere to go back to */
  EVICT_NOT_FILE,  /* a socket, a FIFO, a device */
  EVICT_UNREADABLE /* `error` says why */
};

enum { EVICT_MAPPERS = 3 }; /* processes that are named */

/* Bytes; FACT_NO_U64: not known. */
struct evict_file {
  char *path;
  char *real; /* the same without symbolic links, while mappers are looked for */
  dev_t dev;
  ino_t ino;
  uint64_t size;
  uint64_t cached;  /* before */
  uint64_t dropped; /* counted where the kernel tells, else estimated by the fall of Cached in /proc/meminfo */
  uint64_t left;
  bool estimated;
  enum evict_why why;
  int error; /* errno of EVICT_UNREADABLE */
  int last_mapper;
  unsigned mappers; /* processes that map it; the first EVICT_MAPPERS are named */
  struct {
    int pid;
    char name[16];
  } mapper[EVICT_MAPPERS];
};

struct evict_how {
  bool dry_run; /* look only */
  bool sync;    /* write dirty pages to disk first, and wait for it */
};

/* Looks at `file->path` and gives its cache back; fills all but `mapper`. A symbolic link is followed. Opens nothing
 * but regular files. */
void evict_file(struct evict_file *file, const struct evict_how *how);

/* Finds the processes that map the `n` files (those with something left), in one walk over /proc. Returns the number
 * of processes that could not be looked at. */
unsigned evict_mappers(struct evict_file *const *files, unsigned n);

#endif
