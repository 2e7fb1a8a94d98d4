/* A small stand-in for libcudart.so.<RUNTIME> with real version nodes: each function tells which one it is. */
#include <stddef.h>

int cudaGetDeviceCount(int *count);
int cudaMalloc(void **ptr, size_t size);
int cudaFree(void *ptr);
int cudaRuntimeGetVersion(int *version);

int cudaGetDeviceCount(int *count) {
  *count = RUNTIME;
  return 0;
}

int cudaMalloc(void **ptr, size_t size) {
  *ptr = (void *)(RUNTIME * 0x100000 + size);
  return 0;
}

int cudaFree(void *ptr) { return ptr ? RUNTIME : 0; }

int cudaRuntimeGetVersion(int *version) {
  *version = RUNTIME * 1000;
  return 0;
}
