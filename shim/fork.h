/* fork.h - between init.c and fork.c. */
#ifndef SPARKSHIM_FORK_H
#define SPARKSHIM_FORK_H

#include <stdbool.h>

/* Marks this process as the one that owns log and ring. Once, by the waking thread, after sinks_open(). */
void fork_watch(void);
/* Is this the process that woke up, or a forked child that has a log of its own? A vforked child counts as its parent.
 * Unlike shim_same_process() it changes nothing. */
bool fork_is_owner(void);

#endif
