/* live.h - what the launcher finds while the job runs: the detectors, with what it has written into its own log, and with
 * what the processes of the job write into theirs, put together as `report` does (runlog.h).
 *
 * The library in a process says what it finds itself. What can be found only from outside, or with what was seen from
 * outside, is said here: a line on stderr at WARN and FAIL, and a finding record in the launcher's log.
 * One thread at a time.
 */
#ifndef SPARKSHIM_LIVE_H
#define SPARKSHIM_LIVE_H

#include <stdbool.h>

#include "fact.h"
#include "follow.h"
#include "jobtree.h"

/* Before the first record of the launcher's log. From here on every record of joblog.h is judged. `simulated`: lines are to
 * say so. */
void live_begin(const char *dir, bool simulated);
/* The launcher's log, once there is one. */
void live_log(int file);

/* Looks for new logs and reads on in the known ones. True when a process has written its exit record or is gone: a sample is
 * to be taken at once, and the exit is judged behind it. */
bool live_read(struct jobtree *tree);
/* Behind a sample: exits that were waiting for it. */
void live_exits(void);
/* Processes that are followed now: the i-th, or NULL behind the last. */
const struct followed *live_process(size_t i);

/* The job has ended: reads on as live_read(), also in logs of processes that nobody has seen alive. From here on nothing is
 * said, but written: the report that follows says it. `since`: start of the job, as in struct procstat. */
void live_end(struct jobtree *tree, uint64_t since);
/* Nothing is judged any more. */
void live_stop(void);

#endif
