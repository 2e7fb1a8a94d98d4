/* dl.h - between the assembly thunks, dl.c and init.c. */
#ifndef SPARKSHIM_DL_H
#define SPARKSHIM_DL_H

/* Answer of a pre-function, in the two return registers: jump to `target`, or return `result` when it is NULL. */
struct dl_step {
  void *target;
  void *result;
};

struct dl_step dl_pre_dlopen(const char *name, int flags);
struct dl_step dl_pre_dlmopen(long space, const char *name, int flags);
struct dl_step dl_pre_dlsym(void *handle, const char *name);
struct dl_step dl_pre_dlvsym(void *handle, const char *name, const char *node);

#endif
