/* vmm.c - virtual memory management and CUDA IPC of the libcuda stand-in. See internal.h.
 *
 * A physical handle is a range of the process's sparse file, or a file of its own when it can be exported as a
 * descriptor. Mapping is mmap over a reserved range. ASSUMED: granularity 2 MiB, both minimum and recommended.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

enum { GRANULE = 2 << 20 };

struct physical {
  uint32_t magic;
  int references; /* atomic: the handle, each mapping */
  int fd;
  bool own_fd;
  uint64_t offset;
  size_t size;
  bool counted; /* taken from the world by this process */
  CUmemAllocationProp prop;
};

static struct physical *physical_get(CUmemGenericAllocationHandle h) {
  struct physical *p = (struct physical *)(uintptr_t)h;
  return p && p->magic == MAGIC_PHYSICAL ? p : NULL;
}

static void physical_put(struct physical *p) {
  if (__atomic_sub_fetch(&p->references, 1, __ATOMIC_ACQ_REL)) return;
  int saved = errno;
  if (p->own_fd)
    close(p->fd);
  else
    fallocate(p->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)p->offset, (off_t)p->size);
  if (p->counted) world_give(driver_world(), WORLD_DEVICE, p->size);
  p->magic = 0;
  free(p);
  errno = saved;
}

EXPORT CUresult CUDAAPI cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                                      CUmemAllocationGranularity_flags option) {
  ENTER("cuMemGetAllocationGranularity", 0);
  if (!granularity || !prop || option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) return CUDA_ERROR_INVALID_VALUE;
  *granularity = GRANULE;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *out, size_t size, size_t alignment, CUdeviceptr hint,
                                            unsigned long long flags) {
  ENTER("cuMemAddressReserve", 0);
  if (!out || !size || size % GRANULE || flags || (alignment & (alignment - 1))) return CUDA_ERROR_INVALID_VALUE;
  if (alignment < GRANULE) alignment = GRANULE;
  char *p = mmap((void *)(uintptr_t)hint, size + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                 0);
  if (p == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  char *start = (char *)(((uintptr_t)p + alignment - 1) & ~(uintptr_t)(alignment - 1));
  if (start > p) munmap(p, (size_t)(start - p));
  if (start + size < p + size + alignment) munmap(start + size, (size_t)(p + alignment - start));
  *out = (CUdeviceptr)(uintptr_t)start;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemAddressFree(CUdeviceptr p, size_t size) {
  ENTER("cuMemAddressFree", 0);
  if (!p || !size) return CUDA_ERROR_INVALID_VALUE;
  return munmap((void *)(uintptr_t)p, size) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static bool back(struct physical *p) {
  p->own_fd = p->prop.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  p->fd = p->own_fd ? memfd_create("gb10sim-vmm", MFD_CLOEXEC) : memory_fd();
  if (p->fd < 0) return false;
  if (p->own_fd) return !ftruncate(p->fd, (off_t)p->size);
  p->offset = memory_offset(p->size);
  return p->offset != UINT64_MAX;
}

EXPORT CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *out, size_t size, const CUmemAllocationProp *prop,
                                    unsigned long long flags) {
  ENTER_CONTEXT("cuMemCreate", size);
  if (!out || !size || size % GRANULE || !prop || flags || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  if (prop->requestedHandleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  struct physical *p = calloc(1, sizeof *p);
  if (!p || world_take(driver_world(), WORLD_DEVICE, size)) {
    free(p);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *p = (struct physical){.magic = MAGIC_PHYSICAL, .references = 1, .size = size, .counted = true, .prop = *prop};
  if (!back(p)) {
    world_give(driver_world(), WORLD_DEVICE, size);
    free(p);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *out = (CUmemGenericAllocationHandle)(uintptr_t)p;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle h) {
  ENTER("cuMemRelease", 0);
  struct physical *p = physical_get(h);
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  physical_put(p);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemMap(CUdeviceptr va, size_t size, size_t offset, CUmemGenericAllocationHandle h,
                                 unsigned long long flags) {
  ENTER("cuMemMap", size);
  struct physical *p = physical_get(h);
  if (!p || !va || !size || va % 4096 || offset > p->size || size > p->size - offset || flags)
    return CUDA_ERROR_INVALID_VALUE;
  if (mmap((void *)(uintptr_t)va, size, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, p->fd,
           (off_t)(p->offset + offset)) == MAP_FAILED)
    return CUDA_ERROR_INVALID_VALUE;
  __atomic_fetch_add(&p->references, 1, __ATOMIC_ACQ_REL);
  struct block b = {.va = va,
                    .size = size,
                    .kind = BLOCK_MAPPED,
                    .fd = p->fd,
                    .offset = p->offset + offset,
                    .id = next_id(),
                    .context = context_current(),
                    .owner = p};
  block_note(&b);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemUnmap(CUdeviceptr va, size_t size) {
  ENTER("cuMemUnmap", size);
  struct block b;
  if (!va || !size) return CUDA_ERROR_INVALID_VALUE;
  for (CUdeviceptr at = va; at < va + size; at += b.size) {
    if (!block_find(at, &b) || b.va != at || b.kind != BLOCK_MAPPED || at + b.size > va + size)
      return CUDA_ERROR_INVALID_VALUE;
    block_drop(at, &b);
    if (mmap((void *)(uintptr_t)at, b.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0) == MAP_FAILED)
      return CUDA_ERROR_UNKNOWN;
    physical_put(b.owner);
  }
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemSetAccess(CUdeviceptr va, size_t size, const CUmemAccessDesc *desc, size_t n) {
  ENTER("cuMemSetAccess", size);
  if (!va || !size || !desc || !n) return CUDA_ERROR_INVALID_VALUE;
  unsigned flags = desc[0].flags;
  int prot = flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE
             : flags == CU_MEM_ACCESS_FLAGS_PROT_READ    ? PROT_READ
                                                         : PROT_NONE;
  struct block b;
  for (CUdeviceptr at = va; at < va + size; at += b.size)
    if (!block_find(at, &b) || b.va != at || b.kind != BLOCK_MAPPED) return CUDA_ERROR_INVALID_VALUE;
  return mprotect((void *)(uintptr_t)va, size, prot) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemGetAccess(unsigned long long *flags, const CUmemLocation *where, CUdeviceptr p) {
  ENTER("cuMemGetAccess", 0);
  struct block b;
  if (!flags || !where || !block_find(p, &b)) return CUDA_ERROR_INVALID_VALUE;
  *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                               CUmemGenericAllocationHandle h) {
  ENTER("cuMemGetAllocationPropertiesFromHandle", 0);
  struct physical *p = physical_get(h);
  if (!prop || !p) return CUDA_ERROR_INVALID_VALUE;
  *prop = p->prop;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *addr) {
  ENTER("cuMemRetainAllocationHandle", 0);
  struct block b;
  if (!out || !block_find((CUdeviceptr)(uintptr_t)addr, &b) || b.kind != BLOCK_MAPPED) return CUDA_ERROR_INVALID_VALUE;
  struct physical *p = b.owner;
  __atomic_fetch_add(&p->references, 1, __ATOMIC_ACQ_REL);
  *out = (CUmemGenericAllocationHandle)(uintptr_t)p;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle h,
                                                     CUmemAllocationHandleType type, unsigned long long flags) {
  ENTER("cuMemExportToShareableHandle", 0);
  struct physical *p = physical_get(h);
  if (!out || !p || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !p->own_fd)
    return CUDA_ERROR_INVALID_VALUE;
  int fd = fcntl(p->fd, F_DUPFD_CLOEXEC, 3);
  if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *(int *)out = fd;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *os_handle,
                                                       CUmemAllocationHandleType type) {
  ENTER("cuMemImportFromShareableHandle", 0);
  struct stat st;
  int fd = (int)(intptr_t)os_handle;
  if (!out || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || fstat(fd, &st) || st.st_size <= 0)
    return CUDA_ERROR_INVALID_VALUE;
  struct physical *p = calloc(1, sizeof *p);
  if (!p) return CUDA_ERROR_OUT_OF_MEMORY;
  *p = (struct physical){.magic = MAGIC_PHYSICAL, .references = 1, .size = (size_t)st.st_size, .own_fd = true};
  p->prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p->prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  p->prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (p->fd < 0) {
    free(p);
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  *out = (CUmemGenericAllocationHandle)(uintptr_t)p;
  return CUDA_SUCCESS;
}

/* ---- CUDA IPC ---- */

struct ipc_memory {
  uint32_t magic;
  int32_t pid, fd;
  uint64_t offset, size;
};
_Static_assert(sizeof(struct ipc_memory) <= sizeof(CUipcMemHandle), "fits the opaque handle");

EXPORT CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr p) {
  ENTER_CONTEXT("cuIpcGetMemHandle", 0);
  struct block b;
  if (!out || !block_find(p, &b)) return CUDA_ERROR_INVALID_VALUE;
  if (b.kind != BLOCK_DEVICE) return CUDA_ERROR_INVALID_VALUE; /* managed and VMM memory has no such handle */
  struct ipc_memory h = {.magic = MAGIC_PHYSICAL, .pid = getpid(), .fd = b.fd, .offset = b.offset, .size = b.size};
  memset(out, 0, sizeof *out);
  memcpy(out, &h, sizeof h);
  return CUDA_SUCCESS;
}

static CUresult ipc_open(CUdeviceptr *out, const struct ipc_memory *h) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", h->pid, h->fd);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return CUDA_ERROR_MAP_FAILED;
  uint64_t inside = h->offset % 4096;
  size_t length = (size_t)(h->size + inside);
  char *p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, (off_t)(h->offset - inside));
  close(fd);
  if (p == MAP_FAILED) return CUDA_ERROR_MAP_FAILED;
  struct block b = {.va = (uintptr_t)p + inside,
                    .size = h->size,
                    .kind = BLOCK_IPC,
                    .fd = -1,
                    .id = next_id(),
                    .context = context_current(),
                    .map = p,
                    .map_size = length};
  block_note(&b);
  *out = b.va;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle handle, unsigned flags) {
  ENTER_CONTEXT("cuIpcOpenMemHandle_v2", 0);
  struct ipc_memory h;
  memcpy(&h, &handle, sizeof h);
  if (!out || h.magic != MAGIC_PHYSICAL || flags & ~(unsigned)CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
    return CUDA_ERROR_INVALID_VALUE;
  if (h.pid == getpid()) return CUDA_ERROR_INVALID_CONTEXT; /* header: not in the process that exported it */
  int saved = errno;
  CUresult r = ipc_open(out, &h);
  errno = saved;
  return r;
}

EXPORT CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr p) {
  ENTER_CONTEXT("cuIpcCloseMemHandle", 0);
  struct block b;
  if (!block_find(p, &b) || b.kind != BLOCK_IPC || b.va != p) return CUDA_ERROR_INVALID_VALUE;
  block_drop(p, &b);
  munmap(b.map, b.map_size);
  return CUDA_SUCCESS;
}
