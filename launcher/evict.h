/* evict.h - what the files of `sparkshim evict` share: evict.c walks, evict_file.c looks at one file, evict_say.c tells. */
#ifndef SPARKSHIM_EVICT_H
#define SPARKSHIM_EVICT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

enum evict_why {
  EVICT_FINE,      /* nothing of it is cached any more, or nothing ever was */
  EVICT_MAPPED,    /* a process has it mapped: see `mapper` */
  EVICT_DIRTY,     /* what is left has not been written to disk yet */
  EVICT_LEFT,      /* something is left, and nothing tells why (a lock, a process that cannot be looked at) */
  EVICT_UNKNOWN,   /* not the caller's file: what is cached is not told */
  EVICT_NO_CACHE,  /* its file system has no disk behind it: there is nothing to go back to */
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

struct evict_totals {
  uint64_t files, empty, cached, dropped, left;
  uint64_t blind;      /* files of which the kernel does not tell this user what is cached */
  uint64_t unreadable; /* files and folders that could not be looked at, or have no cache */
  uint64_t untold;     /* files with cache that have no line of their own */
};

struct evict_walk {
  struct evict_how how;
  struct evict_totals sum;
  uint64_t free_before, free_after; /* MemFree */
  struct evict_file *file;          /* those that get a line */
  size_t files;
  struct evict_id {
    dev_t dev;
    ino_t ino;
  } * seen; /* of all files, so that links count once; ino 0: a free place */
  size_t seens, room;
  unsigned unseen; /* processes that could not be looked at */
};

/* Looks at `file->path` and gives its cache back; fills all but `mapper`. A symbolic link is followed. Opens nothing
 * but regular files. */
void evict_file(struct evict_file *file, const struct evict_how *how);

/* Finds the processes that map the `n` files (those with something left), in one walk over /proc. Returns the number
 * of processes that could not be looked at. */
unsigned evict_mappers(struct evict_file *const *files, unsigned n);

/* What was done, for people, and for programs (docs/page-cache.md). */
void evict_text(const struct evict_walk *w, FILE *to);
void evict_json(const struct evict_walk *w, FILE *to);

#endif
