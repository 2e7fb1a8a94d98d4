/* memory.c - memory, copies and pools of the runtime stand-in. See internal.h. */
#include <string.h>

#include "internal.h"

static CUdeviceptr dev(const void *p) { return (CUdeviceptr)(uintptr_t)p; }

EXPORT cudaError_t CUDARTAPI cudaMemGetInfo(size_t *free_bytes, size_t *total) {
  ENTER("cudaMemGetInfo", 0);
  return DRV(cuMemGetInfo(free_bytes, total));
}

/* Nothing asked for is granted: a null pointer and success. */
EXPORT cudaError_t CUDARTAPI cudaMalloc(void **p, size_t n) {
  ENTER("cudaMalloc", n);
  if (!p) return rt_error(cudaErrorInvalidValue);
  if (!n) return *p = NULL, cudaSuccess;
  return DRV(cuMemAlloc((CUdeviceptr *)p, n));
}

EXPORT cudaError_t CUDARTAPI cudaFree(void *p) {
  ENTER("cudaFree", 0);
  return p ? DRV(cuMemFree(dev(p))) : cudaSuccess;
}

EXPORT cudaError_t CUDARTAPI cudaMallocManaged(void **p, size_t n, unsigned flags) {
  ENTER("cudaMallocManaged", n);
  return p ? DRV(cuMemAllocManaged((CUdeviceptr *)p, n, flags)) : rt_error(cudaErrorInvalidValue);
}

EXPORT cudaError_t CUDARTAPI cudaMallocPitch(void **p, size_t *pitch, size_t width, size_t height) {
  ENTER("cudaMallocPitch", width * height);
  return p ? DRV(cuMemAllocPitch((CUdeviceptr *)p, pitch, width, height, 4)) : rt_error(cudaErrorInvalidValue);
}

EXPORT cudaError_t CUDARTAPI cudaMalloc3D(struct cudaPitchedPtr *out, struct cudaExtent extent) {
  ENTER("cudaMalloc3D", extent.width * extent.height * extent.depth);
  if (!out) return rt_error(cudaErrorInvalidValue);
  CUdeviceptr p;
  size_t pitch;
  cudaError_t e = DRV(cuMemAllocPitch(&p, &pitch, extent.width, extent.height * extent.depth, 4));
  if (!e)
    *out = (struct cudaPitchedPtr){
        .ptr = (void *)(uintptr_t)p, .pitch = pitch, .xsize = extent.width, .ysize = extent.height};
  return e;
}

EXPORT cudaError_t CUDARTAPI cudaHostAlloc(void **p, size_t n, unsigned flags) {
  ENTER("cudaHostAlloc", n);
  return p ? DRV(cuMemHostAlloc(p, n, flags & 7u)) : rt_error(cudaErrorInvalidValue);
}

EXPORT cudaError_t CUDARTAPI cudaMallocHost(void **p, size_t n) {
  ENTER("cudaMallocHost", n);
  return p ? DRV(cuMemHostAlloc(p, n, 0)) : rt_error(cudaErrorInvalidValue);
}

EXPORT cudaError_t CUDARTAPI cudaFreeHost(void *p) {
  ENTER("cudaFreeHost", 0);
  return p ? DRV(cuMemFreeHost(p)) : cudaSuccess;
}

EXPORT cudaError_t CUDARTAPI cudaHostRegister(void *p, size_t n, unsigned flags) {
  ENTER("cudaHostRegister", n);
  return DRV(cuMemHostRegister(p, n, flags));
}

EXPORT cudaError_t CUDARTAPI cudaHostUnregister(void *p) {
  ENTER("cudaHostUnregister", 0);
  return DRV(cuMemHostUnregister(p));
}

EXPORT cudaError_t CUDARTAPI cudaHostGetDevicePointer(void **d, void *p, unsigned flags) {
  ENTER("cudaHostGetDevicePointer", 0);
  return DRV(cuMemHostGetDevicePointer((CUdeviceptr *)d, p, flags));
}

EXPORT cudaError_t CUDARTAPI cudaHostGetFlags(unsigned *flags, void *p) {
  ENTER("cudaHostGetFlags", 0);
  return DRV(cuMemHostGetFlags(flags, p));
}

/* ---- pools ---- */

EXPORT cudaError_t CUDARTAPI cudaMallocAsync(void **p, size_t n, cudaStream_t s) {
  ENTER("cudaMallocAsync", n);
  if (!p) return rt_error(cudaErrorInvalidValue);
  if (!n) return *p = NULL, cudaSuccess;
  return DRV(cuMemAllocAsync((CUdeviceptr *)p, n, s));
}

EXPORT cudaError_t CUDARTAPI rt_malloc_from_pool(void **p, size_t n, cudaMemPool_t pool, cudaStream_t s)
    AS("cudaMallocFromPoolAsync");
EXPORT cudaError_t CUDARTAPI rt_malloc_from_pool(void **p, size_t n, cudaMemPool_t pool, cudaStream_t s) {
  ENTER("cudaMallocFromPoolAsync", n);
  return p ? DRV(cuMemAllocFromPoolAsync((CUdeviceptr *)p, n, pool, s)) : rt_error(cudaErrorInvalidValue);
}

EXPORT cudaError_t CUDARTAPI cudaFreeAsync(void *p, cudaStream_t s) {
  ENTER("cudaFreeAsync", 0);
  return DRV(cuMemFreeAsync(dev(p), s));
}

EXPORT cudaError_t CUDARTAPI cudaMemPoolCreate(cudaMemPool_t *out, const struct cudaMemPoolProps *props) {
  ENTER("cudaMemPoolCreate", 0);
  return DRV(cuMemPoolCreate(out, (const CUmemPoolProps *)props));
}

EXPORT cudaError_t CUDARTAPI cudaMemPoolDestroy(cudaMemPool_t p) {
  ENTER("cudaMemPoolDestroy", 0);
  return DRV(cuMemPoolDestroy(p));
}

EXPORT cudaError_t CUDARTAPI cudaMemPoolTrimTo(cudaMemPool_t p, size_t keep) {
  ENTER("cudaMemPoolTrimTo", 0);
  return DRV(cuMemPoolTrimTo(p, keep));
}

EXPORT cudaError_t CUDARTAPI cudaMemPoolGetAttribute(cudaMemPool_t p, enum cudaMemPoolAttr a, void *value) {
  ENTER("cudaMemPoolGetAttribute", 0);
  return DRV(cuMemPoolGetAttribute(p, (CUmemPool_attribute)a, value));
}

EXPORT cudaError_t CUDARTAPI cudaMemPoolSetAttribute(cudaMemPool_t p, enum cudaMemPoolAttr a, void *value) {
  ENTER("cudaMemPoolSetAttribute", 0);
  return DRV(cuMemPoolSetAttribute(p, (CUmemPool_attribute)a, value));
}

EXPORT cudaError_t CUDARTAPI cudaMemPoolSetAccess(cudaMemPool_t p, const struct cudaMemAccessDesc *list, size_t n) {
  ENTER("cudaMemPoolSetAccess", 0);
  return DRV(cuMemPoolSetAccess(p, (const CUmemAccessDesc *)list, n));
}

EXPORT cudaError_t CUDARTAPI cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t p,
                                                  struct cudaMemLocation *where) {
  ENTER("cudaMemPoolGetAccess", 0);
  return DRV(cuMemPoolGetAccess((CUmemAccess_flags *)flags, p, (CUmemLocation *)where));
}

EXPORT cudaError_t CUDARTAPI cudaDeviceGetDefaultMemPool(cudaMemPool_t *p, int device) {
  ENTER("cudaDeviceGetDefaultMemPool", 0);
  return DRV(cuDeviceGetDefaultMemPool(p, device));
}

EXPORT cudaError_t CUDARTAPI cudaDeviceGetMemPool(cudaMemPool_t *p, int device) {
  ENTER("cudaDeviceGetMemPool", 0);
  return DRV(cuDeviceGetMemPool(p, device));
}

EXPORT cudaError_t CUDARTAPI cudaDeviceSetMemPool(int device, cudaMemPool_t p) {
  ENTER("cudaDeviceSetMemPool", 0);
  return DRV(cuDeviceSetMemPool(device, p));
}

/* ---- copies ---- */

static CUresult copy(void *dst, const void *src, size_t n, enum cudaMemcpyKind kind) {
  switch ((int)kind) {
  case cudaMemcpyHostToDevice: return rt_driver.cuMemcpyHtoD(dev(dst), src, n);
  case cudaMemcpyDeviceToHost: return rt_driver.cuMemcpyDtoH(dst, dev(src), n);
  case cudaMemcpyDeviceToDevice: return rt_driver.cuMemcpyDtoD(dev(dst), dev(src), n);
  case cudaMemcpyHostToHost:
  case cudaMemcpyDefault: return rt_driver.cuMemcpy(dev(dst), dev(src), n);
  default: return (CUresult)cudaErrorInvalidMemcpyDirection;
  }
}

static CUresult copy_async(void *dst, const void *src, size_t n, enum cudaMemcpyKind kind, cudaStream_t s) {
  switch ((int)kind) {
  case cudaMemcpyHostToDevice: return rt_driver.cuMemcpyHtoDAsync(dev(dst), src, n, s);
  case cudaMemcpyDeviceToHost: return rt_driver.cuMemcpyDtoHAsync(dst, dev(src), n, s);
  case cudaMemcpyDeviceToDevice: return rt_driver.cuMemcpyDtoDAsync(dev(dst), dev(src), n, s);
  case cudaMemcpyHostToHost:
  case cudaMemcpyDefault: return rt_driver.cuMemcpyAsync(dev(dst), dev(src), n, s);
  default: return (CUresult)cudaErrorInvalidMemcpyDirection;
  }
}

EXPORT cudaError_t CUDARTAPI cudaMemcpy(void *dst, const void *src, size_t n, enum cudaMemcpyKind kind) {
  ENTER("cudaMemcpy", n);
  return rt_error(copy(dst, src, n, kind));
}

EXPORT cudaError_t CUDARTAPI cudaMemcpyAsync(void *dst, const void *src, size_t n, enum cudaMemcpyKind kind,
                                             cudaStream_t s) {
  ENTER("cudaMemcpyAsync", n);
  return rt_error(copy_async(dst, src, n, kind, s));
}

EXPORT cudaError_t CUDARTAPI cudaMemcpyPeer(void *dst, int to, const void *src, int from, size_t n) {
  ENTER("cudaMemcpyPeer", n);
  return rt_error(to || from ? (int)cudaErrorInvalidDevice : (int)copy(dst, src, n, cudaMemcpyDeviceToDevice));
}

EXPORT cudaError_t CUDARTAPI cudaMemcpyPeerAsync(void *dst, int to, const void *src, int from, size_t n,
                                                 cudaStream_t s) {
  ENTER("cudaMemcpyPeerAsync", n);
  return rt_error(to || from ? (int)cudaErrorInvalidDevice : (int)copy_async(dst, src, n, cudaMemcpyDeviceToDevice, s));
}

static CUDA_MEMCPY2D rows(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height) {
  return (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                         .srcDevice = dev(src),
                         .srcPitch = spitch,
                         .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                         .dstDevice = dev(dst),
                         .dstPitch = dpitch,
                         .WidthInBytes = width,
                         .Height = height};
}

EXPORT cudaError_t CUDARTAPI cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                                          size_t height, enum cudaMemcpyKind kind) {
  ENTER("cudaMemcpy2D", width * height);
  CUDA_MEMCPY2D c = rows(dst, dpitch, src, spitch, width, height);
  if (kind > cudaMemcpyDefault) return rt_error(cudaErrorInvalidMemcpyDirection);
  return dpitch < width || spitch < width ? rt_error(cudaErrorInvalidPitchValue) : DRV(cuMemcpy2D(&c));
}

EXPORT cudaError_t CUDARTAPI cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                                               size_t height, enum cudaMemcpyKind kind, cudaStream_t s) {
  ENTER("cudaMemcpy2DAsync", width * height);
  CUDA_MEMCPY2D c = rows(dst, dpitch, src, spitch, width, height);
  if (kind > cudaMemcpyDefault) return rt_error(cudaErrorInvalidMemcpyDirection);
  return dpitch < width || spitch < width ? rt_error(cudaErrorInvalidPitchValue) : DRV(cuMemcpy2DAsync(&c, s));
}

static CUresult copy_3d(const struct cudaMemcpy3DParms *p, bool async, cudaStream_t s) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  if (p->srcArray || p->dstArray) return CUDA_ERROR_NOT_SUPPORTED; /* arrays are not imitated */
  CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                     .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                     .srcDevice = dev(p->srcPtr.ptr),
                     .dstDevice = dev(p->dstPtr.ptr),
                     .srcPitch = p->srcPtr.pitch,
                     .srcHeight = p->srcPtr.ysize,
                     .dstPitch = p->dstPtr.pitch,
                     .dstHeight = p->dstPtr.ysize,
                     .srcXInBytes = p->srcPos.x,
                     .srcY = p->srcPos.y,
                     .srcZ = p->srcPos.z,
                     .dstXInBytes = p->dstPos.x,
                     .dstY = p->dstPos.y,
                     .dstZ = p->dstPos.z,
                     .WidthInBytes = p->extent.width,
                     .Height = p->extent.height,
                     .Depth = p->extent.depth};
  return async ? rt_driver.cuMemcpy3DAsync(&c, s) : rt_driver.cuMemcpy3D(&c);
}

EXPORT cudaError_t CUDARTAPI cudaMemcpy3D(const struct cudaMemcpy3DParms *p) {
  ENTER("cudaMemcpy3D", p ? p->extent.width * p->extent.height * p->extent.depth : 0);
  return rt_error((int)copy_3d(p, false, NULL));
}

EXPORT cudaError_t CUDARTAPI cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, cudaStream_t s) {
  ENTER("cudaMemcpy3DAsync", p ? p->extent.width * p->extent.height * p->extent.depth : 0);
  return rt_error((int)copy_3d(p, true, s));
}

EXPORT cudaError_t CUDARTAPI cudaMemset(void *p, int value, size_t n) {
  ENTER("cudaMemset", n);
  return DRV(cuMemsetD8(dev(p), (unsigned char)value, n));
}

EXPORT cudaError_t CUDARTAPI cudaMemsetAsync(void *p, int value, size_t n, cudaStream_t s) {
  ENTER("cudaMemsetAsync", n);
  return DRV(cuMemsetD8Async(dev(p), (unsigned char)value, n, s));
}

EXPORT cudaError_t CUDARTAPI cudaMemset2D(void *p, size_t pitch, int value, size_t width, size_t height) {
  ENTER("cudaMemset2D", width * height);
  return DRV(cuMemsetD2D8(dev(p), pitch, (unsigned char)value, width, height));
}

EXPORT cudaError_t CUDARTAPI cudaMemset2DAsync(void *p, size_t pitch, int value, size_t width, size_t height,
                                               cudaStream_t s) {
  ENTER("cudaMemset2DAsync", width * height);
  return DRV(cuMemsetD2D8Async(dev(p), pitch, (unsigned char)value, width, height, s));
}

EXPORT cudaError_t CUDARTAPI cudaMemset3D(struct cudaPitchedPtr p, int value, struct cudaExtent extent) {
  ENTER("cudaMemset3D", extent.width * extent.height * extent.depth);
  return DRV(cuMemsetD2D8(dev(p.ptr), p.pitch, (unsigned char)value, extent.width, extent.height * extent.depth));
}

EXPORT cudaError_t CUDARTAPI cudaMemset3DAsync(struct cudaPitchedPtr p, int value, struct cudaExtent extent,
                                               cudaStream_t s) {
  ENTER("cudaMemset3DAsync", extent.width * extent.height * extent.depth);
  return DRV(
      cuMemsetD2D8Async(dev(p.ptr), p.pitch, (unsigned char)value, extent.width, extent.height * extent.depth, s));
}

/* ---- pointers, advice, IPC ---- */

/* A pointer that CUDA does not know is host memory of no registration: type 0 and success (since CUDA 11). */
EXPORT cudaError_t CUDARTAPI cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *p) {
  ENTER("cudaPointerGetAttributes", 0);
  CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                 CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  unsigned type = 0;
  int managed = 0, device = 0;
  CUdeviceptr d = 0;
  void *host = NULL, *places[] = {&type, &managed, &d, &host, &device};
  if (!out) return rt_error(cudaErrorInvalidValue);
  cudaError_t e = DRV(cuPointerGetAttributes(5, names, places, dev(p)));
  if (e) return e;
  memset(out, 0, sizeof *out);
  out->type = managed                        ? cudaMemoryTypeManaged
              : type == CU_MEMORYTYPE_HOST   ? cudaMemoryTypeHost
              : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                                             : cudaMemoryTypeUnregistered;
  out->device = device;
  out->devicePointer = (void *)(uintptr_t)d;
  out->hostPointer = out->type == cudaMemoryTypeUnregistered ? (void *)(uintptr_t)p : host;
  return cudaSuccess;
}

EXPORT cudaError_t CUDARTAPI rt_mem_advise(const void *p, size_t n, enum cudaMemoryAdvise advice,
                                           struct cudaMemLocation where) V2("cudaMemAdvise");
EXPORT cudaError_t CUDARTAPI rt_mem_advise(const void *p, size_t n, enum cudaMemoryAdvise advice,
                                           struct cudaMemLocation where) {
  ENTER("cudaMemAdvise", n);
  CUmemLocation w = {.type = (CUmemLocationType)where.type, .id = where.id};
  return DRV(cuMemAdvise(dev(p), n, (CUmem_advise)advice, w));
}

EXPORT cudaError_t CUDARTAPI rt_mem_prefetch(const void *p, size_t n, struct cudaMemLocation where, unsigned flags,
                                             cudaStream_t s) V2("cudaMemPrefetchAsync");
EXPORT cudaError_t CUDARTAPI rt_mem_prefetch(const void *p, size_t n, struct cudaMemLocation where, unsigned flags,
                                             cudaStream_t s) {
  ENTER("cudaMemPrefetchAsync", n);
  CUmemLocation w = {.type = (CUmemLocationType)where.type, .id = where.id};
  return DRV(cuMemPrefetchAsync(dev(p), n, w, flags, s));
}

#if RUNTIME == 12
static CUmemLocation location(int device) {
  return (CUmemLocation){.type = device == cudaCpuDeviceId ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE,
                         .id = device == cudaCpuDeviceId ? 0 : device};
}

EXPORT cudaError_t CUDARTAPI rt_mem_advise1(const void *p, size_t n, enum cudaMemoryAdvise advice, int device)
    AS("cudaMemAdvise");
EXPORT cudaError_t CUDARTAPI rt_mem_advise1(const void *p, size_t n, enum cudaMemoryAdvise advice, int device) {
  ENTER("cudaMemAdvise", n);
  return DRV(cuMemAdvise(dev(p), n, (CUmem_advise)advice, location(device)));
}

EXPORT cudaError_t CUDARTAPI rt_mem_prefetch1(const void *p, size_t n, int device, cudaStream_t s)
    AS("cudaMemPrefetchAsync");
EXPORT cudaError_t CUDARTAPI rt_mem_prefetch1(const void *p, size_t n, int device, cudaStream_t s) {
  ENTER("cudaMemPrefetchAsync", n);
  return DRV(cuMemPrefetchAsync(dev(p), n, location(device), 0, s));
}
#endif

EXPORT cudaError_t CUDARTAPI cudaIpcGetMemHandle(cudaIpcMemHandle_t *out, void *p) {
  ENTER("cudaIpcGetMemHandle", 0);
  return DRV(cuIpcGetMemHandle((CUipcMemHandle *)out, dev(p)));
}

EXPORT cudaError_t CUDARTAPI cudaIpcOpenMemHandle(void **out, cudaIpcMemHandle_t handle, unsigned flags) {
  ENTER("cudaIpcOpenMemHandle", 0);
  CUipcMemHandle h;
  memcpy(&h, &handle, sizeof h);
  return DRV(cuIpcOpenMemHandle((CUdeviceptr *)out, h, flags));
}

EXPORT cudaError_t CUDARTAPI cudaIpcCloseMemHandle(void *p) {
  ENTER("cudaIpcCloseMemHandle", 0);
  return DRV(cuIpcCloseMemHandle(dev(p)));
}

EXPORT cudaError_t CUDARTAPI cudaIpcGetEventHandle(cudaIpcEventHandle_t *out, cudaEvent_t e) {
  ENTER("cudaIpcGetEventHandle", 0);
  return DRV(cuIpcGetEventHandle((CUipcEventHandle *)out, e));
}

EXPORT cudaError_t CUDARTAPI cudaIpcOpenEventHandle(cudaEvent_t *out, cudaIpcEventHandle_t handle) {
  ENTER("cudaIpcOpenEventHandle", 0);
  CUipcEventHandle h;
  memcpy(&h, &handle, sizeof h);
  return DRV(cuIpcOpenEventHandle(out, h));
}
