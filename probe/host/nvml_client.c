/* nvml_client.c - see nvml_client.h. */
#include "nvml_client.h"
#include "clock.h"
#include "quiet.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* The environment without what makes the helper part of a run: it is watched by nobody and carries no run's mark. */
static char **helper_environment(void) {
  static char off[] = "SPARKSHIM=0";
  size_t n = 0, kept = 0;
  while (environ[n]) n++;
  char **copy = malloc((n + 2) * sizeof *copy);
  if (!copy) return NULL;
  for (size_t i = 0; i < n; i++) {
    const char *e = environ[i];
    bool drop = !strncmp(e, "SPARKSHIM=", 10) || !strncmp(e, "SPARKSHIM_RUN=", 14) ||
                !strncmp(e, "SPARKSHIM_LAUNCHER=", 19);
    if (!drop) copy[kept++] = environ[i];
  }
  copy[kept++] = off;
  copy[kept] = NULL;
  return copy;
}

/* A process group of its own: the terminal's signals are the job's. No blocked or ignored signal is handed down. */
static int spawn_with(pid_t *pid, int in, int out, char *const argv[], char *const envp[]) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  int error = posix_spawn(pid, "/proc/self/exe", &files, &attributes, argv, envp);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return -error;
}

static void close_pair(int pair[2]) {
  if (pair[0] >= 0) close(pair[0]);
  if (pair[1] >= 0) close(pair[1]);
}

static int start(struct nvml_client *c) {
  int question[2] = {-1, -1}, answer[2] = {-1, -1};
  char name[] = "sparkshim", verb[] = NVML_HELPER_VERB, parent[16];
  char *argv[] = {name, verb, parent, NULL}, **envp;
  pid_t pid;
  snprintf(parent, sizeof parent, "%d", (int)getpid());
  if (pipe2(question, O_CLOEXEC) < 0 || pipe2(answer, O_CLOEXEC) < 0 || !(envp = helper_environment())) {
    int error = -errno;
    close_pair(question);
    close_pair(answer);
    return error;
  }
  int error = spawn_with(&pid, question[0], answer[1], argv, envp);
  free(envp);
  close(question[0]);
  close(answer[1]);
  if (error) {
    close(question[1]);
    close(answer[0]);
    return error;
  }
  c->pid = pid;
  c->to = question[1];
  c->from = answer[0];
  return 0;
}

/* Somebody else may have reaped it already (a loop of waitpid(-1)): that is as good. */
static void let_go(struct nvml_client *c) {
  if (c->to >= 0) close(c->to);
  if (c->from >= 0) close(c->from);
  c->to = c->from = -1;
  c->pid = 0;
  c->asked = 0;
  c->have = 0;
}

int nvml_ask(struct nvml_client *c) {
  if (c->asked) return 0;
  int error = c->pid ? 0 : start(c);
  if (error) return error;
  c->have = 0;
  c->asked = clock_us();
  /* A helper that has died shows when its answer is taken. */
  quiet_write(c->to, "?", 1);
  return 0;
}

static bool whole(const struct nvml_client *c) {
  const size_t head = offsetof(struct nvml_answer, process);
  if (c->have < head) return false;
  return c->have >= head + c->answer.n * sizeof c->answer.process[0];
}

/* A process in uninterruptible sleep does not end: it is left to whoever reaps children. */
static void end_helper(const struct nvml_client *c) {
  enum { PATIENCE_MS = 100, STEP_MS = 5 };
  const struct timespec pause = {.tv_nsec = STEP_MS * 1000000L};
  int status;
  if (!c->pid) return;
  kill(c->pid, SIGKILL);
  for (int ms = 0; ms < PATIENCE_MS && !waitpid(c->pid, &status, WNOHANG); ms += STEP_MS) nanosleep(&pause, NULL);
}

static enum nvml_state dead(struct nvml_client *c) {
  end_helper(c);
  let_go(c);
  c->answer = (struct nvml_answer){.result = -1};
  snprintf(c->answer.error, sizeof c->answer.error, "the helper that asks NVML ended without an answer");
  return NVML_ANSWERED;
}

static int64_t milliseconds(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

enum nvml_state nvml_take(struct nvml_client *c, int real_ms) {
  if (!c->asked) return NVML_IDLE;
  for (int64_t now = milliseconds(), until = now + real_ms;; now = milliseconds()) {
    struct pollfd poll_from = {.fd = c->from, .events = POLLIN};
    int ready = poll(&poll_from, 1, now < until ? (int)(until - now) : 0);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return NVML_WAITING;
    ssize_t n = read(c->from, (char *)&c->answer + c->have, sizeof c->answer - c->have);
    if (n <= 0) return dead(c);
    c->have += (size_t)n;
    if (c->have >= offsetof(struct nvml_answer, process) && c->answer.n > NVML_PROCESSES) return dead(c);
    if (!whole(c)) continue;
    c->asked = 0;
    c->answer.error[sizeof c->answer.error - 1] = '\0';
    for (uint32_t i = 0; i < c->answer.n; i++) c->answer.process[i].name[NVML_NAME - 1] = '\0';
    return NVML_ANSWERED;
  }
}

void nvml_end(struct nvml_client *c) {
  end_helper(c);
  let_go(c);
}
