/* An object that has a function under every hooked name: what dlsym answers for each row of hooks.def, and when the pool of
 * bound thunks is used up (names.c). One body for all: the address differs, and that is what counts. */
#define HOOK(lib, name, ...) ROW_##lib(name)
#define ROW_LIBC(name)
#define ROW_CUDART(name) FUNCTION(name)
#define ROW_DRIVER(name) FUNCTION(name)
#define ROW_NCCL(name) FUNCTION(name)
#define FUNCTION(name) \
  int name(void);      \
  int name(void) { return __LINE__; }
#include "hooks.def"

int cudaMallocX(void);
int cudaMallocX(void) { return 1; }
int cuMem(void);
int cuMem(void) { return 2; }
int nccl(void);
int nccl(void) { return 3; }
