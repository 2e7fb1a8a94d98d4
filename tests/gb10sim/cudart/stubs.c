/* stubs.c - exports of this runtime that no other file defines, and the per-thread twins. See standin_stub.h. */
#include "standin_stub.h"

int standin_unsupported(const char *name);

static int unsupported(const char *name) { return standin_unsupported(name); }

#define ENTRY(symbol) STANDIN_STUB(symbol)
#define TWIN(symbol, twin) STANDIN_TWIN(symbol, twin)
#if RUNTIME == 13
#include "cudart13.def"
#else
#include "cudart12.def"
#endif
