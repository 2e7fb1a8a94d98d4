/* Every row of hooks.def is found by its name and gets a bound thunk; names beside them are not; copies of the object use
 * the pool up, and then real pointers are handed out. Arguments: copies of libeverything.so. */
#define _GNU_SOURCE
#include "say.h"

static const char *const names[] = {
#define HOOK(lib, name, ...) #lib "\0" #name,
#include "hooks.def"
#undef HOOK
};

static int is_ours(void *address) {
  Dl_info info;
  return address && dladdr(address, &info) && strstr(info.dli_fname, "libsparkshim.so") != NULL;
}

int main(int argc, char **argv) {
  static const char *const beside[] = {"cudaMallocX", "cuMem", "nccl"};
  unsigned rows = 0, all_bound = 0, all_real = 0, mixed = 0;
  for (int i = 1; i < argc; i++) {
    void *handle = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
    unsigned bound = 0;
    rows = 0;
    if (!handle) {
      say_error("open");
      return 1;
    }
    for (unsigned j = 0; j < sizeof names / sizeof names[0]; j++) {
      const char *name = names[j] + strlen(names[j]) + 1;
      void *first = dlsym(handle, name);
      if (!strcmp(names[j], "LIBC")) continue;
      rows++;
      bound += is_ours(first) && first == dlsym(handle, name);
      if (i == 1 && !is_ours(first)) printf("not bound: %s\n", name);
    }
    for (unsigned j = 0; j < 3; j++)
      if (is_ours(dlsym(handle, beside[j]))) printf("bound, but no hook: %s\n", beside[j]);
    all_bound += bound == rows;
    all_real += bound == 0;
    mixed += bound > 0 && bound < rows;
  }
  printf("enough rows: %d, bound at first: %d, pool used up: %d\n", rows > 200, all_bound >= 2048 / rows,
         (unsigned)argc - 1 > 2048 / rows + 1 && mixed <= 1 && all_real >= 1);
  return 0;
}
