/* pool.c - stream-ordered allocation of the libcuda stand-in: memory pools. See internal.h.
 *
 * A pool keeps what is freed up to its release threshold (header: default 0, given back at the next
 * synchronisation; here at the free itself) and takes new memory from the world only for what it lacks.
 */
#include <stdlib.h>

#include "internal.h"

struct CUmemPoolHandle_st {
  uint32_t magic;
  bool standard;
  pthread_mutex_t lock;
  cuuint64_t reserved, reserved_high, used, used_high, threshold;
  int reuse[4];
};

static struct CUmemPoolHandle_st standard = {
    .magic = MAGIC_POOL, .standard = true, .lock = PTHREAD_MUTEX_INITIALIZER, .reuse = {0, 1, 1, 1}};
static CUmemoryPool current; /* atomic; NULL = standard */

static CUmemoryPool current_pool(void) {
  CUmemoryPool p = __atomic_load_n(&current, __ATOMIC_ACQUIRE);
  return p ? p : &standard;
}

static bool valid(CUmemoryPool p) { return p && p->magic == MAGIC_POOL; }

static cuuint64_t whole(size_t bytes) { return ((cuuint64_t)bytes + 511) & ~(cuuint64_t)511; }

static CUresult pool_take(CUmemoryPool p, cuuint64_t bytes) {
  CUresult r = CUDA_SUCCESS;
  pthread_mutex_lock(&p->lock);
  cuuint64_t idle = p->reserved - p->used, lack = bytes > idle ? bytes - idle : 0;
  if (lack && world_take(driver_world(), WORLD_DEVICE, lack)) r = CUDA_ERROR_OUT_OF_MEMORY;
  if (!r) {
    p->reserved += lack;
    p->used += bytes;
    if (p->reserved > p->reserved_high) p->reserved_high = p->reserved;
    if (p->used > p->used_high) p->used_high = p->used;
  }
  pthread_mutex_unlock(&p->lock);
  return r;
}

static void trim_locked(CUmemoryPool p, cuuint64_t keep) {
  cuuint64_t least = p->used > keep ? p->used : keep;
  if (p->reserved <= least) return;
  world_give(driver_world(), WORLD_DEVICE, p->reserved - least);
  p->reserved = least;
}

static void pool_give(CUmemoryPool p, cuuint64_t bytes) {
  pthread_mutex_lock(&p->lock);
  p->used -= bytes;
  trim_locked(p, p->threshold);
  pthread_mutex_unlock(&p->lock);
}

static CUresult allocate(CUdeviceptr *out, size_t bytes, CUmemoryPool p, CUstream s) {
  if (!stream_get(s)) return CUDA_ERROR_INVALID_HANDLE;
  if (!out || !bytes || !valid(p)) return CUDA_ERROR_INVALID_VALUE;
  CUresult r = pool_take(p, whole(bytes));
  if (r) return r;
  r = block_allocate(BLOCK_POOL, bytes, 0, p, out);
  if (r) pool_give(p, whole(bytes));
  return r;
}

EXPORT CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream s) {
  ENTER_CONTEXT("cuMemAllocAsync", bytes);
  return allocate(out, bytes, current_pool(), s);
}

EXPORT CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool p, CUstream s) {
  ENTER_CONTEXT("cuMemAllocFromPoolAsync", bytes);
  return allocate(out, bytes, p, s);
}

EXPORT CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr p, CUstream s) {
  ENTER_CONTEXT("cuMemFreeAsync", 0);
  struct block b;
  if (!stream_get(s)) return CUDA_ERROR_INVALID_HANDLE;
  if (!p) return CUDA_SUCCESS;
  if (!block_find(p, &b) || b.va != p) return CUDA_ERROR_INVALID_VALUE;
  if (b.kind != BLOCK_POOL) return block_free(p, BLOCK_DEVICE, BLOCK_MANAGED);
  CUresult r = block_free(p, BLOCK_POOL, BLOCK_POOL);
  if (!r) pool_give(b.owner, whole(b.size));
  return r;
}

EXPORT CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props) {
  ENTER_CONTEXT("cuMemPoolCreate", 0);
  if (!out || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (props->handleTypes) return CUDA_ERROR_NOT_SUPPORTED;
  CUmemoryPool p = calloc(1, sizeof *p);
  if (!p) return CUDA_ERROR_OUT_OF_MEMORY;
  *p = standard;
  p->standard = false;
  p->reserved = p->reserved_high = p->used = p->used_high = p->threshold = 0;
  pthread_mutex_init(&p->lock, NULL);
  *out = p;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool p) {
  ENTER_CONTEXT("cuMemPoolDestroy", 0);
  if (!valid(p) || p->standard) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&p->lock);
  p->threshold = 0; /* what is still in use goes as it is freed */
  trim_locked(p, 0);
  pthread_mutex_unlock(&p->lock);
  CUmemoryPool expected = p;
  __atomic_compare_exchange_n(&current, &expected, NULL, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool p, size_t keep) {
  ENTER_CONTEXT("cuMemPoolTrimTo", 0);
  if (!valid(p)) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&p->lock);
  trim_locked(p, keep);
  pthread_mutex_unlock(&p->lock);
  return CUDA_SUCCESS;
}

static cuuint64_t *figure(CUmemoryPool p, CUmemPool_attribute a) {
  switch ((int)a) {
  case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: return &p->threshold;
  case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: return &p->reserved;
  case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: return &p->reserved_high;
  case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: return &p->used;
  case CU_MEMPOOL_ATTR_USED_MEM_HIGH: return &p->used_high;
  default: return NULL;
  }
}

static bool is_reuse(CUmemPool_attribute a) {
  return a >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES && a <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

EXPORT CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool p, CUmemPool_attribute a, void *value) {
  ENTER_CONTEXT("cuMemPoolGetAttribute", 0);
  if (!valid(p) || !value) return CUDA_ERROR_INVALID_VALUE;
  if (is_reuse(a)) return *(int *)value = p->reuse[a], CUDA_SUCCESS;
  if (!figure(p, a)) return CUDA_ERROR_INVALID_VALUE;
  *(cuuint64_t *)value = *figure(p, a);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool p, CUmemPool_attribute a, void *value) {
  ENTER_CONTEXT("cuMemPoolSetAttribute", 0);
  if (!valid(p) || !value) return CUDA_ERROR_INVALID_VALUE;
  if (is_reuse(a)) return p->reuse[a] = *(int *)value, CUDA_SUCCESS;
  cuuint64_t wanted = *(cuuint64_t *)value;
  bool high = a == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH || a == CU_MEMPOOL_ATTR_USED_MEM_HIGH;
  if (a != CU_MEMPOOL_ATTR_RELEASE_THRESHOLD && !(high && !wanted)) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&p->lock);
  *figure(p, a) = high ? (a == CU_MEMPOOL_ATTR_USED_MEM_HIGH ? p->used : p->reserved) : wanted;
  pthread_mutex_unlock(&p->lock);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemPoolSetAccess(CUmemoryPool p, const CUmemAccessDesc *map, size_t n) {
  ENTER_CONTEXT("cuMemPoolSetAccess", 0);
  return valid(p) && map && n ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult CUDAAPI cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool p, CUmemLocation *where) {
  ENTER_CONTEXT("cuMemPoolGetAccess", 0);
  if (!flags || !valid(p) || !where) return CUDA_ERROR_INVALID_VALUE;
  *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return CUDA_SUCCESS;
}

static CUresult answer_pool(CUmemoryPool *out, CUdevice d, CUmemoryPool p) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (d) return CUDA_ERROR_INVALID_DEVICE;
  *out = p;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice d) {
  ENTER("cuDeviceGetDefaultMemPool", 0);
  return answer_pool(out, d, &standard);
}

EXPORT CUresult CUDAAPI cuDeviceGetMemPool(CUmemoryPool *out, CUdevice d) {
  ENTER("cuDeviceGetMemPool", 0);
  return answer_pool(out, d, current_pool());
}

EXPORT CUresult CUDAAPI cuDeviceSetMemPool(CUdevice d, CUmemoryPool p) {
  ENTER("cuDeviceSetMemPool", 0);
  if (d || !valid(p)) return CUDA_ERROR_INVALID_VALUE;
  __atomic_store_n(&current, p, __ATOMIC_RELEASE);
  return CUDA_SUCCESS;
}
