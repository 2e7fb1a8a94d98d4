/* driver.c - hooks of the driver, libcuda.so.1: one wrapper per DRIVER row of hooks.def.
 *
 * hook_<name>__export stands for the plain export: programs linked to libcuda and dlsym reach it. It finds the
 * driver's function in the link map; libcuda is never loaded by us. hook_<name>__any stands behind a bound thunk,
 * which has left the real function in shim_thread.real. Both run in the application's threads, see calls.h.
 */
#define __CUDA_API_VERSION_INTERNAL /* all versions of each name, and no macros that rename them */
#include <cuda.h>

#include "alloc.h"
#include "calls.h"

static uint64_t format_bytes(CUarray_format format) {
  switch ((unsigned)format) {
  case CU_AD_FORMAT_UNSIGNED_INT16:
  case CU_AD_FORMAT_SIGNED_INT16:
  case CU_AD_FORMAT_HALF: return 2;
  case CU_AD_FORMAT_UNSIGNED_INT32:
  case CU_AD_FORMAT_SIGNED_INT32:
  case CU_AD_FORMAT_FLOAT: return 4;
  default: /* 8 bits, or packed and compressed formats: at least this */ return 1;
  }
}

static uint64_t at_least_one(uint64_t n) { return n ? n : 1; }

static uint64_t driver_array_bytes(const CUDA_ARRAY_DESCRIPTOR_v2 *a) {
  return a->Width * at_least_one(a->Height) * a->NumChannels * format_bytes(a->Format);
}

static uint64_t driver_array3d_bytes(const CUDA_ARRAY3D_DESCRIPTOR_v2 *a) {
  return a->Width * at_least_one(a->Height) * at_least_one(a->Depth) * a->NumChannels * format_bytes(a->Format);
}

#define HOOK(lib, name, ...) ROW_##lib(name, __VA_ARGS__)
#define ROW_LIBC(...)
#define ROW_CUDART(...)
#define ROW_NCCL(...)
#define ROW_DRIVER(name, nodes, kind, ...) HOOK_GENERATED(kind)(name, kind, __VA_ARGS__)
#define EXPORTED(name) call_real(&driver_reals[HOOK_ID_##name], "libcuda.so.1", NULL, #name)
#define GENERATE(name, kind, ret, params, args, ...)                                                  \
  HOOK_FUNCTION(hook_##name##__any, name, shim_thread.real, MISSING_DRIVER, kind, ret, params, args)  \
  HOOK_FUNCTION(hook_##name##__export, name, EXPORTED(name), MISSING_DRIVER, kind, ret, params, args) \
  HOOK_EXPORT_AS(hook_##name##__export, name, "SPARKSHIM_1")
#include "hooks.def"
#undef HOOK

/* ---- look-ups: the driver answers first -------------------------------------------------------------------------- */
#define LOOKUP(function, name, real_expression, params, args)                                               \
  SHIM_EXPORT CUresult function params;                                                                     \
  CUresult function params {                                                                                \
    CUresult(*real) params = (CUresult(*) params)(real_expression);                                         \
    if (unlikely(!real)) {                                                                                  \
      call_missing(HOOK_ID_##name, MISSING_DRIVER);                                                         \
      return (CUresult)MISSING_DRIVER;                                                                      \
    }                                                                                                       \
    CUresult result = real args;                                                                            \
    lookup_answered(&(struct lookup){HOOK_ID_##name, symbol, version, version, flags, false}, result, pfn); \
    return result;                                                                                          \
  }
#define LOOKUPS(name, params, args)                                 \
  LOOKUP(hook_##name##__any, name, shim_thread.real, params, args)  \
  LOOKUP(hook_##name##__export, name, EXPORTED(name), params, args) \
  HOOK_EXPORT_AS(hook_##name##__export, name, "SPARKSHIM_1")

#define OLD_PARAMS (const char *symbol, void **pfn, int version, cuuint64_t flags)
#define NEW_PARAMS \
  (const char *symbol, void **pfn, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status)
LOOKUPS(cuGetProcAddress, OLD_PARAMS, (symbol, pfn, version, flags))
LOOKUPS(cuGetProcAddress_v2, NEW_PARAMS, (symbol, pfn, version, flags, status))
