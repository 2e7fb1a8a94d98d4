/* context.c - devices and contexts of the libcuda stand-in. See internal.h.
 *
 * One device. Its figures are those of GB10: facts/power_and_fabric.md (48 SMs, clocks), facts/cuda_images.md
 * (12.1, 101376 bytes of opt-in shared memory), facts/memory.md (INTEGRATED = 1, total = MemTotal), and the
 * CUDA C programming guide's table for compute capability 12.x for the rest. ASSUMED where marked.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { STACK = 32 };
static __thread struct {
  CUcontext stack[STACK];
  int n;
} mine;

static struct CUctx_st primary = {.magic = MAGIC_CONTEXT, .primary = true, .id = 1};
static int primary_references; /* atomic */

CUcontext context_current(void) { return mine.n ? mine.stack[mine.n - 1] : NULL; }

static bool context_valid(CUcontext c) { return c && c->magic == MAGIC_CONTEXT; }

static int64_t figure(enum scalar id) { return driver_world()->scalar[id]; }

EXPORT CUresult CUDAAPI cuDeviceGetCount(int *count) {
  ENTER("cuDeviceGetCount", 0);
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = (int)figure(SCALAR_devices);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal) {
  ENTER("cuDeviceGet", 0);
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  if (ordinal < 0 || ordinal >= figure(SCALAR_devices)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

#define CHECK_DEVICE(d) \
  if ((d) < 0 || (d) >= figure(SCALAR_devices)) return CUDA_ERROR_INVALID_DEVICE

EXPORT CUresult CUDAAPI cuDeviceGetName(char *name, int len, CUdevice d) {
  ENTER("cuDeviceGetName", 0);
  CHECK_DEVICE(d);
  if (!name || len <= 0) return CUDA_ERROR_INVALID_VALUE;
  snprintf(name, (size_t)len, "%s", driver_world()->device_name);
  return CUDA_SUCCESS;
}

static CUresult device_uuid(CUuuid *uuid, CUdevice d) {
  CHECK_DEVICE(d);
  if (!uuid) return CUDA_ERROR_INVALID_VALUE;
  memcpy(uuid->bytes, driver_world()->uuid, sizeof uuid->bytes);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDeviceGetUuid(CUuuid *uuid, CUdevice d) {
  ENTER("cuDeviceGetUuid", 0);
  return device_uuid(uuid, d);
}

EXPORT CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice d) {
  ENTER("cuDeviceGetUuid_v2", 0);
  return device_uuid(uuid, d);
}

EXPORT CUresult CUDAAPI cuDeviceTotalMem_v2(size_t *bytes, CUdevice d) {
  ENTER("cuDeviceTotalMem_v2", 0);
  CHECK_DEVICE(d);
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  *bytes = (size_t)figure(SCALAR_MemTotal) * 1024;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDeviceComputeCapability(int *major, int *minor, CUdevice d) {
  ENTER("cuDeviceComputeCapability", 0);
  CHECK_DEVICE(d);
  if (!major || !minor) return CUDA_ERROR_INVALID_VALUE;
  *major = (int)figure(SCALAR_cc_major);
  *minor = (int)figure(SCALAR_cc_minor);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDeviceGetPCIBusId(char *out, int len, CUdevice d) {
  ENTER("cuDeviceGetPCIBusId", 0);
  CHECK_DEVICE(d);
  if (!out || len < 13) return CUDA_ERROR_INVALID_VALUE;
  snprintf(out, (size_t)len, "%s", driver_world()->bus_id + 4); /* the driver writes a domain of four digits */
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDeviceGetByPCIBusId(CUdevice *d, const char *id) {
  ENTER("cuDeviceGetByPCIBusId", 0);
  if (!d || !id) return CUDA_ERROR_INVALID_VALUE;
  const char *bus = driver_world()->bus_id;
  if (strcasecmp(id, bus) && strcasecmp(id, bus + 4)) return CUDA_ERROR_INVALID_DEVICE;
  *d = 0;
  return CUDA_SUCCESS;
}

/* Values that do not come from the world. Limits: CUDA C programming guide, compute capability 12.x. */
static const struct {
  int attribute, value;
} fixed[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 101376},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 102400},
    {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 1536},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 24},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
    {CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, 131072},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, 131072},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT, 65536},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH, 16384},
    {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
    {CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, 0},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, CU_COMPUTEMODE_DEFAULT},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 0},
    {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 1},
    {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0},
    {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 15},
    {CU_DEVICE_ATTRIBUTE_TCC_DRIVER, 0},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 25165824},                  /* ASSUMED: 24 MiB */
    {CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE, 15728640},   /* ASSUMED */
    {CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE, 134217728}, /* ASSUMED */
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 256},             /* LPDDR5X-8533, 273 GB/s: 256 bit */
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 4266000},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 1}, /* ASSUMED */
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD, 0},
    {CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, 1}, /* ASSUMED: coherent link between CPU and GPU */
    {CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 64},
    {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 1}, /* ASSUMED: address translation shared with the CPU */
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, 0},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, 1}, /* ASSUMED */
    {CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST, 1},          /* ASSUMED */
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 1},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, 0},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 0},
    {CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0}, /* ASSUMED */
    {CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
    {CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT, 4},
    {CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS, 1},
    {CU_DEVICE_ATTRIBUTE_NUMA_CONFIG, 0},
    {CU_DEVICE_ATTRIBUTE_NUMA_ID, -1},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 0},
    {CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0},
    {CU_DEVICE_ATTRIBUTE_MPS_ENABLED, 0},
};

static int attribute_of_world(CUdevice_attribute a, int *value) {
  const struct world *w = driver_world();
  for (int i = w->n_attributes; i-- > 0;)
    if (w->attribute[i].attribute == (int)a) return *value = w->attribute[i].value, 0;
  switch ((int)a) {
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return *value = (int)w->scalar[SCALAR_cc_major], 0;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return *value = (int)w->scalar[SCALAR_cc_minor], 0;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return *value = (int)w->scalar[SCALAR_sms], 0;
  case CU_DEVICE_ATTRIBUTE_INTEGRATED: return *value = (int)w->scalar[SCALAR_integrated], 0;
  case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: return *value = (int)w->scalar[SCALAR_gpu_app_clock] * 1000, 0;
  default: return -1;
  }
}

/* An attribute that is in neither list reads 0: "not there". */
EXPORT CUresult CUDAAPI cuDeviceGetAttribute(int *value, CUdevice_attribute a, CUdevice d) {
  ENTER("cuDeviceGetAttribute", 0);
  CHECK_DEVICE(d);
  if (!value || a < 1 || a >= CU_DEVICE_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  if (!attribute_of_world(a, value)) return CUDA_SUCCESS;
  *value = 0;
  for (unsigned i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
    if (fixed[i].attribute == (int)a) *value = fixed[i].value;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDeviceGetProperties(CUdevprop *p, CUdevice d) {
  ENTER("cuDeviceGetProperties", 0);
  CHECK_DEVICE(d);
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  *p = (CUdevprop){.maxThreadsPerBlock = 1024,
                   .maxThreadsDim = {1024, 1024, 64},
                   .maxGridSize = {2147483647, 65535, 65535},
                   .sharedMemPerBlock = 49152,
                   .totalConstantMemory = 65536,
                   .SIMDWidth = 32,
                   .memPitch = 2147483647,
                   .regsPerBlock = 65536,
                   .clockRate = (int)figure(SCALAR_gpu_app_clock) * 1000,
                   .textureAlign = 512};
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDeviceCanAccessPeer(int *can, CUdevice d, CUdevice peer) {
  ENTER("cuDeviceCanAccessPeer", 0);
  CHECK_DEVICE(d);
  CHECK_DEVICE(peer);
  if (!can) return CUDA_ERROR_INVALID_VALUE;
  *can = 0;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute a, CUdevice s, CUdevice d) {
  ENTER("cuDeviceGetP2PAttribute", 0);
  (void)a;
  CHECK_DEVICE(s);
  CHECK_DEVICE(d);
  if (!value || s == d) return s == d ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
  *value = 0;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type, CUdevice d) {
  ENTER("cuDeviceGetExecAffinitySupport", 0);
  (void)type;
  CHECK_DEVICE(d);
  if (!pi) return CUDA_ERROR_INVALID_VALUE;
  *pi = 0;
  return CUDA_SUCCESS;
}

static CUresult retain_primary(CUcontext *out, CUdevice d) {
  CHECK_DEVICE(d);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (world_enter_context(driver_world())) return CUDA_ERROR_OUT_OF_MEMORY;
  __atomic_fetch_add(&primary_references, 1, __ATOMIC_ACQ_REL);
  *out = &primary;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice d) {
  ENTER("cuDevicePrimaryCtxRetain", 0);
  return retain_primary(out, d);
}

EXPORT CUresult CUDAAPI cuDevicePrimaryCtxRelease_v2(CUdevice d) {
  ENTER("cuDevicePrimaryCtxRelease_v2", 0);
  CHECK_DEVICE(d);
  if (__atomic_load_n(&primary_references, __ATOMIC_ACQUIRE) <= 0) return CUDA_ERROR_INVALID_CONTEXT;
  __atomic_fetch_sub(&primary_references, 1, __ATOMIC_ACQ_REL);
  return CUDA_SUCCESS;
}

/* Ends the sticky error, as a reset does; memory stays until it is freed or the process ends. */
EXPORT CUresult CUDAAPI cuDevicePrimaryCtxReset_v2(CUdevice d) {
  int rule = world_call("cuDevicePrimaryCtxReset_v2", 0);
  if (rule) return (CUresult)rule;
  if (driver_state() == CUDA_ERROR_NOT_INITIALIZED) return CUDA_ERROR_NOT_INITIALIZED;
  CHECK_DEVICE(d);
  driver_fault_clear();
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDevicePrimaryCtxSetFlags_v2(CUdevice d, unsigned flags) {
  ENTER("cuDevicePrimaryCtxSetFlags_v2", 0);
  CHECK_DEVICE(d);
  if (flags & ~(unsigned)CU_CTX_FLAGS_MASK) return CUDA_ERROR_INVALID_VALUE;
  primary.flags = flags;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice d, unsigned *flags, int *active) {
  ENTER("cuDevicePrimaryCtxGetState", 0);
  CHECK_DEVICE(d);
  if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
  *flags = primary.flags;
  *active = __atomic_load_n(&primary_references, __ATOMIC_ACQUIRE) > 0;
  return CUDA_SUCCESS;
}

static CUresult push(CUcontext c) {
  if (mine.n == STACK) return CUDA_ERROR_INVALID_VALUE;
  mine.stack[mine.n++] = c;
  return CUDA_SUCCESS;
}

static CUresult create(CUcontext *out, unsigned flags, CUdevice d) {
  CHECK_DEVICE(d);
  if (!out || flags & ~(unsigned)CU_CTX_FLAGS_MASK) return CUDA_ERROR_INVALID_VALUE;
  if (world_enter_context(driver_world())) return CUDA_ERROR_OUT_OF_MEMORY;
  CUcontext c = calloc(1, sizeof *c);
  if (!c) return CUDA_ERROR_OUT_OF_MEMORY;
  *c = (struct CUctx_st){.magic = MAGIC_CONTEXT, .flags = flags, .id = next_id()};
  *out = c;
  return push(c);
}

EXPORT CUresult CUDAAPI cuCtxCreate_v2(CUcontext *out, unsigned flags, CUdevice d) {
  ENTER("cuCtxCreate_v2", 0);
  return create(out, flags, d);
}

EXPORT CUresult CUDAAPI cuCtxCreate_v3(CUcontext *out, CUexecAffinityParam *p, int n, unsigned flags, CUdevice d) {
  ENTER("cuCtxCreate_v3", 0);
  if (p || n) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  return create(out, flags, d);
}

EXPORT CUresult CUDAAPI cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *p, unsigned flags, CUdevice d) {
  ENTER("cuCtxCreate_v4", 0);
  if (p && (p->execAffinityParams || p->cigParams)) return CUDA_ERROR_NOT_SUPPORTED;
  return create(out, flags, d);
}

EXPORT CUresult CUDAAPI cuCtxDestroy_v2(CUcontext c) {
  ENTER("cuCtxDestroy_v2", 0);
  if (!context_valid(c) || c->primary) return CUDA_ERROR_INVALID_CONTEXT;
  if (context_current() == c) mine.n--;
  c->magic = 0; /* kept: other threads may hold the handle */
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuCtxPushCurrent_v2(CUcontext c) {
  ENTER("cuCtxPushCurrent_v2", 0);
  return context_valid(c) ? push(c) : CUDA_ERROR_INVALID_CONTEXT;
}

EXPORT CUresult CUDAAPI cuCtxPopCurrent_v2(CUcontext *out) {
  ENTER("cuCtxPopCurrent_v2", 0);
  if (!mine.n) return CUDA_ERROR_INVALID_CONTEXT;
  CUcontext c = mine.stack[--mine.n];
  if (out) *out = c;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuCtxSetCurrent(CUcontext c) {
  ENTER("cuCtxSetCurrent", 0);
  if (c && !context_valid(c)) return CUDA_ERROR_INVALID_CONTEXT;
  if (mine.n) mine.n--;
  return c ? push(c) : CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuCtxGetCurrent(CUcontext *out) {
  ENTER("cuCtxGetCurrent", 0);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = context_current();
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuCtxGetDevice(CUdevice *d) {
  ENTER_CONTEXT("cuCtxGetDevice", 0);
  if (!d) return CUDA_ERROR_INVALID_VALUE;
  *d = 0;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuCtxGetDevice_v2(CUdevice *d, CUcontext c) {
  ENTER("cuCtxGetDevice_v2", 0);
  if (!d) return CUDA_ERROR_INVALID_VALUE;
  if (c ? !context_valid(c) : !context_current()) return CUDA_ERROR_INVALID_CONTEXT;
  *d = 0;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuCtxGetFlags(unsigned *flags) {
  ENTER_CONTEXT("cuCtxGetFlags", 0);
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = context_current()->flags;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuCtxSetFlags(unsigned flags) {
  ENTER_CONTEXT("cuCtxSetFlags", 0);
  context_current()->flags = flags;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuCtxGetId(CUcontext c, unsigned long long *id) {
  ENTER("cuCtxGetId", 0);
  if (!c) c = context_current();
  if (!context_valid(c)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (!id) return CUDA_ERROR_INVALID_VALUE;
  *id = c->id;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuCtxGetApiVersion(CUcontext c, unsigned *version) {
  ENTER("cuCtxGetApiVersion", 0);
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  if (c && !context_valid(c)) return CUDA_ERROR_INVALID_CONTEXT;
  *version = 3020;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuCtxSynchronize(void) {
  ENTER_CONTEXT("cuCtxSynchronize", 0);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuCtxSynchronize_v2(CUcontext c) {
  ENTER("cuCtxSynchronize_v2", 0);
  return context_valid(c) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

EXPORT CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value) {
  ENTER_CONTEXT("cuCtxSetLimit", 0);
  if (limit < 0 || limit >= CU_LIMIT_MAX) return CUDA_ERROR_INVALID_VALUE;
  context_current()->limit[limit] = value ? value : 1;
  return CUDA_SUCCESS;
}

/* Defaults: CUDA programming guide (stack 1 KiB, printf buffer 1 MiB, device heap 8 MiB). */
EXPORT CUresult CUDAAPI cuCtxGetLimit(size_t *value, CUlimit limit) {
  static const size_t defaults[CU_LIMIT_MAX] = {1024, 1 << 20, 8 << 20, 2, 2048, 128, 0, 0, 0};
  ENTER_CONTEXT("cuCtxGetLimit", 0);
  if (!value || limit < 0 || limit >= CU_LIMIT_MAX) return CUDA_ERROR_INVALID_VALUE;
  *value = context_current()->limit[limit] ? context_current()->limit[limit] : defaults[limit];
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  ENTER_CONTEXT("cuCtxGetStreamPriorityRange", 0);
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuCtxGetCacheConfig(CUfunc_cache *config) {
  ENTER_CONTEXT("cuCtxGetCacheConfig", 0);
  if (!config) return CUDA_ERROR_INVALID_VALUE;
  *config = CU_FUNC_CACHE_PREFER_NONE;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuCtxSetCacheConfig(CUfunc_cache config) {
  ENTER_CONTEXT("cuCtxSetCacheConfig", 0);
  return config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  ENTER_CONTEXT("cuCtxEnablePeerAccess", 0);
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  return context_valid(peer) ? CUDA_ERROR_PEER_ACCESS_UNSUPPORTED : CUDA_ERROR_INVALID_CONTEXT;
}

EXPORT CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext peer) {
  ENTER_CONTEXT("cuCtxDisablePeerAccess", 0);
  return context_valid(peer) ? CUDA_ERROR_PEER_ACCESS_NOT_ENABLED : CUDA_ERROR_INVALID_CONTEXT;
}

EXPORT CUresult CUDAAPI cuCtxResetPersistingL2Cache(void) {
  ENTER_CONTEXT("cuCtxResetPersistingL2Cache", 0);
  return CUDA_SUCCESS;
}
