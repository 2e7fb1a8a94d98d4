/* runtimes.c - both runtime stand-ins in one process: each by its own version node, over one driver. */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include "check.h"

static void *lib[2];
static const char *const node[2] = {"libcudart.so.12", "libcudart.so.13"};

static void *name_of(int i, const char *name) {
  void *p = dlvsym(lib[i], name, node[i]);
  if (!p) printf("%s@%s is missing\n", name, node[i]), exit(1);
  return p;
}
#define CALL(i, name) ((__typeof__(&name))name_of(i, #name))

static void versions(void) {
  int version = 0;
  EQUAL(CALL(0, cudaRuntimeGetVersion)(&version), 0);
  EQUAL(version, 12090);
  EQUAL(CALL(1, cudaRuntimeGetVersion)(&version), 0);
  EQUAL(version, 13000);
  EQUAL(dlvsym(lib[0], "cudaMalloc", node[1]) == NULL, 1);
  EQUAL(name_of(0, "cudaMalloc") != name_of(1, "cudaMalloc"), 1);
  EQUAL(dlvsym(lib[1], "cudaGetDeviceProperties_v2", node[1]) == NULL, 1); /* dropped in 13 */
}

static void one_memory(void) {
  void *a = NULL, *b = NULL;
  size_t free_bytes, total;
  long long before = meminfo("MemFree");
  EQUAL(CALL(0, cudaMalloc)(&a, 1 << 30), 0);
  EQUAL(CALL(1, cudaMalloc)(&b, 1 << 30), 0);
  EQUAL(CALL(0, cudaMemGetInfo)(&free_bytes, &total), 0);
  EQUAL(free_bytes / 1024, before - 2 * 1048576);
  EQUAL(CALL(1, cudaFree)(a), 0);
  EQUAL(CALL(0, cudaFree)(b), 0);
  EQUAL(meminfo("MemFree"), before);
}

/* The last error is the runtime's and the thread's own. */
static void errors(void) {
  void *p;
  EQUAL(CALL(1, cudaMalloc)(&p, (size_t)1 << 40), cudaErrorMemoryAllocation);
  EQUAL(CALL(0, cudaGetLastError)(), 0);
  EQUAL(CALL(1, cudaPeekAtLastError)(), cudaErrorMemoryAllocation);
  EQUAL(CALL(1, cudaGetLastError)(), cudaErrorMemoryAllocation);
  EQUAL(CALL(1, cudaGetLastError)(), 0);
  EQUAL(strcmp(CALL(1, cudaGetErrorString)(cudaErrorMemoryAllocation), "out of memory"), 0);
}

static void properties(void) {
  struct cudaDeviceProp p;
  struct cudaPointerAttributes a;
  EQUAL(CALL(1, cudaGetDeviceProperties)(&p, 0), 0);
  EQUAL(strcmp(p.name, "NVIDIA GB10"), 0);
  EQUAL(p.major * 10 + p.minor, 121);
  EQUAL(p.integrated, 1);
  EQUAL(p.multiProcessorCount, 48);
  EQUAL(CALL(1, cudaGetDeviceProperties)(&p, 1), cudaErrorInvalidDevice);
  EQUAL(CALL(1, cudaGetLastError)(), cudaErrorInvalidDevice);
  EQUAL(CALL(1, cudaPointerGetAttributes)(&a, &p), 0);
  EQUAL(a.type, cudaMemoryTypeUnregistered);
}

static void kernels(void) {
  static char not_a_kernel[16];
  dim3 one = {1, 1, 1};
  EQUAL(CALL(1, cudaLaunchKernel)(not_a_kernel, one, one, NULL, 0, NULL), cudaErrorInvalidDeviceFunction);
}

int main(void) {
  for (int i = 0; i < 2; i++)
    if (!(lib[i] = dlopen(node[i], RTLD_NOW | RTLD_LOCAL))) printf("%s\n", dlerror()), exit(1);
  versions();
  one_memory();
  errors();
  properties();
  kernels();
  return check_failures != 0;
}
