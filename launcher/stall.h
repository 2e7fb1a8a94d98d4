/* stall.h - when a call in flight is worth a fact, for one process. Pure: no clock, no I/O.
 */
#ifndef SPARKSHIM_STALL_H
#define SPARKSHIM_STALL_H

#include <stdbool.h>
#include <stdint.h>

/* What a process does at one moment. Times: Unix us. */
struct stall_view {
  uint64_t t;
  uint32_t tid;   /* thread of the oldest call in flight; 0: none is */
  uint64_t since; /* it was entered; 0: no call is in flight */
  uint64_t mark;  /* tells that call from another: times are made of ticks at each look anew, and differ by some us */
  uint64_t activity; /* the last call that did something returned; 0: none ever did */
  uint64_t calls;    /* calls that were made, all threads: changes while any of them goes on */
  bool is_short;     /* the machine is short of memory */
};

/* All zero: nothing seen. */
struct stall_state {
  uint64_t calls, changed; /* the number, and when it was first seen to be that */
  bool told;               /* a stall was told, and not its end */
  uint32_t tid;            /* of it */
  uint64_t since;          /* of it: the call's, or the last activity's where none is in flight */
  uint64_t mark;           /* of it; 0: none is in flight */
  uint64_t next;           /* when it is told again */
};

enum stall_event {
  STALL_NONE,
  STALL_NEAR,  /* a call is in flight for half of the limit: its process is worth measuring */
  STALL_LASTS, /* to be told, for the first time or again */
  STALL_OVER,  /* what was told has ended */
};

/* `limit`: us. After STALL_OVER the view is not looked at yet: call again. */
enum stall_event stall_judge(struct stall_state *s, const struct stall_view *v, uint64_t limit);
/* Since when no call has returned, as far as can be seen, us. */
uint64_t stall_idle(const struct stall_state *s, const struct stall_view *v);

#endif
