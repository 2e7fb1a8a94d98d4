/* ending.h - the end of the process as evidence: the rule by which a WARN becomes a FAIL at the `exit` fact, the
 * same for all detectors (DESIGN section 1). Freestanding, no state.
 *
 * A non-zero exit alone proves nothing. What a detector saw decides the fate of a process only when it is unresolved,
 * when the process failed by its own doing, and when it was the last thing that CUDA did for it, shortly before.
 * `end` is always a fact of kind exit.
 */
#ifndef SPARKSHIM_ENDING_H
#define SPARKSHIM_ENDING_H

#include "fact.h"
#include "finding.h"

/* The signal that ended the process: exit.signal, or the one that shells and runtimes report as 128 + signal
 * (signals 1 to 64). FACT_NO_I64: none. */
int64_t ending_signal(const struct fact *end);

/* Unsuccessful, and not by a signal that people, managers and killers send: SIGHUP, SIGINT, SIGKILL, SIGTERM. */
bool ending_is_own_failure(const struct fact *end);

/* Unsuccessful by its own decision: an exit status, or SIGABRT (an exception that nobody caught); no crash. */
bool ending_gave_up(const struct fact *end);

/* What was seen at `t` (Unix time, us) is the last thing that CUDA did for the process (exit.last_activity), at
 * most 30 s before its end. */
bool ending_follows(uint64_t t, const struct fact *end);

/* What a warning about something seen at `t` is at the end. INFO: it was resolved, or the process ended well;
 * FAIL: the process failed by its own doing right after it; WARN: anything else. */
enum verdict ending_verdict(uint64_t t, bool resolved, const struct fact *end);

/* The exit fact of a job that ended with status 0, for detectors that see the launcher's job_end alone. */
struct fact ending_of_good_job(const struct fact *job_end);

/* Adds "the process ended with status 1, 300 ms later; no CUDA work succeeded in between" to a list. */
void ending_say(struct finding_list *list, uint64_t t, const struct fact *end);

#endif
