/* kernel.c - fatbins, kernels and variables that a program registers, and launches. See internal.h.
 *
 * As in the real runtime, registering reads nothing: a fatbin is handed to the driver when its first kernel or
 * variable is used, and an image that does not fit this device is an error of that launch (209).
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { MAGIC_STUB = 0x52544b46, DEVICE_KERNEL = 0x46554e43 /* first word of the driver stand-in's kernels */ };

struct fatbin {
  const void *image;
  bool gone;
  bool tried;
  CUresult error;
  CUlibrary library;
};

/* A host function that stands for a kernel, or a host variable that stands for a device one. */
struct stub {
  uint32_t magic;
  const void *host;
  struct fatbin *fatbin;
  const char *name;
  size_t size; /* variable */
  CUkernel kernel;
  void **managed;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stub **table; /* open addressing, power of two */
static size_t used, room;

static size_t slot_of(const void *host) { return (size_t)((uintptr_t)host * 0x9E3779B97F4A7C15u >> 20) & (room - 1); }

static struct stub **place(const void *host) {
  size_t i = slot_of(host);
  while (table[i] && table[i]->host != host) i = (i + 1) & (room - 1);
  return &table[i];
}

static bool grow(void) {
  struct stub **old = table;
  size_t n = room;
  struct stub **bigger = calloc(n ? 2 * n : 1024, sizeof *bigger);
  if (!bigger) return false;
  table = bigger;
  room = n ? 2 * n : 1024;
  for (size_t i = 0; i < n; i++)
    if (old[i]) *place(old[i]->host) = old[i];
  free(old);
  return true;
}

static struct stub *add(struct fatbin *f, const void *host, const char *name, size_t size) {
  pthread_mutex_lock(&lock);
  struct stub *s = NULL;
  if (2 * used < room || grow()) {
    struct stub **at = place(host);
    if (!*at && (*at = calloc(1, sizeof **at))) used++;
    s = *at;
    if (s) *s = (struct stub){.magic = MAGIC_STUB, .host = host, .fatbin = f, .name = name, .size = size};
  }
  pthread_mutex_unlock(&lock);
  return s;
}

static struct stub *find(const void *host) {
  pthread_mutex_lock(&lock);
  struct stub *s = room ? *place(host) : NULL;
  pthread_mutex_unlock(&lock);
  return s && !s->fatbin->gone ? s : NULL;
}

#pragma GCC visibility push(default)
void **CUDARTAPI __cudaRegisterFatBinary(void *image);
void CUDARTAPI __cudaRegisterFatBinaryEnd(void **handle);
void CUDARTAPI __cudaUnregisterFatBinary(void **handle);
char CUDARTAPI __cudaInitModule(void **handle);
void CUDARTAPI __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit,
                                      uint3 *tid, uint3 *bid, dim3 *bdim, dim3 *gdim, int *wsize);
void CUDARTAPI __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext, size_t size,
                                 int constant, int global);
void CUDARTAPI __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name, int ext,
                                        size_t size, int constant, int global);
unsigned CUDARTAPI __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream);
cudaError_t CUDARTAPI __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
cudaError_t CUDARTAPI __cudaGetKernel(cudaKernel_t *out, const void *host);
cudaError_t CUDARTAPI __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
                                         cudaStream_t stream);
#pragma GCC visibility pop

void **CUDARTAPI __cudaRegisterFatBinary(void *image) {
  world_call("__cudaRegisterFatBinary", 0);
  struct fatbin *f = calloc(1, sizeof *f);
  if (f) f->image = image;
  return (void **)f;
}

void CUDARTAPI __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }

/* The entry stays, since host addresses may still be in tables of the program; it only stops being found. */
void CUDARTAPI __cudaUnregisterFatBinary(void **handle) {
  if (handle) ((struct fatbin *)handle)->gone = true;
}

char CUDARTAPI __cudaInitModule(void **handle) { return handle != NULL; }

void CUDARTAPI __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit,
                                      uint3 *tid, uint3 *bid, dim3 *bdim, dim3 *gdim, int *wsize) {
  (void)device, (void)limit, (void)tid, (void)bid, (void)bdim, (void)gdim, (void)wsize;
  if (handle) add((struct fatbin *)handle, host, name, 0);
}

void CUDARTAPI __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext, size_t size,
                                 int constant, int global) {
  (void)device, (void)ext, (void)constant, (void)global;
  if (handle) add((struct fatbin *)handle, host, name, size);
}

void CUDARTAPI __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name, int ext,
                                        size_t size, int constant, int global) {
  (void)device, (void)ext, (void)constant, (void)global;
  struct stub *s = handle ? add((struct fatbin *)handle, host, name, size) : NULL;
  if (s) s->managed = host;
}

static CUresult load(struct fatbin *f) {
  pthread_mutex_lock(&lock);
  bool mine = !f->tried;
  f->tried = true;
  pthread_mutex_unlock(&lock);
  if (mine) f->error = rt_driver.cuLibraryLoadData(&f->library, f->image, NULL, NULL, 0, NULL, NULL, 0);
  return f->error ? f->error : f->library ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static cudaError_t stub_kernel(struct stub *s, CUkernel *ret) {
  if (!s->kernel) {
    CUresult r = load(s->fatbin);
    if (!r) r = rt_driver.cuLibraryGetKernel(&s->kernel, s->fatbin->library, s->name);
    if (r) return (cudaError_t)(r == CUDA_ERROR_NOT_FOUND ? (int)cudaErrorInvalidDeviceFunction : (int)r);
  }
  *ret = s->kernel;
  return cudaSuccess;
}

/* What a launch call is given: a host function, or a kernel handle (of this runtime, or the driver's). */
static cudaError_t kernel_of(const void *func, CUkernel *ret) {
  if (!func) return cudaErrorInvalidDeviceFunction;
  struct stub *s = find(func);
  uint32_t first;
  memcpy(&first, func, sizeof first);
  if (!s && first == MAGIC_STUB) s = (struct stub *)(uintptr_t)func;
  if (s) return stub_kernel(s, ret);
  if (first != DEVICE_KERNEL) return cudaErrorInvalidDeviceFunction;
  *ret = (CUkernel)(uintptr_t)func;
  return cudaSuccess;
}

/* ---- launches ---- */

static __thread struct {
  dim3 grid, block;
  size_t shared;
  void *stream;
} pushed[8];
static __thread int n_pushed;

unsigned CUDARTAPI __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream) {
  if (n_pushed == 8) return 1;
  pushed[n_pushed].grid = grid;
  pushed[n_pushed].block = block;
  pushed[n_pushed].shared = shared;
  pushed[n_pushed++].stream = stream;
  return 0;
}

cudaError_t CUDARTAPI __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
  if (!n_pushed) return rt_error(cudaErrorMissingConfiguration);
  n_pushed--;
  *grid = pushed[n_pushed].grid;
  *block = pushed[n_pushed].block;
  *shared = pushed[n_pushed].shared;
  *(void **)stream = pushed[n_pushed].stream;
  return cudaSuccess;
}

static bool bad_shape(dim3 g, dim3 b) {
  return !g.x || !g.y || !g.z || !b.x || !b.y || !b.z || b.x * b.y * b.z > 1024 || b.z > 64 || g.y > 65535 ||
         g.z > 65535;
}

static cudaError_t launch(const void *func, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t s,
                          bool cooperative) {
  CUkernel k;
  cudaError_t e = kernel_of(func, &k);
  if (!e && bad_shape(grid, block)) e = cudaErrorInvalidConfiguration;
  if (e) return rt_error(e);
  if (cooperative)
    return DRV(cuLaunchCooperativeKernel((CUfunction)k, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                         (unsigned)shared, s, args));
  return DRV(cuLaunchKernel((CUfunction)k, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared, s, args,
                            NULL));
}

EXPORT cudaError_t CUDARTAPI cudaLaunchKernel(const void *func, dim3 grid, dim3 block, void **args, size_t shared,
                                              cudaStream_t s) {
  ENTER("cudaLaunchKernel", 0);
  return launch(func, grid, block, args, shared, s, false);
}

EXPORT cudaError_t CUDARTAPI cudaLaunchCooperativeKernel(const void *func, dim3 grid, dim3 block, void **args,
                                                         size_t shared, cudaStream_t s) {
  ENTER("cudaLaunchCooperativeKernel", 0);
  return launch(func, grid, block, args, shared, s, true);
}

EXPORT cudaError_t CUDARTAPI cudaLaunchKernelExC(const cudaLaunchConfig_t *c, const void *func, void **args) {
  ENTER("cudaLaunchKernelExC", 0);
  CUkernel k;
  if (!c) return rt_error(cudaErrorInvalidValue);
  cudaError_t e = kernel_of(func, &k);
  if (!e && bad_shape(c->gridDim, c->blockDim)) e = cudaErrorInvalidConfiguration;
  if (e) return rt_error(e);
  CUlaunchConfig d = {.gridDimX = c->gridDim.x,
                      .gridDimY = c->gridDim.y,
                      .gridDimZ = c->gridDim.z,
                      .blockDimX = c->blockDim.x,
                      .blockDimY = c->blockDim.y,
                      .blockDimZ = c->blockDim.z,
                      .sharedMemBytes = (unsigned)c->dynamicSmemBytes,
                      .hStream = c->stream,
                      .attrs = (CUlaunchAttribute *)c->attrs,
                      .numAttrs = c->numAttrs};
  return DRV(cuLaunchKernelEx(&d, (CUfunction)k, args, NULL));
}

/* Nothing is loaded here: a missing image is an error of the launch. */
cudaError_t CUDARTAPI __cudaGetKernel(cudaKernel_t *out, const void *host) {
  struct stub *s = find(host);
  if (!s || !out) return rt_error(cudaErrorInvalidDeviceFunction);
  *out = (cudaKernel_t)s;
  return cudaSuccess;
}

cudaError_t CUDARTAPI __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
                                         cudaStream_t s) {
  ENTER("cudaLaunchKernel", 0);
  return launch(kernel, grid, block, args, shared, s, false);
}

/* ---- questions about kernels ---- */

static int value_of(CUkernel k, CUfunction_attribute a) {
  int v = 0;
  return rt_driver.cuKernelGetAttribute(&v, a, k, 0) ? 0 : v;
}

EXPORT cudaError_t CUDARTAPI cudaFuncGetAttributes(struct cudaFuncAttributes *out, const void *func) {
  ENTER("cudaFuncGetAttributes", 0);
  CUkernel k;
  cudaError_t e = out ? kernel_of(func, &k) : cudaErrorInvalidValue;
  if (e) return rt_error(e);
  memset(out, 0, sizeof *out);
  out->sharedSizeBytes = (size_t)value_of(k, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  out->constSizeBytes = (size_t)value_of(k, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES);
  out->localSizeBytes = (size_t)value_of(k, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  out->maxThreadsPerBlock = value_of(k, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  out->numRegs = value_of(k, CU_FUNC_ATTRIBUTE_NUM_REGS);
  out->ptxVersion = value_of(k, CU_FUNC_ATTRIBUTE_PTX_VERSION);
  out->binaryVersion = value_of(k, CU_FUNC_ATTRIBUTE_BINARY_VERSION);
  out->maxDynamicSharedSizeBytes = value_of(k, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  out->preferredShmemCarveout = value_of(k, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
  return cudaSuccess;
}

static cudaError_t set_attribute(const void *func, enum cudaFuncAttribute a, int value) {
  CUkernel k;
  cudaError_t e = kernel_of(func, &k);
  return e ? rt_error(e) : DRV(cuKernelSetAttribute((CUfunction_attribute)a, value, k, 0));
}

EXPORT cudaError_t CUDARTAPI cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute a, int value) {
  ENTER("cudaFuncSetAttribute", (uint64_t)(value > 0 ? value : 0));
  return set_attribute(func, a, value);
}

EXPORT cudaError_t CUDARTAPI rt_kernel_set_attribute(cudaKernel_t k, enum cudaFuncAttribute a, int value, int device)
    AS("cudaKernelSetAttributeForDevice");
EXPORT cudaError_t CUDARTAPI rt_kernel_set_attribute(cudaKernel_t k, enum cudaFuncAttribute a, int value, int device) {
  ENTER("cudaKernelSetAttributeForDevice", (uint64_t)(value > 0 ? value : 0));
  return device ? rt_error(cudaErrorInvalidDevice) : set_attribute(k, a, value);
}

EXPORT cudaError_t CUDARTAPI cudaFuncSetCacheConfig(const void *func, enum cudaFuncCache config) {
  ENTER("cudaFuncSetCacheConfig", 0);
  CUkernel k;
  return rt_error(config > cudaFuncCachePreferEqual ? (int)cudaErrorInvalidValue : (int)kernel_of(func, &k));
}

EXPORT cudaError_t CUDARTAPI rt_func_get_name(const char **name, const void *func) AS("cudaFuncGetName");
EXPORT cudaError_t CUDARTAPI rt_func_get_name(const char **name, const void *func) {
  ENTER("cudaFuncGetName", 0);
  struct stub *s = find(func);
  if (!name || !s) return rt_error(name ? cudaErrorInvalidDeviceFunction : cudaErrorInvalidValue);
  *name = s->name;
  return cudaSuccess;
}

EXPORT cudaError_t CUDARTAPI rt_get_kernel(cudaKernel_t *out, const void *func) AS("cudaGetKernel");
EXPORT cudaError_t CUDARTAPI rt_get_kernel(cudaKernel_t *out, const void *func) {
  ENTER("cudaGetKernel", 0);
  return out ? rt_error(kernel_of(func, (CUkernel *)out)) : rt_error(cudaErrorInvalidValue);
}

EXPORT cudaError_t CUDARTAPI rt_get_func(cudaFunction_t *out, const void *func) AS("cudaGetFuncBySymbol");
EXPORT cudaError_t CUDARTAPI rt_get_func(cudaFunction_t *out, const void *func) {
  ENTER("cudaGetFuncBySymbol", 0);
  CUkernel k;
  cudaError_t e = out ? kernel_of(func, &k) : cudaErrorInvalidValue;
  return e ? rt_error(e) : DRV(cuKernelGetFunction((CUfunction *)out, k));
}

static cudaError_t occupancy(int *n, const void *func, int block, size_t shared, unsigned flags) {
  CUkernel k;
  cudaError_t e = n ? kernel_of(func, &k) : cudaErrorInvalidValue;
  return e ? rt_error(e)
           : DRV(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(n, (CUfunction)k, block, shared, flags));
}

EXPORT cudaError_t CUDARTAPI cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *func, int block,
                                                                           size_t shared) {
  ENTER("cudaOccupancyMaxActiveBlocksPerMultiprocessor", 0);
  return occupancy(n, func, block, shared, 0);
}

EXPORT cudaError_t CUDARTAPI cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, const void *func, int block,
                                                                                    size_t shared, unsigned flags) {
  ENTER("cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", 0);
  return occupancy(n, func, block, shared, flags);
}

EXPORT cudaError_t CUDARTAPI cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, const void *func, int blocks,
                                                                       int block) {
  ENTER("cudaOccupancyAvailableDynamicSMemPerBlock", 0);
  CUkernel k;
  cudaError_t e = kernel_of(func, &k);
  return e ? rt_error(e) : DRV(cuOccupancyAvailableDynamicSMemPerBlock(bytes, (CUfunction)k, blocks, block));
}

/* ---- variables ---- */

static cudaError_t variable(const void *symbol, CUdeviceptr *p, size_t *size) {
  struct stub *s = find(symbol);
  if (!s || !s->size) return cudaErrorInvalidSymbol;
  CUresult r = load(s->fatbin);
  if (!r) r = rt_driver.cuLibraryGetGlobal(p, size, s->fatbin->library, s->name);
  if (r) return (cudaError_t)(r == CUDA_ERROR_NOT_FOUND ? (int)cudaErrorInvalidSymbol : (int)r);
  *size = s->size;
  return cudaSuccess;
}

EXPORT cudaError_t CUDARTAPI cudaGetSymbolAddress(void **p, const void *symbol) {
  ENTER("cudaGetSymbolAddress", 0);
  CUdeviceptr at;
  size_t size;
  cudaError_t e = p ? variable(symbol, &at, &size) : cudaErrorInvalidValue;
  if (!e) *p = (void *)(uintptr_t)at;
  return rt_error(e);
}

EXPORT cudaError_t CUDARTAPI cudaGetSymbolSize(size_t *out, const void *symbol) {
  ENTER("cudaGetSymbolSize", 0);
  CUdeviceptr at;
  size_t size;
  cudaError_t e = out ? variable(symbol, &at, &size) : cudaErrorInvalidValue;
  if (!e) *out = size;
  return rt_error(e);
}

static cudaError_t symbol_copy(const void *symbol, void *out, const void *in, size_t n, size_t offset, cudaStream_t s) {
  CUdeviceptr at;
  size_t size;
  cudaError_t e = variable(symbol, &at, &size);
  if (!e && (offset > size || n > size - offset)) e = cudaErrorInvalidValue;
  if (e) return rt_error(e);
  CUdeviceptr place = at + offset;
  return in ? DRV(cuMemcpyAsync(place, (CUdeviceptr)(uintptr_t)in, n, s))
            : DRV(cuMemcpyAsync((CUdeviceptr)(uintptr_t)out, place, n, s));
}

EXPORT cudaError_t CUDARTAPI cudaMemcpyToSymbol(const void *symbol, const void *src, size_t n, size_t offset,
                                                enum cudaMemcpyKind kind) {
  ENTER("cudaMemcpyToSymbol", n);
  (void)kind;
  return src ? symbol_copy(symbol, NULL, src, n, offset, NULL) : rt_error(cudaErrorInvalidValue);
}

EXPORT cudaError_t CUDARTAPI cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t n, size_t offset,
                                                     enum cudaMemcpyKind kind, cudaStream_t s) {
  ENTER("cudaMemcpyToSymbolAsync", n);
  (void)kind;
  return src ? symbol_copy(symbol, NULL, src, n, offset, s) : rt_error(cudaErrorInvalidValue);
}

EXPORT cudaError_t CUDARTAPI cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t n, size_t offset,
                                                  enum cudaMemcpyKind kind) {
  ENTER("cudaMemcpyFromSymbol", n);
  (void)kind;
  return symbol_copy(symbol, dst, NULL, n, offset, NULL);
}

EXPORT cudaError_t CUDARTAPI cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t n, size_t offset,
                                                       enum cudaMemcpyKind kind, cudaStream_t s) {
  ENTER("cudaMemcpyFromSymbolAsync", n);
  (void)kind;
  return symbol_copy(symbol, dst, NULL, n, offset, s);
}

/* ---- libraries ---- */

EXPORT cudaError_t CUDARTAPI cudaLibraryLoadData(cudaLibrary_t *out, const void *code, enum cudaJitOption *jo,
                                                 void **jv, unsigned nj, enum cudaLibraryOption *lo, void **lv,
                                                 unsigned nl) {
  ENTER("cudaLibraryLoadData", 0);
  return DRV(cuLibraryLoadData((CUlibrary *)out, code, (CUjit_option *)jo, jv, nj, (CUlibraryOption *)lo, lv, nl));
}

EXPORT cudaError_t CUDARTAPI cudaLibraryLoadFromFile(cudaLibrary_t *out, const char *path, enum cudaJitOption *jo,
                                                     void **jv, unsigned nj, enum cudaLibraryOption *lo, void **lv,
                                                     unsigned nl) {
  ENTER("cudaLibraryLoadFromFile", 0);
  return DRV(cuLibraryLoadFromFile((CUlibrary *)out, path, (CUjit_option *)jo, jv, nj, (CUlibraryOption *)lo, lv, nl));
}

EXPORT cudaError_t CUDARTAPI cudaLibraryUnload(cudaLibrary_t l) {
  ENTER("cudaLibraryUnload", 0);
  return DRV(cuLibraryUnload((CUlibrary)l));
}

EXPORT cudaError_t CUDARTAPI cudaLibraryGetKernel(cudaKernel_t *out, cudaLibrary_t l, const char *name) {
  ENTER("cudaLibraryGetKernel", 0);
  return DRV(cuLibraryGetKernel((CUkernel *)out, (CUlibrary)l, name));
}

EXPORT cudaError_t CUDARTAPI cudaLibraryGetKernelCount(unsigned *n, cudaLibrary_t l) {
  ENTER("cudaLibraryGetKernelCount", 0);
  return DRV(cuLibraryGetKernelCount(n, (CUlibrary)l));
}

EXPORT cudaError_t CUDARTAPI cudaLibraryEnumerateKernels(cudaKernel_t *out, unsigned n, cudaLibrary_t l) {
  ENTER("cudaLibraryEnumerateKernels", 0);
  return DRV(cuLibraryEnumerateKernels((CUkernel *)out, n, (CUlibrary)l));
}

EXPORT cudaError_t CUDARTAPI cudaLibraryGetGlobal(void **p, size_t *size, cudaLibrary_t l, const char *name) {
  ENTER("cudaLibraryGetGlobal", 0);
  return DRV(cuLibraryGetGlobal((CUdeviceptr *)p, size, (CUlibrary)l, name));
}
