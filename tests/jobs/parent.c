/* parent.c - starts the program of its command line, waits for it, and ends as it ended. It stands for a manager of jobs:
 * what matters is its name in the process table, above theirs. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
  int status;
  pid_t child = argc > 1 ? fork() : -1;
  if (child == 0) {
    execv(argv[1], argv + 1);
    perror(argv[1]);
    _exit(127);
  }
  if (child < 0 || waitpid(child, &status, 0) != child) {
    perror("parent");
    return 125;
  }
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  kill(getpid(), WTERMSIG(status));
  return 128 + WTERMSIG(status);
}
