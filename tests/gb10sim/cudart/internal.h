/* clang-format off */ /* its layout of the tables here is not stable */
/* internal.h - what the files of the two runtime stand-ins share. RUNTIME is 12 or 13.
 *
 * Small runtimes of our own over the driver, reached as the real one reaches it: dlopen of libcuda.so.1, then
 * cuGetProcAddress for every entry point. Written from cuda_runtime_api.h 13.0; where version 12 has another
 * form under the same name, the function has a C name of its own and an assembler name (AS, V2). Every export
 * begins with ENTER: it applies the scenario's rules and makes driver and primary context ready.
 */
#ifndef GB10SIM_CUDART_INTERNAL_H
#define GB10SIM_CUDART_INTERNAL_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "world.h"

/* Of cudaProfiler.h, which not every set of headers has. */
CUresult CUDAAPI cuProfilerStart(void);
CUresult CUDAAPI cuProfilerStop(void);

#define EXPORT __attribute__((visibility("default")))
#define AS(name) __asm__(name)
#if RUNTIME == 13
#define V2(name) __asm__(name)
enum { RUNTIME_VERSION = 13000, DRIVER_LEAST = 13000 };
#else
#define V2(name) __asm__(name "_v2")
/* ASSUMED: a runtime 12.9 works on any driver of CUDA 12; here from 12.3 on, where the forms used here begin. */
enum { RUNTIME_VERSION = 12090, DRIVER_LEAST = 12030 };
#endif

#define DRIVER_ENTRIES(X)                                                                                                                       \
  X(cuInit)                                                                                                                                     \
  X(cuDriverGetVersion)                                                                                                                         \
  X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceGetUuid) X(cuDeviceTotalMem) X(                                               \
      cuDeviceGetAttribute) X(cuDeviceGetPCIBusId) X(cuDeviceGetByPCIBusId) X(cuDeviceCanAccessPeer)                                            \
      X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxReset) X(cuDevicePrimaryCtxSetFlags) X(                                                   \
          cuDevicePrimaryCtxGetState) X(cuCtxSetCurrent) X(cuCtxGetCurrent) X(cuCtxSynchronize) X(cuCtxSetLimit)                                \
          X(cuCtxGetLimit) X(cuCtxGetStreamPriorityRange) X(cuMemGetInfo) X(cuMemAlloc) X(cuMemAllocPitch) X(                                   \
              cuMemAllocManaged) X(cuMemFree) X(cuMemHostAlloc) X(cuMemFreeHost) X(cuMemHostRegister)                                           \
              X(cuMemHostUnregister) X(cuMemHostGetDevicePointer) X(cuMemHostGetFlags) X(cuMemAllocAsync) X(                                    \
                  cuMemAllocFromPoolAsync) X(cuMemFreeAsync) X(cuMemPoolCreate) X(cuMemPoolDestroy) X(cuMemPoolTrimTo)                          \
                  X(cuMemPoolGetAttribute) X(cuMemPoolSetAttribute) X(cuMemPoolSetAccess) X(cuMemPoolGetAccess) X(                              \
                      cuDeviceGetDefaultMemPool) X(cuDeviceGetMemPool) X(cuDeviceSetMemPool) X(cuMemcpy)                                        \
                      X(cuMemcpyAsync) X(cuMemcpyHtoD) X(cuMemcpyDtoH) X(cuMemcpyDtoD) X(cuMemcpyHtoDAsync) X(                                  \
                          cuMemcpyDtoHAsync) X(cuMemcpyDtoDAsync) X(cuMemcpy2D) X(cuMemcpy2DAsync) X(cuMemcpy3D)                                \
                          X(cuMemcpy3DAsync) X(cuMemsetD8) X(cuMemsetD8Async) X(cuMemsetD2D8) X(cuMemsetD2D8Async) X(                           \
                              cuPointerGetAttributes) X(cuMemAdvise) X(cuMemPrefetchAsync) X(cuIpcGetMemHandle)                                 \
                              X(cuIpcOpenMemHandle) X(cuIpcCloseMemHandle) X(cuIpcGetEventHandle) X(                                            \
                                  cuIpcOpenEventHandle) X(cuStreamCreate) X(cuStreamCreateWithPriority)                                         \
                                  X(cuStreamDestroy) X(cuStreamSynchronize) X(cuStreamQuery) X(cuStreamWaitEvent) X(                            \
                                      cuStreamGetPriority) X(cuStreamGetFlags) X(cuStreamGetId) X(cuStreamGetDevice)                            \
                                      X(cuStreamAddCallback) X(cuLaunchHostFunc) X(cuStreamBeginCapture) X(                                     \
                                          cuStreamBeginCaptureToGraph) X(cuStreamEndCapture) X(cuStreamIsCapturing)                             \
                                          X(cuStreamGetCaptureInfo) X(cuStreamUpdateCaptureDependencies) X(                                     \
                                              cuThreadExchangeStreamCaptureMode) X(cuEventCreate) X(cuEventDestroy)                             \
                                              X(cuEventRecord) X(cuEventRecordWithFlags) X(cuEventQuery) X(                                     \
                                                  cuEventSynchronize) X(cuEventElapsedTime) X(cuGraphCreate)                                    \
                                                  X(cuGraphDestroy) X(cuGraphClone) X(cuGraphGetNodes) X(                                       \
                                                      cuGraphGetRootNodes) X(cuGraphNodeGetDependencies)                                        \
                                                      X(cuGraphNodeGetType) X(cuGraphAddEmptyNode) X(cuGraphAddHostNode) X(                     \
                                                          cuGraphAddChildGraphNode) X(cuGraphInstantiateWithFlags)                              \
                                                          X(cuGraphExecDestroy) X(cuGraphLaunch) X(cuGraphUpload) X(                            \
                                                              cuGraphExecUpdate) X(cuUserObjectCreate)                                          \
                                                              X(cuUserObjectRetain) X(cuUserObjectRelease) X(                                   \
                                                                  cuGraphRetainUserObject) X(cuGraphReleaseUserObject)                          \
                                                                  X(cuDeviceGetGraphMemAttribute) X(                                            \
                                                                      cuDeviceSetGraphMemAttribute) X(cuDeviceGraphMemTrim)                     \
                                                                      X(cuLibraryLoadData) X(cuLibraryLoadFromFile) X(                          \
                                                                          cuLibraryUnload) X(cuLibraryGetKernel)                                \
                                                                          X(cuLibraryGetKernelCount) X(                                         \
                                                                              cuLibraryEnumerateKernels)                                        \
                                                                              X(cuLibraryGetGlobal) X(                                          \
                                                                                  cuKernelGetAttribute) X(cuKernelSetAttribute)                 \
                                                                                  X(cuKernelGetFunction) X(                                     \
                                                                                      cuLaunchKernel) X(cuLaunchKernelEx)                       \
                                                                                      X(cuLaunchCooperativeKernel) X(                           \
                                                                                          cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags) \
                                                                                          X(cuOccupancyAvailableDynamicSMemPerBlock)            \
                                                                                              X(cuOccupancyMaxActiveClusters) X(                \
                                                                                                  cuOccupancyMaxPotentialClusterSize)           \
                                                                                                  X(cuProfilerStart) X(                         \
                                                                                                      cuProfilerStop)                           \
                                                                                                      X(cuGetErrorName)                         \
                                                                                                          X(cuGetErrorString)

struct driver {
#define MEMBER(name) __typeof__(&name) name;
  DRIVER_ENTRIES(MEMBER)
#undef MEMBER
  __typeof__(&cuGetProcAddress) get;
};
extern struct driver rt_driver;

/* Driver loaded and initialised: success, or why not (35, 100, ...). Kept: the answer does not change. */
cudaError_t rt_ready(void);
/* The same, and the thread has the primary context. */
cudaError_t rt_context(void);
/* Notes the error, a cudaError_t or a CUresult, as the thread's last one and returns it. */
cudaError_t rt_note(int error);
#define rt_error(error) rt_note((int)(error))

#define ENTER(name, size)                                           \
  do {                                                              \
    int rule_ = world_call(name, (uint64_t)(size));                 \
    cudaError_t ready_ = rule_ ? (cudaError_t)rule_ : rt_context(); \
    if (ready_) return rt_error(ready_);                            \
  } while (0)
/* Without a context. */
#define ENTER_DRIVER(name)                                        \
  do {                                                            \
    int rule_ = world_call(name, 0);                              \
    cudaError_t ready_ = rule_ ? (cudaError_t)rule_ : rt_ready(); \
    if (ready_) return rt_error(ready_);                          \
  } while (0)
#define DRV(call) rt_error(rt_driver.call)

#endif
