/* stub.c - a libcudart.so.13 that lends itself to mischief: from inside of a call it does what the job wants done there.
 *
 * Memory is a counter. Requests above STUB_LIMIT are refused as cudaMalloc refuses them.
 */
#include <stddef.h>
#include <stdint.h>

#include "stub.h"

void (*stub_during)(void);

int cudaMalloc(void **ptr, size_t size) {
  static uintptr_t next = 0x7f0000000000;
  if (size > STUB_LIMIT) return STUB_REFUSED;
  *ptr = (void *)__atomic_fetch_add(&next, (size + 511) / 512 * 512, __ATOMIC_RELAXED);
  return 0;
}

int cudaFree(void *ptr) {
  (void)ptr;
  return 0;
}

int cudaDeviceSynchronize(void) {
  if (stub_during) stub_during();
  return 0;
}
