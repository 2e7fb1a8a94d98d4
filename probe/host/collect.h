/* collect.h - what is on this machine beside its figures, as facts: who holds GPU memory, what kills when memory runs low,
 * whom the kernel has killed, which limits bind the job. For the launcher (start, need, end) and for preflight.
 *
 * `root` is SPARKSHIM_ROOT or NULL. Each call hands every fact to `emit`; the strings of a fact are valid during
 * that call only. fact.t is clock_us(), one time for all facts of a call.
 */
#ifndef SPARKSHIM_COLLECT_H
#define SPARKSHIM_COLLECT_H

#include "cgroup.h"
#include "fact.h"
#include "nvml_client.h"

typedef void (*collect_emit)(const struct fact *fact, void *arg);

/* The job's processes: `pid` (0: there is no job), all that descend from it, and those of the list. */
struct collect_job {
  int pid;
  const int *more;
  size_t n;
};

/* ---- holder, nvml --------------------------------------------------------------------------------------------------- */

/* What earlier looks saw: kept by the caller from the first look to the last; zeroed memory at the start. */
struct holder_looks {
  struct holder_seen {
    uint32_t pid;
    bool listed;                 /* by the latest look */
    uint64_t start;              /* of the process: tells a pid that is used again */
    uint64_t since;              /* clock_us() of the first look that listed it */
    uint64_t still;              /* since when its bytes and its processor time stand still; 0: one look only */
    uint64_t bytes, cpu, looked; /* of the latest look */
  } seen[NVML_PROCESSES];
  size_t n;
  uint64_t gone; /* processes that were listed and are no longer */
};

/* A look in two steps, so that nobody has to wait: nvml_ask(), later nvml_take(), and when that says NVML_ANSWERED this: the
 * holders, then the fact nvml with the counts. */
void collect_holders(struct holder_looks *h, const struct nvml_answer *answer, uint64_t waited, const char *root,
                     const struct collect_job *job, collect_emit emit, void *arg);
/* While the question waits: the fact nvml with answered = false and the time waited so far. A waiting question and
 * nothing else has neither `answered` nor `error`. */
void collect_nvml_waits(const struct nvml_client *c, collect_emit emit, void *arg);
/* Both in one: asks and waits at most real_ms of real time. True when there was an answer. */
bool collect_look(struct holder_looks *h, struct nvml_client *c, int real_ms, const char *root,
                  const struct collect_job *job, collect_emit emit, void *arg);

/* ---- killer, oom_victim, limit --------------------------------------------------------------------------------------- */

/* Facts killer: earlyoom, systemd-oomd, raylet, nohang, oomd, by the names and command lines in /proc. One pass over /proc. */
void collect_killers(const char *root, const struct collect_job *job, collect_emit emit, void *arg);

/* Facts oom_victim: the kernel log's lines since `since_us` (clock_us()). Nothing where /dev/kmsg may not be read (a normal
 * user of Ubuntu and DGX OS may not). Never blocks. */
void collect_victims(const char *root, uint64_t since_us, const struct collect_job *job, collect_emit emit, void *arg);

/* Facts limit: RLIMIT_MEMLOCK and RLIMIT_AS of process `pid` (0: the caller, whose limits a job inherits), and the least
 * limit of the memory cgroup where it has one. */
void collect_limits(const char *root, int pid, const struct cgroup_place *place, collect_emit emit, void *arg);

#endif
