/* sampler.h - a thread of the launcher that looks at the machine while the job runs, and writes what it sees into the
 * launcher's log as facts (beat.h: how often). Under the simulator it follows the simulated clock.
 *
 * Whatever it cannot do costs the samples, never the job: it takes no signal, touches no terminal, starts nothing in
 * the job, and the job's end does not wait for it.
 */
#ifndef SPARKSHIM_SAMPLER_H
#define SPARKSHIM_SAMPLER_H

#include <stdbool.h>

struct sampler_of {
  int log;         /* the launcher's file; negative: there is nothing to do */
  const char *dir; /* the run's folder, until sampler_end() */
};

/* The look before the job is there ("start"). */
void sampler_before(const struct sampler_of *of);
/* Begins, with all signals blocked. `job`: its process id. */
void sampler_begin(const struct sampler_of *of, int job);
/* The job has ended, badly (`failed`) or well: what is left in the logs of its processes, the last look ("end"), and the
 * thread's end, for which two seconds are waited at most: it may hang in a read of a machine that stands still. */
void sampler_end(bool failed);

#endif
