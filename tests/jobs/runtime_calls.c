/* runtime_calls.c - the test job's memory by the runtime API. Linked against libcudart like any program; built
 * once more with CUDA_API_PER_THREAD_DEFAULT_STREAM, which makes the header choose the _ptsz functions. */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <stddef.h>
#include <sys/mman.h>

#include "job.h"

#define ROW ((uint64_t)1 << 20)

const char job_meminfo_name[] = "cudaMemGetInfo";

static void *ptr(uint64_t key) { return (void *)(uintptr_t)key; }

static int took(cudaError_t rc, void *p, uint64_t *ret_key) {
  *ret_key = (uint64_t)(uintptr_t)p;
  return (int)rc;
}

static int take_malloc(uint64_t size, uint64_t *ret_key) {
  void *p = NULL;
  cudaError_t rc = cudaMalloc(&p, size);
  return took(rc, p, ret_key);
}
static int take_pitch(uint64_t size, uint64_t *ret_key) {
  void *p = NULL;
  size_t pitch;
  cudaError_t rc = cudaMallocPitch(&p, &pitch, ROW, size / ROW);
  return took(rc, p, ret_key);
}
static int take_3d(uint64_t size, uint64_t *ret_key) {
  struct cudaPitchedPtr p = {0};
  struct cudaExtent extent = {.width = ROW, .height = size / ROW, .depth = 1};
  cudaError_t rc = cudaMalloc3D(&p, extent);
  return took(rc, p.ptr, ret_key);
}
static int take_managed(uint64_t size, uint64_t *ret_key) {
  void *p = NULL;
  cudaError_t rc = cudaMallocManaged(&p, size, cudaMemAttachGlobal);
  return took(rc, p, ret_key);
}
static int give_device(uint64_t key) { return (int)cudaFree(ptr(key)); }

static int take_async(uint64_t size, uint64_t *ret_key) {
  void *p = NULL;
  cudaError_t rc = cudaMallocAsync(&p, size, NULL);
  return took(rc, p, ret_key);
}
static int take_from_pool(uint64_t size, uint64_t *ret_key) {
  void *p = NULL;
  cudaMemPool_t pool;
  cudaError_t rc = cudaDeviceGetDefaultMemPool(&pool, 0);
  if (!rc) rc = cudaMallocFromPoolAsync(&p, size, pool, NULL);
  return took(rc, p, ret_key);
}
static int give_async(uint64_t key) { return (int)cudaFreeAsync(ptr(key), NULL); }

static int take_malloc_host(uint64_t size, uint64_t *ret_key) {
  void *p = NULL;
  cudaError_t rc = cudaMallocHost(&p, size);
  return took(rc, p, ret_key);
}
static int take_host_alloc(uint64_t size, uint64_t *ret_key) {
  void *p = NULL;
  cudaError_t rc = cudaHostAlloc(&p, size, cudaHostAllocDefault);
  return took(rc, p, ret_key);
}
static int give_host(uint64_t key) { return (int)cudaFreeHost(ptr(key)); }

/* Registered ranges are mapped without being touched and stay mapped: the program is short-lived. */
static int take_register(uint64_t size, uint64_t *ret_key) {
  void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return -1;
  return took(cudaHostRegister(p, size, cudaHostRegisterDefault), p, ret_key);
}
static int give_register(uint64_t key) { return (int)cudaHostUnregister(ptr(key)); }

static int take_array(uint64_t size, uint64_t *ret_key) {
  struct cudaChannelFormatDesc desc = {.x = 32, .f = cudaChannelFormatKindFloat};
  cudaArray_t array = NULL;
  cudaError_t rc = cudaMallocArray(&array, &desc, 16384, size / 16384 / sizeof(float), 0);
  return took(rc, array, ret_key);
}
static int give_array(uint64_t key) { return (int)cudaFreeArray((cudaArray_t)ptr(key)); }

const struct job_call job_calls[] = {
    {"cudaMalloc", take_malloc, give_device},
    {"cudaMallocPitch", take_pitch, give_device},
    {"cudaMalloc3D", take_3d, give_device},
    {"cudaMallocManaged", take_managed, give_device},
    {"cudaMallocAsync", take_async, give_async},
    {"cudaMallocFromPoolAsync", take_from_pool, give_async},
    {"cudaMallocHost", take_malloc_host, give_host},
    {"cudaHostAlloc", take_host_alloc, give_host},
    {"cudaHostRegister", take_register, give_register},
    {"cudaMallocArray", take_array, give_array},
    {NULL, NULL, NULL},
};

int job_meminfo(uint64_t *ret_free, uint64_t *ret_total) {
  size_t free_bytes = 0, total = 0;
  cudaError_t rc = cudaMemGetInfo(&free_bytes, &total);
  *ret_free = free_bytes;
  *ret_total = total;
  return (int)rc;
}

int job_work(uint64_t device) { return (int)cudaMemset(ptr(device), 0, 256); }

int job_round(uint64_t device) {
  static char sample[4096], loss[4];
  cudaError_t rc = cudaMemcpy(ptr(device), sample, sizeof sample, cudaMemcpyHostToDevice);
  if (!rc) rc = cudaMemset(ptr(device), 0, 256);
  if (!rc) rc = cudaMemcpy(loss, ptr(device), sizeof loss, cudaMemcpyDeviceToHost);
  return (int)rc;
}
