/* ring_guard.c - a ring file that is cut short under our mapping must not kill the job.
 *
 * The kernel answers a touch beyond the end of a mapped file with SIGBUS, and nothing that a file has (seals are
 * for memfds, which do not survive the process) forbids root or the owner to cut it. So a handler maps anonymous memory over the
 * ring and lets the store happen again. Every other SIGBUS is none of ours: the earlier action is put back and
 * the fault happens again, with the same status and core as without us. Runs in a signal handler: raw system calls only.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>

#include "sinks.h"
#include "sys.h"

/* The kernel's struct sigaction, the same on x86_64 and aarch64. libc's sigaction may be interposed. */
struct kernel_action {
  uintptr_t handler; /* of the form (int, siginfo_t *, void *), or SIG_DFL, SIG_IGN */
  unsigned long flags;
  void (*restorer)(void);
  uint64_t mask;
};

static struct {
  uintptr_t start, end; /* 0: nothing guarded */
  bool lost;
  struct kernel_action earlier;
} guard;

#if defined(__x86_64__)
/* The kernel wants a restorer on x86_64. Byte for byte glibc's __restore_rt, by which unwinders know a signal
 * frame. */
void ring_guard_restore(void);
__asm__(".text\n.p2align 4\n.byte 0x90\n"
        ".type ring_guard_restore, @function\n.hidden ring_guard_restore\n.globl ring_guard_restore\n"
        "ring_guard_restore:\n movq $15, %rax\n syscall\n"
        ".size ring_guard_restore, .-ring_guard_restore\n");
#define RESTORER ring_guard_restore
enum { RESTORER_FLAG = 0x04000000 };
#else
#define RESTORER NULL
enum { RESTORER_FLAG = 0 };
#endif

static int action(const struct kernel_action *set, struct kernel_action *get) {
  return (int)sys_call6(SYS_rt_sigaction, SIGBUS, (long)set, (long)get, sizeof(uint64_t), 0, 0);
}

/* Whether the kernel can read there: a call that takes a path answers EFAULT instead of raising SIGBUS. */
static bool is_readable(uintptr_t address) {
  return sys_call6(SYS_faccessat, SYS_AT_FDCWD, (long)address, 0, 0, 0, 0) != -EFAULT;
}

/* A fault in the ring; or a signal sent by another handler that was told of one (faulthandler raises it again). */
static bool is_ours(const siginfo_t *info) {
  uintptr_t at = (uintptr_t)info->si_addr;
  if (!guard.start) return false;
  if (info->si_code > 0) return at >= guard.start && at < guard.end;
  return !is_readable(guard.start) || !is_readable(guard.end - 1);
}

static bool replace_ring(void) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  void *map = sys_mmap((void *)guard.start, guard.end - guard.start, PROT_READ | PROT_WRITE, flags, -1, 0);
  __atomic_store_n(&guard.lost, true, __ATOMIC_RELAXED);
  return !sys_is_error(map);
}

static void on_sigbus(int signal, siginfo_t *info, void *context) {
  (void)context;
  if (is_ours(info) && replace_ring()) return;
  action(&guard.earlier, NULL);
  /* A fault happens again by itself; a signal that was sent has to be sent again. */
  if (info->si_code <= 0) sys_call6(SYS_rt_tgsigqueueinfo, sys_getpid(), sys_gettid(), signal, (long)info, 0, 0);
}

bool ring_guard(void *start, size_t size) {
  struct kernel_action now = {0};
  const struct kernel_action ours = {(uintptr_t)on_sigbus, SA_SIGINFO | SA_ONSTACK | RESTORER_FLAG, RESTORER, 0};
  if (action(NULL, &now) < 0) return false;
  if (now.handler == (uintptr_t)SIG_IGN) return false; /* a program that is exec'd inherits "ignored", a handler not */
  guard.start = (uintptr_t)start;
  guard.end = guard.start + size;
  if (now.handler == (uintptr_t)on_sigbus) return true;
  guard.earlier = now;
  return action(&ours, NULL) == 0;
}

void ring_unguard(void) { guard.start = guard.end = 0; }

bool ring_guard_take_lost(void) { return __atomic_exchange_n(&guard.lost, false, __ATOMIC_RELAXED); }
