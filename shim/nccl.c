/* nccl.c - hooks of libnccl.so.2: one wrapper per NCCL row of hooks.def.
 *
 * The library's ncclX are weak aliases of its pncclX; hook_<name>__export calls pncclX of the mapped object, so that
 * no third hook stands between. hook_<name>__any stands behind a bound thunk. Communicators are handles: nothing is
 * ever read inside them. All calls are entered open: what NCCL allocates inside counts as the job's memory.
 * Runs in the application's threads, see calls.h.
 */
#include "nccl_types.h"

#include "alloc.h"
#include "calls.h"
#include "sys.h"

static struct call_real reals[HOOK_ID_COUNT];
static int nccl_version;

/* Calls in progress on a non-blocking communicator are not failures. */
static bool nccl_ok(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

/* ---- counters of collectives ------------------------------------------------------------------------------------- */
enum { COLLS = 1024, COLL_TRIES = 8, COLL_ID_SHIFT = 48 };
static struct coll {
  uint64_t key; /* communicator, hook id above it; 0 = unused */
  uint64_t count, bytes;
} colls[COLLS];

/* NULL: no room, or a handle that is no user address. */
static struct coll *coll_of(enum hook_id id, ncclComm_t comm) {
  uint64_t address = (uint64_t)(uintptr_t)comm, key = address | (uint64_t)id << COLL_ID_SHIFT;
  uint64_t at = (address >> 6) * 31 + (uint64_t)id;
  struct coll *room = NULL;
  if (address >> COLL_ID_SHIFT) return NULL;
  for (unsigned i = 0; i < COLL_TRIES; i++) {
    struct coll *c = &colls[(at + i) % COLLS];
    uint64_t found = __atomic_load_n(&c->key, __ATOMIC_ACQUIRE);
    if (found == key) return c;
    if (!found && !room) room = c;
  }
  uint64_t none = 0;
  if (!room || !__atomic_compare_exchange_n(&room->key, &none, key, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
    return NULL;
  return room;
}

static uint64_t datatype_bytes(ncclDataType_t type) {
  static const unsigned char bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return (unsigned)type < sizeof(bytes) ? bytes[type] : 0;
}

static void coll_count(enum hook_id id, ncclComm_t comm, uint64_t count, ncclDataType_t type) {
  struct coll *c = coll_of(id, comm);
  if (!c) return;
  __atomic_fetch_add(&c->count, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&c->bytes, count * datatype_bytes(type), __ATOMIC_RELAXED);
}

static void coll_record(const struct coll *c) {
  struct fact fact = {.kind = FACT_KIND_coll_stats};
  fact.u.coll_stats.comm = c->key & (((uint64_t)1 << COLL_ID_SHIFT) - 1);
  fact.u.coll_stats.call = hook_name((enum hook_id)(c->key >> COLL_ID_SHIFT));
  fact.u.coll_stats.count = c->count;
  fact.u.coll_stats.bytes = c->bytes;
  call_observe(&fact);
}

/* Its counters go to the log, its entries are free again. */
static void coll_end(ncclComm_t comm) {
  uint64_t address = (uint64_t)(uintptr_t)comm;
  for (struct coll *c = colls; c < colls + COLLS; c++) {
    if (!comm || !c->key || (c->key & (((uint64_t)1 << COLL_ID_SHIFT) - 1)) != address) continue;
    coll_record(c);
    c->count = c->bytes = 0;
    __atomic_store_n(&c->key, 0, __ATOMIC_RELEASE);
  }
}

void coll_at_exit(void) {
  for (struct coll *c = colls; c < colls + COLLS; c++)
    if (c->key && c->count) coll_record(c);
}

/* ---- communicators -------------------------------------------------------------------------------------------------- */
enum { COMMS = 4096, PATH = 1024 }; /* records of communicators in one process */

static int version_of_mapped(void) {
  int known = __atomic_load_n(&nccl_version, __ATOMIC_RELAXED), asked = 0;
  if (known) return known;
  ncclResult_t (*get)(int *) = (ncclResult_t(*)(int *))linkmap_symbol("libnccl.so.2", NULL, "pncclGetVersion");
  if (!get || get(&asked) != ncclSuccess) return 0;
  __atomic_store_n(&nccl_version, asked, __ATOMIC_RELAXED);
  return asked;
}

struct comm_event {
  enum hook_id id;
  ncclResult_t result;
  ncclComm_t comm;
  int ranks, rank;         /* -1: not told */
  const ncclUniqueId *key; /* NULL: not told */
  uint64_t start_us;
  const void *real;
};

static void comm_record(const struct comm_event *e) {
  static uint32_t made;
  struct fact fact = {.kind = FACT_KIND_comm};
  struct fact_comm *f = &fact.u.comm;
  char object[PATH];
  uint64_t offset, now = clock_us();
  if (__atomic_load_n(&made, __ATOMIC_RELAXED) >= COMMS) return;
  __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED);
  shim_thread.busy++;
  int version = version_of_mapped();
  if (linkmap_object_at(e->real, object, sizeof(object), &offset)) f->object = object;
  shim_thread.busy--;
  f->call = hook_name(e->id);
  f->result = e->result;
  f->comm = e->comm ? (uint64_t)(uintptr_t)e->comm : FACT_NO_U64;
  f->ranks = e->ranks < 0 ? FACT_NO_I64 : e->ranks;
  f->rank = e->rank < 0 ? FACT_NO_I64 : e->rank;
  f->unique_id = e->key ? call_hash(e->key, sizeof(*e->key)) : FACT_NO_U64;
  f->version = version ? version : FACT_NO_I64;
  f->wall_us = now > e->start_us ? now - e->start_us : 0;
  call_observe(&fact);
}

/* What NCCL's error number for a failed system call may be about: a registration that the kernel refused, a socket. */
static void nccl_memory(ncclResult_t result) {
  if (result == ncclSystemError) call_memory("comm_failed");
}

static void comm_made(enum hook_id id, ncclResult_t result, const ncclComm_t *comm, int ranks, int rank,
                      const ncclUniqueId *key, uint64_t start_us, const void *real) {
  bool ok = nccl_ok(result);
  struct comm_event e = {id, result, ok && comm ? *comm : NULL, ranks, rank, ok ? key : NULL, start_us, real};
  nccl_memory(result);
  comm_record(&e);
}

static void comm_ended(enum hook_id id, ncclResult_t result, ncclComm_t comm, uint64_t start_us, const void *real) {
  struct comm_event e = {id, result, comm, -1, -1, NULL, start_us, real};
  if (nccl_ok(result)) coll_end(comm);
  comm_record(&e);
}

static void nccl_failed(enum hook_id id, ncclResult_t result) {
  if (nccl_ok(result)) return;
  nccl_memory(result);
  call_failed(id, result, FACT_NO_U64);
}

/* ---- the kinds of this library ---------------------------------------------------------------------------------------- */
#define BEFORE_NCCL BEFORE_ENTER(0, true)
#define BEFORE_NCCL_TIMED(arg) \
  BEFORE_ENTER(arg, true)      \
  const uint64_t hook_start = hook_on ? clock_us() : 0;
#define AFTER_NCCL(...)     \
  if (hook_on) {            \
    call_leave(&hook_call); \
    __VA_ARGS__;            \
  }
#define HOOK_REAL_ADDRESS ((const void *)(uintptr_t)hook_real)

#define BEFORE_NCCL_VERSION(out) BEFORE_NCCL
#define AFTER_NCCL_VERSION(out)                                                           \
  AFTER_NCCL(if (!hook_result) __atomic_store_n(&nccl_version, *(out), __ATOMIC_RELAXED); \
             else nccl_failed(id, hook_result))
#define BEFORE_NCCL_ID(out) BEFORE_NCCL_TIMED(0)
#define AFTER_NCCL_ID(out) AFTER_NCCL(comm_made(id, hook_result, NULL, -1, -1, out, hook_start, HOOK_REAL_ADDRESS))
#define BEFORE_NCCL_GROUP BEFORE_NCCL
#define AFTER_NCCL_GROUP AFTER_NCCL(nccl_failed(id, hook_result))

#define BEFORE_COMM_INIT(comm, ranks, rank, key) BEFORE_NCCL_TIMED(ranks)
#define AFTER_COMM_INIT(comm, ranks, rank, key) \
  AFTER_NCCL(comm_made(id, hook_result, comm, ranks, rank, key, hook_start, HOOK_REAL_ADDRESS))
#define BEFORE_COMM_INIT_ALL(comm, ranks) BEFORE_NCCL_TIMED(ranks)
#define AFTER_COMM_INIT_ALL(comm, ranks) \
  AFTER_NCCL(comm_made(id, hook_result, comm, ranks, 0, NULL, hook_start, HOOK_REAL_ADDRESS))
#define BEFORE_COMM_DERIVE(parent, comm) BEFORE_NCCL_TIMED(parent)
#define AFTER_COMM_DERIVE(parent, comm) \
  AFTER_NCCL(comm_made(id, hook_result, comm, -1, -1, NULL, hook_start, HOOK_REAL_ADDRESS))
#define BEFORE_COMM_END(comm) BEFORE_NCCL_TIMED(comm)
#define AFTER_COMM_END(comm) AFTER_NCCL(comm_ended(id, hook_result, comm, hook_start, HOOK_REAL_ADDRESS))
/* The call's own result is good even when the communicator is broken: its answer is what counts. */
#define BEFORE_COMM_ASYNC(comm, answer) BEFORE_ENTER(comm, true)
#define AFTER_COMM_ASYNC(comm, answer) AFTER_NCCL(nccl_failed(id, hook_result ? hook_result : *(answer)))

#define BEFORE_COLLECTIVE(comm, count, type) BEFORE_ENTER(comm, true)
#define AFTER_COLLECTIVE(comm, count, type)                                                    \
  AFTER_NCCL(if (likely(nccl_ok(hook_result))) HOOK_WORKED, coll_count(id, comm, count, type); \
             else nccl_failed(id, hook_result))

#define HOOK(lib, name, ...) ROW_##lib(name, __VA_ARGS__)
#define ROW_LIBC(...)
#define ROW_CUDART(...)
#define ROW_DRIVER(...)
#define ROW_NCCL(name, nodes, kind, ...) HOOK_GENERATED(kind)(name, kind, __VA_ARGS__)
#define EXPORTED(name) call_real(&reals[HOOK_ID_##name], "libnccl.so.2", NULL, "p" #name)
#define GENERATE(name, kind, ...)                                                             \
  HOOK_FUNCTION(hook_##name##__any, name, shim_thread.real, MISSING_NCCL, kind, __VA_ARGS__)  \
  HOOK_FUNCTION(hook_##name##__export, name, EXPORTED(name), MISSING_NCCL, kind, __VA_ARGS__) \
  HOOK_EXPORT_AS(hook_##name##__export, name, "SPARKSHIM_1")
#include "hooks.def"
#undef HOOK
