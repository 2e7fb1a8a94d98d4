/* inject.c - the second way in: the driver loads the library named by CUDA_INJECTION64_PATH and calls this.
 *
 * It works where LD_PRELOAD does not reach (the environment is scrubbed, the program is privileged), but only after
 * cuInit has begun, and nothing is interposed then: what remains is the record of loads, samples and the exit record, a note
 * that says so, and one line: nobody should take silence for health. When the library is preloaded as well, this does nothing.
 */
#include "linkmap.h"
#include "sampler_thread.h"
#include "sinks.h"

#include "poison.h"

SHIM_EXPORT int InitializeInjection(void);

/* Of G1, which asks whether the right libraries are where they should be. No detector judges it: it is no finding about the
 * job, and the report has it from the header. */
static void say_so(void) {
  static const struct finding line = {.g = 1,
                                      .verdict = VERDICT_INFO,
                                      .text = "the driver loaded sparkshim (CUDA_INJECTION64_PATH), so that the calls "
                                              "of this process are not seen, only loads, readings "
                                              "and the end",
                                      .fixes = {1, {"start it under sparkrun, or with LD_PRELOAD, where those reach"}}};
  if (shim_settings.detectors >> line.g & 1) line_write(&line);
}

int InitializeInjection(void) {
  static uint32_t called;
  struct fact fact = {.kind = FACT_KIND_note};
  if (linkmap_interposing() || __atomic_exchange_n(&called, 1, __ATOMIC_RELAXED)) return 1;
  shim_settings.injected = true;
  if (!shim_wake()) return 1;
  fact.u.note.text = "loaded by the driver (CUDA_INJECTION64_PATH): calls are not seen, only loads and readings";
  observe(&fact);
  say_so();
  sampler_thread_want();
  sampler_thread_offer();
  return 1;
}
