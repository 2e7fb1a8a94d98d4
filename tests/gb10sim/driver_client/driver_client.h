/* clang-format off */ /* its layout of the tables here is not stable */
/* driver_client.h - how the stand-ins for cuBLAS and NCCL reach the driver.
 *
 * The real libraries carry a static CUDA runtime: they have no libcuda or libcudart among their needs, open
 * libcuda.so.1 with dlopen when they are first used, and fetch every entry point through cuGetProcAddress.
 * The stand-ins do the same, so that hooks meet them on the same way. Linked into each of them, hidden.
 */
#ifndef GB10SIM_DRIVER_CLIENT_H
#define GB10SIM_DRIVER_CLIENT_H

#include <cuda.h>
#include <stdint.h>

/* The entry points in use, by the names that cuGetProcAddress knows. */
#define DRIVER_CLIENT_ENTRIES(X)                                                                                 \
  X(cuInit)                                                                                                      \
  X(cuDeviceGet)                                                                                                 \
  X(cuCtxGetCurrent)                                                                                             \
  X(cuCtxGetDevice) X(cuCtxSetCurrent) X(cuDevicePrimaryCtxRetain) X(cuLibraryLoadData) X(cuLibraryGetKernel)    \
      X(cuLaunchKernel) X(cuMemcpyAsync) X(cuStreamSynchronize) X(cuLaunchHostFunc) X(cuMemCreate)               \
          X(cuMemAddressReserve) X(cuMemMap) X(cuMemSetAccess) X(cuMemUnmap) X(cuMemAddressFree) X(cuMemRelease) \
              X(cuMemRetainAllocationHandle) X(cuMemGetAddressRange) X(cuMemGetAllocationGranularity)            \
                  X(cuStreamIsCapturing)

struct driver_client {
#define MEMBER(name) __typeof__(&name) name;
  DRIVER_CLIENT_ENTRIES(MEMBER)
#undef MEMBER
};

/* The driver, or NULL when there is none or an entry point is missing. Loads it once. Thread-safe. */
const struct driver_client *driver_client(void);

/* Makes sure that the calling thread has a context: the current one, else device 0's primary context. */
CUresult driver_client_context(const struct driver_client *d);

/* Launches the library's one kernel, which holds no instruction, on a stream. Thread-safe. `name` is the kernel's
 * name and must be the same in every call of a library. */
CUresult driver_client_launch(const char *name, CUstream stream);

/* What the scenario wants the library call `name` of `size` bytes to do: waits when it is to block, and returns the
 * error number that it is to return, 0 for none. 0 as well where there is no simulated Spark in the process. */
int driver_client_world(const char *name, uint64_t size);

#endif
