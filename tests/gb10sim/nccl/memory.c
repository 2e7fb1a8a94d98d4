/* memory.c - device memory through the driver's virtual memory management, the way that NCCL takes its own. */
#include "comm.h"
#include "driver_client/driver_client.h"

static CUmemAllocationProp properties(int device) {
  return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                               .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                               .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
}

static CUresult map(const struct driver_client *d, CUdevice device, CUmemGenericAllocationHandle handle, size_t size,
                    CUdeviceptr *at) {
  CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                            .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUresult result = d->cuMemAddressReserve(at, size, 0, 0, 0);
  if (result) return result;
  result = d->cuMemMap(*at, size, 0, handle, 0);
  if (!result) result = d->cuMemSetAccess(*at, size, &access, 1);
  if (result) d->cuMemAddressFree(*at, size);
  return result;
}

ncclResult_t memory_take(void **out, size_t size) {
  const struct driver_client *d = driver_client();
  CUdevice device;
  size_t unit;
  CUmemGenericAllocationHandle handle;
  CUdeviceptr at;
  if (!out) return ncclInvalidArgument;
  if (!d || driver_client_context(d) || d->cuCtxGetDevice(&device)) return ncclUnhandledCudaError;
  CUmemAllocationProp want = properties(device);
  if (d->cuMemGetAllocationGranularity(&unit, &want, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) || !unit)
    return ncclUnhandledCudaError;
  size = (size + unit - 1) / unit * unit;
  if (d->cuMemCreate(&handle, size, &want, 0)) return ncclUnhandledCudaError;
  if (map(d, device, handle, size, &at)) {
    d->cuMemRelease(handle);
    return ncclUnhandledCudaError;
  }
  *out = (void *)(uintptr_t)at;
  return ncclSuccess;
}

ncclResult_t memory_give(void *at) {
  const struct driver_client *d = driver_client();
  CUmemGenericAllocationHandle handle;
  CUdeviceptr base;
  size_t size;
  if (!at) return ncclSuccess;
  if (!d || d->cuMemRetainAllocationHandle(&handle, at) || d->cuMemRelease(handle) ||
      d->cuMemGetAddressRange(&base, &size, (CUdeviceptr)(uintptr_t)at) || d->cuMemUnmap(base, size) ||
      d->cuMemRelease(handle) || d->cuMemAddressFree(base, size))
    return ncclUnhandledCudaError;
  return ncclSuccess;
}
