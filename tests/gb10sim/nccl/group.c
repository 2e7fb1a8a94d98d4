/* group.c - groups, and the way of an operation onto its stream.
 *
 * An operation is launched as the real library does it, by a kernel launch on the caller's stream; what it does is a
 * host function behind that kernel, so that it comes in the stream's order and stays pending until it is done. A
 * group's operations of one communicator are one launch. When a peer is gone the operation stays pending, as the
 * real kernel spins, until the communicator is aborted; ncclCommGetAsyncError tells meanwhile.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "comm.h"
#include "driver_client/driver_client.h"

#define KERNEL_NAME "ncclDevKernel_Generic"

struct work {
  ncclComm_t comm;
  bool captured; /* belongs to a graph, which may run it any number of times: never freed */
  size_t n;
  struct op ops[];
};

struct entry {
  ncclComm_t comm;
  CUstream stream;
  struct op op;
};

struct creation {
  ncclComm_t *out;
  int nranks, rank;
  ncclUniqueId id;
  ncclResult_t result;
  bool started;
  pthread_t thread;
};

static _Thread_local struct {
  int depth;
  struct entry *entries;
  size_t n, room;
  struct creation *creations;
  size_t n_creations, creations_room;
} group;

static const char *const run_names[] = {
    [OP_ALL_REDUCE] = "ncclDevKernel_AllReduce",
    [OP_REDUCE] = "ncclDevKernel_Reduce",
    [OP_BROADCAST] = "ncclDevKernel_Broadcast",
    [OP_ALL_GATHER] = "ncclDevKernel_AllGather",
    [OP_REDUCE_SCATTER] = "ncclDevKernel_ReduceScatter",
    [OP_ALL_TO_ALL] = "ncclDevKernel_SendRecv",
    [OP_GATHER] = "ncclDevKernel_SendRecv",
    [OP_SCATTER] = "ncclDevKernel_SendRecv",
    [OP_SEND] = "ncclDevKernel_SendRecv",
    [OP_RECV] = "ncclDevKernel_SendRecv",
};

static void wait_for_abort(ncclComm_t comm) {
  while (!atomic_load(&comm->stop)) nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

static void CUDA_CB run_work(void *argument) {
  struct work *work = argument;
  ncclComm_t comm = work->comm;
  int result = driver_client_world(run_names[work->ops[0].kind], work->ops[0].count * type_size(work->ops[0].type));
  if (!result) result = (int)comm_from_errno(collective_run(comm, work->ops, work->n));
  if (result && !atomic_load(&comm->stop)) {
    atomic_store(&comm->async_error, result);
    wait_for_abort(comm);
  }
  if (work->captured) return;
  atomic_fetch_sub(&comm->pending, 1);
  comm_release(comm);
  free(work);
}

static ncclResult_t launch(ncclComm_t comm, const struct entry *const *entries, size_t n, CUstream stream) {
  const struct driver_client *d = driver_client();
  CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
  struct work *work = malloc(sizeof *work + n * sizeof work->ops[0]);
  if (!work) return ncclSystemError;
  work->comm = comm;
  work->n = n;
  for (size_t i = 0; i < n; i++) work->ops[i] = entries[i]->op;
  CUresult result = d ? d->cuStreamIsCapturing(stream, &capturing) : CUDA_ERROR_NOT_INITIALIZED;
  work->captured = capturing != CU_STREAM_CAPTURE_STATUS_NONE;
  if (!result) result = driver_client_launch(KERNEL_NAME, stream);
  atomic_fetch_add(&comm->references, 1);
  atomic_fetch_add(&comm->pending, work->captured ? 0 : 1);
  if (!result) result = d->cuLaunchHostFunc(stream, run_work, work);
  if (!result) return ncclSuccess;
  atomic_fetch_sub(&comm->pending, work->captured ? 0 : 1);
  comm_release(comm);
  free(work);
  return comm_error(ncclUnhandledCudaError, "Cuda failure: launch");
}

static ncclResult_t check(ncclComm_t comm, const struct op *op) {
  bool reduces = op->kind <= OP_REDUCE || op->kind == OP_REDUCE_SCATTER;
  if (!comm) return comm_error(ncclInvalidArgument, "comm is NULL");
  if (atomic_load(&comm->stop)) return comm_error(ncclInvalidUsage, "communicator was aborted or revoked");
  if (!type_size(op->type) || (reduces && !type_reduces(op->type)))
    return comm_error(ncclInvalidArgument, "invalid data type");
  if (op->peer < 0 || op->peer >= comm->nranks) return comm_error(ncclInvalidArgument, "invalid root or peer");
  return ncclSuccess;
}

ncclResult_t group_add(ncclComm_t comm, const struct op *op, CUstream stream) {
  ncclResult_t result = check(comm, op);
  struct entry one = {.comm = comm, .stream = stream, .op = *op};
  if (result) return result;
  if (!group.depth) return launch(comm, (const struct entry *const[]){&one}, 1, stream);
  if (group.n == group.room) {
    size_t room = group.room ? group.room * 2 : 16;
    struct entry *entries = realloc(group.entries, room * sizeof *entries);
    if (!entries) return ncclSystemError;
    group.entries = entries;
    group.room = room;
  }
  group.entries[group.n++] = one;
  return ncclSuccess;
}

ncclResult_t group_create(ncclComm_t *out, int nranks, const ncclUniqueId *id, int rank) {
  if (!group.depth) return comm_create(out, nranks, id, rank);
  if (group.n_creations == group.creations_room) {
    size_t room = group.creations_room ? group.creations_room * 2 : 4;
    struct creation *creations = realloc(group.creations, room * sizeof *creations);
    if (!creations) return ncclSystemError;
    group.creations = creations;
    group.creations_room = room;
  }
  group.creations[group.n_creations++] = (struct creation){.out = out, .nranks = nranks, .rank = rank, .id = *id};
  return ncclSuccess;
}

static void *creation_main(void *argument) {
  struct creation *c = argument;
  c->result = comm_create(c->out, c->nranks, &c->id, c->rank);
  return NULL;
}

/* All at once: the ranks of one communicator may be made in one group. */
static ncclResult_t run_creations(void) {
  ncclResult_t result = ncclSuccess;
  for (size_t i = 0; i < group.n_creations; i++) {
    struct creation *c = &group.creations[i];
    c->started = !pthread_create(&c->thread, NULL, creation_main, c);
    if (!c->started) creation_main(c);
  }
  for (size_t i = 0; i < group.n_creations; i++) {
    if (group.creations[i].started) pthread_join(group.creations[i].thread, NULL);
    if (!result) result = group.creations[i].result;
  }
  return result;
}

/* One launch per communicator, on the stream of its first operation. */
static ncclResult_t run_entries(void) {
  ncclResult_t result = ncclSuccess;
  const struct entry **chosen = calloc(group.n ? group.n : 1, sizeof(const struct entry *));
  if (!chosen) return ncclSystemError;
  for (size_t i = 0; i < group.n; i++) {
    ncclComm_t comm = group.entries[i].comm;
    size_t n = 0;
    if (!comm) continue;
    for (size_t k = i; k < group.n; k++)
      if (group.entries[k].comm == comm) chosen[n++] = &group.entries[k];
    ncclResult_t one = launch(comm, chosen, n, group.entries[i].stream);
    for (size_t k = group.n; k-- > i;)
      if (group.entries[k].comm == comm) group.entries[k].comm = NULL;
    if (!result) result = one;
  }
  free(chosen);
  return result;
}

NCCL_API(ncclResult_t, ncclGroupStart, void) {
  group.depth++;
  return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclGroupEnd, void) {
  int fault = driver_client_world("ncclGroupEnd", 0);
  if (!group.depth) return comm_error(ncclInvalidUsage, "ncclGroupEnd: not in a group call.");
  if (--group.depth) return ncclSuccess;
  ncclResult_t result = fault ? (ncclResult_t)fault : run_creations();
  if (!result) result = run_entries();
  group.n = group.n_creations = 0;
  return result;
}

NCCL_API(ncclResult_t, ncclGroupSimulateEnd, ncclSimInfo_t *info) {
  if (!group.depth) return comm_error(ncclInvalidUsage, "ncclGroupSimulateEnd: not in a group call.");
  if (info) info->estimated_time = 0.0F;
  if (--group.depth == 0) group.n = group.n_creations = 0;
  return ncclSuccess;
}
