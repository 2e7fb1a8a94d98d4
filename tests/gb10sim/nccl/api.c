/* api.c - NCCL's entry points but those of groups. Plain calling code; any thread. Behaviour by nccl.h 2.30.7.
 *
 * Not there: windows, device communicators, one-sided signals and the parameter interface. The names that PyTorch
 * binds exist and answer as on a system where the feature cannot be used (unsupported.def).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "comm.h"
#include "driver_client/driver_client.h"

/* First thing in an entry point: what the scenario wants this call to do. */
#define WORLD(name, size)                                                 \
  do {                                                                    \
    int fault_ = driver_client_world(#name, size);                        \
    if (fault_) return comm_error((ncclResult_t)fault_, #name " failed"); \
  } while (0)

NCCL_API(ncclResult_t, ncclGetVersion, int *version) {
  if (!version) return comm_error(ncclInvalidArgument, "version is NULL");
  *version = NCCL_VERSION;
  return ncclSuccess;
}

NCCL_API(const char *, ncclGetErrorString, ncclResult_t result) {
  static const char *const texts[] = {
      [ncclSuccess] = "no error",
      [ncclUnhandledCudaError] = "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
      [ncclSystemError] = "unhandled system error (run with NCCL_DEBUG=INFO for details)",
      [ncclInternalError] = "internal error - please report this issue to the NCCL developers",
      [ncclInvalidArgument] = "invalid argument (run with NCCL_DEBUG=WARN for details)",
      [ncclInvalidUsage] = "invalid usage (run with NCCL_DEBUG=WARN for details)",
      [ncclRemoteError] = "remote process exited or there was a network error",
      [ncclInProgress] = "NCCL operation in progress",
      [ncclTimeout] = "timeout",
  };
  return (unsigned)result <= ncclTimeout ? texts[result] : "unknown result code";
}

NCCL_API(const char *, ncclGetLastError, ncclComm_t comm) {
  (void)comm;
  return comm_last_error();
}

NCCL_API(void, ncclResetDebugInit, void) {}

/* ---- making communicators */
NCCL_API(ncclResult_t, ncclGetUniqueId, ncclUniqueId *id) {
  WORLD(ncclGetUniqueId, 0);
  if (!id) return comm_error(ncclInvalidArgument, "uniqueId is NULL");
  int error = mesh_unique_id(id);
  return error ? comm_error(ncclSystemError, strerror(-error)) : ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommInitRank, ncclComm_t *comm, int nranks, ncclUniqueId id, int rank) {
  WORLD(ncclCommInitRank, 0);
  return group_create(comm, nranks, &id, rank);
}

NCCL_API(ncclResult_t, ncclCommInitRankConfig, ncclComm_t *comm, int nranks, ncclUniqueId id, int rank,
         ncclConfig_t *config) {
  (void)config;
  WORLD(ncclCommInitRankConfig, 0);
  return group_create(comm, nranks, &id, rank);
}

/* Several ids spread the load of the meeting; every rank has the same list, so the first one serves. */
NCCL_API(ncclResult_t, ncclCommInitRankScalable, ncclComm_t *comm, int nranks, int rank, int n_ids, ncclUniqueId *ids,
         ncclConfig_t *config) {
  (void)config;
  WORLD(ncclCommInitRankScalable, 0);
  if (n_ids < 1 || !ids) return comm_error(ncclInvalidArgument, "no unique id");
  return group_create(comm, nranks, &ids[0], rank);
}

/* A Spark has one GPU, and two ranks on one GPU are refused. */
NCCL_API(ncclResult_t, ncclCommInitAll, ncclComm_t *comms, int ndev, const int *devices) {
  ncclUniqueId id;
  WORLD(ncclCommInitAll, 0);
  if (!comms || ndev < 1 || (devices && devices[0] != 0)) return comm_error(ncclInvalidArgument, "invalid device list");
  if (ndev > 1) return comm_error(ncclInvalidUsage, "more ranks than devices");
  int error = mesh_unique_id(&id);
  return error ? comm_error(ncclSystemError, strerror(-error)) : comm_create(comms, 1, &id, 0);
}

struct member {
  int color, key, rank;
  ncclUniqueId id;
};

static int by_key(const void *a, const void *b) {
  const struct member *x = a, *y = b;
  return x->key != y->key ? (x->key < y->key ? -1 : 1) : (x->rank > y->rank) - (x->rank < y->rank);
}

/* All members of a communicator agree on who goes where; the first of each colour makes the id. Everybody offers an id,
 * for only after the exchange is it known who is first. */
static ncclResult_t regroup(ncclComm_t comm, struct mesh_peer *peers, int nranks, int rank, int color, int key,
                            ncclComm_t *out) {
  if (nranks < 1) return comm_error(ncclInvalidArgument, "no ranks are left");
  struct member mine = {.color = color, .key = key, .rank = rank}, *all = calloc((size_t)nranks, sizeof *all);
  int size = 0, place = -1;
  if (!all) return ncclSystemError;
  int error = mesh_unique_id(&mine.id);
  if (!error) error = mesh_all_gather(peers, nranks, rank, &mine, all, sizeof mine, &comm->stop);
  ncclResult_t result = comm_from_errno(error);
  qsort(all, (size_t)nranks, sizeof *all, by_key);
  const ncclUniqueId *id = NULL;
  for (int i = 0; i < nranks; i++) {
    if (all[i].color != color) continue;
    if (!id) id = &all[i].id;
    if (all[i].rank == rank) place = size;
    size++;
  }
  *out = NULL;
  if (!result && color != NCCL_NO_COLOR) result = comm_create(out, size, id, place);
  free(all);
  return result;
}

NCCL_API(ncclResult_t, ncclCommSplit, ncclComm_t comm, int color, int key, ncclComm_t *out, ncclConfig_t *config) {
  (void)config;
  WORLD(ncclCommSplit, 0);
  if (!comm || !out || color < NCCL_NO_COLOR)
    return comm_error(ncclInvalidArgument, "invalid argument of ncclCommSplit");
  return regroup(comm, comm->peers, comm->nranks, comm->rank, color, key, out);
}

static int excluded(int rank, const int *list, int n) {
  for (int i = 0; i < n; i++)
    if (list[i] == rank) return 1;
  return 0;
}

NCCL_API(ncclResult_t, ncclCommShrink, ncclComm_t comm, int *exclude, int n, ncclComm_t *out, ncclConfig_t *config,
         int flags) {
  (void)config;
  WORLD(ncclCommShrink, 0);
  if (!comm || !out || !exclude || n < 1 || n >= comm->nranks || excluded(comm->rank, exclude, n))
    return comm_error(ncclInvalidArgument, "invalid argument of ncclCommShrink");
  struct mesh_peer *left = calloc((size_t)comm->nranks, sizeof *left);
  if (!left) return ncclSystemError;
  if (flags & NCCL_SHRINK_WITH_ABORT) {
    atomic_store(&comm->stop, 1);
    while (atomic_load(&comm->pending)) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    atomic_store(&comm->stop, 0);
    atomic_store(&comm->async_error, ncclSuccess);
  }
  int size = 0, rank = -1;
  for (int r = 0; r < comm->nranks; r++) {
    if (excluded(r, exclude, n)) continue;
    if (r == comm->rank) rank = size;
    left[size++] = comm->peers[r];
  }
  ncclResult_t result = regroup(comm, left, size, rank, 0, rank, out);
  free(left);
  return result;
}

NCCL_API(ncclResult_t, ncclCommGetUniqueId, ncclComm_t comm, ncclUniqueId *id) {
  WORLD(ncclCommGetUniqueId, 0);
  if (!comm || !id) return comm_error(ncclInvalidArgument, "invalid argument of ncclCommGetUniqueId");
  int error = mesh_unique_id(id);
  return error ? comm_error(ncclSystemError, strerror(-error)) : ncclSuccess;
}

struct growth {
  int is_root;
  ncclUniqueId id;
};

/* Old ranks keep their numbers; the one that has the id hands it to the others of the old communicator. */
static ncclResult_t grow_old(ncclComm_t comm, int nranks, const ncclUniqueId *id, ncclComm_t *out) {
  struct growth mine = {.is_root = id != NULL}, *all = calloc((size_t)comm->nranks, sizeof *all);
  if (!all) return ncclSystemError;
  if (id) mine.id = *id;
  int error = mesh_all_gather(comm->peers, comm->nranks, comm->rank, &mine, all, sizeof mine, &comm->stop);
  const ncclUniqueId *found = NULL;
  for (int r = 0; !error && r < comm->nranks; r++)
    if (all[r].is_root) found = &all[r].id;
  ncclResult_t result = comm_from_errno(error);
  if (!result)
    result = found ? comm_create(out, nranks, found, comm->rank) : comm_error(ncclInvalidUsage, "no rank has the id");
  free(all);
  return result;
}

NCCL_API(ncclResult_t, ncclCommGrow, ncclComm_t comm, int nranks, const ncclUniqueId *id, int rank, ncclComm_t *out,
         ncclConfig_t *config) {
  (void)config;
  WORLD(ncclCommGrow, 0);
  if (!out || (!comm && !id) || (comm && nranks <= comm->nranks))
    return comm_error(ncclInvalidArgument, "invalid argument of ncclCommGrow");
  return comm ? grow_old(comm, nranks, id, out) : comm_create(out, nranks, id, rank);
}

/* ---- ending them */
static void wait_until_done(ncclComm_t comm) {
  while (atomic_load(&comm->pending) && !atomic_load(&comm->stop))
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

NCCL_API(ncclResult_t, ncclCommFinalize, ncclComm_t comm) {
  WORLD(ncclCommFinalize, 0);
  if (!comm) return comm_error(ncclInvalidArgument, "comm is NULL");
  wait_until_done(comm);
  return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommDestroy, ncclComm_t comm) {
  WORLD(ncclCommDestroy, 0);
  if (!comm) return ncclSuccess;
  wait_until_done(comm);
  comm_release(comm);
  return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommAbort, ncclComm_t comm) {
  WORLD(ncclCommAbort, 0);
  if (!comm) return ncclSuccess;
  atomic_store(&comm->stop, 1);
  comm_release(comm);
  return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommRevoke, ncclComm_t comm, int flags) {
  WORLD(ncclCommRevoke, 0);
  if (!comm || flags) return comm_error(ncclInvalidArgument, "invalid argument of ncclCommRevoke");
  atomic_store(&comm->stop, 1);
  return ncclSuccess;
}

/* ---- asking them */
NCCL_API(ncclResult_t, ncclCommGetAsyncError, ncclComm_t comm, ncclResult_t *result) {
  WORLD(ncclCommGetAsyncError, 0);
  if (!comm || !result) return comm_error(ncclInvalidArgument, "comm is NULL");
  *result = (ncclResult_t)atomic_load(&comm->async_error);
  return ncclSuccess;
}

#define QUERY(name, type, expression)                                            \
  NCCL_API(ncclResult_t, name, ncclComm_t comm, type *value) {                   \
    if (!comm || !value) return comm_error(ncclInvalidArgument, "comm is NULL"); \
    *value = expression;                                                         \
    return ncclSuccess;                                                          \
  }

QUERY(ncclCommCount, int, comm->nranks)
QUERY(ncclCommUserRank, int, comm->rank)
QUERY(ncclCommCuDevice, int, comm->device)

enum memory_stat { STAT_SUSPEND, STAT_SUSPENDED, STAT_PERSIST, STAT_TOTAL };

NCCL_API(ncclResult_t, ncclCommMemStats, ncclComm_t comm, enum memory_stat stat, uint64_t *value) {
  if (!comm || !value || stat > STAT_TOTAL)
    return comm_error(ncclInvalidArgument, "invalid argument of ncclCommMemStats");
  *value = stat == STAT_PERSIST || stat == STAT_TOTAL ? comm->buffer_size : 0;
  return ncclSuccess;
}

/* Nothing can be suspended: what a communicator holds here is persistent. */
NCCL_API(ncclResult_t, ncclCommSuspend, ncclComm_t comm, int flags) {
  (void)flags;
  return comm ? ncclSuccess : comm_error(ncclInvalidArgument, "comm is NULL");
}

NCCL_API(ncclResult_t, ncclCommResume, ncclComm_t comm) {
  return comm ? ncclSuccess : comm_error(ncclInvalidArgument, "comm is NULL");
}

/* ---- memory */
NCCL_API(ncclResult_t, ncclMemAlloc, void **at, size_t size) {
  WORLD(ncclMemAlloc, size);
  return memory_take(at, size);
}

NCCL_API(ncclResult_t, ncclMemFree, void *at) {
  WORLD(ncclMemFree, 0);
  return memory_give(at);
}

NCCL_API(ncclResult_t, ncclCommRegister, ncclComm_t comm, void *buffer, size_t size, void **handle) {
  if (!comm || !buffer || !size || !handle)
    return comm_error(ncclInvalidArgument, "invalid argument of ncclCommRegister");
  *handle = &comm->registered;
  return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommDeregister, ncclComm_t comm, void *handle) {
  return comm && handle == (void *)&comm->registered ? ncclSuccess
                                                     : comm_error(ncclInvalidArgument, "not a registration");
}

/* ---- reductions */
NCCL_API(ncclResult_t, ncclRedOpCreatePreMulSum, int *op, void *scalar, ncclDataType_t type,
         ncclScalarResidence_t residence, ncclComm_t comm) {
  (void)residence; /* device memory is readable here, and read at once */
  if (!op || !scalar || !comm || !type_reduces(type))
    return comm_error(ncclInvalidArgument, "invalid argument of ncclRedOpCreatePreMulSum");
  for (int i = 0; i < COMM_SCALES; i++)
    if (!comm->scale_used[i]) {
      comm->scale_used[i] = 1;
      comm->scale[i] = type_to_double(type, scalar);
      *op = ncclNumOps + i;
      return ncclSuccess;
    }
  return comm_error(ncclInternalError, "too many reduction operators");
}

static int is_scale(const struct ncclComm *comm, int op) {
  return op >= ncclNumOps && op < ncclNumOps + COMM_SCALES && comm->scale_used[op - ncclNumOps];
}

NCCL_API(ncclResult_t, ncclRedOpDestroy, int op, ncclComm_t comm) {
  if (!comm || !is_scale(comm, op))
    return comm_error(ncclInvalidArgument, "not a reduction operator of this communicator");
  comm->scale_used[op - ncclNumOps] = 0;
  return ncclSuccess;
}

static ncclResult_t add(ncclComm_t comm, struct op op, int how, CUstream stream) {
  op.how = (struct reduction){.op = ncclSum, .scale = 1.0, .nranks = comm ? comm->nranks : 1};
  if (comm && is_scale(comm, how))
    op.how.scale = comm->scale[how - ncclNumOps];
  else if (how >= 0 && how < ncclNumOps)
    op.how.op = (ncclRedOp_t)how;
  else
    return comm_error(ncclInvalidArgument, "invalid reduction operator");
  return group_add(comm, &op, stream);
}

/* ---- collectives */
NCCL_API(ncclResult_t, ncclAllReduce, const void *send, void *recv, size_t count, ncclDataType_t type, int how,
         ncclComm_t comm, CUstream stream) {
  WORLD(ncclAllReduce, count * type_size(type));
  return add(comm, (struct op){OP_ALL_REDUCE, send, recv, count, type, {0}, 0}, how, stream);
}

NCCL_API(ncclResult_t, ncclReduce, const void *send, void *recv, size_t count, ncclDataType_t type, int how, int root,
         ncclComm_t comm, CUstream stream) {
  WORLD(ncclReduce, count * type_size(type));
  return add(comm, (struct op){OP_REDUCE, send, recv, count, type, {0}, root}, how, stream);
}

NCCL_API(ncclResult_t, ncclBroadcast, const void *send, void *recv, size_t count, ncclDataType_t type, int root,
         ncclComm_t comm, CUstream stream) {
  WORLD(ncclBroadcast, count * type_size(type));
  return add(comm, (struct op){OP_BROADCAST, send, recv, count, type, {0}, root}, ncclSum, stream);
}

NCCL_API(ncclResult_t, ncclBcast, void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
         CUstream stream) {
  WORLD(ncclBcast, count * type_size(type));
  return add(comm, (struct op){OP_BROADCAST, buffer, buffer, count, type, {0}, root}, ncclSum, stream);
}

NCCL_API(ncclResult_t, ncclAllGather, const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
         CUstream stream) {
  WORLD(ncclAllGather, count * type_size(type));
  return add(comm, (struct op){OP_ALL_GATHER, send, recv, count, type, {0}, 0}, ncclSum, stream);
}

NCCL_API(ncclResult_t, ncclReduceScatter, const void *send, void *recv, size_t count, ncclDataType_t type, int how,
         ncclComm_t comm, CUstream stream) {
  WORLD(ncclReduceScatter, count * type_size(type));
  return add(comm, (struct op){OP_REDUCE_SCATTER, send, recv, count, type, {0}, 0}, how, stream);
}

NCCL_API(ncclResult_t, ncclAlltoAll, const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
         CUstream stream) {
  WORLD(ncclAlltoAll, count * type_size(type));
  return add(comm, (struct op){OP_ALL_TO_ALL, send, recv, count, type, {0}, 0}, ncclSum, stream);
}

NCCL_API(ncclResult_t, ncclGather, const void *send, void *recv, size_t count, ncclDataType_t type, int root,
         ncclComm_t comm, CUstream stream) {
  WORLD(ncclGather, count * type_size(type));
  return add(comm, (struct op){OP_GATHER, send, recv, count, type, {0}, root}, ncclSum, stream);
}

NCCL_API(ncclResult_t, ncclScatter, const void *send, void *recv, size_t count, ncclDataType_t type, int root,
         ncclComm_t comm, CUstream stream) {
  WORLD(ncclScatter, count * type_size(type));
  return add(comm, (struct op){OP_SCATTER, send, recv, count, type, {0}, root}, ncclSum, stream);
}

NCCL_API(ncclResult_t, ncclSend, const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
         CUstream stream) {
  WORLD(ncclSend, count * type_size(type));
  return add(comm, (struct op){OP_SEND, send, NULL, count, type, {0}, peer}, ncclSum, stream);
}

NCCL_API(ncclResult_t, ncclRecv, void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
         CUstream stream) {
  WORLD(ncclRecv, count * type_size(type));
  return add(comm, (struct op){OP_RECV, NULL, recv, count, type, {0}, peer}, ncclSum, stream);
}

/* ---- what cannot be used: every argument is ignored, so one prototype serves all */
#define UNSUPPORTED(name) \
  NCCL_API(ncclResult_t, name, void) { return comm_error(ncclInvalidUsage, #name ": not supported on this system"); }
#include "unsupported.def"
