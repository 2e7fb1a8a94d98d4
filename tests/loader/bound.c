/* Bound thunks, looked at from inside a process under the library: a function that no exported hook stands for gets a
 * thunk of its own, the same each time, that calls through; a name that is not hooked, and RTLD_DEFAULT, get the
 * real one. Arguments: an object with a cudaGetDeviceCount of its own (SONAME of no runtime), a real-named runtime. */
#define _GNU_SOURCE
#include "say.h"

static const char *holder(void *address) {
  Dl_info info;
  const char *slash;
  if (!address || !dladdr(address, &info)) return "nobody";
  slash = strrchr(info.dli_fname, '/');
  return slash ? slash + 1 : info.dli_fname;
}

int main(int argc, char **argv) {
  void *foreign, *runtime, *first, *again;
  int count = -1, version = -1;
  if (argc < 3) return 2;
  foreign = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  runtime = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
  if (!foreign || !runtime) {
    say_error("open");
    return 1;
  }
  first = dlsym(foreign, "cudaGetDeviceCount");
  again = dlsym(foreign, "cudaGetDeviceCount");
  printf("foreign: by %s, again %d", holder(first), first == again);
  printf(", result %d", ((int (*)(int *))first)(&count));
  printf(", count %d\n", count);
  first = dlsym(runtime, "cudaGetDeviceCount");
  again = dlvsym(runtime, "cudaGetDeviceCount", "libcudart.so.13");
  printf("runtime: by %s, again %d", holder(first), first == again);
  ((int (*)(int *))first)(&count);
  printf(", count %d, other thunk %d\n", count, first != dlsym(foreign, "cudaGetDeviceCount"));
  first = dlsym(runtime, "cudaRuntimeGetVersion");
  ((int (*)(int *))first)(&version);
  printf("not hooked: by %s, version %d\n", holder(first), version);
  first = dlvsym(dlopen(NULL, RTLD_NOW), "cudaGetDeviceCount", "libcudart.so.13");
  printf("with its version, anywhere: by %s\n", holder(first));
  return 0;
}
