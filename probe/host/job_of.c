/* job_of.c - see job_of.h. */
#include "job_of.h"
#include "procstat.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH = 64 }; /* of a tree of processes; deeper ones are not followed */

static bool below(const char *root, int pid) {
  char path[PATH_MAX];
  struct stat st;
  if (!root || !*root || snprintf(path, sizeof path, "%s/proc/%d", root, pid) >= (int)sizeof path) return false;
  return !stat(path, &st) && S_ISDIR(st.st_mode);
}

static bool listed(const struct collect_job *job, int pid) {
  for (size_t i = 0; i < job->n; i++)
    if (job->more[i] == pid) return true;
  return job->pid && job->pid == pid;
}

/* `pid` or one above it is `ancestor`, by the real /proc. */
static bool descends(int pid, int ancestor) {
  struct procstat st;
  for (int depth = 0; depth < DEPTH && pid > 0; depth++) {
    if (pid == ancestor) return true;
    if (procstat_read(pid, &st) < 0) return false;
    pid = st.ppid;
  }
  return false;
}

bool job_has(const struct job_view *v, int pid) {
  if (!v->job || pid <= 0) return false;
  if (listed(v->job, pid)) return true;
  return v->job->pid > 0 && !below(v->root, pid) && descends(pid, v->job->pid);
}

const char *job_root_of(const struct job_view *v, int pid) {
  if (v->job && listed(v->job, pid)) return NULL;
  return below(v->root, pid) ? v->root : NULL;
}

int job_read_process(const char *root, int pid, struct procuse *u) {
  procuse_clear(u);
  if (root && !below(root, pid)) return -ESRCH;
  return procuse_read(root, pid, u);
}

bool job_descends_from(const struct job_view *v, int pid) {
  int from = v->job && v->job->pid ? v->job->pid : (int)getpid();
  return pid > 0 && !below(v->root, pid) && descends(from, pid);
}
