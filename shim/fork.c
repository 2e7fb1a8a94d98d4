/* fork.c - tells a forked child from the process that opened log and ring.
 *
 * One word on a page that the kernel empties in a forked child (MADV_WIPEONFORK): one load on the hot path, and it
 * also sees children made by clone(2) without libc. Where the kernel does not do that (qemu-user answers 0 and does
 * nothing; gVisor), the fork handler of libc clears the word, and the end of the process compares process ids. The
 * handler is registered in any case: it drops the forking thread's slot, which lies in the parent's ring.
 *
 * A vforked child shares the word: it is its parent until it execs, and writes nothing (process.c).
 */
#include "fork.h"

#include <stdint.h>
#include <sys/mman.h>

#include "ledger.h"
#include "linkmap.h"
#include "process.h"
#include "sampler_thread.h"
#include "shim.h"
#include "sys.h"

#include "poison.h"

static uint32_t plain_mark; /* where the page could not be had */
uint32_t *fork_mark = &plain_mark;
static bool page_is_wiped; /* the kernel clears it */
static int owner;

static void in_child(void) {
  __atomic_store_n(fork_mark, 0, __ATOMIC_RELEASE);
  shim_thread.slot = NULL;
  shim_thread.depth = 0;
  shim_thread.asked = NULL;
}

/* Linux refuses MADV_WIPEONFORK for shared memory; whoever accepts it there does not do it anywhere. */
static bool kernel_wipes(void) {
  void *shared = sys_mmap(NULL, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  long answer;
  if (sys_is_error(shared)) return false;
  answer = sys_call6(SYS_madvise, (long)shared, 4096, MADV_WIPEONFORK, 0, 0, 0);
  sys_munmap(shared, 4096);
  return answer < 0;
}

static void map_mark(void) {
  const size_t size = 65536; /* a whole page, whatever its size */
  void *page = sys_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (sys_is_error(page)) return;
  if (!kernel_wipes() || sys_call6(SYS_madvise, (long)page, (long)size, MADV_WIPEONFORK, 0, 0, 0) < 0) {
    sys_munmap(page, size);
    return;
  }
  page_is_wiped = true;
  fork_mark = page;
}

void fork_watch(void) {
  int (*at_fork)(void (*)(void), void (*)(void), void (*)(void), void *);
  map_mark();
  owner = sys_getpid();
  __atomic_store_n(fork_mark, 1, __ATOMIC_RELEASE);
  *(void **)&at_fork = linkmap_libc("__register_atfork");
  if (at_fork) at_fork(NULL, NULL, in_child, NULL);
}

bool fork_is_owner(void) {
  return __atomic_load_n(fork_mark, __ATOMIC_ACQUIRE) != 0 && (page_is_wiped || owner == sys_getpid());
}

/* First event in a forked child: it has one thread, this one, and inherited everything but the right to write. */
bool fork_child_begins(void) {
  uint32_t awake = 2;
  if (shim_thread.busy) return false;
  if (!__atomic_compare_exchange_n(&shim_life, &awake, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return false;
  shim_thread.busy++;
  shim_thread.slot = NULL;
  shim_thread.depth = 0;
  owner = sys_getpid();
  sampler_thread_forget();
  sinks_open();
  process_init();
  __atomic_store_n(fork_mark, 1, __ATOMIC_RELEASE);
  __atomic_store_n(&shim_life, 2, __ATOMIC_RELEASE);
  ledger_forget();
  ledger_update("start");
  shim_thread.busy--;
  return true;
}
