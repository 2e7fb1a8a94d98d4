/* calls.c - the out-of-line part of a hooked call: admission, and the facts that any call can make.
 *
 * Runs in the application's threads around its CUDA and NCCL calls. Every fact is bounded: once per call and error,
 * once per name, from tables of fixed size; what does not fit is dropped. No libc, no lock; errno is kept because
 * nothing here touches it.
 */
#include "calls.h"

#include "alloc.h"
#include "sampler_thread.h"
#include "sys.h"

#include "poison.h"

bool call_admit(const struct call *c) {
  struct shim_thread *t = &shim_thread;
  if (t->busy) return false;
  if (__atomic_load_n(&shim_life, __ATOMIC_ACQUIRE) != SHIM_AWAKE && !shim_wake()) return false;
  if (!shim_same_process()) return false;
  /* Stacks grow downwards. A call above the outermost one shows that a longjmp left that one behind. */
  if (t->depth) {
    if ((uintptr_t)c < t->frame) return false;
    t->depth = 0;
    if (t->slot) t->slot->call = 0;
  }
  if (t->asked) dl_settle();
  if (!t->slot) t->slot = ring_slot_get();
  return t->slot != NULL;
}

void call_observe(struct fact *fact) {
  struct shim_thread *t = &shim_thread;
  t->busy++;
  observe(fact);
  sampler_thread_offer();
  t->busy--;
}

uint64_t call_hash(const void *bytes, size_t size) {
  const unsigned char *byte = bytes;
  uint64_t hash = 0xcbf29ce484222325U; /* FNV-1a, 64 bits */
  /* Callers hand over whole arrays, which the analyser loses sight of. */
  // NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult)
  while (size--) hash = (hash ^ *byte++) * 0x100000001b3U;
  return hash;
}

/* Pairs that were seen: open addressing, entries never leave. */
enum { SEEN = 4096, SEEN_TRIES = 16 };
static uint64_t seen[SEEN];

bool call_first(enum hook_id id, uint64_t what) {
  struct {
    uint64_t id, what;
  } pair = {(uint64_t)id, what};
  uint64_t hash = call_hash(&pair, sizeof(pair)) | 1; /* never 0, which is an unused entry */
  for (unsigned i = 0; i < SEEN_TRIES; i++) {
    uint64_t *entry = &seen[(hash + i) % SEEN];
    uint64_t found = __atomic_load_n(entry, __ATOMIC_RELAXED);
    if (!found && __atomic_compare_exchange_n(entry, &found, hash, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
      return true;
    if (found == hash) return false;
  }
  return false;
}

void call_failed(enum hook_id id, int64_t result, uint64_t arg) {
  struct fact fact = {.kind = FACT_KIND_call_failed};
  if (result == CUDA_NOT_READY || !call_first(id, (uint64_t)result)) return;
  fact.u.call_failed.call = hook_name(id);
  fact.u.call_failed.result = result;
  fact.u.call_failed.arg = arg;
  call_observe(&fact);
}

void call_missing(enum hook_id id, int64_t result) {
  struct call c;
  if (!call_enter(&c, id, 0, false)) return;
  call_leave(&c);
  call_failed(id, result, FACT_NO_U64);
} // NOLINT(clang-analyzer-core.StackAddressEscape): shim_thread.frame is compared, never followed

void call_device(enum hook_id id, int64_t result, int64_t version, int64_t count) {
  struct fact fact = {.kind = FACT_KIND_device};
  uint64_t answer[3] = {(uint64_t)result, (uint64_t)version, (uint64_t)count};
  if (!call_first(id, call_hash(answer, sizeof(answer)))) return;
  fact.u.device.call = hook_name(id);
  fact.u.device.result = result;
  fact.u.device.version = version;
  fact.u.device.count = count;
  call_observe(&fact);
}

void call_launch_failed(enum hook_id id, int64_t result, uint64_t function) {
  struct fact fact = {.kind = FACT_KIND_launch_failed};
  uint64_t what[2] = {(uint64_t)result, function};
  if (!call_first(id, call_hash(what, sizeof(what)))) return;
  fact.u.launch_failed.call = hook_name(id);
  fact.u.launch_failed.result = result;
  fact.u.launch_failed.function = function;
  call_observe(&fact);
}

void call_lookup(const char *name, const char *via, int64_t version, int64_t result, bool hooked) {
  struct fact fact = {.kind = FACT_KIND_lookup};
  uint64_t what[3] = {call_hash(name, str_length(name)), (uint64_t)result, hooked};
  if (!call_first(HOOK_NONE, call_hash(what, sizeof(what)))) return;
  fact.u.lookup.name = name;
  fact.u.lookup.via = via;
  fact.u.lookup.version = version;
  fact.u.lookup.result = result;
  fact.u.lookup.hooked = hooked;
  call_observe(&fact);
}

void *call_find_real(struct call_real *cache, const char *soname, const char *node, const char *symbol) {
  struct shim_thread *t = &shim_thread;
  uint32_t objects = __atomic_load_n(&shim_objects, __ATOMIC_ACQUIRE);
  t->busy++;
  void *real = linkmap_symbol(soname, node, symbol);
  t->busy--;
  __atomic_store_n(&cache->real, real, __ATOMIC_RELAXED);
  __atomic_store_n(&cache->objects, objects, __ATOMIC_RELEASE);
  return real;
}

void calls_final(void) {
  alloc_at_exit();
  coll_at_exit();
}
