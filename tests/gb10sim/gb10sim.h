/* gb10sim.h - what a test job may ask of the simulated Spark. Look the names up with dlsym(RTLD_DEFAULT, ...)
 * or as weak references: on a real machine they do not exist. */
#ifndef GB10SIM_H
#define GB10SIM_H

#include <stdint.h>

/* Moves the simulated clock forward and applies what the scenario has for that time. */
void gb10sim_advance(uint64_t us);
/* Passes a named point: the scenario's "at mark NAME" lines become due. */
void gb10sim_mark(const char *name);
/* The job has touched so much anonymous memory for the first time (below 0: has given it back). Jobs of a hundred GiB say so
 * instead of doing it. 0, or -1 when the machine does not have it: a real program would be killed or stand still. */
int gb10sim_touch(int64_t bytes);

/* Launch geometry of a kernel that has a host version; `args` are the launch's argument pointers. */
struct gb10sim_launch {
  unsigned grid[3], block[3];
  unsigned shared_bytes;
  void **args;
};
typedef void (*gb10sim_kernel_fn)(const struct gb10sim_launch *launch);
/* From now on a launch of the kernel `name` (as in the image) calls fn in the launching thread. Every other
 * kernel is recorded and computes nothing. 0, or -1 when the table (256 names) is full. */
int gb10sim_register_kernel(const char *name, gb10sim_kernel_fn fn);

#endif
