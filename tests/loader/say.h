/* say.h - for the programs that run once bare and once under the library (differential.py): whatever they print must
 * not depend on where things are mapped.
 *
 * wake(): the first call of every program. With LOADER_WAKE=<an empty libcuda.so.1> in the environment the library
 * wakes up there; the bare run does the same, so both stay comparable. */
#ifndef SAY_H
#define SAY_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void wake(void) {
  const char *path = getenv("LOADER_WAKE");
  if (path && !dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    printf("wake: %s\n", dlerror());
    exit(1);
  }
}

/* Text of the loader's error for the last call, twice: the second must say that it was fetched. */
static inline void say_error(const char *what) {
  const char *text = dlerror();
  printf("%s: %s", what, text ? text : "no error");
  printf(" | then: %s\n", dlerror() ? "still set" : "cleared");
}

/* What an opened subject says of itself. */
static inline void say_subject(const char *what, void *handle) {
  const char *(*name)(void);
  if (!handle) {
    say_error(what);
    return;
  }
  *(void **)&name = dlsym(handle, "subject_name");
  printf("%s: %s\n", what, name ? name() : dlerror());
}

#endif
