/* job.c - a job that tells what reaches it. `job LINES SIGNAL...` handles the signals, prints "ready", then a line
 * for each signal that comes, and exits with status 7 after LINES of them or 5 s.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
  sigset_t set;
  struct timespec limit = {5, 0}, settle = {0, 300000000};
  if (argc < 3) return 2;
  sigemptyset(&set);
  for (int i = 2; i < argc; i++) sigaddset(&set, atoi(argv[i]));
  sigprocmask(SIG_BLOCK, &set, NULL);
  printf("ready %d %d\n", (int)getpid(), (int)getpgrp());
  fflush(stdout);
  int wanted = atoi(argv[1]);
  for (int got = 0;; got++) {
    /* Behind the last signal that is expected, wait a little for one that is not. */
    int signal = sigtimedwait(&set, NULL, got < wanted ? &limit : &settle);
    if (signal < 0) break;
    printf("signal %d\n", signal);
    fflush(stdout);
  }
  return 7;
}
