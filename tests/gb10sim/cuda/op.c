/* op.c - what streams and graph nodes do, and the copy and fill families. See internal.h.
 *
 * A copy is rows of bytes: 1D, 2D and 3D are one thing. Of one copy or fill at most CAP bytes happen, so that a
 * tensor of 100 GiB does not become 100 GiB of real memory; a fill with zero of a whole device block instead
 * gives its pages back, which reads as zero.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "internal.h"

static const size_t CAP = (size_t)64 << 20;

static void run_copy(const struct op *op) {
  size_t left = CAP;
  for (size_t z = 0; z < op->u.copy.depth; z++)
    for (size_t y = 0; y < op->u.copy.height; y++) {
      size_t n = op->u.copy.width < left ? op->u.copy.width : left;
      if (!n) return;
      memmove(op->u.copy.dst + z * op->u.copy.dst_slice + y * op->u.copy.dst_pitch,
              op->u.copy.src + z * op->u.copy.src_slice + y * op->u.copy.src_pitch, n);
      left -= n;
    }
}

static void fill(char *dst, size_t n, unsigned value, unsigned element) {
  if (element == 1) {
    memset(dst, (int)value, n);
    return;
  }
  for (size_t i = 0; i + element <= n; i += element) memcpy(dst + i, &value, element); /* little endian */
}

/* Zeroes by giving whole pages of our sparse file back. */
static size_t zero_pages(char *dst, size_t n) {
  struct block b;
  uintptr_t first = ((uintptr_t)dst + 4095) & ~(uintptr_t)4095, last = ((uintptr_t)dst + n) & ~(uintptr_t)4095;
  if (first != (uintptr_t)dst || last <= first || !block_find(first, &b) || b.fd < 0 || b.kind == BLOCK_REGISTERED ||
      b.kind == BLOCK_PINNED)
    return 0;
  if (last > b.va + b.size) return 0;
  if (fallocate(b.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(b.offset + (first - b.va)),
                (off_t)(last - first)))
    return 0;
  return last - first;
}

static void run_set(const struct op *op) {
  size_t left = CAP, done = 0;
  if (op->u.set.height == 1 && !op->u.set.value && op->u.set.width >= 1 << 20)
    done = zero_pages(op->u.set.dst, op->u.set.width);
  for (size_t y = 0; y < op->u.set.height; y++) {
    size_t n = op->u.set.width - done < left ? op->u.set.width - done : left;
    if (!n) return;
    fill(op->u.set.dst + y * op->u.set.pitch + done, n, op->u.set.value, op->u.set.element);
    left -= n;
  }
}

void op_count_kernel(const struct op *op) {
  char name[112] = "kernel:";
  strncat(name, op->u.kernel.f->name, sizeof name - 8);
  world_count(driver_world(), name);
}

static void run_kernel(const struct op *op) {
  CUfunction f = op->u.kernel.f;
  op_count_kernel(op);
  gb10sim_kernel_fn fn = world_kernel(f->name);
  if (!fn) return;
  struct gb10sim_launch launch = {.shared_bytes = op->u.kernel.shared, .args = op->u.kernel.params};
  memcpy(launch.grid, op->u.kernel.grid, sizeof launch.grid);
  memcpy(launch.block, op->u.kernel.block, sizeof launch.block);
  fn(&launch);
}

CUresult op_run(const struct op *op) {
  int saved = errno;
  switch (op->kind) {
  case OP_COPY: run_copy(op); break;
  case OP_SET: run_set(op); break;
  case OP_HOST: op->u.host.fn(op->u.host.data); break;
  case OP_KERNEL: run_kernel(op); break;
  case OP_EVENT:
    op->u.event.event->recorded = true;
    op->u.event.event->at_us = world_now(driver_world());
    break;
  default: break;
  }
  errno = saved;
  return CUDA_SUCCESS;
}

CUresult op_enqueue(CUstream stream, const struct op *op) {
  return stream->capture ? capture_add(stream, op) : op_run(op);
}

/* ---- copies ---- */

static char *pointer(CUdeviceptr p) { return (char *)(uintptr_t)p; }

/* The n bytes at p lie in one known block. */
static bool on_device(CUdeviceptr p, size_t n) {
  struct block b;
  if (!block_find(p, &b)) return false;
  size_t left = b.size - (size_t)(p - b.va);
  while (left < n) { /* VMM: neighbouring mappings */
    if (!block_find(p + left, &b)) return false;
    left += b.size;
  }
  return true;
}

enum { TO_DEVICE = 1, FROM_DEVICE = 2 };

static CUresult copy(CUstream handle, void *dst, const void *src, size_t n, int sides) {
  CUstream s = stream_get(handle);
  if (!s) return CUDA_ERROR_INVALID_HANDLE;
  if (!n) return CUDA_SUCCESS;
  if (!dst || !src) return CUDA_ERROR_INVALID_VALUE;
  if (sides & TO_DEVICE && !on_device((CUdeviceptr)(uintptr_t)dst, n)) return CUDA_ERROR_INVALID_VALUE;
  if (sides & FROM_DEVICE && !on_device((CUdeviceptr)(uintptr_t)src, n)) return CUDA_ERROR_INVALID_VALUE;
  struct op op = {.kind = OP_COPY, .u.copy = {.dst = dst, .src = src, .width = n, .height = 1, .depth = 1}};
  return op_enqueue(s, &op);
}

EXPORT CUresult CUDAAPI cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t n) {
  ENTER_CONTEXT("cuMemcpy", n);
  return copy(NULL, pointer(dst), pointer(src), n, 0);
}
EXPORT CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s) {
  ENTER_CONTEXT("cuMemcpyAsync", n);
  return copy(s, pointer(dst), pointer(src), n, 0);
}
EXPORT CUresult CUDAAPI cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t n) {
  ENTER_CONTEXT("cuMemcpyHtoD_v2", n);
  return copy(NULL, pointer(dst), src, n, TO_DEVICE);
}
EXPORT CUresult CUDAAPI cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t n) {
  ENTER_CONTEXT("cuMemcpyDtoH_v2", n);
  return copy(NULL, dst, pointer(src), n, FROM_DEVICE);
}
EXPORT CUresult CUDAAPI cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t n) {
  ENTER_CONTEXT("cuMemcpyDtoD_v2", n);
  return copy(NULL, pointer(dst), pointer(src), n, TO_DEVICE | FROM_DEVICE);
}
EXPORT CUresult CUDAAPI cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t n, CUstream s) {
  ENTER_CONTEXT("cuMemcpyHtoDAsync_v2", n);
  return copy(s, pointer(dst), src, n, TO_DEVICE);
}
EXPORT CUresult CUDAAPI cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t n, CUstream s) {
  ENTER_CONTEXT("cuMemcpyDtoHAsync_v2", n);
  return copy(s, dst, pointer(src), n, FROM_DEVICE);
}
EXPORT CUresult CUDAAPI cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s) {
  ENTER_CONTEXT("cuMemcpyDtoDAsync_v2", n);
  return copy(s, pointer(dst), pointer(src), n, TO_DEVICE | FROM_DEVICE);
}
EXPORT CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr dst, CUcontext dc, CUdeviceptr src, CUcontext sc, size_t n) {
  ENTER_CONTEXT("cuMemcpyPeer", n);
  (void)dc, (void)sc;
  return copy(NULL, pointer(dst), pointer(src), n, TO_DEVICE | FROM_DEVICE);
}
EXPORT CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dc, CUdeviceptr src, CUcontext sc, size_t n,
                                          CUstream s) {
  ENTER_CONTEXT("cuMemcpyPeerAsync", n);
  (void)dc, (void)sc;
  return copy(s, pointer(dst), pointer(src), n, TO_DEVICE | FROM_DEVICE);
}

/* Base of one side of a 2D or 3D copy; NULL for arrays, which are not imitated. */
static char *side(CUmemorytype type, const void *host, CUdeviceptr device) {
  if (type == CU_MEMORYTYPE_HOST) return (char *)(uintptr_t)host;
  return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED ? pointer(device) : NULL;
}

static CUresult copy_rows(CUstream handle, struct op *op) {
  CUstream s = stream_get(handle);
  if (!s) return CUDA_ERROR_INVALID_HANDLE;
  if (!op->u.copy.width || !op->u.copy.height || !op->u.copy.depth) return CUDA_SUCCESS;
  return op->u.copy.dst && op->u.copy.src ? op_enqueue(s, op) : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult copy_2d(CUstream s, const CUDA_MEMCPY2D *c) {
  if (!c) return CUDA_ERROR_INVALID_VALUE;
  struct op op = {.kind = OP_COPY, .u.copy = {.width = c->WidthInBytes, .height = c->Height, .depth = 1}};
  op.u.copy.dst_pitch = c->dstPitch ? c->dstPitch : c->WidthInBytes;
  op.u.copy.src_pitch = c->srcPitch ? c->srcPitch : c->WidthInBytes;
  char *dst = side(c->dstMemoryType, c->dstHost, c->dstDevice), *src = side(c->srcMemoryType, c->srcHost, c->srcDevice);
  if (dst) op.u.copy.dst = dst + c->dstY * op.u.copy.dst_pitch + c->dstXInBytes;
  if (src) op.u.copy.src = src + c->srcY * op.u.copy.src_pitch + c->srcXInBytes;
  return copy_rows(s, &op);
}

EXPORT CUresult CUDAAPI cuMemcpy2D_v2(const CUDA_MEMCPY2D *c) {
  ENTER_CONTEXT("cuMemcpy2D_v2", c ? c->WidthInBytes * c->Height : 0);
  return copy_2d(NULL, c);
}
EXPORT CUresult CUDAAPI cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *c) {
  ENTER_CONTEXT("cuMemcpy2DUnaligned_v2", c ? c->WidthInBytes * c->Height : 0);
  return copy_2d(NULL, c);
}
EXPORT CUresult CUDAAPI cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *c, CUstream s) {
  ENTER_CONTEXT("cuMemcpy2DAsync_v2", c ? c->WidthInBytes * c->Height : 0);
  return copy_2d(s, c);
}

static CUresult copy_3d(CUstream s, const CUDA_MEMCPY3D *c) {
  if (!c) return CUDA_ERROR_INVALID_VALUE;
  struct op op = {.kind = OP_COPY, .u.copy = {.width = c->WidthInBytes, .height = c->Height, .depth = c->Depth}};
  op.u.copy.dst_pitch = c->dstPitch ? c->dstPitch : c->WidthInBytes;
  op.u.copy.src_pitch = c->srcPitch ? c->srcPitch : c->WidthInBytes;
  op.u.copy.dst_slice = op.u.copy.dst_pitch * (c->dstHeight ? c->dstHeight : c->Height);
  op.u.copy.src_slice = op.u.copy.src_pitch * (c->srcHeight ? c->srcHeight : c->Height);
  char *dst = side(c->dstMemoryType, c->dstHost, c->dstDevice), *src = side(c->srcMemoryType, c->srcHost, c->srcDevice);
  if (dst) op.u.copy.dst = dst + c->dstZ * op.u.copy.dst_slice + c->dstY * op.u.copy.dst_pitch + c->dstXInBytes;
  if (src) op.u.copy.src = src + c->srcZ * op.u.copy.src_slice + c->srcY * op.u.copy.src_pitch + c->srcXInBytes;
  return copy_rows(s, &op);
}

EXPORT CUresult CUDAAPI cuMemcpy3D_v2(const CUDA_MEMCPY3D *c) {
  ENTER_CONTEXT("cuMemcpy3D_v2", c ? c->WidthInBytes * c->Height * c->Depth : 0);
  return copy_3d(NULL, c);
}
EXPORT CUresult CUDAAPI cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *c, CUstream s) {
  ENTER_CONTEXT("cuMemcpy3DAsync_v2", c ? c->WidthInBytes * c->Height * c->Depth : 0);
  return copy_3d(s, c);
}

/* ---- fills ---- */

static CUresult set(CUstream handle, CUdeviceptr dst, size_t pitch, unsigned value, unsigned element, size_t width,
                    size_t height) {
  CUstream s = stream_get(handle);
  if (!s) return CUDA_ERROR_INVALID_HANDLE;
  if (!width || !height) return CUDA_SUCCESS;
  if (dst % element || !on_device(dst, height == 1 ? width * element : pitch * (height - 1) + width * element))
    return CUDA_ERROR_INVALID_VALUE;
  struct op op = {.kind = OP_SET,
                  .u.set = {.dst = pointer(dst),
                            .pitch = pitch,
                            .width = width * element,
                            .height = height,
                            .value = value,
                            .element = element}};
  return op_enqueue(s, &op);
}

#define FILL(bits, type)                                                                                    \
  EXPORT CUresult CUDAAPI cuMemsetD##bits##_v2(CUdeviceptr p, type v, size_t n) {                           \
    ENTER_CONTEXT("cuMemsetD" #bits "_v2", n *(bits / 8));                                                  \
    return set(NULL, p, 0, v, bits / 8, n, 1);                                                              \
  }                                                                                                         \
  EXPORT CUresult CUDAAPI cuMemsetD##bits##Async(CUdeviceptr p, type v, size_t n, CUstream s) {             \
    ENTER_CONTEXT("cuMemsetD" #bits "Async", n *(bits / 8));                                                \
    return set(s, p, 0, v, bits / 8, n, 1);                                                                 \
  }                                                                                                         \
  EXPORT CUresult CUDAAPI cuMemsetD2D##bits##_v2(CUdeviceptr p, size_t pitch, type v, size_t w, size_t h) { \
    ENTER_CONTEXT("cuMemsetD2D" #bits "_v2", w *h *(bits / 8));                                             \
    return set(NULL, p, pitch, v, bits / 8, w, h);                                                          \
  }                                                                                                         \
  EXPORT CUresult CUDAAPI cuMemsetD2D##bits##Async(CUdeviceptr p, size_t pitch, type v, size_t w, size_t h, \
                                                   CUstream s) {                                            \
    ENTER_CONTEXT("cuMemsetD2D" #bits "Async", w *h *(bits / 8));                                           \
    return set(s, p, pitch, v, bits / 8, w, h);                                                             \
  }
FILL(8, unsigned char)
FILL(16, unsigned short)
FILL(32, unsigned int)
