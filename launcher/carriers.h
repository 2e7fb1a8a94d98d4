/* carriers.h - processes that outlive the job and still belong to its run. */
#ifndef SPARKSHIM_CARRIERS_H
#define SPARKSHIM_CARRIERS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { CARRIERS = 32 }; /* as many as are worth naming */

struct carrier {
  pid_t pid;
  char name[32];
  bool has_log; /* a file in the run's folder is mapped */
};

/* Live processes of this user, other than this one, whose environment has SPARKSHIM_RUN=`id` or that have a file
 * of the folder `dir` mapped. Returns how many are in `found`. Reads /proc once, some 20 us a process, and 100 us where
 * there are logs. */
size_t carriers_find(const char *id, const char *dir, struct carrier found[CARRIERS]);
size_t carriers_with_log(const struct carrier *found, size_t n);

#endif
