/* sinks_host.h - see sinks_host.c. */
#ifndef SPARKSHIM_SINKS_HOST_H
#define SPARKSHIM_SINKS_HOST_H

#include "sinks.h"

/* Settings from the environment, then sinks_open(). */
void host_wake(void);
/* What the library does at the first event of a forked child. */
void host_in_child(void);

#endif
