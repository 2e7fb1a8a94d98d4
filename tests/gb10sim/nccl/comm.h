/* comm.h - a communicator of the stand-in, shared by comm.c, group.c, collective.c and api.c. */
#ifndef GB10SIM_NCCL_COMM_H
#define GB10SIM_NCCL_COMM_H

#include <pthread.h>

#include "mesh.h"
#include "nccl_types.h"
#include "reduce.h"

enum { COMM_SCALES = 64 };

struct ncclComm {
  int rank, nranks, device;
  uint64_t host_hash;
  struct mesh_peer *peers;
  atomic_int stop;        /* aborted or revoked: every wait ends */
  atomic_int async_error; /* ncclResult_t of an operation that failed on its stream */
  atomic_int references;  /* the user's, and one per operation on a stream */
  atomic_int pending;     /* operations enqueued and not done */
  pthread_mutex_t lock;   /* one operation at a time on the data connections */
  void *buffer;           /* device memory, as the real library takes some per communicator */
  size_t buffer_size;
  double scale[COMM_SCALES]; /* PreMulSum operators: ncclNumOps + index */
  char scale_used[COMM_SCALES];
  void *registered; /* what ncclCommRegister hands out: only its address matters */
};

/* One operation of a communicator, as enqueued. */
enum op_kind {
  OP_ALL_REDUCE,
  OP_REDUCE,
  OP_BROADCAST,
  OP_ALL_GATHER,
  OP_REDUCE_SCATTER,
  OP_ALL_TO_ALL,
  OP_GATHER,
  OP_SCATTER,
  OP_SEND,
  OP_RECV
};

struct op {
  enum op_kind kind;
  const void *send;
  void *recv;
  size_t count; /* elements, in the meaning of the call */
  ncclDataType_t type;
  struct reduction how;
  int peer; /* root or peer */
};

/* ---- comm.c */
/* Makes a communicator; blocks until all ranks are there. */
ncclResult_t comm_create(ncclComm_t *out, int nranks, const ncclUniqueId *id, int rank);
void comm_release(ncclComm_t comm);
/* Remembers a sentence for ncclGetLastError and returns the result. */
ncclResult_t comm_error(ncclResult_t result, const char *text);
const char *comm_last_error(void);
ncclResult_t comm_from_errno(int error);

/* ---- memory.c: device memory as the real library takes it, by cuMemCreate and its kin */
ncclResult_t memory_take(void **out, size_t size);
ncclResult_t memory_give(void *at);

/* ---- collective.c: runs operations over the data connections; the last of them may be sends and receives, which
 * are moved together. 0 or negative errno, see net.h. */
int collective_run(ncclComm_t comm, const struct op *ops, size_t n);

/* ---- group.c */
/* Adds an operation to the group, or launches it when there is none. */
ncclResult_t group_add(ncclComm_t comm, const struct op *op, CUstream stream);
/* Makes a communicator, at the group's end when there is one. */
ncclResult_t group_create(ncclComm_t *out, int nranks, const ncclUniqueId *id, int rank);

#endif
