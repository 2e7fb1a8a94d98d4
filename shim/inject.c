/* inject.c - the second way in: the driver loads the library named by CUDA_INJECTION64_PATH and calls this.
 *
 * It works where LD_PRELOAD does not reach (the environment is scrubbed, the program is privileged), but only after
 * cuInit has begun, and nothing is interposed then: what remains is the record of loads, samples and the exit record,
 * and a note that says so. When the library is preloaded as well, this does nothing.
 */
#include "linkmap.h"
#include "shim.h"

#include "poison.h"

SHIM_EXPORT int InitializeInjection(void);

int InitializeInjection(void) {
  struct fact fact = {.kind = FACT_KIND_note};
  if (linkmap_interposing()) return 1;
  shim_settings.injected = true;
  if (!shim_wake()) return 1;
  fact.u.note.text = "loaded by the driver (CUDA_INJECTION64_PATH): calls are not seen, only loads and readings";
  observe(&fact);
  return 1;
}
