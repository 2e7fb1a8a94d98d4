/* Every text that dlerror can give, and that it is given once and to the right call. Arguments: a text file, a file for
 * another machine, an object that needs an undefined symbol, an object that needs a missing object, a good one. */
#define _GNU_SOURCE
#include "say.h"

static void open_each(char **paths) {
  for (; *paths; paths++) {
    void *handle = dlopen(*paths, RTLD_NOW);
    if (!handle)
      say_error("open");
    else
      puts("open: well");
  }
}

/* A failed call, then a good one of another kind, then the text: whose is it? */
static void mix(const char *good) {
  void *handle = dlopen(good, RTLD_NOW);
  dlopen("libnowhere.so", RTLD_NOW);
  printf("found: %d\n", dlsym(handle, "subject_name") != NULL);
  say_error("after a good look-up");
  dlsym(handle, "cudaMalloc");
  say_error("a hooked name that is not there");
  dlsym(handle, "nothing_here");
  say_error("a name that is not there");
  dlopen("libcudart.so.99", RTLD_NOW);
  say_error("a family's name");
  dlopen("libcudart.so.99", RTLD_NOW);
  dlopen("libnowhere.so", RTLD_NOW);
  say_error("two failures");
  dlopen("libcuda.so.77", RTLD_NOW | RTLD_NOLOAD);
  say_error("not loaded");
  dlvsym(handle, "subject_name", "NOT_A_VERSION");
  say_error("a version that is not there");
  dlvsym(handle, "cudaMalloc", "libcudart.so.12");
  say_error("a hooked name with a version");
  dlsym(RTLD_DEFAULT, "cudaMalloc");
  say_error("a hooked name anywhere");
  dlsym(RTLD_NEXT, "cuInit");
  say_error("a hooked name behind the program");
  printf("close: %d\n", dlclose(handle));
  say_error("close");
  printf("flags: %d\n", dlopen(good, 0) != NULL);
  say_error("no flags");
}

int main(int argc, char **argv) {
  wake();
  if (argc < 2) return 2;
  open_each(argv + 1);
  mix(argv[argc - 1]);
  return 0;
}
