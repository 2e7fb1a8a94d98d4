/* stubs.c - exports of the NVML stand-in that nvml.c does not define. See standin_stub.h. */
#include "standin_stub.h"

static int unsupported(const char *name) {
  int rule = world_call(name, 0);
  return rule ? rule : 3; /* NVML_ERROR_NOT_SUPPORTED */
}

#define ENTRY(symbol) STANDIN_STUB(symbol)
#include "nvml.def"
