/* job_of.h - which of two machines a process is of, and whether it belongs to the job. For the collectors of collect.h.
 *
 * Under the simulator the job's processes are real and all others stand below the root: a pid that exists there is
 * another machine's, whoever has that number here.
 */
#ifndef SPARKSHIM_JOB_OF_H
#define SPARKSHIM_JOB_OF_H

#include <stdbool.h>
#include "collect.h"
#include "procuse.h"

struct job_view {
  const char *root;
  const struct collect_job *job; /* NULL: there is none */
};

/* In the job's list, the job itself or one that descends from it. */
bool job_has(const struct job_view *v, int pid);
/* Where its files are: the root, or NULL for the real /proc. */
const char *job_root_of(const struct job_view *v, int pid);
/* procuse_read below `root` alone when it is not NULL. 0 or negative errno: there is no such process. */
int job_read_process(const char *root, int pid, struct procuse *u);
/* `pid` is an ancestor of the job, or of this process where there is no job. */
bool job_descends_from(const struct job_view *v, int pid);

#endif
