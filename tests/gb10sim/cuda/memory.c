/* memory.c - allocations of the libcuda stand-in: where they lie, and the table of them. See internal.h.
 *
 * Device, managed and pool memory lies in one sparse in-memory file of the process, mapped shared: a tensor of
 * 100 GiB costs nothing until it is written, and another process can map a part of it (CUDA IPC). Requests of
 * less than a MiB share slabs of 2 MiB. Page-locked host memory is private anonymous memory.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

enum { SLAB = 2 << 20, SMALL = 1 << 20, PAGE = 4096, CLASSES = 13 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *blocks; /* sorted by address */
static size_t n_blocks, room;
static int the_fd = -1;
static uint64_t file_end;
static unsigned long long last_id = 1;

/* Small requests: classes 256 B ... 1 MiB, each with a list of free places. */
static struct place {
  uintptr_t va;
  uint64_t offset;
} * places[CLASSES];
static size_t n_places[CLASSES], room_places[CLASSES];

unsigned long long next_id(void) { return __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED); }

static int fd_locked(void) {
  if (the_fd < 0) the_fd = memfd_create("gb10sim-device", MFD_CLOEXEC);
  return the_fd;
}

int memory_fd(void) {
  pthread_mutex_lock(&lock);
  int fd = fd_locked();
  pthread_mutex_unlock(&lock);
  return fd;
}

static uint64_t offset_locked(size_t bytes) {
  uint64_t at = file_end;
  file_end += (bytes + PAGE - 1) & ~(uint64_t)(PAGE - 1);
  if (fd_locked() >= 0 && ftruncate(the_fd, (off_t)file_end)) return UINT64_MAX;
  return at;
}

uint64_t memory_offset(size_t bytes) {
  pthread_mutex_lock(&lock);
  uint64_t at = offset_locked(bytes);
  pthread_mutex_unlock(&lock);
  return at;
}

/* Index of the first block that begins behind p. */
static size_t upper(uintptr_t p) {
  size_t low = 0, high = n_blocks;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (blocks[middle].va <= p)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static bool note_locked(const struct block *b) {
  if (n_blocks == room) {
    size_t more = room ? 2 * room : 1024;
    struct block *bigger = realloc(blocks, more * sizeof *bigger);
    if (!bigger) return false;
    blocks = bigger;
    room = more;
  }
  size_t at = upper(b->va);
  memmove(&blocks[at + 1], &blocks[at], (n_blocks - at) * sizeof *blocks);
  blocks[at] = *b;
  n_blocks++;
  return true;
}

void block_note(const struct block *b) {
  pthread_mutex_lock(&lock);
  note_locked(b);
  pthread_mutex_unlock(&lock);
}

static bool find_locked(uintptr_t p, size_t *ret_at) {
  size_t at = upper(p);
  if (!at || p - blocks[at - 1].va >= blocks[at - 1].size) return false;
  *ret_at = at - 1;
  return true;
}

bool block_find(CUdeviceptr p, struct block *ret) {
  size_t at;
  pthread_mutex_lock(&lock);
  bool found = find_locked((uintptr_t)p, &at);
  if (found) *ret = blocks[at];
  pthread_mutex_unlock(&lock);
  return found;
}

bool block_drop(CUdeviceptr va, struct block *ret) {
  size_t at;
  pthread_mutex_lock(&lock);
  bool found = find_locked((uintptr_t)va, &at) && blocks[at].va == va;
  if (found) {
    *ret = blocks[at];
    memmove(&blocks[at], &blocks[at + 1], (n_blocks - at - 1) * sizeof *blocks);
    n_blocks--;
  }
  pthread_mutex_unlock(&lock);
  return found;
}

static unsigned class_of(size_t bytes) {
  unsigned c = 0;
  while (((size_t)256 << c) < bytes) c++;
  return c;
}

static bool push_place(unsigned c, struct place p) {
  if (n_places[c] == room_places[c]) {
    size_t more = room_places[c] ? 2 * room_places[c] : 256;
    struct place *bigger = realloc(places[c], more * sizeof *bigger);
    if (!bigger) return false;
    places[c] = bigger;
    room_places[c] = more;
  }
  places[c][n_places[c]++] = p;
  return true;
}

static void *map_at(int fd, uint64_t offset, size_t bytes) {
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, (off_t)offset);
  return p == MAP_FAILED ? NULL : p;
}

/* Cuts a new slab into places of one class. */
static bool add_slab(unsigned c) {
  uint64_t offset = offset_locked(SLAB);
  char *va = offset == UINT64_MAX ? NULL : map_at(the_fd, offset, SLAB);
  if (!va) return false;
  for (size_t at = SLAB; at; at -= (size_t)256 << c)
    if (!push_place(c, (struct place){(uintptr_t)va + at - ((size_t)256 << c), offset + at - ((size_t)256 << c)}))
      return false;
  return true;
}

static bool place_small(size_t bytes, struct block *b) {
  unsigned c = class_of(bytes);
  if (!n_places[c] && !add_slab(c)) return false;
  struct place p = places[c][--n_places[c]];
  b->va = p.va;
  b->offset = p.offset;
  return true;
}

static bool place_large(size_t bytes, struct block *b) {
  size_t whole = (bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
  b->offset = offset_locked(whole);
  b->map = b->offset == UINT64_MAX ? NULL : map_at(the_fd, b->offset, whole);
  b->map_size = whole;
  b->va = (uintptr_t)b->map;
  return b->map;
}

static bool place_host(size_t bytes, struct block *b) {
  size_t whole = (bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
  void *p = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return false;
  b->map = p;
  b->map_size = whole;
  b->va = (uintptr_t)p;
  return true;
}

static enum world_memory account(enum block_kind kind) {
  return kind == BLOCK_PINNED || kind == BLOCK_REGISTERED ? WORLD_PINNED : WORLD_DEVICE;
}

CUresult block_allocate(enum block_kind kind, size_t bytes, unsigned flags, void *owner, CUdeviceptr *ret) {
  struct block b = {
      .size = bytes, .kind = kind, .flags = flags, .id = next_id(), .context = context_current(), .owner = owner};
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  if (kind != BLOCK_POOL && world_take(driver_world(), account(kind), bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  int saved = errno;
  pthread_mutex_lock(&lock);
  b.fd = fd_locked();
  bool done = kind == BLOCK_PINNED ? place_host(bytes, &b)
              : bytes < SMALL      ? place_small(bytes, &b)
                                   : place_large(bytes, &b);
  done = done && note_locked(&b);
  pthread_mutex_unlock(&lock);
  errno = saved;
  if (!done) {
    if (kind != BLOCK_POOL) world_give(driver_world(), account(kind), bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *ret = b.va;
  return CUDA_SUCCESS;
}

static void release(const struct block *b) {
  if (b->map) {
    munmap(b->map, b->map_size);
    if (b->kind != BLOCK_PINNED)
      fallocate(b->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)b->offset, (off_t)b->map_size);
    return;
  }
  pthread_mutex_lock(&lock);
  push_place(class_of(b->size), (struct place){b->va, b->offset});
  pthread_mutex_unlock(&lock);
}

CUresult block_free(CUdeviceptr p, enum block_kind kind, enum block_kind or_kind) {
  struct block b;
  if (!block_find(p, &b) || b.va != p || (b.kind != kind && b.kind != or_kind) || !block_drop(p, &b))
    return CUDA_ERROR_INVALID_VALUE;
  int saved = errno;
  release(&b);
  errno = saved;
  if (b.kind != BLOCK_POOL) world_give(driver_world(), account(b.kind), b.size);
  return CUDA_SUCCESS;
}

/* ---- the plain allocators ---- */

EXPORT CUresult CUDAAPI cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
  ENTER_CONTEXT("cuMemGetInfo_v2", 0);
  if (!free_bytes || !total) return CUDA_ERROR_INVALID_VALUE;
  const struct world *w = driver_world();
  *free_bytes = (size_t)w->scalar[SCALAR_MemFree] * 1024;
  *total = (size_t)w->scalar[SCALAR_MemTotal] * 1024;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *p, size_t bytes) {
  ENTER_CONTEXT("cuMemAlloc_v2", bytes);
  return p ? block_allocate(BLOCK_DEVICE, bytes, 0, NULL, p) : CUDA_ERROR_INVALID_VALUE;
}

/* ASSUMED: rows are padded to 512 bytes. */
EXPORT CUresult CUDAAPI cuMemAllocPitch_v2(CUdeviceptr *p, size_t *pitch, size_t width, size_t height,
                                           unsigned element) {
  size_t row = (width + 511) & ~(size_t)511;
  ENTER_CONTEXT("cuMemAllocPitch_v2", row * height);
  if (!p || !pitch || !width || !height || (element != 4 && element != 8 && element != 16))
    return CUDA_ERROR_INVALID_VALUE;
  CUresult r = block_allocate(BLOCK_DEVICE, row * height, 0, NULL, p);
  if (!r) *pitch = row;
  return r;
}

EXPORT CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr *p, size_t bytes, unsigned flags) {
  ENTER_CONTEXT("cuMemAllocManaged", bytes);
  if (!p || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)) return CUDA_ERROR_INVALID_VALUE;
  return block_allocate(BLOCK_MANAGED, bytes, flags, NULL, p);
}

EXPORT CUresult CUDAAPI cuMemFree_v2(CUdeviceptr p) {
  ENTER_CONTEXT("cuMemFree_v2", 0);
  if (!p) return CUDA_SUCCESS;
  struct block b;
  if (block_find(p, &b) && b.va == p && b.kind == BLOCK_POOL) return cuMemFreeAsync(p, NULL);
  return block_free(p, BLOCK_DEVICE, BLOCK_MANAGED);
}

static CUresult host_alloc(void **p, size_t bytes, unsigned flags) {
  CUdeviceptr d = 0;
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  CUresult r = block_allocate(BLOCK_PINNED, bytes, flags, NULL, &d);
  if (!r) *p = (void *)(uintptr_t)d;
  return r;
}

EXPORT CUresult CUDAAPI cuMemHostAlloc(void **p, size_t bytes, unsigned flags) {
  ENTER_CONTEXT("cuMemHostAlloc", bytes);
  if (flags & ~7u) return CUDA_ERROR_INVALID_VALUE;
  return host_alloc(p, bytes, flags);
}

EXPORT CUresult CUDAAPI cuMemAllocHost_v2(void **p, size_t bytes) {
  ENTER_CONTEXT("cuMemAllocHost_v2", bytes);
  return host_alloc(p, bytes, 0);
}

EXPORT CUresult CUDAAPI cuMemFreeHost(void *p) {
  ENTER_CONTEXT("cuMemFreeHost", 0);
  return p ? block_free((CUdeviceptr)(uintptr_t)p, BLOCK_PINNED, BLOCK_PINNED) : CUDA_SUCCESS;
}

/* The pages are the caller's own and already counted; locking them takes nothing from MemFree, but from what the
 * kernel could reclaim. ASSUMED: counted as taken all the same, since fresh pages are touched by the lock. */
EXPORT CUresult CUDAAPI cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags) {
  ENTER_CONTEXT("cuMemHostRegister_v2", bytes);
  struct block b;
  if (!p || !bytes || flags & ~15u) return CUDA_ERROR_INVALID_VALUE;
  if (block_find((CUdeviceptr)(uintptr_t)p, &b)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  if (world_take(driver_world(), WORLD_PINNED, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  b = (struct block){.va = (uintptr_t)p,
                     .size = bytes,
                     .kind = BLOCK_REGISTERED,
                     .flags = flags,
                     .fd = -1,
                     .id = next_id(),
                     .context = context_current()};
  block_note(&b);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemHostUnregister(void *p) {
  ENTER_CONTEXT("cuMemHostUnregister", 0);
  struct block b;
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  if (!block_find((CUdeviceptr)(uintptr_t)p, &b) || b.kind != BLOCK_REGISTERED || b.va != (uintptr_t)p)
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  block_drop(b.va, &b);
  world_give(driver_world(), WORLD_PINNED, b.size);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemHostGetDevicePointer_v2(CUdeviceptr *d, void *p, unsigned flags) {
  ENTER_CONTEXT("cuMemHostGetDevicePointer_v2", 0);
  struct block b;
  if (!d || flags || !block_find((CUdeviceptr)(uintptr_t)p, &b) ||
      (b.kind != BLOCK_PINNED && b.kind != BLOCK_REGISTERED))
    return CUDA_ERROR_INVALID_VALUE;
  *d = (CUdeviceptr)(uintptr_t)p;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemHostGetFlags(unsigned *flags, void *p) {
  ENTER_CONTEXT("cuMemHostGetFlags", 0);
  struct block b;
  if (!flags || !block_find((CUdeviceptr)(uintptr_t)p, &b) || b.kind != BLOCK_PINNED) return CUDA_ERROR_INVALID_VALUE;
  *flags = b.flags | CU_MEMHOSTALLOC_DEVICEMAP;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr p) {
  ENTER_CONTEXT("cuMemGetAddressRange_v2", 0);
  struct block b;
  if (!block_find(p, &b)) return CUDA_ERROR_NOT_FOUND;
  if (base) *base = b.va;
  if (size) *size = b.size;
  return CUDA_SUCCESS;
}

/* ---- pointer attributes ---- */

static bool on_host(const struct block *b) { return b->kind == BLOCK_PINNED || b->kind == BLOCK_REGISTERED; }

static CUresult pointer_attribute(void *out, CUpointer_attribute a, CUdeviceptr p, const struct block *b) {
  switch ((int)a) {
  case CU_POINTER_ATTRIBUTE_CONTEXT: return *(CUcontext *)out = b->context, CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    return *(unsigned *)out = on_host(b) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE, CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: return *(CUdeviceptr *)out = p, CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    *(void **)out = on_host(b) || b->kind == BLOCK_MANAGED ? (void *)(uintptr_t)p : NULL;
    return *(void **)out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
  case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    return *(int *)out = a == CU_POINTER_ATTRIBUTE_IS_MANAGED && b->kind == BLOCK_MANAGED, CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_BUFFER_ID: return *(unsigned long long *)out = b->id, CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return *(int *)out = 0, CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: return *(int *)out = b->kind == BLOCK_DEVICE, CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: return *(CUdeviceptr *)out = b->va, CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return *(size_t *)out = b->size, CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_MAPPED: return *(int *)out = 1, CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
  case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: return *(unsigned long long *)out = 0, CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: return *(int *)out = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE, CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    return *(CUmemoryPool *)out = b->kind == BLOCK_POOL ? b->owner : NULL, CUDA_SUCCESS;
  default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}

EXPORT CUresult CUDAAPI cuPointerGetAttribute(void *out, CUpointer_attribute a, CUdeviceptr p) {
  ENTER_CONTEXT("cuPointerGetAttribute", 0);
  struct block b;
  if (!out || !block_find(p, &b)) return CUDA_ERROR_INVALID_VALUE;
  return pointer_attribute(out, a, p, &b);
}

/* For a pointer that is none of ours each answer is its "none", and the call succeeds: as the header says. */
static void no_attribute(void *out, CUpointer_attribute a) {
  switch ((int)a) {
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)out = -2; break;
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
  case CU_POINTER_ATTRIBUTE_IS_MANAGED:
  case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
  case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
  case CU_POINTER_ATTRIBUTE_MAPPED:
  case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: *(int *)out = 0; break;
  default: *(void **)out = NULL;
  }
}

EXPORT CUresult CUDAAPI cuPointerGetAttributes(unsigned n, CUpointer_attribute *a, void **out, CUdeviceptr p) {
  ENTER_CONTEXT("cuPointerGetAttributes", 0);
  struct block b;
  if (!a || !out || !n) return CUDA_ERROR_INVALID_VALUE;
  bool known = block_find(p, &b);
  for (unsigned i = 0; i < n; i++)
    if (!known || pointer_attribute(out[i], a[i], p, &b)) no_attribute(out[i], a[i]);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuPointerSetAttribute(const void *value, CUpointer_attribute a, CUdeviceptr p) {
  ENTER_CONTEXT("cuPointerSetAttribute", 0);
  struct block b;
  return value && a == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && block_find(p, &b) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- advice on managed memory: taken, without effect ---- */

static CUresult managed_range(CUdeviceptr p, size_t n) {
  struct block b;
  if (!n || !p) return CUDA_ERROR_INVALID_VALUE;
  /* Any system memory may be advised where PAGEABLE_MEMORY_ACCESS is 1. */
  return block_find(p, &b) && b.kind == BLOCK_DEVICE ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemAdvise(CUdeviceptr p, size_t n, CUmem_advise advice, CUdevice d) {
  ENTER_CONTEXT("cuMemAdvise", n);
  (void)d;
  return advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY ? CUDA_ERROR_INVALID_VALUE
                                                                                            : managed_range(p, n);
}

EXPORT CUresult CUDAAPI cuMemAdvise_v2(CUdeviceptr p, size_t n, CUmem_advise advice, CUmemLocation where) {
  ENTER_CONTEXT("cuMemAdvise_v2", n);
  (void)where;
  return advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY ? CUDA_ERROR_INVALID_VALUE
                                                                                            : managed_range(p, n);
}

EXPORT CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr p, size_t n, CUdevice d, CUstream s) {
  ENTER_CONTEXT("cuMemPrefetchAsync", n);
  (void)d;
  return stream_get(s) ? managed_range(p, n) : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult CUDAAPI cuMemPrefetchAsync_v2(CUdeviceptr p, size_t n, CUmemLocation where, unsigned flags,
                                              CUstream s) {
  ENTER_CONTEXT("cuMemPrefetchAsync_v2", n);
  (void)where;
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  return stream_get(s) ? managed_range(p, n) : CUDA_ERROR_INVALID_HANDLE;
}
