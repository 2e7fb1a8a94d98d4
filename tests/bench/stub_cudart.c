/* stub_cudart.c - a libcudart.so.13 whose calls do next to nothing, so that what a hook adds can be seen. */
#include <stddef.h>
#include <stdint.h>

int cudaMalloc(void **ptr, size_t size);
int cudaFree(void *ptr);

/* Addresses one after the other, aligned as cudaMalloc's are. */
int cudaMalloc(void **ptr, size_t size) {
  static uintptr_t next = 0x7f0000000000;
  *ptr = (void *)next;
  next += (size + 511) / 512 * 512;
  return size == 0;
}

int cudaFree(void *ptr) { return ptr == NULL; }
