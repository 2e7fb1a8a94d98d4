/* A library linked to one runtime (RUNTIME 12 or 13), as a Python extension is: calls in tail position too. */
#include <stddef.h>

int cudaGetDeviceCount(int *count);
int cudaMalloc(void **ptr, size_t size);
int cudaFree(void *ptr);

int client_count(int *count);
int client_malloc(void **ptr, size_t size);
int client_free(void *ptr);
void *client_address(void);

int client_count(int *count) { return cudaGetDeviceCount(count); } /* a jump at -O2, a call at -O0 */
int client_malloc(void **ptr, size_t size) {
  int result = cudaMalloc(ptr, size);
  return result + 0 * (int)size;
}
int client_free(void *ptr) { return cudaFree(ptr); }
void *client_address(void) { return (void *)cudaMalloc; }
