/* witness.c - see witness.h. The child's half runs between fork and exit: system calls only. */
#include "witness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
  WAIT_MS = 50,   /* a signal to a group or a control group reaches its members within this */
  FRESH_MS = 500, /* a sighting older than this belongs to an earlier signal */
};

struct sighting {
  int signal;
  pid_t sender;
};

static long long now_ms(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

static void kill_job(pid_t job, int pidfd) {
  if (pidfd >= 0) {
    syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
  } else if (job > 0) {
    kill(job, SIGKILL);
  }
}

/* Keeps nothing open that the job's readers wait for: pipes end when their last writer closes. */
static void keep_only(int seen, int control) {
  dup2(seen, 0);
  dup2(control, 1);
  close(2);
  if (syscall(SYS_close_range, 3, ~0U, 0) < 0) /* a kernel before 5.9 */
    for (int fd = 3; fd < 1024; fd++) close(fd);
}

static void report_signals(int from, int to) {
  struct signalfd_siginfo info;
  while (read(from, &info, sizeof info) == (ssize_t)sizeof info) {
    if (info.ssi_code > 0) continue; /* the kernel's own, a terminal's: it goes to groups only */
    struct sighting s = {(int)info.ssi_signo, (pid_t)info.ssi_pid};
    if (write(to, &s, sizeof s) < 0) return;
  }
}

/* Runs until the launcher is gone, or ends it. */
static void watch(int seen, int control) {
  sigset_t all;
  int pidfd = -1;
  pid_t job = 0;
  sigfillset(&all);
  prctl(PR_SET_NAME, "sparkrun-group");
  keep_only(seen, control);
  int signals = signalfd(-1, &all, SFD_NONBLOCK);
  struct pollfd polls[2] = {{.fd = signals, .events = POLLIN}, {.fd = 1, .events = POLLIN}};
  for (;;) {
    if (poll(polls, 2, -1) < 0 && errno != EINTR) break;
    if (polls[0].revents) report_signals(signals, 0);
    if (!polls[1].revents) continue;
    if (read(1, &job, sizeof job) != (ssize_t)sizeof job) break;
    pidfd = (int)syscall(SYS_pidfd_open, job, 0);
  }
  kill_job(job, pidfd);
}

int witness_start(struct witness *w) {
  int seen[2], control[2];
  memset(w, 0, sizeof *w);
  if (pipe2(seen, O_CLOEXEC | O_NONBLOCK) < 0) return -errno;
  if (pipe2(control, O_CLOEXEC) < 0) {
    int error = errno;
    close(seen[0]), close(seen[1]);
    return -error;
  }
  w->pid = fork();
  if (w->pid == 0) {
    watch(seen[1], control[0]);
    _exit(0);
  }
  int error = errno;
  close(seen[1]), close(control[0]);
  w->seen = seen[0];
  w->control = control[1];
  if (w->pid > 0) return 0;
  close(w->seen), close(w->control);
  return -error;
}

void witness_tell_job(struct witness *w, pid_t job) {
  if (write(w->control, &job, sizeof job) < 0) witness_end(w); /* it is gone: nothing more to expect from it */
}

static void read_sightings(struct witness *w) {
  struct sighting s;
  while (read(w->seen, &s, sizeof s) == (ssize_t)sizeof s)
    if (s.signal > 0 && s.signal < 65) w->last[s.signal] = (struct witness_sight){s.sender, now_ms()};
}

bool witness_saw(struct witness *w, int signal, pid_t sender) {
  long long until = now_ms() + WAIT_MS;
  struct witness_sight *sight = &w->last[signal];
  for (;;) {
    read_sightings(w);
    long long now = now_ms();
    if (sight->at_ms && sight->sender == sender && now - sight->at_ms < FRESH_MS) {
      sight->at_ms = 0;
      return true;
    }
    if (now >= until) return false;
    struct pollfd p = {.fd = w->seen, .events = POLLIN};
    poll(&p, 1, (int)(until - now));
  }
}

void witness_end(struct witness *w) {
  if (w->pid <= 0) return;
  kill(w->pid, SIGKILL);
  waitpid(w->pid, NULL, 0);
  close(w->seen);
  close(w->control);
  w->pid = 0;
}
