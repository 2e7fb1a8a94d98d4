/* What wakes the library, what it keeps about loads, and what children do: one scene per argument, judged by life.py from
 * the records that it leaves. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "say.h"

extern char **environ;

static const char *extra; /* second argument */

static void *open_libcuda(void *unused) {
  (void)unused;
  dlopen("libcuda.so.1", RTLD_NOW);
  return dlerror();
}

/* A family's object is asked for, and nobody fetches the text. */
static int unmapped(void) {
  dlopen("libcudart.so.99", RTLD_NOW);
  return 7;
}

static int fetched(void) {
  dlopen("libcudart.so.99", RTLD_NOW);
  return dlerror() == NULL;
}

/* Names no family, but its text says what is wrong with it. */
static int undefined(void) {
  dlopen(extra, RTLD_NOW);
  return dlerror() == NULL;
}

static int unrelated(void) {
  void *self = dlopen(NULL, RTLD_NOW);
  dlopen("libnowhere.so.3", RTLD_NOW);
  dlerror();
  dlopen("libcurl.so.99", RTLD_NOW);
  dlerror();
  dlsym(self, "cuda_is_not_a_hook");
  dlerror();
  return dlsym(self, "cudaMallocX") != NULL;
}

static int loaded(void) {
  errno = 77;
  if (!dlopen(extra, RTLD_NOW)) return 1;
  dlopen(NULL, RTLD_NOW);
  return errno != 77;
}

/* The object comes as a need of another one. */
static int brought_along(void) {
  if (!dlopen(extra, RTLD_NOW)) return 1;
  return dlopen(NULL, RTLD_NOW) == NULL;
}

static int again(void) {
  for (int i = 0; i < 3; i++) {
    void *handle = dlopen(extra, RTLD_NOW);
    dlopen("libcudart.so.99", RTLD_NOW);
    dlerror();
    if (!handle || dlclose(handle)) return 1;
    dlopen("libcudart.so.99", RTLD_NOW);
    dlerror();
  }
  return 0;
}

static int threads(void) {
  pthread_t thread[8];
  void *text;
  for (unsigned i = 0; i < 8; i++) pthread_create(&thread[i], NULL, open_libcuda, NULL);
  for (unsigned i = 0; i < 8; i++)
    if (pthread_join(thread[i], &text) || !text) return 1;
  return 0;
}

static int wait_for(pid_t child) {
  int status = -1;
  if (waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* What was loaded goes by another name of the same file, or was closed before anything else happened. */
static int other_names(void) {
  void *first = dlopen("libcuda.so.1", RTLD_NOW), *second = dlopen("libcuda.so", RTLD_NOW);
  if (!first || second != first) return 1;
  if (dlopen("libcuda.so.1.2", RTLD_NOW) != first) return 2;
  if (dlopen("libcuda.so.1.3", RTLD_NOW)) return 3;
  second = dlopen("libcudart.so", RTLD_NOW);
  if (!second || dlclose(second)) return 4;
  return dlopen("libcudart.so.12", RTLD_NOW) != NULL;
}

/* A child with an event of its own, one without, one that inherits an unjudged request. */
static int forks(void) {
  pid_t child;
  open_libcuda(NULL);
  child = fork();
  if (child == 0) {
    dlopen("libnccl.so.99", RTLD_NOW);
    exit(dlerror() == NULL);
  }
  if (wait_for(child)) return 1;
  child = fork();
  if (child == 0) exit(5);
  if (wait_for(child) != 5) return 1;
  dlopen("libcudart.so.99", RTLD_NOW);
  child = fork();
  if (child == 0) exit(dlopen("libnowhere.so", RTLD_NOW) != NULL);
  if (wait_for(child)) return 1;
  dlerror();
  return 0;
}

static int children(void) {
  char *bad[] = {"ptxas", "--gpu-name=sm_121a", NULL}, *good[] = {"ptxas", NULL}, *other[] = {"other", NULL};
  char other_path[512];
  siginfo_t info = {0};
  pid_t child;
  int status = 0;
  snprintf(other_path, sizeof other_path, "%.*s/other", (int)(strrchr(extra, '/') - extra), extra);
  unsetenv("LD_PRELOAD"); /* the children may be of another processor than this program */
  open_libcuda(NULL);
  child = vfork();
  if (child == 0) {
    execve(extra, bad, environ);
    _exit(126);
  }
  if (wait_for(child) != 1) return 1;
  child = fork();
  if (child == 0) {
    execv(extra, bad);
    _exit(126);
  }
  if (wait4(child, NULL, 0, NULL) != child) return 2;
  if (posix_spawn(&child, extra, NULL, NULL, bad, environ)) return 3;
  if (waitid(P_PID, (id_t)child, &info, WEXITED) || info.si_status != 1) return 4;
  if (posix_spawn(&child, other_path, NULL, NULL, other, environ) || wait_for(child) != 1) return 5;
  if (posix_spawn(&child, "/bin/true", NULL, NULL, good, environ) || waitpid(child, &status, 0) != child) return 6;
  return waitpid(-1, &status, 0) == -1 && errno == ECHILD ? 0 : 7;
}

static int notes(void) {
  open_libcuda(NULL);
  for (int i = 0; i < 2; i++) {
    dlopen(extra, RTLD_NOW | RTLD_DEEPBIND);
    dlmopen(LM_ID_NEWLM, "libnowhere.so", RTLD_NOW);
  }
  return 0;
}

/* The driver's way in: loaded late, called by name. */
static int injected(void) {
  void *library = dlopen(extra, RTLD_NOW | RTLD_LOCAL);
  int (*initialize)(void);
  if (!library) return 1;
  *(void **)&initialize = dlsym(library, "InitializeInjection");
  return !initialize || initialize() != 1 || initialize() != 1;
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    int (*play)(void);
  } scenes[] = {
      {"unmapped", unmapped},      {"fetched", fetched}, {"undefined", undefined}, {"unrelated", unrelated},
      {"loaded", loaded},          {"again", again},     {"threads", threads},     {"forks", forks},
      {"children", children},      {"notes", notes},     {"injected", injected},   {"brought_along", brought_along},
      {"other_names", other_names}};
  extra = argc > 2 ? argv[2] : NULL;
  for (unsigned i = 0; argc > 1 && i < sizeof scenes / sizeof scenes[0]; i++)
    if (!strcmp(argv[1], scenes[i].name)) return scenes[i].play();
  return 99;
}
