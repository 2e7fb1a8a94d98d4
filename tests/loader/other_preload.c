/* Another preload that stands in front of the loader's functions, as many tools do: with ours before or behind it, the
 * program must reach it as often as without ours. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

void *dlopen(const char *name, int flags) {
  void *(*next)(const char *, int);
  *(void **)&next = dlsym(RTLD_NEXT, "dlopen");
  printf("other preload: open %s\n", name ? name : "-");
  return next(name, flags);
}

char *dlerror(void) {
  char *(*next)(void);
  *(void **)&next = dlsym(RTLD_NEXT, "dlerror");
  puts("other preload: error");
  return next();
}
