/* cudart.c - hooks of the runtime, libcudart.so.12 and .13: one set of wrappers per CUDART row of hooks.def.
 *
 * Each runtime has hooks of its own (name@libcudart.so.12, name@libcudart.so.13), so that a caller gets the runtime
 * it was linked to even when both are loaded: hook_<name>__12 and __13 find that one in the link map, also under
 * RTLD_LOCAL. hook_<name>__any stands behind a bound thunk, which has left the real function in shim_thread.real.
 * All run in the application's threads, some in the constructors of its libraries, see calls.h.
 */
#include <cuda_runtime_api.h>

#include "alloc.h"
#include "calls.h"

static struct call_real reals_12[HOOK_ID_COUNT], reals_13[HOOK_ID_COUNT];

static uint64_t at_least_one(uint64_t n) { return n ? n : 1; }

static uint64_t runtime_array_bytes(const struct cudaChannelFormatDesc *desc, uint64_t width, uint64_t height,
                                    uint64_t depth) {
  uint64_t bits = (uint64_t)(unsigned)desc->x + (unsigned)desc->y + (unsigned)desc->z + (unsigned)desc->w;
  return bits / 8 * width * at_least_one(height) * at_least_one(depth);
}

#define FOUND_12(name) call_real(&reals_12[HOOK_ID_##name], "libcudart.so.12", "libcudart.so.12", #name)
#define FOUND_13(name) call_real(&reals_13[HOOK_ID_##name], "libcudart.so.13", "libcudart.so.13", #name)

#define HOOK(lib, name, ...) ROW_##lib(name, __VA_ARGS__)
#define ROW_LIBC(...)
#define ROW_DRIVER(...)
#define ROW_NCCL(...)
#define ROW_CUDART(name, nodes, kind, ...) HOOK_GENERATED(kind)(name, nodes, kind, __VA_ARGS__)
#define GENERATE(name, nodes, kind, ...)                                                       \
  HOOK_FUNCTION(hook_##name##__any, name, shim_thread.real, MISSING_CUDART, kind, __VA_ARGS__) \
  GENERATE_##nodes(name, kind, __VA_ARGS__)
#define GENERATE_N12(name, kind, ...)                                                       \
  HOOK_FUNCTION(hook_##name##__12, name, FOUND_12(name), MISSING_CUDART, kind, __VA_ARGS__) \
  HOOK_EXPORT_AS(hook_##name##__12, name, "libcudart.so.12")
#define GENERATE_N13(name, kind, ...)                                                       \
  HOOK_FUNCTION(hook_##name##__13, name, FOUND_13(name), MISSING_CUDART, kind, __VA_ARGS__) \
  HOOK_EXPORT_AS(hook_##name##__13, name, "libcudart.so.13")
#define GENERATE_N12_13(name, kind, ...) \
  GENERATE_N12(name, kind, __VA_ARGS__)  \
  GENERATE_N13(name, kind, __VA_ARGS__)
#include "hooks.def"
#undef HOOK

/* ---- by hand, three of each: behind a thunk, for 12, for 13 ------------------------------------------------------ */
#define THREE(define, name, ...)                                           \
  define(hook_##name##__any, name, shim_thread.real, __VA_ARGS__)          \
      define(hook_##name##__12, name, FOUND_12(name), __VA_ARGS__)         \
          HOOK_EXPORT_AS(hook_##name##__12, name, "libcudart.so.12")       \
              define(hook_##name##__13, name, FOUND_13(name), __VA_ARGS__) \
                  HOOK_EXPORT_AS(hook_##name##__13, name, "libcudart.so.13")

/* Look-ups: the runtime answers first. Without a version in the call it asks the driver for its own, which is known
 * only roughly: names that changed between 12.0 and 13.0 are then exchanged by pointer alone. */
enum { OLDEST_RUNTIME = 12000, NEWEST_RUNTIME = 13009 };
typedef enum cudaDriverEntryPointQueryResult entry_status;

#define ENTRY_POINT(function, name, real_expression, thread)                                                        \
  SHIM_EXPORT cudaError_t function(const char *symbol, void **pfn, unsigned long long flags, entry_status *status); \
  cudaError_t function(const char *symbol, void **pfn, unsigned long long flags, entry_status *status) {            \
    cudaError_t (*real)(const char *, void **, unsigned long long, entry_status *) = (cudaError_t(*)(               \
        const char *, void **, unsigned long long, entry_status *))(real_expression);                               \
    struct lookup asked = {HOOK_ID_##name, symbol, OLDEST_RUNTIME, NEWEST_RUNTIME, flags, thread};                  \
    if (unlikely(!real)) {                                                                                          \
      call_missing(HOOK_ID_##name, MISSING_CUDART);                                                                 \
      return (cudaError_t)MISSING_CUDART;                                                                           \
    }                                                                                                               \
    cudaError_t result = real(symbol, pfn, flags, status);                                                          \
    lookup_answered(&asked, result, pfn);                                                                           \
    return result;                                                                                                  \
  }
#define ENTRY_POINT_OF(function, name, real_expression, thread)                                                     \
  SHIM_EXPORT cudaError_t function(const char *symbol, void **pfn, unsigned int version, unsigned long long flags,  \
                                   entry_status *status);                                                           \
  cudaError_t function(const char *symbol, void **pfn, unsigned int version, unsigned long long flags,              \
                       entry_status *status) {                                                                      \
    cudaError_t (*real)(const char *, void **, unsigned int, unsigned long long, entry_status *) = (cudaError_t(*)( \
        const char *, void **, unsigned int, unsigned long long, entry_status *))(real_expression);                 \
    struct lookup asked = {HOOK_ID_##name, symbol, (int)version, (int)version, flags, thread};                      \
    if (unlikely(!real)) {                                                                                          \
      call_missing(HOOK_ID_##name, MISSING_CUDART);                                                                 \
      return (cudaError_t)MISSING_CUDART;                                                                           \
    }                                                                                                               \
    cudaError_t result = real(symbol, pfn, version, flags, status);                                                 \
    lookup_answered(&asked, result, pfn);                                                                           \
    return result;                                                                                                  \
  }
THREE(ENTRY_POINT, cudaGetDriverEntryPoint, false)
THREE(ENTRY_POINT, cudaGetDriverEntryPoint_ptsz, true)
THREE(ENTRY_POINT_OF, cudaGetDriverEntryPointByVersion, false)
THREE(ENTRY_POINT_OF, cudaGetDriverEntryPointByVersion_ptsz, true)

/* Registration of images and kernels, from the constructors of objects that hold GPU code: no error, no slot. Where
 * the runtime is not mapped there is nothing to return: the object could not have been loaded without it. */
#define REGISTER_IMAGE(function, name, real_expression, unused)     \
  SHIM_EXPORT void **function(void *fat_cubin);                     \
  void **function(void *fat_cubin) {                                \
    void **(*real)(void *) = (void **(*)(void *))(real_expression); \
    void **handle = likely(real != NULL) ? real(fat_cubin) : NULL;  \
    image_registered(HOOK_ID_##name, fat_cubin);                    \
    return handle;                                                  \
  }
#define REGISTER_END(function, name, real_expression, unused)     \
  SHIM_EXPORT void function(void **handle);                       \
  void function(void **handle) {                                  \
    void (*real)(void **) = (void (*)(void **))(real_expression); \
    if (likely(real != NULL)) real(handle);                       \
  }
#define REGISTER_PARAMS                                                                                        \
  (void **handle, const char *host_function, char *device_function, const char *device_name, int thread_limit, \
   uint3 *tid, uint3 *bid, dim3 *block, dim3 *grid, int *warp_size)
#define REGISTER_KERNEL(function, name, real_expression, unused)                                                 \
  SHIM_EXPORT void function REGISTER_PARAMS;                                                                     \
  void function REGISTER_PARAMS {                                                                                \
    void(*real) REGISTER_PARAMS = (void(*) REGISTER_PARAMS)(real_expression);                                    \
    if (likely(real != NULL))                                                                                    \
      real(handle, host_function, device_function, device_name, thread_limit, tid, bid, block, grid, warp_size); \
    kernel_registered(HOOK_ID_##name, device_name);                                                              \
  }
THREE(REGISTER_IMAGE, __cudaRegisterFatBinary, )
THREE(REGISTER_END, __cudaRegisterFatBinaryEnd, )
THREE(REGISTER_KERNEL, __cudaRegisterFunction, )
