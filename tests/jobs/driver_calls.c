/* driver_calls.c - the test job's memory by the driver API.
 *
 * Built three times: linked against libcuda (JOB_LINKED), the same with CUDA_API_PER_THREAD_DEFAULT_STREAM, and
 * as a program with a statically linked runtime reaches the driver: dlopen("libcuda.so.1"), dlsym for
 * cuGetProcAddress_v2, and everything else through that.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "job.h"

/* clang-format off */
#define ENTRIES(X) \
  X(cuInit) X(cuDeviceGet) X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent) X(cuDeviceGetDefaultMemPool) \
  X(cuMemAlloc) X(cuMemAllocPitch) X(cuMemAllocManaged) X(cuMemFree) X(cuMemAllocAsync) X(cuMemFreeAsync) \
  X(cuMemAllocFromPoolAsync) X(cuMemAllocHost) X(cuMemHostAlloc) X(cuMemFreeHost) X(cuMemHostRegister) \
  X(cuMemHostUnregister) X(cuMemCreate) X(cuMemRelease) X(cuArrayCreate) X(cuArrayDestroy) X(cuMemGetInfo) \
  X(cuMemsetD8) X(cuMemcpyHtoD) X(cuMemcpyDtoHAsync) X(cuCtxSynchronize)
/* clang-format on */

/* cuda.h's macros turn the names into those with a version; the text stays the name that a look-up takes. */
static struct {
#define X(name) __typeof__(&name) name##_;
  ENTRIES(X)
#undef X
} driver;

const char job_meminfo_name[] = "cuMemGetInfo";
static CUdevice device;

static void must(int rc, const char *what) {
  if (!rc) return;
  fprintf(stderr, "alloc_job: %s: %d\n", what, rc);
  exit(65);
}

#ifdef JOB_LINKED
static void find_driver(void) {
#define X(name) driver.name##_ = name;
  ENTRIES(X)
#undef X
}
#else
static void find_driver(void) {
  void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  must(!lib, "libcuda.so.1");
  __typeof__(&cuGetProcAddress_v2) get = (__typeof__(&cuGetProcAddress_v2))dlsym(lib, "cuGetProcAddress_v2");
  must(!get, "cuGetProcAddress_v2");
#define X(name) must((int)get(#name, (void **)&driver.name##_, 13000, CU_GET_PROC_ADDRESS_DEFAULT, NULL), #name);
  ENTRIES(X)
#undef X
}
#endif

static void start(void) {
  static CUcontext context;
  if (context) return;
  find_driver();
  must((int)driver.cuInit_(0), "cuInit");
  must((int)driver.cuDeviceGet_(&device, 0), "cuDeviceGet");
  must((int)driver.cuDevicePrimaryCtxRetain_(&context, device), "cuDevicePrimaryCtxRetain");
  must((int)driver.cuCtxSetCurrent_(context), "cuCtxSetCurrent");
}

static int took(CUresult rc, uint64_t key, uint64_t *ret_key) {
  *ret_key = key;
  return (int)rc;
}
static void *ptr(uint64_t key) { return (void *)(uintptr_t)key; }
static uint64_t key_of(void *p) { return (uint64_t)(uintptr_t)p; }

static int take_alloc(uint64_t size, uint64_t *ret_key) {
  CUdeviceptr p = 0;
  start();
  CUresult rc = driver.cuMemAlloc_(&p, size);
  return took(rc, p, ret_key);
}
static int take_pitch(uint64_t size, uint64_t *ret_key) {
  CUdeviceptr p = 0;
  size_t pitch, row = 1 << 20;
  start();
  CUresult rc = driver.cuMemAllocPitch_(&p, &pitch, row, size / row, 16);
  return took(rc, p, ret_key);
}
static int take_managed(uint64_t size, uint64_t *ret_key) {
  CUdeviceptr p = 0;
  start();
  CUresult rc = driver.cuMemAllocManaged_(&p, size, CU_MEM_ATTACH_GLOBAL);
  return took(rc, p, ret_key);
}
static int give_device(uint64_t key) { return (int)driver.cuMemFree_(key); }

static int take_async(uint64_t size, uint64_t *ret_key) {
  CUdeviceptr p = 0;
  start();
  CUresult rc = driver.cuMemAllocAsync_(&p, size, NULL);
  return took(rc, p, ret_key);
}
static int take_from_pool(uint64_t size, uint64_t *ret_key) {
  CUdeviceptr p = 0;
  CUmemoryPool pool;
  start();
  CUresult rc = driver.cuDeviceGetDefaultMemPool_(&pool, device);
  if (!rc) rc = driver.cuMemAllocFromPoolAsync_(&p, size, pool, NULL);
  return took(rc, p, ret_key);
}
static int give_async(uint64_t key) { return (int)driver.cuMemFreeAsync_(key, NULL); }

static int take_alloc_host(uint64_t size, uint64_t *ret_key) {
  void *p = NULL;
  start();
  CUresult rc = driver.cuMemAllocHost_(&p, size);
  return took(rc, key_of(p), ret_key);
}
static int take_host_alloc(uint64_t size, uint64_t *ret_key) {
  void *p = NULL;
  start();
  CUresult rc = driver.cuMemHostAlloc_(&p, size, 0);
  return took(rc, key_of(p), ret_key);
}
static int give_host(uint64_t key) { return (int)driver.cuMemFreeHost_(ptr(key)); }

/* Registered ranges are mapped without being touched and stay mapped: the program is short-lived. */
static int take_register(uint64_t size, uint64_t *ret_key) {
  void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return -1;
  start();
  return took(driver.cuMemHostRegister_(p, size, 0), key_of(p), ret_key);
}
static int give_register(uint64_t key) { return (int)driver.cuMemHostUnregister_(ptr(key)); }

static int take_create(uint64_t size, uint64_t *ret_key) {
  CUmemGenericAllocationHandle handle = 0;
  start();
  CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                              .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
  CUresult rc = driver.cuMemCreate_(&handle, size, &prop, 0);
  return took(rc, handle, ret_key);
}
static int give_create(uint64_t key) { return (int)driver.cuMemRelease_(key); }

static int take_array(uint64_t size, uint64_t *ret_key) {
  CUarray array = NULL;
  CUDA_ARRAY_DESCRIPTOR desc = {
      .Width = 16384, .Height = size / 16384 / sizeof(float), .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
  start();
  CUresult rc = driver.cuArrayCreate_(&array, &desc);
  return took(rc, key_of(array), ret_key);
}
static int give_array(uint64_t key) { return (int)driver.cuArrayDestroy_((CUarray)ptr(key)); }

const struct job_call job_calls[] = {
    {"cuMemAlloc", take_alloc, give_device},
    {"cuMemAllocPitch", take_pitch, give_device},
    {"cuMemAllocManaged", take_managed, give_device},
    {"cuMemAllocAsync", take_async, give_async},
    {"cuMemAllocFromPoolAsync", take_from_pool, give_async},
    {"cuMemAllocHost", take_alloc_host, give_host},
    {"cuMemHostAlloc", take_host_alloc, give_host},
    {"cuMemHostRegister", take_register, give_register},
    {"cuMemCreate", take_create, give_create},
    {"cuArrayCreate", take_array, give_array},
    {NULL, NULL, NULL},
};

int job_meminfo(uint64_t *ret_free, uint64_t *ret_total) {
  size_t free_bytes = 0, total = 0;
  start();
  CUresult rc = driver.cuMemGetInfo_(&free_bytes, &total);
  *ret_free = free_bytes;
  *ret_total = total;
  return (int)rc;
}

int job_work(uint64_t device_memory) { return (int)driver.cuMemsetD8_(device_memory, 0, 256); }

int job_round(uint64_t device_memory) {
  static char sample[4096], loss[4];
  CUresult rc = driver.cuMemcpyHtoD_(device_memory, sample, sizeof sample);
  if (!rc) rc = driver.cuMemsetD8_(device_memory, 0, 256);
  if (!rc) rc = driver.cuMemcpyDtoHAsync_(loss, device_memory, sizeof loss, NULL);
  if (!rc) rc = driver.cuCtxSynchronize_();
  return (int)rc;
}
