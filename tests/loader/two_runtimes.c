/* Two runtimes in one process, each loaded RTLD_LOCAL by its own client, in the order of the arguments: every caller must
 * get its own, linked or looked up. Looked-up pointers equal those of linked references, and stay the same. */
#define _GNU_SOURCE
#include "say.h"

static void *find(void *handle, const char *name) {
  void *found = dlsym(handle, name);
  if (!found) printf("missing: %s\n", dlerror());
  return found;
}

static void ask(const char *name, void *client) {
  int count = -1, result;
  void *ptr = NULL;
  int (*count_it)(int *), (*allocate)(void **, size_t), (*release)(void *);
  *(void **)&count_it = find(client, "client_count");
  *(void **)&allocate = find(client, "client_malloc");
  *(void **)&release = find(client, "client_free");
  result = count_it(&count);
  printf("%s: count %d result %d", name, count, result);
  result = allocate(&ptr, 64);
  printf(", malloc %p result %d", ptr, result);
  printf(", free %d\n", release(ptr));
}

static void look_up(void *client, const char *soname) {
  void *runtime = dlopen(soname, RTLD_NOW | RTLD_NOLOAD);
  void *(*address)(void), *first, *again, *versioned;
  int count = -1;
  if (!runtime) {
    say_error(soname);
    return;
  }
  *(void **)&address = find(client, "client_address");
  first = dlsym(runtime, "cudaMalloc");
  again = dlsym(runtime, "cudaMalloc");
  versioned = dlvsym(runtime, "cudaMalloc", soname);
  printf("%s: again %d, versioned %d, linked %d\n", soname, first == again, first == versioned, first == address());
  ((int (*)(int *))dlsym(runtime, "cudaGetDeviceCount"))(&count);
  printf("%s: looked up: %d\n", soname, count);
}

int main(int argc, char **argv) {
  void *one, *two;
  wake();
  if (argc < 5) return 2;
  one = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!one) say_error("one");
  two = dlopen(argv[3], RTLD_NOW | RTLD_LOCAL);
  if (!two) say_error("two");
  if (!one || !two) return 1;
  ask(argv[2], one);
  ask(argv[4], two);
  look_up(one, argv[2]);
  look_up(two, argv[4]);
  printf("seen from the program: %d\n", dlsym(RTLD_DEFAULT, "cudaMalloc") != NULL);
  ask(argv[2], one);
  return 0;
}
