/* runs.h - the runs that are kept on this machine, and which of them is meant. For `report`, `evict --run` and the line at the
 * end of a job.
 *
 * They lie below SPARKSHIM_DIR where that is set; the temporary folder, where logs go when the place for them cannot be written,
 * counts only where SPARKSHIM_DIR is not set or cannot be written either.
 */
#ifndef SPARKSHIM_RUNS_H
#define SPARKSHIM_RUNS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>
#include "rundir.h"

struct run_entry {
  char *path;              /* of its folder */
  const char *id;          /* its last part */
  struct timespec changed; /* when a log was last begun in it */
  bool watched;            /* a process wrote a log: it used the GPU under the library's eyes */
};

/* Newest first. The caller calls runs_free(). */
size_t runs_list(struct run_entry **ret);
void runs_free(struct run_entry *list, size_t n);

/* The folder or log that `name` stands for: a path, the name of a run, the beginning of one; NULL: the newest run with a
 * watched process, else the newest. False, with a line said, where there is none, or more than one. */
bool runs_find(const char *name, char path[PATH_MAX]);

/* The line for where there is none at all. */
void runs_say_none(void);

/* <base>/runs of a place where runs are looked for; false: not there. */
bool runs_place(enum rundir_place place, char *path, size_t size);

#endif
