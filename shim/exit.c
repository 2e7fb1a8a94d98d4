/* exit.c - the last records of a process that ends by exit(3) or by returning from main.
 *
 * on_exit, because it alone hands over the status; a process that ends otherwise (_exit, a signal) leaves its ring.
 * The handler belongs to the process that woke up: a forked child that inherited it, and did nothing of its own,
 * writes nothing.
 */
#include "fork.h"
#include "ledger.h"
#include "linkmap.h"
#include "meminfo.h"
#include "process.h"
#include "sampler_thread.h"
#include "shim.h"

#include "poison.h"

static void at_exit(int status, void *unused) {
  struct fact fact = {.kind = FACT_KIND_exit};
  (void)unused;
  if (shim_thread.busy || !fork_is_owner()) return;
  dl_settle();
  shim_thread.busy++;
  sampler_thread_rest();
  ledger_update("dlopen");
  calls_final();
  fact.u.exit.status = status & 0xff;
  fact.u.exit.signal = FACT_NO_I64;
  fact.u.exit.last_activity = ring_last_activity(&fact.u.exit.last_call);
  meminfo_read(shim_settings.root, &fact.u.exit.mem);
  observe(&fact);
  shim_thread.busy--;
}

void exit_watch(void) {
  int (*register_on_exit)(void (*)(int, void *), void *);
  *(void **)&register_on_exit = linkmap_libc("on_exit");
  if (register_on_exit) register_on_exit(at_exit, NULL);
}
