/* One link of a chain of interposers: LINK 1 and 2 pass on by RTLD_NEXT, LINK 3 ends it. LINK 0 is the program. Each also
 * asks for its next dlsym and dlopen, as preloads do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

#include "say.h"

int chained(int depth);

#if LINK == 0
int main(void) {
  void *here;
  wake();
  printf("chain: %d\n", chained(0));
  here = dlsym(RTLD_DEFAULT, "chained");
  printf("first: %d\n", ((int (*)(int))here)(0));
  printf("default and self agree: %d\n", here == dlsym(dlopen(NULL, RTLD_NOW), "chained"));
  return 0;
}
#elif LINK == 3
int chained(int depth) { return depth * 10 + 3; }
#else
int chained(int depth) {
  int (*next)(int);
  *(void **)&next = dlsym(RTLD_NEXT, "chained");
  if (!next) return -LINK;
  printf("link %d, other loader functions ahead: %d\n", LINK, dlsym(RTLD_NEXT, "dlopen") && dlsym(RTLD_NEXT, "dlsym"));
  return next(depth * 10 + LINK);
}
#endif
