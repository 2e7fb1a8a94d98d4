/* thread.c - what the library keeps per thread. Initial-exec: no allocation on first use, and small enough for the
 * surplus that the loader keeps for late-loaded libraries. */
#include "shim.h"
#include "thunk.h"

#include "poison.h"

__thread struct shim_thread shim_thread __attribute__((tls_model("initial-exec")));
_Static_assert(sizeof(struct shim_thread) <= 64, "late-loaded libraries get little initial-exec TLS");
_Static_assert(offsetof(struct shim_thread, real) == SHIM_THREAD_REAL, "thunk.S writes it");
