/* NVIDIA's own runtime without a device: its answers must be the same with and without the library. Arguments: paths of
 * libcudart.so.N. They are also what clients linked to the stand-ins are given, by LD_LIBRARY_PATH. */
#define _GNU_SOURCE
#include "say.h"

static void ask(const char *path) {
  int value = -1, result;
  void *ptr = NULL, *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    say_error("open");
    exit(1);
  }
  result = ((int (*)(int *))dlsym(handle, "cudaGetDeviceCount"))(&value);
  printf("device count: %d, result %d\n", value, result);
  result = ((int (*)(int *))dlsym(handle, "cudaRuntimeGetVersion"))(&value);
  printf("runtime version: %d, result %d\n", value, result);
  result = ((int (*)(int *))dlsym(handle, "cudaDriverGetVersion"))(&value);
  printf("driver version: %d, result %d\n", value, result);
  result = ((int (*)(void **, size_t))dlsym(handle, "cudaMalloc"))(&ptr, 4096);
  printf("malloc: %d, %s\n", result, ((const char *(*)(int))dlsym(handle, "cudaGetErrorString"))(result));
  printf("last error: %d", ((int (*)(void))dlsym(handle, "cudaGetLastError"))());
  printf(", then %d\n", ((int (*)(void))dlsym(handle, "cudaPeekAtLastError"))());
  printf("free NULL: %d\n", ((int (*)(void *))dlsym(handle, "cudaFree"))(NULL));
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  for (int i = 1; i < argc; i++) ask(argv[i]);
  return 0;
}
