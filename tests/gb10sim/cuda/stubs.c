/* stubs.c - every export of driver_api.def that no other file defines, and all per-thread twins.
 *
 * The weak definition here gives way to a real one in the same library. It takes no arguments: the C calling
 * conventions of x86_64 and aarch64 let a callee ignore them. A twin jumps to its symbol: the stand-in does its
 * work at once, so both default streams behave alike, but each export keeps an address of its own.
 * cuda.h is not included here, since these declarations differ from it.
 */
#include "standin_stub.h"

/* CUDA_ERROR_NOT_SUPPORTED, or what the scenario wants. */
static int unsupported(const char *name) {
  int rule = world_call(name, 0);
  return rule ? rule : 801;
}

#define ENTRY(symbol) STANDIN_STUB(symbol)
#define TWIN(symbol, twin) STANDIN_TWIN(symbol, twin)
#include "driver_api.def"
