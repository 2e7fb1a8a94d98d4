/* nest.c - an object whose constructor loads others, and fails to; its destructor too. NEXT: what it loads. */
#include <dlfcn.h>
#include <stddef.h>

static void load_others(void) {
  void *handle = dlopen(NEXT, RTLD_NOW | RTLD_LOCAL);
  if (handle) {
    dlsym(handle, "cudaMalloc");
    dlclose(handle);
  }
  dlopen("libcudnn.so.99", RTLD_NOW);
  dlerror();
}

static void __attribute__((constructor)) begin(void) { load_others(); }
static void __attribute__((destructor)) end(void) { load_others(); }
