/* calls.h - what every generated wrapper does around the real call: the hot path.
 *
 * A wrapper enters (this thread's slot says which call is in flight since when), calls the real function with the
 * caller's own arguments, and leaves. Only the outermost hooked call of a thread counts: libcudart calls the driver
 * inside. NCCL's calls are entered open: what they allocate inside is the job's memory as well.
 * Nothing here makes a system call, takes a lock or touches errno; what does (an error, a large request) is in
 * calls.c, alloc.c, image.c and nccl.c, out of line. No libc function that can be interposed.
 */
#ifndef SPARKSHIM_CALLS_H
#define SPARKSHIM_CALLS_H

#include "clock.h"
#include "live.h"
#include "shim.h"

enum { SHIM_AWAKE = 2 };

/* One hooked call in progress, on the wrapper's stack. */
struct call {
  struct ring_slot *slot;
  uint64_t ticks;                  /* at entry */
  uint64_t outer_since, outer_arg; /* of the open call around this one */
  uint16_t outer;                  /* its hook id; 0 = none */
  enum hook_id id;
};

/* The rare part of entering: asleep, first call of this thread, nested, or inside our own slow path. True: count it. */
bool call_admit(const struct call *c);

/* False: pass through, and leave nothing. */
static inline __attribute__((always_inline)) bool call_enter(struct call *c, enum hook_id id, uint64_t arg, bool open) {
  struct shim_thread *t = &shim_thread;
  if (unlikely(__atomic_load_n(&shim_life, __ATOMIC_ACQUIRE) != SHIM_AWAKE || !shim_same_process() || t->depth ||
               t->busy || !t->slot || t->asked))
    if (!call_admit(c)) return false;
  struct ring_slot *slot = t->slot;
  c->slot = slot;
  c->id = id;
  c->outer = slot->call;
  if (unlikely(c->outer)) c->outer_since = slot->since, c->outer_arg = slot->arg;
  c->ticks = clock_ticks();
  slot->calls++;
  slot->since = c->ticks;
  slot->arg = arg;
  __atomic_store_n(&slot->call, (uint16_t)id, __ATOMIC_RELEASE);
  t->depth = !open;
  t->frame = (uintptr_t)c;
  return true;
}

static inline __attribute__((always_inline)) void call_leave(const struct call *c) {
  __atomic_store_n(&c->slot->call, c->outer, __ATOMIC_RELEASE);
  if (unlikely(c->outer)) c->slot->since = c->outer_since, c->slot->arg = c->outer_arg;
  shim_thread.depth = 0;
}

/* The call did something for the job: the exit record and the stall watch ask for the latest such time, and how many
 * of them there are in a second is the job's pace. */
static inline void call_worked(const struct call *c, uint64_t ticks) {
  c->slot->last_call = (uint16_t)c->id;
  c->slot->last_activity = ticks;
  c->slot->worked++;
}

/* A round of work as a training step or a decoded token makes it: data comes from host memory, work is launched, and
 * the thread waits for it. Loading a model makes none (copies alone), nor does one long forward pass. */
enum { ROUND_NONE, ROUND_FED, ROUND_LAUNCHED };
static inline void call_launched(const struct call *c) {
  c->slot->launches++;
  if (c->slot->round == ROUND_FED) c->slot->round = ROUND_LAUNCHED;
}
static inline void call_waited(const struct call *c) {
  if (c->slot->round != ROUND_LAUNCHED) return;
  c->slot->round = ROUND_NONE;
  c->slot->rounds++;
}
static inline void call_copied(const struct call *c, uint64_t bytes, bool from_host, bool waits) {
  if (from_host) c->slot->copied += bytes;
  if (from_host && c->slot->round == ROUND_NONE) c->slot->round = ROUND_FED;
  if (waits) call_waited(c);
}

/* Errors that report a state and no failure: cudaErrorNotReady = CUDA_ERROR_NOT_READY (driver_types.h, cuda.h). */
enum { CUDA_NOT_READY = 600 };
/* Results of look-ups that found nothing: cudaErrorSharedObjectSymbolNotFound, CUDA_ERROR_NOT_FOUND, ncclSystemError. */
enum { MISSING_CUDART = 302, MISSING_DRIVER = 500, MISSING_NCCL = 2 };

/* ---- out of line, slow (calls.c) ---------------------------------------------------------------------------- */
/* Runs `fact` through observe() with this thread's hooks off. */
void call_observe(struct fact *fact);
/* True the first time this pair is seen; false for ever after, and when the table of pairs is full. */
bool call_first(enum hook_id id, uint64_t what);
/* An error that has no fact of its own. `arg`: what was asked for, FACT_NO_U64 when nothing tells. */
void call_failed(enum hook_id id, int64_t result, uint64_t arg);
/* The real function could not be found. */
void call_missing(enum hook_id id, int64_t result);
void call_device(enum hook_id id, int64_t result, int64_t version, int64_t count);
/* Once per process: the memory at the first sign of a context, and the limits that may matter. */
void call_context(void);
/* The same at a failure that may be about memory, a few times in all. `why` as in fact mem. */
void call_memory(const char *why);
void call_launch_failed(enum hook_id id, int64_t result, uint64_t function);
/* A name handed out by cuGetProcAddress or cudaGetDriverEntryPoint: once per name and answer. */
void call_lookup(const char *name, const char *via, int64_t version, int64_t result, bool hooked);
/* A real function that was looked up, good while no object has left since. */
struct call_real {
  void *real;
  uint32_t objects; /* shim_objects at the time; written last. 0 in an unused cache, like shim_objects at the start */
};
/* Finds it by walking the link map. NULL: not mapped now. */
void *call_find_real(struct call_real *cache, const char *soname, const char *node, const char *symbol);
uint64_t call_hash(const void *bytes, size_t size);

static inline void *call_real(struct call_real *cache, const char *soname, const char *node, const char *symbol) {
  if (likely(__atomic_load_n(&cache->objects, __ATOMIC_ACQUIRE) == __atomic_load_n(&shim_objects, __ATOMIC_RELAXED))) {
    void *real = __atomic_load_n(&cache->real, __ATOMIC_RELAXED);
    if (likely(real != NULL)) return real;
  }
  return call_find_real(cache, soname, node, symbol);
}

/* ---- images and kernels (image.c) --------------------------------------------------------------------------- */
/* `address` 0 or `path` NULL: not that kind. start_us 0: not timed. result FACT_NO_I64: the call has none. */
void image_seen(enum hook_id id, int64_t result, uint64_t address, const char *path, uint64_t start_us);
void image_registered(enum hook_id id, const void *wrapper);
void kernel_seen(enum hook_id id, int64_t result, const char *name);
void kernel_registered(enum hook_id id, const char *name);

/* ---- look-ups through CUDA (lookup.c) -------------------------------------------------------------------------- */
/* cuGetProcAddress or its kin has answered `*pfn` for `symbol`. The version asked for lies in [least, most]; a thread
 * stream is meant by the flags or, where they say nothing, by the call. Exchanges *pfn for a hook where it is sure. */
struct lookup {
  enum hook_id via;
  const char *symbol;
  int least, most;
  uint64_t flags;
  bool thread_stream;
};
void lookup_answered(const struct lookup *asked, int64_t result, void **pfn);
/* Where each driver function was found: index is the hook id. */
extern struct call_real driver_reals[HOOK_ID_COUNT];

/* ---- the end of the process ------------------------------------------------------------------------------------- */
void coll_at_exit(void); /* nccl.c */

/* ---- the parts of a generated wrapper: BEFORE_<kind>, AFTER_<kind> ------------------------------------------- */
/* In scope: `id`, after the call `hook_result`. The names begin with hook_ so that no parameter has them. */
#define BEFORE_ENTER(arg, open) \
  struct call hook_call;        \
  const bool hook_on = call_enter(&hook_call, id, (uint64_t)(arg), open);
#define HOOK_ERROR ((int64_t)hook_result)
#define AFTER_LEAVE(on_success, on_error) \
  if (likely(hook_on)) {                  \
    call_leave(&hook_call);               \
    if (likely(!hook_result)) {           \
      on_success;                         \
    } else {                              \
      on_error;                           \
    }                                     \
  }
#define HOOK_FAILED(arg) call_failed(id, HOOK_ERROR, (uint64_t)(arg))
#define HOOK_WORKED call_worked(&hook_call, clock_ticks())

#define BEFORE_WORK(arg) BEFORE_ENTER(arg, false)
#define AFTER_WORK(arg) AFTER_LEAVE(HOOK_WORKED, HOOK_FAILED(arg))
/* cudaMemcpyDefault: the runtime finds out by the addresses. */
#define MAY_BE_FROM_HOST(kind) ((kind) == cudaMemcpyHostToDevice || (kind) == cudaMemcpyDefault)
#define BEFORE_COPY(bytes, from_host, waits) BEFORE_ENTER(bytes, false)
#define AFTER_COPY(bytes, from_host, waits) \
  AFTER_LEAVE((HOOK_WORKED, call_copied(&hook_call, bytes, from_host, waits)), HOOK_FAILED(bytes))
#define BEFORE_FILL(arg) BEFORE_ENTER(arg, false)
#define AFTER_FILL(arg) AFTER_LEAVE((HOOK_WORKED, call_launched(&hook_call)), HOOK_FAILED(arg))
#define BEFORE_CALL(arg) BEFORE_ENTER(arg, false)
#define AFTER_CALL(arg) AFTER_LEAVE((void)0, HOOK_FAILED(FACT_NO_U64))
#define BEFORE_WAIT(arg) BEFORE_ENTER(arg, false)
#define AFTER_WAIT(arg) AFTER_LEAVE(call_waited(&hook_call), HOOK_FAILED(FACT_NO_U64))
#define BEFORE_QUERY(arg) BEFORE_ENTER(arg, false)
#define AFTER_QUERY(arg) AFTER_LEAVE((void)0, HOOK_FAILED(FACT_NO_U64))
#define BEFORE_LAST_ERROR BEFORE_ENTER(0, false)
#define AFTER_LAST_ERROR AFTER_LEAVE((void)0, HOOK_FAILED(FACT_NO_U64))
#define BEFORE_LAUNCH(function) BEFORE_ENTER(function, false)
#define AFTER_LAUNCH(function) \
  AFTER_LEAVE((HOOK_WORKED, call_launched(&hook_call)), call_launch_failed(id, HOOK_ERROR, (uint64_t)(function)))
#define BEFORE_ATTRIBUTE(attribute, value) BEFORE_ENTER(attribute, false)
#define AFTER_ATTRIBUTE(attribute, value) AFTER_LEAVE((void)0, HOOK_FAILED(value))

#define BEFORE_DEVICE_INIT BEFORE_ENTER(0, false)
#define AFTER_DEVICE_INIT \
  if (hook_on) call_leave(&hook_call), call_device(id, HOOK_ERROR, FACT_NO_I64, FACT_NO_I64);
#define BEFORE_DEVICE_VERSION(out) BEFORE_ENTER(0, false)
#define AFTER_DEVICE_VERSION(out) \
  if (hook_on) call_leave(&hook_call), call_device(id, HOOK_ERROR, hook_result ? FACT_NO_I64 : *(out), FACT_NO_I64);
#define BEFORE_DEVICE_COUNT(out) BEFORE_ENTER(0, false)
#define AFTER_DEVICE_COUNT(out) \
  if (hook_on) call_leave(&hook_call), call_device(id, HOOK_ERROR, FACT_NO_I64, hook_result ? FACT_NO_I64 : *(out));
#define BEFORE_CONTEXT BEFORE_ENTER(0, false)
#define AFTER_CONTEXT AFTER_LEAVE(call_context(), call_device(id, HOOK_ERROR, FACT_NO_I64, FACT_NO_I64))

#define BEFORE_IMAGE(address)  \
  BEFORE_ENTER(address, false) \
  const uint64_t hook_start = hook_on ? clock_us() : 0;
#define AFTER_IMAGE(address) \
  if (hook_on) call_leave(&hook_call), image_seen(id, HOOK_ERROR, (uint64_t)(address), NULL, hook_start);
#define BEFORE_IMAGE_FILE(path) \
  BEFORE_ENTER(0, false)        \
  const uint64_t hook_start = hook_on ? clock_us() : 0;
#define AFTER_IMAGE_FILE(path) \
  if (hook_on) call_leave(&hook_call), image_seen(id, HOOK_ERROR, 0, path, hook_start);
#define BEFORE_KERNEL(name) BEFORE_ENTER(0, false)
#define AFTER_KERNEL(name) \
  if (hook_on) call_leave(&hook_call), kernel_seen(id, HOOK_ERROR, name);

/* ---- rows whose function is written by hand --------------------------------------------------------------------- */
/* HOOK_GENERATED(kind)(...): GENERATE(...) for most kinds, nothing for BY_HAND(what). */
#define HOOK_GENERATED(kind) HOOK_SECOND(HOOK_HAND_##kind, GENERATE, )
#define HOOK_HAND_BY_HAND(what) , HOOK_NOT_GENERATED
#define HOOK_NOT_GENERATED(...)
#define HOOK_SECOND(...) HOOK_SECOND_OF(__VA_ARGS__, )
#define HOOK_SECOND_OF(first, second, ...) second

/* The name and version node under which a wrapper is exported: a hidden one, name@node. Unit tests link the wrappers
 * into programs, which have no nodes. */
#ifdef SPARKSHIM_NO_NODES
#define HOOK_EXPORT_AS(function, name, node)
#else
#define HOOK_EXPORT_AS(function, name, node) __asm__(".symver " #function "," #name "@" node);
#endif

/* Kinds that may make the call a second time say how (alloc.h), the others nothing. */
#define HOOK_AGAIN(kind, call) HOOK_SECOND(HOOK_AGAIN_##kind, HOOK_NOT_AGAIN, )(call)
#define HOOK_NOT_AGAIN(call)

/* One wrapper: `real_expression` finds the real function, `missing` is returned when there is none. */
#define HOOK_FUNCTION(function, name, real_expression, missing, kind, ret, params, args) \
  SHIM_EXPORT ret function params;                                                       \
  ret function params {                                                                  \
    const enum hook_id id = HOOK_ID_##name;                                              \
    ret(*hook_real) params = (ret(*) params)(real_expression);                           \
    if (unlikely(!hook_real)) {                                                          \
      call_missing(id, missing);                                                         \
      return (ret)(missing);                                                             \
    }                                                                                    \
    BEFORE_##kind;                                                                       \
    ret hook_result = hook_real args;                                                    \
    HOOK_AGAIN(kind, hook_real args)                                                     \
    AFTER_##kind;                                                                        \
    return hook_result;                                                                  \
  }

#endif
