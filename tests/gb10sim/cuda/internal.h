/* internal.h - what the files of the libcuda stand-in share.
 *
 * Written from cuda.h. Every entry point begins with ENTER or ENTER_CONTEXT: they apply the scenario's rules
 * (world_call), refuse what comes before cuInit or in a forked child, and keep a sticky error. Work on streams
 * is done at once, in the calling thread; simulated time gives events their distance. Whatever is believed of
 * the real driver without a public header that says so is marked "ASSUMED:" and listed in docs/internals.md.
 */
#ifndef GB10SIM_CUDA_INTERNAL_H
#define GB10SIM_CUDA_INTERNAL_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gb10sim.h"
#include "world.h"

/* cuda.h maps these names to newer forms; both forms are defined here. */
#undef cuGetProcAddress
#undef cuMemAdvise
#undef cuMemPrefetchAsync
#undef cuEventElapsedTime
#undef cuGraphNodeGetDependencies
#undef cuStreamUpdateCaptureDependencies
#undef cuDeviceGetUuid
#undef cuCtxSynchronize
#undef cuCtxGetDevice

#define EXPORT __attribute__((visibility("default")))

enum {
  MAGIC_CONTEXT = 0x43545831,
  MAGIC_STREAM = 0x5354524d,
  MAGIC_EVENT = 0x45564e54,
  MAGIC_MODULE = 0x4d4f444c,
  MAGIC_FUNCTION = 0x46554e43,
  MAGIC_POOL = 0x504f4f4c,
  MAGIC_GRAPH = 0x47525048,
  MAGIC_NODE = 0x4e4f4445,
  MAGIC_EXEC = 0x45584543,
  MAGIC_PHYSICAL = 0x50485953,
  MAGIC_LINK = 0x4c494e4b,
};

/* ---- entry.c ---- */
/* State of the driver in this process: initialised, not forked since, no sticky error. */
CUresult driver_state(void);
/* Marks the error sticky when it is one that breaks the context (700, 715, 716, 718, 719, ...). Returns it. */
CUresult driver_fault(CUresult error);
void driver_fault_clear(void);
struct world *driver_world(void);

#define ENTER(name, size)                            \
  do {                                               \
    int rule_ = world_call(name, (uint64_t)(size));  \
    if (rule_) return driver_fault((CUresult)rule_); \
    CUresult state_ = driver_state();                \
    if (state_) return state_;                       \
  } while (0)

/* The same, and the thread must have a context. */
#define ENTER_CONTEXT(name, size) \
  ENTER(name, size);              \
  if (!context_current()) return CUDA_ERROR_INVALID_CONTEXT

/* ---- context.c ---- */
struct CUctx_st {
  uint32_t magic;
  bool primary;
  unsigned flags;
  unsigned long long id;
  size_t limit[16];
  int references;
};
CUcontext context_current(void);

/* ---- memory.c ---- */
enum block_kind { BLOCK_DEVICE, BLOCK_MANAGED, BLOCK_PINNED, BLOCK_REGISTERED, BLOCK_MAPPED, BLOCK_IPC, BLOCK_POOL };
struct block {
  uintptr_t va;
  size_t size;
  enum block_kind kind;
  unsigned flags;
  uint64_t offset; /* in the file that backs it */
  int fd;
  unsigned long long id;
  CUcontext context;
  void *map; /* what to unmap at the end; NULL for a part of a slab */
  size_t map_size;
  void *owner; /* pool or physical handle */
};
/* Copies the block that holds `p`. False when p is in none. */
bool block_find(CUdeviceptr p, struct block *ret);
CUresult block_allocate(enum block_kind kind, size_t bytes, unsigned flags, void *owner, CUdeviceptr *ret);
CUresult block_free(CUdeviceptr p, enum block_kind kind, enum block_kind or_kind);
void block_note(const struct block *b);
bool block_drop(CUdeviceptr va, struct block *ret);
int memory_fd(void);
uint64_t memory_offset(size_t bytes);
unsigned long long next_id(void);

/* ---- stream.c ---- */
struct CUstream_st {
  uint32_t magic;
  unsigned flags;
  int priority;
  unsigned long long id;
  struct capture *capture;
  CUgraphNode last[8]; /* capture: what the next node depends on */
  size_t n_last;
};
struct CUevent_st {
  uint32_t magic;
  unsigned flags;
  bool recorded;
  uint64_t at_us;
  struct capture *capture;
  CUgraphNode last[8];
  size_t n_last;
  int ipc; /* index into the world's table, -1 = none */
  uint64_t ipc_id;
};
/* Resolves NULL, legacy and per-thread handles; NULL when the handle is no stream. */
CUstream stream_get(CUstream handle);

/* ---- op.c: what a stream or a graph node does ---- */
enum op_kind {
  OP_EMPTY,
  OP_COPY,
  OP_SET,
  OP_HOST,
  OP_KERNEL,
  OP_EVENT,
  OP_WAIT,
  OP_CHILD,
  OP_ALLOC,
  OP_FREE,
  OP_CONDITIONAL
};
struct op {
  enum op_kind kind;
  union {
    struct {
      char *dst;
      const char *src;
      size_t dst_pitch, src_pitch, dst_slice, src_slice, width, height, depth;
    } copy;
    struct {
      char *dst;
      size_t pitch, width, height; /* width in bytes */
      unsigned value, element;
    } set;
    struct {
      CUhostFn fn;
      void *data;
    } host;
    struct {
      CUfunction f;
      unsigned grid[3], block[3], shared;
      void **params;
    } kernel;
    struct {
      CUevent event;
    } event;
    struct {
      CUgraph graph;
    } child;
    struct {
      CUdeviceptr p;
      size_t bytes;
    } memory;
  } u;
};
/* Runs it, or records it when the stream captures. */
CUresult op_enqueue(CUstream stream, const struct op *op);
CUresult op_run(const struct op *op);
/* Counts a kernel without running its host version. */
void op_count_kernel(const struct op *op);

/* ---- module.c ---- */
enum { FUNCTION_ATTRIBUTES = 20 };
struct CUfunc_st {
  uint32_t magic;
  struct module *module;
  int attribute[FUNCTION_ATTRIBUTES];
  size_t n_params;
  char name[];
};
/* A CUfunction from a CUfunction or a CUkernel (both are accepted where the driver accepts both); else NULL. */
CUfunction function_get(void *handle);

/* ---- graph.c ---- */
struct capture;
bool capture_ended(const struct capture *c);
CUresult capture_add(CUstream stream, const struct op *op);
/* The stream waits for the event: a stream outside joins the event's capture. */
CUresult capture_wait(CUstream stream, CUevent event);

#endif
