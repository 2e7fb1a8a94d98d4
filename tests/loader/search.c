/* Search paths: who calls dlopen decides where a bare name is looked for. Built with DT_RUNPATH, with DT_RPATH and with
 * $ORIGIN, at -O0 and -O2. */
#define _GNU_SOURCE
#include <link.h>

#include "say.h"

int shared_word(void);
int shared_word(void) { return 1; }

static void open_all(void) {
  static const char *const names[] = {"libsubject.so",
                                      "$ORIGIN/loader_files/origin/libsubject_origin.so",
                                      "./nowhere/libsubject.so",
                                      "libsubject_of_library.so",
                                      "",
                                      "libnowhere.so.7"};
  for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
    void *handle = dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD);
    printf("%s is %sloaded\n", names[i], handle ? "" : "not ");
    if (handle) dlclose(handle);
    dlerror();
    say_subject(names[i], dlopen(names[i], RTLD_LAZY | RTLD_LOCAL));
  }
}

/* A library's own RUNPATH finds what the program's does not. */
static void open_by_library(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void *(*open_there)(const char *, int);
  say_subject("library", library);
  if (!library) return;
  *(void **)&open_there = dlsym(library, "subject_open");
  say_subject("before, by the program", dlopen("libsubject_deep.so", RTLD_NOW));
  say_subject("by the library", open_there("libsubject_deep.so", RTLD_NOW));
  say_subject("after, by the program", dlopen("libsubject_deep.so", RTLD_NOW | RTLD_NOLOAD));
  say_subject("origin of the library", open_there("$ORIGIN/deps/libsubject_deep.so", RTLD_NOW));
}

static int count(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  if (strstr(info->dlpi_name, "libsubject")) ++*(int *)data;
  return 0;
}

int main(int argc, char **argv) {
  int mapped = 0;
  wake();
  open_all();
  if (argc > 1) open_by_library(argv[1]);
  dl_iterate_phdr(count, &mapped);
  printf("%d subjects are mapped\n", mapped);
  return 0;
}
