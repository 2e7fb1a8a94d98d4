/* job.c - see job.h. Single-threaded; all signals are blocked while a job runs and taken with sigtimedwait(2), so
 * there is no asynchronous code but the crash handler. */
#include "job.h"
#include "witness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CONTINUE_MS = 50 }; /* a SIGCONT to our group has reached the job within this */

static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
enum { CRASHES = sizeof crashes / sizeof crashes[0] };

static volatile sig_atomic_t witness_pid; /* for on_crash alone */

/* A fault of ours must not cost the job: the witness would take our death for a SIGKILL meant for it. */
static void on_crash(int signal) {
  if (witness_pid > 0) kill((pid_t)witness_pid, SIGKILL);
  raise(signal); /* SA_RESETHAND: the default action ends us once the handler returns */
}

static void take_over_signals(struct job *job) {
  sigset_t blocked;
  struct sigaction by_default = {.sa_handler = SIG_DFL};
  struct sigaction crash = {.sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND};
  sigfillset(&blocked);
  for (int i = 0; i < CRASHES; i++) sigdelset(&blocked, crashes[i]);
  sigprocmask(SIG_SETMASK, &blocked, &job->mask);
  /* Whoever started us may ignore SIGCHLD: then a child's status would be lost. */
  sigaction(SIGCHLD, &by_default, &job->sigchld);
  for (int i = 0; i < CRASHES; i++) {
    struct sigaction old;
    sigaction(crashes[i], NULL, &old);
    if (old.sa_handler == SIG_DFL) sigaction(crashes[i], &crash, NULL); /* exec resets handlers to the default */
  }
}

void job_undo(const struct job *job) {
  sigaction(SIGCHLD, &job->sigchld, NULL);
  sigprocmask(SIG_SETMASK, &job->mask, NULL);
}

static void start_witness(struct job *job) {
  static struct witness witness;
  job->witness = witness_start(&witness) ? NULL : &witness;
  witness_pid = job->witness ? witness.pid : 0;
}

static void end_witness(struct job *job) {
  if (job->witness) witness_end(job->witness);
  job->witness = NULL;
  witness_pid = 0;
}

/* Readers of the job's pipes must see the end when the job closes them: our own copies go. What we inherited is
 * what has no close-on-exec flag; all that we open has it. stderr stays, it is where the last lines go. */
static void let_go_of_inherited_files(void) {
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null >= 0) {
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    close(null);
  }
  DIR *dir = opendir("/proc/self/fd");
  const struct dirent *entry;
  while (dir && (entry = readdir(dir))) {
    int fd = atoi(entry->d_name);
    if (fd > STDERR_FILENO && fd != dirfd(dir) && !(fcntl(fd, F_GETFD) & FD_CLOEXEC)) close(fd);
  }
  if (dir) closedir(dir);
}

int job_start(struct job *job, char **argv, const char **ret_phase) {
  int trouble[2], error = 0;
  *ret_phase = "fork";
  if (pipe2(trouble, O_CLOEXEC) < 0) return -errno;
  take_over_signals(job);
  start_witness(job);
  job->pid = fork();
  if (job->pid == 0) {
    job_undo(job);
    execvp(argv[0], argv);
    error = errno;
    ssize_t told = write(trouble[1], &error, sizeof error);
    (void)told;
    _exit(127);
  }
  if (job->pid < 0) error = errno;
  close(trouble[1]);
  if (job->pid > 0) {
    if (job->witness) witness_tell_job(job->witness, job->pid);
    if (read(trouble[0], &error, sizeof error) == (ssize_t)sizeof error) {
      *ret_phase = "exec";
      waitpid(job->pid, NULL, 0);
    }
  }
  close(trouble[0]);
  if (error) {
    end_witness(job);
  } else {
    let_go_of_inherited_files();
  }
  return -error;
}

static bool in_foreground(void) {
  int tty = open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (tty < 0) return false;
  bool yes = tcgetpgrp(tty) == getpgrp();
  close(tty);
  return yes;
}

static void pause_ms(long ms) {
  struct timespec ts = {.tv_sec = 0, .tv_nsec = ms * 1000000};
  nanosleep(&ts, NULL);
}

/* After we were continued: so was the job, if the signal went to the group; else it is told. It may have been killed
 * meanwhile (a shell's `kill %1` sends SIGTERM and SIGCONT): waitid without WEXITED leaves its end to reap(). */
static void continue_job(const struct job *job) {
  for (int ms = 0; ms < CONTINUE_MS; ms += 5) {
    siginfo_t info = {.si_pid = 0};
    if (waitid(P_PID, (id_t)job->pid, &info, WNOHANG | WCONTINUED) < 0 || info.si_pid == job->pid) return;
    pause_ms(5);
  }
  kill(job->pid, SIGCONT);
}

/* The job has stopped: stop by the same signal, so that our shell sees what it would have seen. Somebody may
 * have stopped the job alone by SIGSTOP, and would continue it alone: that is not followed, except at a
 * terminal, where only a stop of ours gives the shell its prompt back. */
static void stop_too(const struct job *job, int signal) {
  sigset_t one;
  if (signal == SIGSTOP && !in_foreground()) return;
  sigemptyset(&one);
  sigaddset(&one, signal);
  raise(signal);
  if (signal != SIGSTOP) {
    sigprocmask(SIG_UNBLOCK, &one, NULL); /* stops here */
    sigprocmask(SIG_BLOCK, &one, NULL);
  }
  continue_job(job);
}

/* Sends on what was sent to our process id. */
static void pass_on(const struct job *job, siginfo_t *info) {
  if (info->si_code > 0) return;        /* the kernel's: a terminal's, which the job gets itself */
  if (info->si_pid == job->pid) return; /* from the job to its parent */
  if (job->witness && witness_saw(job->witness, info->si_signo, info->si_pid)) return;
  if (info->si_code == SI_QUEUE) {
    sigqueue(job->pid, info->si_signo, info->si_value);
  } else {
    kill(job->pid, info->si_signo);
  }
}

/* True when the job has ended. */
static bool reap(struct job *job, int *ret_status) {
  pid_t pid;
  int status;
  while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
    if (pid != job->pid) continue;
    if (WIFSTOPPED(status)) {
      stop_too(job, WSTOPSIG(status));
      continue;
    }
    *ret_status = status;
    return true;
  }
  return false;
}

int job_wait(struct job *job) {
  sigset_t all;
  siginfo_t info;
  int status = 0;
  sigfillset(&all);
  for (int i = 0; i < CRASHES; i++) sigdelset(&all, crashes[i]);
  while (!reap(job, &status)) {
    if (sigwaitinfo(&all, &info) < 0) continue;
    if (info.si_signo != SIGCHLD) pass_on(job, &info);
  }
  end_witness(job);
  return status;
}

void job_end_like(int status) {
  if (!WIFSIGNALED(status)) exit(WEXITSTATUS(status));
  int signal = WTERMSIG(status);
  struct sigaction by_default = {.sa_handler = SIG_DFL};
  struct rlimit none = {0, 0};
  sigset_t one;
  setrlimit(RLIMIT_CORE, &none);
  prctl(PR_SET_DUMPABLE, 0); /* a core pattern that is a pipe does not look at the limit */
  sigaction(signal, &by_default, NULL);
  sigemptyset(&one);
  sigaddset(&one, signal);
  raise(signal);
  sigprocmask(SIG_UNBLOCK, &one, NULL);
  exit(128 + signal); /* process 1 of a PID namespace is not killed by its own signals */
}
