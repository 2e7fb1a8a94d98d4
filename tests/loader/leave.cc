// Exceptions and jumps through dlopen: no frame of the library may be in the way. Arguments: the thrower, the jumper.
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include <dlfcn.h>

extern "C" {
jmp_buf place;
jmp_buf *way_out = &place;
}

// The header promises that dlopen throws nothing, and a caller that believes it ends the program.
static void *(*volatile open_object)(const char *, int) = dlopen;

static void catch_it(const char *path) {
  try {
    void *handle = open_object(path, RTLD_NOW);
    std::printf("opened: %d\n", handle != nullptr);
  } catch (const std::exception &e) {
    std::printf("caught: %s\n", e.what());
  }
}

int main(int argc, char **argv) {
  if (const char *path = std::getenv("LOADER_WAKE")) dlopen(path, RTLD_NOW);
  if (argc < 3) return 2;
  catch_it(argv[1]);
  int came = setjmp(place);
  if (came == 0) {
    open_object(argv[2], RTLD_NOW);
    std::puts("opened");
  } else {
    std::printf("jumped: %d\n", came);
  }
  std::fflush(stdout);
  std::_Exit(came == 3 ? 0 : 1);  // the loader's lock is still held: nothing may be unloaded
}
