/* sinks_host.c - what the sinks need of the rest of the library, for programs that link them without it.
 *
 * The tests of log and ring must be able to do to a process what no preloaded library would survive being
 * asked for (all descriptors closed, the ring cut, killed in mid-write) and know exactly which records were due.
 * So they link shim/observe.c, log.c, ring.c, ring_guard.c and line.c, with a waking-up of their own.
 */
#include "sinks_host.h"

#include <stdlib.h>

#include "clock.h"
#include "detector.h"
#include "sampler_thread.h"

__thread struct shim_thread shim_thread __attribute__((tls_model("initial-exec")));
struct shim_settings shim_settings;

const char *shim_env(const char *name) { return getenv(name); }

const char *hook_name(enum hook_id id) {
  static const char *const names[HOOK_ID_COUNT] = {
    "",
#define HOOK(lib, name, ...) #name,
#include "hooks.def"
#undef HOOK
  };
  return (unsigned)id < HOOK_ID_COUNT ? names[id] : "";
}

bool sampler_thread_is_this(void) { return false; }

void host_wake(void) {
  const char *ring = getenv("SPARKSHIM_RING"), *on = getenv("SPARKSHIM_STDERR");
  shim_settings.root = getenv("SPARKSHIM_ROOT");
  shim_settings.dir = getenv("SPARKSHIM_DIR");
  shim_settings.stderr_on = !on || on[0] != '0';
  shim_settings.detectors = det_mask(getenv("SPARKSHIM_DETECTORS"));
  shim_settings.ring_allocs = ring ? (uint32_t)strtoul(ring, NULL, 10) : RING_ALLOCS;
  clock_init(shim_settings.root);
  sinks_open();
}

void host_in_child(void) {
  shim_thread = (struct shim_thread){0};
  sinks_open();
}
