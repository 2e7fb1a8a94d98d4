/* dlmopen and RTLD_DEEPBIND: the namespace of the caller decides, and so does whose word a library sees. Argument: a
 * subject, whose RUNPATH has another one; the program's own has a third. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>

#include "say.h"

int shared_word(void);
int shared_word(void) { return 1; }

static void say_space(const char *what, void *handle) {
  Lmid_t id = -7;
  if (handle) dlinfo(handle, RTLD_DI_LMID, &id);
  printf("%s: %s\n", what, !handle ? "none" : id == LM_ID_BASE ? "base" : id > 0 ? "another" : "unknown");
}

static void in_new_space(const char *path) {
  void *handle = dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
  void *(*open_there)(const char *, int);
  say_subject("new space", handle);
  say_space("new space", handle);
  if (!handle) return;
  *(void **)&open_there = dlsym(handle, "subject_open");
  say_space("opened from there", open_there("libsubject_deep.so", RTLD_NOW));
  say_space("opened from here", dlmopen(LM_ID_BASE, path, RTLD_NOW));
}

static void bound(const char *path, int flags) {
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | flags);
  int (*word)(void);
  *(void **)&word = dlsym(handle, "subject_shared_word");
  printf("flags %d: word %d\n", flags, word());
  dlclose(handle);
}

int main(int argc, char **argv) {
  wake();
  if (argc < 2) return 2;
  bound(argv[1], 0);
  bound(argv[1], RTLD_DEEPBIND);
  say_subject("found by the caller's path", dlmopen(LM_ID_BASE, "libsubject.so", RTLD_NOW));
  in_new_space(argv[1]);
  dlmopen(LM_ID_NEWLM, "libnowhere.so", RTLD_NOW);
  say_error("new space, missing");
  dlmopen(12345, argv[1], RTLD_NOW);
  say_error("no such space");
  return 0;
}
