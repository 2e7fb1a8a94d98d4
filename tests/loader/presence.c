/* Programs that ask whether CUDA is there must hear what they heard before: no hooked name is found by dlsym, and weak
 * references to runtime names stay NULL. Also the weak functions of OMPT tools, which runtimes look for like this. */
#define _GNU_SOURCE
#include "say.h"

#define HOOK(lib, name, ...) REF_##lib(name)
#define REF_LIBC(name)
#define REF_DRIVER(name)
#define REF_NCCL(name)
#define REF_CUDART(name) extern int name(void) __attribute__((weak));
#include "hooks.def"
#undef HOOK

static const char *const names[] = {
#define HOOK(lib, name, ...) #lib "\0" #name,
#include "hooks.def"
#undef HOOK
};

static int weak_count(void) {
  int n = 0;
#undef REF_CUDART
#define REF_CUDART(name) n += name != NULL;
#define HOOK(lib, name, ...) REF_##lib(name)
#include "hooks.def"
#undef HOOK
  return n;
}

int ompt_start_tool(unsigned version, const char *runtime) __attribute__((weak));
void ompt_libomp_connect(void *result) __attribute__((weak));

int main(void) {
  unsigned looked = 0, found = 0;
  void *self;
  wake();
  self = dlopen(NULL, RTLD_NOW);
  for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
    const char *name = names[i] + strlen(names[i]) + 1;
    if (!strcmp(names[i], "LIBC")) continue;
    looked++;
    if (dlsym(RTLD_DEFAULT, name) || dlsym(RTLD_NEXT, name) || dlsym(self, name)) {
      found++;
      printf("found: %s\n", name);
    }
  }
  printf("%u of %s names found, %d weak references set\n", found, looked > 200 ? "all" : "too few", weak_count());
  printf("ompt: %d %d %d\n", ompt_start_tool != NULL, ompt_libomp_connect != NULL,
         dlsym(RTLD_DEFAULT, "ompt_start_tool") != NULL);
  return 0;
}
