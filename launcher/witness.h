/* witness.h - a small process in our process group that tells whom a signal was sent to.
 *
 * kill(pid) and kill(-group) look the same to the receiver. Passing on a signal that the job has already got
 * would deliver it twice: a second SIGTERM interrupts the clean-up that the first one started. A signal that the
 * witness saw as well went to the group.
 * It has a second duty: if we are killed by SIGKILL it kills the job, because whoever did that believes that
 * our process id is the job.
 */
#ifndef SPARKSHIM_WITNESS_H
#define SPARKSHIM_WITNESS_H

#include <stdbool.h>
#include <sys/types.h>

struct witness {
  pid_t pid;
  int seen;    /* pipe: what it saw, from it */
  int control; /* pipe: the job's process id, to it */
  struct witness_sight {
    pid_t sender;
    long long at_ms;
  } last[65];
};

/* Call with all signals blocked. 0 or negative errno. */
int witness_start(struct witness *w);
void witness_tell_job(struct witness *w, pid_t job);

/* Whether the witness got `signal` from `sender` too, waiting for it for a moment. */
bool witness_saw(struct witness *w, int signal, pid_t sender);

/* Ends the witness without harm to the job. */
void witness_end(struct witness *w);

#endif
