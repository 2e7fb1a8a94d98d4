/* lookup.c - function pointers handed out by cuGetProcAddress and cudaGetDriverEntryPoint.
 *
 * The driver has answered, with version, flags and status as it likes; nothing of that is changed. Its pointer is
 * exchanged for a hook only where it is certain which function it is, because one name has had several signatures:
 * first by the pointer itself (it is libcuda's export of a hooked name), else by base name, version and stream, as
 * cudaTypedefs.h lists them. A version newer than that list, or a base name with a variant that is not in it, is
 * left alone. Slow path; libcudart asks some hundred times while it starts. No libc, no lock.
 */
#include "calls.h"
#include "sys.h"

#include "poison.h"

/* The newest CUDA version whose variants of the hooked names were looked up (cudaTypedefs.h). */
enum { NEWEST_KNOWN = 13009 };
/* CU_GET_PROC_ADDRESS_... and cudaEnable...: cuda.h, driver_types.h. */
enum { FLAG_LEGACY_STREAM = 1, FLAG_THREAD_STREAM = 2 };

struct call_real driver_reals[HOOK_ID_COUNT];

/* Text inside, not pointers: a pointer is a relocation at every program start. */
static const struct variant {
  char base[40];
  uint16_t since;
  uint16_t id;
  bool thread_stream;
} variants[] = {
#define HOOK(lib, name, ...) VARIANT_##lib(name, __VA_ARGS__)
#define VARIANT_LIBC(...)
#define VARIANT_CUDART(...)
#define VARIANT_NCCL(...)
#define VARIANT_DRIVER(name, nodes, kind, ret, params, args, base, since, stream) \
  {#base, since, HOOK_ID_##name, IS_##stream},
#define IS_LEGACY false
#define IS_PTDS true
#define IS_PTSZ true
#include "hooks.def"
#undef HOOK
};
enum { VARIANTS = sizeof(variants) / sizeof(variants[0]) };

static bool is_of(const struct variant *v, const char *symbol) {
  return str_equal(v->base, symbol) || str_equal(hook_name((enum hook_id)v->id), symbol);
}

static bool is_export(const struct variant *v, const void *pfn) {
  const char *name = hook_name((enum hook_id)v->id);
  return call_real(&driver_reals[v->id], "libcuda.so.1", NULL, name) == pfn;
}

/* The exported function that `pfn` is; of two names for one function the one with the stream that was asked for. */
static const struct variant *by_pointer(const char *symbol, bool thread_stream, const void *pfn) {
  const struct variant *found = NULL;
  for (const struct variant *v = variants; v < variants + VARIANTS; v++)
    if (is_of(v, symbol) && is_export(v, pfn) && (!found || v->thread_stream == thread_stream)) found = v;
  return found;
}

/* The newest variant that is not newer than `version`. */
static const struct variant *by_version(const char *symbol, int version, bool thread_stream) {
  const struct variant *found = NULL;
  for (const struct variant *v = variants; v < variants + VARIANTS; v++)
    if (str_equal(v->base, symbol) && v->thread_stream == thread_stream && v->since <= version &&
        (!found || v->since > found->since))
      found = v;
  /* Most names have no variant for the thread's own stream. */
  return !found && thread_stream ? by_version(symbol, version, false) : found;
}

static const struct variant *variant_of(const struct lookup *asked, const void *pfn) {
  bool thread_stream = asked->flags & FLAG_THREAD_STREAM ||
                       (asked->thread_stream && !(asked->flags & FLAG_LEGACY_STREAM));
  const struct variant *v = by_pointer(asked->symbol, thread_stream, pfn);
  if (v || asked->most > NEWEST_KNOWN) return v;
  v = by_version(asked->symbol, asked->least, thread_stream);
  return v == by_version(asked->symbol, asked->most, thread_stream) ? v : NULL;
}

static bool is_hooked_name(const char *symbol) {
  for (const struct variant *v = variants; v < variants + VARIANTS; v++)
    if (is_of(v, symbol)) return true;
  return false;
}

void lookup_answered(const struct lookup *asked, int64_t result, void **pfn) {
  struct shim_thread *t = &shim_thread;
  void *real, *hook = NULL;
  if (t->busy || !asked->symbol || !pfn) return;
  if (__atomic_load_n(&shim_life, __ATOMIC_ACQUIRE) != SHIM_AWAKE && !shim_wake()) return;
  if (!shim_same_process() || !is_hooked_name(asked->symbol)) return;
  real = result ? NULL : *pfn;
  if (real) {
    const struct variant *v = variant_of(asked, real);
    hook = v ? hook_for((enum hook_id)v->id, real) : real;
    if (hook != real) *pfn = hook;
  }
  call_lookup(asked->symbol, hook_name(asked->via), asked->least, result, real && hook != real);
}
