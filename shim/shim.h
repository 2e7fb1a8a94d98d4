/* shim.h - what the files of shim/ share. Read this before changing anything here.
 *
 * This code runs inside somebody else's process, in their threads, under their locks, at moments they
 * chose. The rules (each has a public scar behind it, see docs/internals.md):
 *  - Fail open: if anything is odd, pass the call through, for ever. Never exit, abort, change a return
 *    value, an argument, errno, dlerror's text or an exit status. (relief.h, opt-in, is the one exception.)
 *  - libc only, and of it nothing that can be interposed: system calls through probe/core/sys.h, strings
 *    through sys.h, loader functions through the pointers in shim_real (found by walking the link map).
 *    No malloc, no stdio, no getenv, no locks that an application thread could wait on.
 *  - Nothing happens before shim_wake(): no file, no thread, no handler, no output.
 *  - Hot path (a hooked CUDA call that succeeds): atomics and this thread's slot; no system call.
 *  - Hooks may run before any constructor, on any stack, in a forked child: state is reached by atomics.
 */
#ifndef SPARKSHIM_SHIM_H
#define SPARKSHIM_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fact.h"
#include "ring_format.h"
#include "route.h"

#define SHIM_EXPORT __attribute__((visibility("default")))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* ---- hook ids: one per row of hooks.def ------------------------------------------------------------ */
enum hook_id {
  HOOK_NONE = 0,
#define HOOK(lib, name, ...) HOOK_ID_##name,
#include "hooks.def"
#undef HOOK
  HOOK_ID_COUNT
};

/* ---- this thread (thread.c): initial-exec TLS, at most 64 bytes --------------------------------------- */
struct shim_thread {
  struct ring_slot *slot; /* NULL until the first hooked call after shim_wake() */
  void *real;             /* set by a bound thunk just before it jumps to hook_<name>__any; read there first */
  uint32_t depth;         /* nesting of hooked calls: only the outermost counts */
  uint32_t busy;          /* inside our own slow path: pass everything through */
  uintptr_t frame;   /* stack frame of the outermost hooked call: one entered above it shows that a longjmp left it */
  const char *asked; /* family object asked for by the last tail-jumped dlopen, judged at the next event */
  uint32_t last_dl;  /* dl.c: which loader function this thread called last */
};
extern __thread struct shim_thread shim_thread __attribute__((tls_model("initial-exec")));

/* ---- life (init.c, fork.c) -------------------------------------------------------------------------- */
/* 0 asleep, 1 waking, 2 awake, 3 off for ever. */
extern uint32_t shim_life;
/* Brings up log, ring and settings; once; cheap when already done. False: off, or being woken by this very
 * thread further up the stack: pass through. Keeps errno. Any thread; not from signal handlers. */
bool shim_wake(void);
/* *fork_mark becomes 0 in a forked child; fork_child_begins() wakes the child up. For shim_same_process() alone. */
extern uint32_t *fork_mark;
bool fork_child_begins(void);
/* First thing on every path that writes shared state: true unless this is a forked child that has not yet
 * got a log of its own (then it gets one, or goes to sleep). One load on the hot path. */
static inline bool shim_same_process(void) {
  return likely(__atomic_load_n(fork_mark, __ATOMIC_ACQUIRE) != 0) || fork_child_begins();
}

/* ---- settings: SPARKSHIM_* read once in shim_wake ------------------------------------------------------ */
struct shim_settings {
  const char *root;     /* SPARKSHIM_ROOT or NULL */
  const char *dir;      /* SPARKSHIM_DIR or NULL */
  bool stderr_on;       /* SPARKSHIM_STDERR != 0 */
  bool thread_on;       /* SPARKSHIM_THREAD != 0 */
  uint32_t detectors;   /* det_mask() of SPARKSHIM_DETECTORS */
  uint32_t ring_allocs; /* entries of the allocation ring */
  bool relief;          /* SPARKSHIM_RELIEF is "cache" */
  bool injected;        /* loaded by the driver (CUDA_INJECTION64_PATH): nothing is interposed */
};
extern struct shim_settings shim_settings;
/* Value of an environment variable by our own walk of environ (/proc/self/environ before libc is up), or NULL. */
const char *shim_env(const char *name);

/* ---- link map (linkmap.c) ---------------------------------------------------------------------------- */
struct dl_phdr_info; /* link.h */
/* Functions of libc itself, whatever stands in front of them. Filled before first use by linkmap_init(). */
struct shim_real {
  void *(*dlopen)(const char *, int);
  void *(*dlmopen)(long, const char *, int);
  void *(*dlsym)(void *, const char *);
  void *(*dlvsym)(void *, const char *, const char *);
  int (*dlclose)(void *);
  char *(*dlerror)(void);
  int (*dl_iterate_phdr)(int (*)(struct dl_phdr_info *, size_t, void *), void *);
};
extern struct shim_real shim_real;
bool linkmap_init(void);
/* The address of `symbol` (version node `node`, or any default one when NULL) in the first mapped object whose
 * SONAME, or base name without one, is `soname`; never one of ours. NULL when there is none. Also finds
 * RTLD_LOCAL objects. Takes the loader's own lock for the walk: slow path only. */
void *linkmap_symbol(const char *soname, const char *node, const char *symbol);
/* Changes whenever an object may have been unmapped (dlclose). A look-up cached under another number is stale:
 * one relaxed load on the hot path. */
extern uint32_t shim_objects;
/* Path of the object that holds `addr`, and the offset of addr from its base; false when there is none. */
bool linkmap_object_at(const void *addr, char *path, size_t size, uint64_t *ret_offset);
/* The address of `symbol` in the object that holds `addr`, NULL when there is none. The same lock. */
void *linkmap_beside(const void *addr, const char *symbol);

/* ---- loads (dl.c, ledger.c) ---------------------------------------------------------------------------- */
/* Call at the entry of a hooked call while shim_thread.asked is set: finds out whether the object that this thread
 * last asked for was loaded, and records what else was mapped meanwhile. Slow path. Keeps errno and dlerror's text. */
void dl_settle(void);

/* ---- hooks (hooks.c: table from hooks.def; bind.c: bound thunks) ------------------------------------------ */
const char *hook_name(enum hook_id id);
enum hook_id hook_by_name(const char *name); /* HOOK_NONE when the name is not hooked; no libc, a few ns for a miss */
/* What the application gets instead of `real`, an answer of dlsym, cuGetProcAddress and the like for hook `id`:
 * the exported hook when `real` is the plain export behind it, else a thunk bound to `real` (the same real
 * pointer always gets the same thunk), else `real` itself (pool used up: one note). NULL stays NULL. Also while off or
 * asleep: linked references are bound to the exported hook then, too, and must stay equal to what is looked up. */
void *hook_for(enum hook_id id, void *real);

/* Last counters of allocations and collectives, as facts, at exit(3) (calls.c). */
void calls_final(void);

/* ---- facts out (observe.c, log.c, ring.c, line.c) ------------------------------------------------------ */
/* Opens ring and log and writes the header record. Called once by shim_wake() when the settings are read, and by
 * shim_same_process() in a forked child, which gets a ring and a log of its own (the caller then resets its
 * thread's slot). Never fails: what cannot be opened is done without. Keeps errno. One thread. */
void sinks_open(void);

/* Hands a fact to the log and to the detectors, and their findings to log and stderr. Slow path: serialised by
 * a spin lock that is only tried (a thread that cannot get it in 10 ms drops the judging, not the record).
 * fact->t 0 means now, tid 0 the calling thread. Keeps errno. */
void observe(struct fact *fact);

/* A slot of the ring for this thread; never NULL once awake. */
struct ring_slot *ring_slot_get(void);
/* Appends to the ring of allocations and the counters of `route`. Hot path, lock-free. */
/* `ticks`: the call's entry, as in slot->since: reading the counter costs 12 ns on some machines, so a hooked
 * allocation does it once. */
void ring_alloc_note(enum hook_id call, enum alloc_route route, uint64_t ptr, uint64_t size, uint32_t result,
                     uint64_t ticks);
void ring_free_note(enum hook_id call, enum alloc_route route, uint64_t ptr, uint64_t size, uint64_t ticks);
/* A grant that did not fit the table of live allocations. */
void ring_untracked_note(enum alloc_route route);
/* Sums of all threads' counters. A few us: slow path. */
void ring_counters(enum alloc_route route, struct ring_counters *out);
/* ring_grown becomes 1 when the live memory of a route has grown by `bytes` beyond what it was at the last time (or
 * beyond 0): whoever sees it takes it back and looks. No step, no growth. */
extern uint32_t ring_grown;
void ring_growth_step(uint64_t bytes);
/* Sums over all threads. A few us: slow path. */
void ring_work(struct ring_work *out);
/* Unix time in microseconds at which the last productive call of any thread returned, and its name; FACT_NO_U64 and
 * NULL when there was none. Slow path. */
uint64_t ring_last_activity(const char **ret_call);
/* Where a vforked child leaves word of itself; NULL while there is no ring. */
struct ring_child *ring_child(void);

#endif
