/* sampler_thread.h - a thread of the library's own that writes samples of the machine, where no launcher does
 * (SPARKSHIM_THREAD=0: nowhere). Slow path; errno is kept. */
#ifndef SPARKSHIM_SAMPLER_THREAD_H
#define SPARKSHIM_SAMPLER_THREAD_H

#include <stdbool.h>

/* The process has a CUDA context: from now on the thread may be made. Any thread. */
void sampler_thread_want(void);
/* Makes it, when it is wanted and the process has another thread already. From a hooked call, in an application's thread,
 * without any lock; pthread_create may call the application's malloc. */
void sampler_thread_offer(void);
/* The process ends: no sample is taken from here on. Waits up to 10 ms for one that is being taken. */
void sampler_thread_rest(void);
/* In a forked child, which does not have the thread. */
void sampler_thread_forget(void);
/* Is this that thread? Its descriptors are not those of the process. */
bool sampler_thread_is_this(void);

#endif
