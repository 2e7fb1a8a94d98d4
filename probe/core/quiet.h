/* quiet.h - writing without being killed for it.
 *
 * A write to a pipe that nobody reads raises SIGPIPE, one beyond RLIMIT_FSIZE raises SIGXFSZ, one from the background to a
 * terminal with `tostop` raises SIGTTOU: each would end or stop a job that did not ask for the write. The
 * three are blocked around ours, and what our write raised is taken back. Raw system calls; keeps errno.
 */
#ifndef SPARKSHIM_QUIET_H
#define SPARKSHIM_QUIET_H

#include <errno.h>
#include <signal.h>

#include "sys.h"

struct quiet {
  uint64_t mask;    /* of the thread, before */
  uint64_t pending; /* what was pending already is not ours to take */
};

#define QUIET_BIT(signal) (UINT64_C(1) << ((signal)-1))
#define QUIET_SET (QUIET_BIT(SIGPIPE) | QUIET_BIT(SIGXFSZ) | QUIET_BIT(SIGTTOU))

static inline void quiet_begin(struct quiet *q) {
  uint64_t set = QUIET_SET;
  q->mask = q->pending = 0;
  sys_call6(SYS_rt_sigprocmask, SIG_BLOCK, (long)&set, (long)&q->mask, sizeof(set), 0, 0);
  sys_call6(SYS_rt_sigpending, (long)&q->pending, sizeof(q->pending), 0, 0, 0, 0);
}

/* `result`: what the guarded call returned. Only an error can have raised a signal. */
static inline void quiet_end(const struct quiet *q, long result) {
  if (result == -EPIPE || result == -EFBIG) {
    static const int64_t at_once[2] = {0, 0};
    uint64_t raised = QUIET_SET & ~q->pending;
    sys_call6(SYS_rt_sigtimedwait, (long)&raised, 0, (long)at_once, sizeof(raised), 0, 0);
  }
  sys_call6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&q->mask, 0, sizeof(q->mask), 0, 0);
}

static inline long quiet_write(int fd, const void *buf, size_t n) {
  struct quiet q;
  quiet_begin(&q);
  long result = sys_write(fd, buf, n);
  quiet_end(&q, result);
  return result;
}

#endif
