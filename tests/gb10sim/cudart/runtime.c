/* runtime.c - how the runtime stand-in reaches the driver; errors, versions, devices. See internal.h. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

struct driver rt_driver;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static cudaError_t ready = cudaErrorInitializationError;
static CUcontext primary; /* atomic */
static __thread struct {
  cudaError_t last;
  int device;
} mine;

static bool sticky(int error) { return error == 700 || error == 702 || error == 710 || (error >= 714 && error <= 719); }

cudaError_t rt_note(int error) {
  if (error) mine.last = (cudaError_t)error;
  return (cudaError_t)error;
}

static bool fetch(void) {
  bool all = true;
  CUdriverProcAddressQueryResult status;
#define FETCH(name)                                                                                            \
  if (rt_driver.get(#name, (void **)&rt_driver.name, RUNTIME_VERSION, CU_GET_PROC_ADDRESS_DEFAULT, &status) || \
      !rt_driver.name)                                                                                         \
    all = false;
  DRIVER_ENTRIES(FETCH)
#undef FETCH
  /* From 13.0 on that name has a form with an argument. */
  return !rt_driver.get("cuCtxSynchronize", (void **)&rt_driver.cuCtxSynchronize, 12000, CU_GET_PROC_ADDRESS_DEFAULT,
                        &status) &&
         all;
}

static void load(void) {
  int saved = errno, version = 0;
  ready = cudaErrorInsufficientDriver;
  void *lib = dlopen("libcuda.so.1", RTLD_LAZY);
  if (lib) *(void **)&rt_driver.get = dlsym(lib, "cuGetProcAddress_v2");
  if (lib && rt_driver.get && fetch() && !rt_driver.cuDriverGetVersion(&version) && version >= DRIVER_LEAST)
    ready = (cudaError_t)rt_driver.cuInit(0);
  errno = saved;
}

cudaError_t rt_ready(void) {
  pthread_once(&once, load);
  return ready;
}

/* The program may have changed the thread's context through the driver, so it is asked for each time. */
cudaError_t rt_context(void) {
  CUcontext now = NULL;
  cudaError_t error = rt_ready();
  if (error) return error;
  error = (cudaError_t)rt_driver.cuCtxGetCurrent(&now);
  if (error || now) return error;
  CUcontext c = __atomic_load_n(&primary, __ATOMIC_ACQUIRE);
  if (!c) {
    error = (cudaError_t)rt_driver.cuDevicePrimaryCtxRetain(&c, 0);
    if (error) return error;
    __atomic_store_n(&primary, c, __ATOMIC_RELEASE);
  }
  return (cudaError_t)rt_driver.cuCtxSetCurrent(c);
}

int standin_unsupported(const char *name);
int standin_unsupported(const char *name) {
  int rule = world_call(name, 0);
  return (int)rt_error(rule ? rule : cudaErrorNotSupported);
}

EXPORT cudaError_t CUDARTAPI cudaGetLastError(void) {
  int rule = world_call("cudaGetLastError", 0);
  cudaError_t e = rule ? (cudaError_t)rule : mine.last;
  if (!sticky((int)mine.last)) mine.last = cudaSuccess;
  return e;
}

EXPORT cudaError_t CUDARTAPI cudaPeekAtLastError(void) {
  int rule = world_call("cudaPeekAtLastError", 0);
  return rule ? (cudaError_t)rule : mine.last;
}

static const struct {
  int code;
  const char *name, *text;
} errors[] = {
#define ERROR(code, name, text) {code, name, text},
#include "rt_errors.def"
};

EXPORT const char *CUDARTAPI cudaGetErrorName(cudaError_t error) {
  for (unsigned i = 0; i < sizeof errors / sizeof errors[0]; i++)
    if (errors[i].code == (int)error) return errors[i].name;
  return "unrecognized error code";
}

EXPORT const char *CUDARTAPI cudaGetErrorString(cudaError_t error) {
  for (unsigned i = 0; i < sizeof errors / sizeof errors[0]; i++)
    if (errors[i].code == (int)error) return errors[i].text;
  return "unrecognized error code";
}

EXPORT cudaError_t CUDARTAPI cudaRuntimeGetVersion(int *version) {
  int rule = world_call("cudaRuntimeGetVersion", 0);
  if (rule || !version) return rt_error(rule ? rule : cudaErrorInvalidValue);
  *version = RUNTIME_VERSION;
  return cudaSuccess;
}

/* 0 where there is no driver, as the header says. */
EXPORT cudaError_t CUDARTAPI cudaDriverGetVersion(int *version) {
  int rule = world_call("cudaDriverGetVersion", 0);
  if (rule || !version) return rt_error(rule ? rule : cudaErrorInvalidValue);
  *version = 0;
  rt_ready();
  return rt_driver.cuDriverGetVersion ? DRV(cuDriverGetVersion(version)) : cudaSuccess;
}

/* ---- devices ---- */

EXPORT cudaError_t CUDARTAPI cudaGetDeviceCount(int *count) {
  if (count) *count = 0;
  ENTER_DRIVER("cudaGetDeviceCount");
  return count ? DRV(cuDeviceGetCount(count)) : rt_error(cudaErrorInvalidValue);
}

static cudaError_t check_device(int device) {
  int n = 0;
  CUresult r = rt_driver.cuDeviceGetCount(&n);
  return r ? (cudaError_t)r : device < 0 || device >= n ? cudaErrorInvalidDevice : cudaSuccess;
}

static cudaError_t set_device(int device) {
  cudaError_t e = check_device(device);
  if (!e) mine.device = device;
  return rt_error(e ? (int)e : (int)rt_context());
}

EXPORT cudaError_t CUDARTAPI cudaSetDevice(int device) {
  ENTER_DRIVER("cudaSetDevice");
  return set_device(device);
}

EXPORT cudaError_t CUDARTAPI cudaInitDevice(int device, unsigned device_flags, unsigned flags) {
  ENTER_DRIVER("cudaInitDevice");
  (void)device_flags, (void)flags;
  return set_device(device);
}

EXPORT cudaError_t CUDARTAPI cudaGetDevice(int *device) {
  ENTER_DRIVER("cudaGetDevice");
  if (!device) return rt_error(cudaErrorInvalidValue);
  *device = mine.device;
  return cudaSuccess;
}

EXPORT cudaError_t CUDARTAPI cudaChooseDevice(int *device, const struct cudaDeviceProp *prop) {
  ENTER_DRIVER("cudaChooseDevice");
  if (!device || !prop) return rt_error(cudaErrorInvalidValue);
  *device = 0;
  return cudaSuccess;
}

EXPORT cudaError_t CUDARTAPI cudaSetValidDevices(int *devices, int n) {
  ENTER_DRIVER("cudaSetValidDevices");
  return n < 0 || (n && !devices) ? rt_error(cudaErrorInvalidValue) : cudaSuccess;
}

EXPORT cudaError_t CUDARTAPI cudaSetDeviceFlags(unsigned flags) {
  ENTER_DRIVER("cudaSetDeviceFlags");
  return DRV(cuDevicePrimaryCtxSetFlags(mine.device, flags & ~(unsigned)cudaDeviceMapHost));
}

EXPORT cudaError_t CUDARTAPI cudaGetDeviceFlags(unsigned *flags) {
  ENTER_DRIVER("cudaGetDeviceFlags");
  int active;
  return flags ? DRV(cuDevicePrimaryCtxGetState(mine.device, flags, &active)) : rt_error(cudaErrorInvalidValue);
}

EXPORT cudaError_t CUDARTAPI cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr a, int device) {
  ENTER_DRIVER("cudaDeviceGetAttribute");
  return DRV(cuDeviceGetAttribute(value, (CUdevice_attribute)a, device));
}

EXPORT cudaError_t CUDARTAPI cudaDeviceGetPCIBusId(char *out, int n, int device) {
  ENTER_DRIVER("cudaDeviceGetPCIBusId");
  return DRV(cuDeviceGetPCIBusId(out, n, device));
}

EXPORT cudaError_t CUDARTAPI cudaDeviceGetByPCIBusId(int *device, const char *id) {
  ENTER_DRIVER("cudaDeviceGetByPCIBusId");
  return DRV(cuDeviceGetByPCIBusId(device, id));
}

EXPORT cudaError_t CUDARTAPI cudaDeviceCanAccessPeer(int *can, int device, int peer) {
  ENTER_DRIVER("cudaDeviceCanAccessPeer");
  return DRV(cuDeviceCanAccessPeer(can, device, peer));
}

EXPORT cudaError_t CUDARTAPI cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  ENTER("cudaDeviceEnablePeerAccess", 0);
  return rt_error(flags                                       ? cudaErrorInvalidValue
                  : peer == mine.device || check_device(peer) ? cudaErrorInvalidDevice
                                                              : cudaErrorPeerAccessUnsupported);
}

EXPORT cudaError_t CUDARTAPI cudaDeviceDisablePeerAccess(int peer) {
  ENTER("cudaDeviceDisablePeerAccess", 0);
  return rt_error(check_device(peer) ? cudaErrorInvalidDevice : cudaErrorPeerAccessNotEnabled);
}

EXPORT cudaError_t CUDARTAPI cudaDeviceSynchronize(void) {
  ENTER("cudaDeviceSynchronize", 0);
  return DRV(cuCtxSynchronize());
}

EXPORT cudaError_t CUDARTAPI cudaDeviceReset(void) {
  ENTER_DRIVER("cudaDeviceReset");
  mine.last = cudaSuccess;
  return DRV(cuDevicePrimaryCtxReset(mine.device));
}

EXPORT cudaError_t CUDARTAPI cudaDeviceSetLimit(enum cudaLimit limit, size_t value) {
  ENTER("cudaDeviceSetLimit", 0);
  return DRV(cuCtxSetLimit((CUlimit)limit, value));
}

EXPORT cudaError_t CUDARTAPI cudaDeviceGetLimit(size_t *value, enum cudaLimit limit) {
  ENTER("cudaDeviceGetLimit", 0);
  return DRV(cuCtxGetLimit(value, (CUlimit)limit));
}

EXPORT cudaError_t CUDARTAPI cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  ENTER("cudaDeviceGetStreamPriorityRange", 0);
  return DRV(cuCtxGetStreamPriorityRange(least, greatest));
}

EXPORT cudaError_t CUDARTAPI cudaDeviceGetCacheConfig(enum cudaFuncCache *config) {
  ENTER("cudaDeviceGetCacheConfig", 0);
  if (!config) return rt_error(cudaErrorInvalidValue);
  *config = cudaFuncCachePreferNone;
  return cudaSuccess;
}

EXPORT cudaError_t CUDARTAPI cudaDeviceSetCacheConfig(enum cudaFuncCache config) {
  ENTER("cudaDeviceSetCacheConfig", 0);
  return rt_error(config > cudaFuncCachePreferEqual ? cudaErrorInvalidValue : cudaSuccess);
}

/* ---- cudaDeviceProp: the layout of 13, and that of 12 behind cudaGetDeviceProperties_v2 ---- */

static int attribute(CUdevice_attribute a, int device) {
  int value = 0;
  return rt_driver.cuDeviceGetAttribute(&value, a, device) ? 0 : value;
}
#define A(name) attribute(CU_DEVICE_ATTRIBUTE_##name, device)

#if RUNTIME == 13
typedef struct cudaDeviceProp device_prop;
#else
#include "device_prop12.h"
typedef struct device_prop12 device_prop;
#endif

static void fill_limits(device_prop *p, int device) {
  p->sharedMemPerBlock = (size_t)A(MAX_SHARED_MEMORY_PER_BLOCK);
  p->regsPerBlock = A(MAX_REGISTERS_PER_BLOCK);
  p->warpSize = A(WARP_SIZE);
  p->memPitch = (size_t)A(MAX_PITCH);
  p->maxThreadsPerBlock = A(MAX_THREADS_PER_BLOCK);
  p->maxThreadsDim[0] = A(MAX_BLOCK_DIM_X), p->maxThreadsDim[1] = A(MAX_BLOCK_DIM_Y),
  p->maxThreadsDim[2] = A(MAX_BLOCK_DIM_Z);
  p->maxGridSize[0] = A(MAX_GRID_DIM_X), p->maxGridSize[1] = A(MAX_GRID_DIM_Y), p->maxGridSize[2] = A(MAX_GRID_DIM_Z);
  p->totalConstMem = (size_t)A(TOTAL_CONSTANT_MEMORY);
  p->major = A(COMPUTE_CAPABILITY_MAJOR);
  p->minor = A(COMPUTE_CAPABILITY_MINOR);
  p->textureAlignment = (size_t)A(TEXTURE_ALIGNMENT);
  p->texturePitchAlignment = (size_t)A(TEXTURE_PITCH_ALIGNMENT);
  p->surfaceAlignment = (size_t)A(SURFACE_ALIGNMENT);
  p->maxTexture1D = A(MAXIMUM_TEXTURE1D_WIDTH);
  p->maxTexture2D[0] = A(MAXIMUM_TEXTURE2D_WIDTH), p->maxTexture2D[1] = A(MAXIMUM_TEXTURE2D_HEIGHT);
  p->maxTexture3D[0] = A(MAXIMUM_TEXTURE3D_WIDTH), p->maxTexture3D[1] = A(MAXIMUM_TEXTURE3D_HEIGHT),
  p->maxTexture3D[2] = A(MAXIMUM_TEXTURE3D_DEPTH);
  p->multiProcessorCount = A(MULTIPROCESSOR_COUNT);
  p->maxThreadsPerMultiProcessor = A(MAX_THREADS_PER_MULTIPROCESSOR);
  p->maxBlocksPerMultiProcessor = A(MAX_BLOCKS_PER_MULTIPROCESSOR);
  p->sharedMemPerMultiprocessor = (size_t)A(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  p->sharedMemPerBlockOptin = (size_t)A(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  p->reservedSharedMemPerBlock = (size_t)A(RESERVED_SHARED_MEMORY_PER_BLOCK);
  p->regsPerMultiprocessor = A(MAX_REGISTERS_PER_MULTIPROCESSOR);
}

static void fill_features(device_prop *p, int device) {
  p->integrated = A(INTEGRATED);
  p->canMapHostMemory = A(CAN_MAP_HOST_MEMORY);
  p->concurrentKernels = A(CONCURRENT_KERNELS);
  p->ECCEnabled = A(ECC_ENABLED);
  p->pciBusID = A(PCI_BUS_ID);
  p->pciDeviceID = A(PCI_DEVICE_ID);
  p->pciDomainID = A(PCI_DOMAIN_ID);
  p->tccDriver = A(TCC_DRIVER);
  p->asyncEngineCount = A(ASYNC_ENGINE_COUNT);
  p->unifiedAddressing = A(UNIFIED_ADDRESSING);
  p->memoryBusWidth = A(GLOBAL_MEMORY_BUS_WIDTH);
  p->l2CacheSize = A(L2_CACHE_SIZE);
  p->persistingL2CacheMaxSize = A(MAX_PERSISTING_L2_CACHE_SIZE);
  p->streamPrioritiesSupported = A(STREAM_PRIORITIES_SUPPORTED);
  p->globalL1CacheSupported = A(GLOBAL_L1_CACHE_SUPPORTED);
  p->localL1CacheSupported = A(LOCAL_L1_CACHE_SUPPORTED);
  p->managedMemory = A(MANAGED_MEMORY);
  p->isMultiGpuBoard = A(MULTI_GPU_BOARD);
  p->hostNativeAtomicSupported = A(HOST_NATIVE_ATOMIC_SUPPORTED);
  p->pageableMemoryAccess = A(PAGEABLE_MEMORY_ACCESS);
  p->concurrentManagedAccess = A(CONCURRENT_MANAGED_ACCESS);
  p->computePreemptionSupported = A(COMPUTE_PREEMPTION_SUPPORTED);
  p->canUseHostPointerForRegisteredMem = A(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
  p->cooperativeLaunch = A(COOPERATIVE_LAUNCH);
  p->pageableMemoryAccessUsesHostPageTables = A(PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
  p->directManagedMemAccessFromHost = A(DIRECT_MANAGED_MEM_ACCESS_FROM_HOST);
  p->accessPolicyMaxWindowSize = A(MAX_ACCESS_POLICY_WINDOW_SIZE);
  p->hostRegisterSupported = A(HOST_REGISTER_SUPPORTED);
  p->sparseCudaArraySupported = A(SPARSE_CUDA_ARRAY_SUPPORTED);
  p->hostRegisterReadOnlySupported = A(READ_ONLY_HOST_REGISTER_SUPPORTED);
  p->timelineSemaphoreInteropSupported = A(TIMELINE_SEMAPHORE_INTEROP_SUPPORTED);
  p->memoryPoolsSupported = A(MEMORY_POOLS_SUPPORTED);
  p->gpuDirectRDMASupported = A(GPU_DIRECT_RDMA_SUPPORTED);
  p->memoryPoolSupportedHandleTypes = (unsigned)A(MEMPOOL_SUPPORTED_HANDLE_TYPES);
  p->deferredMappingCudaArraySupported = A(DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED);
  p->ipcEventSupported = A(IPC_EVENT_SUPPORTED);
  p->clusterLaunch = A(CLUSTER_LAUNCH);
  p->unifiedFunctionPointers = A(UNIFIED_FUNCTION_POINTERS);
}

EXPORT cudaError_t CUDARTAPI rt_get_device_properties(device_prop *p, int device) V2("cudaGetDeviceProperties");
EXPORT cudaError_t CUDARTAPI rt_get_device_properties(device_prop *p, int device) {
  ENTER_DRIVER("cudaGetDeviceProperties");
  cudaError_t e = p ? check_device(device) : cudaErrorInvalidValue;
  if (e) return rt_error(e);
  memset(p, 0, sizeof *p);
  rt_driver.cuDeviceGetName(p->name, sizeof p->name, device);
  rt_driver.cuDeviceGetUuid((CUuuid *)&p->uuid, device);
  rt_driver.cuDeviceTotalMem(&p->totalGlobalMem, device);
  fill_limits(p, device);
  fill_features(p, device);
#if RUNTIME == 12
  p->clockRate = A(CLOCK_RATE);
  p->memoryClockRate = A(MEMORY_CLOCK_RATE);
  p->deviceOverlap = A(GPU_OVERLAP);
  p->singleToDoublePrecisionPerfRatio = A(SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO);
#endif
  return cudaSuccess;
}

/* ---- driver entry points ---- */

static cudaError_t entry_point(const char *name, void **out, unsigned version, unsigned long long flags,
                               enum cudaDriverEntryPointQueryResult *status) {
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
  CUresult r = rt_driver.get(name, out, (int)version, flags, &found);
  if (status) *status = (enum cudaDriverEntryPointQueryResult)found;
  if (!r && found && !status) r = CUDA_ERROR_NOT_FOUND;
  return rt_error((int)r);
}

EXPORT cudaError_t CUDARTAPI cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned version,
                                                              unsigned long long flags,
                                                              enum cudaDriverEntryPointQueryResult *status) {
  ENTER_DRIVER("cudaGetDriverEntryPointByVersion");
  return entry_point(name, out, version, flags, status);
}

EXPORT cudaError_t CUDARTAPI rt_get_driver_entry_point(const char *name, void **out, unsigned long long flags,
                                                       enum cudaDriverEntryPointQueryResult *status)
    AS("cudaGetDriverEntryPoint");
EXPORT cudaError_t CUDARTAPI rt_get_driver_entry_point(const char *name, void **out, unsigned long long flags,
                                                       enum cudaDriverEntryPointQueryResult *status) {
  ENTER_DRIVER("cudaGetDriverEntryPoint");
  return entry_point(name, out, RUNTIME_VERSION, flags, status);
}

EXPORT cudaError_t CUDARTAPI cudaGetExportTable(const void **table, const cudaUUID_t *id) {
  ENTER_DRIVER("cudaGetExportTable");
  if (!table || !id) return rt_error(cudaErrorInvalidValue);
  *table = NULL;
  return rt_error(cudaErrorNotSupported);
}

EXPORT cudaError_t CUDARTAPI cudaProfilerStart(void) {
  ENTER("cudaProfilerStart", 0);
  return DRV(cuProfilerStart());
}

EXPORT cudaError_t CUDARTAPI cudaProfilerStop(void) {
  ENTER("cudaProfilerStop", 0);
  return DRV(cuProfilerStop());
}
