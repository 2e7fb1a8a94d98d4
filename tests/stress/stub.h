/* stub.h - what stub.c has, for the job that plays with it. */
#ifndef STUB_H
#define STUB_H

#include <stddef.h>

enum { STUB_REFUSED = 2 }; /* cudaErrorMemoryAllocation */
#define STUB_LIMIT ((size_t)1 << 40)

int cudaMalloc(void **ptr, size_t size);
int cudaFree(void *ptr);
int cudaDeviceSynchronize(void);
extern void (*stub_during)(void); /* called inside of cudaDeviceSynchronize */

#endif
