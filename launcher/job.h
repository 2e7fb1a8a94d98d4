/* job.h - one child process that stands for this one: same terminal, process group, stdin, signals and, at the
 * end, the same status for whoever waits for us.
 *
 * The job is an ordinary child in our own process group, so that the terminal's signals reach it without
 * us. Signals sent to our process id alone are passed on; signals sent to the whole group are not, the job
 * has them already (witness.h tells which is which). When the job stops, we stop the same way, so that a shell's
 * job control works. We are no subreaper.
 */
#ifndef SPARKSHIM_JOB_H
#define SPARKSHIM_JOB_H

#include <sys/types.h>

#include <signal.h>

struct job {
  pid_t pid;
  sigset_t mask;            /* the signal mask we were started with: the job's */
  struct sigaction sigchld; /* the SIGCHLD action we were started with: the job's */
  struct witness *witness;  /* NULL when there is none: then every signal is passed on */
};

/* Starts argv by execvp(3) and returns once it runs. 0, or negative errno: of execvp, with `ret_phase` "exec",
 * or of fork and pipe, with "fork" (nothing was started then, and the caller may exec the program itself after
 * job_undo()). All signals are blocked from here on. */
int job_start(struct job *job, char **argv, const char **ret_phase);
void job_undo(const struct job *job);

/* Until the job's end: passes signals on, stops when it stops. Returns its wait status. Also reaps what
 * else falls to us (as process 1 of a container). */
int job_wait(struct job *job);

/* Ends this process as the job ended: same exit status, or killed by the same signal, without a second
 * core file. */
void job_end_like(int status) __attribute__((noreturn));

#endif
