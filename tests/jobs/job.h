/* job.h - what the two API families of the test job offer to its command interpreter (alloc_job.c).
 *
 * The job knows nothing of sparkshim: it is an ordinary CUDA program that does as its command line says.
 * runtime_calls.c speaks the runtime API, driver_calls.c the driver API; one program has one of them.
 */
#ifndef JOB_H
#define JOB_H

#include <stdint.h>

/* One way to get memory. Each returns the API's error number, 0 = granted. */
struct job_call {
  const char *name;
  int (*take)(uint64_t size, uint64_t *ret_key);
  int (*give)(uint64_t key);
};

extern const struct job_call job_calls[]; /* NULL-ended; the first is plain device memory */

/* The call that tells free and total memory, by its name and as a function. */
extern const char job_meminfo_name[];
int job_meminfo(uint64_t *ret_free, uint64_t *ret_total);

/* Fills a few bytes of device memory: work that succeeds. `device` is memory of the first of job_calls. */
int job_work(uint64_t device);

/* What a training step shows of itself: a little data comes from the host, the device works, its result is waited for. */
int job_round(uint64_t device);

#endif
