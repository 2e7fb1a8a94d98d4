/* image.c - GPU code that is handed over, and kernels that are asked for by name, as facts.
 *
 * Runs in the application's threads, after the real call. Bounded: a framework registers hundreds of images and tens
 * of thousands of kernels while it is imported, so registrations make one record per object and a fixed number of
 * names; what they hold is read from the files by the command-line program. No libc, no lock.
 */
#include "calls.h"
#include "sys.h"

#include "poison.h"

enum {
  IMAGES = 512, /* records of images, failures not counted */
  FAILURES = 512,
  LOOKED_UP = 2048,        /* names of kernels that were looked up */
  REGISTERED = 256,        /* names of kernels that were registered */
  NEIGHBOURS = 256 * 1024, /* wrappers lie side by side in their object's .nvFatBinSegment, 24 bytes each */
  PATH = 1024,
};
/* Results after which the arguments were not worth reading: cudaErrorInvalidValue = CUDA_ERROR_INVALID_VALUE. */
enum { CUDA_INVALID_VALUE = 1 };

/* True while fewer than `most` records of this sort were made. */
static bool within(uint32_t *made, uint32_t most) {
  if (__atomic_load_n(made, __ATOMIC_RELAXED) >= most) return false;
  return __atomic_fetch_add(made, 1, __ATOMIC_RELAXED) < most;
}

static void image_fact(enum hook_id id, int64_t result, const char *object, uint64_t offset, uint64_t wall_us) {
  struct fact fact = {.kind = FACT_KIND_image};
  fact.u.image.call = hook_name(id);
  fact.u.image.result = result;
  fact.u.image.object = object;
  fact.u.image.offset = offset;
  fact.u.image.wall_us = wall_us;
  call_observe(&fact);
}

static void image_failed_fact(enum hook_id id, int64_t result, const char *object, uint64_t offset) {
  struct fact fact = {.kind = FACT_KIND_image_failed};
  fact.u.image_failed.call = hook_name(id);
  fact.u.image_failed.result = result;
  fact.u.image_failed.object = object;
  fact.u.image_failed.offset = offset;
  call_observe(&fact);
}

void image_seen(enum hook_id id, int64_t result, uint64_t address, const char *path, uint64_t start_us) {
  static uint32_t made, failed;
  char object[PATH];
  uint64_t offset = FACT_NO_U64, now = clock_us();
  if (!within(result ? &failed : &made, result ? FAILURES : IMAGES)) return;
  if (result == CUDA_INVALID_VALUE) path = NULL;
  shim_thread.busy++;
  if (!path && linkmap_object_at((const void *)(uintptr_t)address, object, sizeof(object), &offset)) path = object;
  shim_thread.busy--;
  if (result)
    image_failed_fact(id, result, path, offset);
  else
    image_fact(id, result, path, offset, now > start_us ? now - start_us : 0);
}

/* Awake, and not inside our own work or another hooked call: what call_enter() asks, without the clock. */
static bool may_record(void) {
  struct call here = {.slot = NULL}; /* its place on the stack is what counts */
  struct shim_thread *t = &shim_thread;
  if (t->depth || t->busy) return false;
  return __atomic_load_n(&shim_life, __ATOMIC_ACQUIRE) == SHIM_AWAKE ? shim_same_process() : call_admit(&here);
}

void image_registered(enum hook_id id, const void *wrapper) {
  static uint32_t made;
  static uintptr_t last;
  char object[PATH];
  uint64_t offset = FACT_NO_U64;
  uintptr_t at = (uintptr_t)wrapper, before = __atomic_exchange_n(&last, at, __ATOMIC_RELAXED);
  if (!may_record() || (before && (at > before ? at - before : before - at) < NEIGHBOURS)) return;
  if (!within(&made, IMAGES)) return;
  shim_thread.busy++;
  bool found = linkmap_object_at(wrapper, object, sizeof(object), &offset);
  shim_thread.busy--;
  image_fact(id, FACT_NO_I64, found ? object : NULL, offset, FACT_NO_U64);
}

static void kernel_fact(enum hook_id id, int64_t result, const char *name) {
  struct fact fact = {.kind = FACT_KIND_kernel};
  fact.u.kernel.name = name;
  fact.u.kernel.via = hook_name(id);
  fact.u.kernel.result = result;
  call_observe(&fact);
}

void kernel_seen(enum hook_id id, int64_t result, const char *name) {
  static uint32_t made;
  if (result == CUDA_INVALID_VALUE || !name) return;
  if (!call_first(id, call_hash(name, str_length(name)) ^ (uint64_t)result) || !within(&made, LOOKED_UP)) return;
  kernel_fact(id, result, name);
}

void kernel_registered(enum hook_id id, const char *name) {
  static uint32_t made;
  if (__atomic_load_n(&made, __ATOMIC_RELAXED) >= REGISTERED || !name || !may_record()) return;
  if (!call_first(id, call_hash(name, str_length(name))) || !within(&made, REGISTERED)) return;
  kernel_fact(id, FACT_NO_I64, name);
}
