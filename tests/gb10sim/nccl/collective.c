/* collective.c - the collectives, over the data connections. Runs where the stream runs its host functions: no CUDA
 * call is made here. Device memory is host memory in the simulated Spark, so buffers are read and written directly.
 *
 * Reductions go to one rank in pieces of at most PIECE bytes, are combined there in the order of the ranks, and go back:
 * simple and the same bits everywhere. Everything else is sent straight to where it belongs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "comm.h"

enum { PIECE = 4 << 20 };

struct batch {
  ncclComm_t comm;
  struct net_transfer *t;
  size_t n, room;
};

static void batch_start(struct batch *b, ncclComm_t comm) { *b = (struct batch){.comm = comm}; }

static int batch_add(struct batch *b, int peer, bool sending, const void *data, size_t size) {
  if (b->n == b->room) {
    size_t room = b->room ? b->room * 2 : 16;
    struct net_transfer *t = realloc(b->t, room * sizeof *t);
    if (!t) return -ENOMEM;
    b->t = t;
    b->room = room;
  }
  b->t[b->n++] = (struct net_transfer){b->comm->peers[peer].fd[MESH_DATA], sending, (char *)(uintptr_t)data, size};
  return 0;
}

static int batch_run(struct batch *b, int error) {
  if (!error) error = net_exchange(b->t, b->n, &b->comm->stop);
  free(b->t);
  return error;
}

static void copy(void *to, const void *from, size_t size) {
  if (to != from && size) memmove(to, from, size);
}

/* Combines every rank's `send` in `root` into its `recv`. */
static int reduce_piece(ncclComm_t comm, const struct op *op, const char *send, char *recv, size_t count, int root) {
  size_t size = count * type_size(op->type);
  struct batch b;
  batch_start(&b, comm);
  if (comm->rank != root) return batch_run(&b, batch_add(&b, root, true, send, size));
  const void **in = calloc((size_t)comm->nranks, sizeof *in);
  char *room = malloc(size * (size_t)comm->nranks + 1);
  int error = in && room ? 0 : -ENOMEM;
  for (int r = 0; !error && r < comm->nranks; r++) {
    in[r] = r == root ? send : room + size * (size_t)r;
    if (r != root) error = batch_add(&b, r, false, in[r], size);
  }
  error = batch_run(&b, error);
  if (!error) reduce(&op->how, op->type, recv, in, comm->nranks, count);
  free(in);
  free(room);
  return error;
}

static int broadcast_piece(ncclComm_t comm, const char *send, char *recv, size_t size, int root) {
  struct batch b;
  int error = 0;
  batch_start(&b, comm);
  if (comm->rank != root) return batch_run(&b, batch_add(&b, root, false, recv, size));
  copy(recv, send, size);
  for (int r = 0; !error && r < comm->nranks; r++)
    if (r != root) error = batch_add(&b, r, true, recv, size);
  return batch_run(&b, error);
}

static int reductions(ncclComm_t comm, const struct op *op, bool everywhere) {
  size_t unit = type_size(op->type), step = PIECE / unit;
  int root = everywhere ? 0 : op->peer;
  for (size_t at = 0; at < op->count; at += step) {
    size_t count = op->count - at < step ? op->count - at : step;
    char *recv = op->recv ? (char *)op->recv + at * unit : NULL;
    int error = reduce_piece(comm, op, (const char *)op->send + at * unit, recv, count, root);
    if (!error && everywhere) error = broadcast_piece(comm, recv, recv, count * unit, root);
    if (error) return error;
  }
  return 0;
}

/* Each rank's block of the result is reduced at that rank. */
static int reduce_scatter(ncclComm_t comm, const struct op *op) {
  size_t unit = type_size(op->type), step = PIECE / unit;
  char *own = malloc(op->count * unit + 1); /* recv may lie inside send */
  if (!own) return -ENOMEM;
  int error = 0;
  for (int r = 0; !error && r < comm->nranks; r++)
    for (size_t at = 0; !error && at < op->count; at += step) {
      size_t count = op->count - at < step ? op->count - at : step;
      const char *send = (const char *)op->send + ((size_t)r * op->count + at) * unit;
      error = reduce_piece(comm, op, send, own + at * unit, count, r);
    }
  if (!error) copy(op->recv, own, op->count * unit);
  free(own);
  return error;
}

/* Block b of a buffer goes to or comes from rank b; `stride` 0 sends the same block to everybody. */
static int blocks(ncclComm_t comm, const char *send, size_t send_stride, char *recv, size_t recv_stride, size_t size) {
  struct batch b;
  int error = 0;
  batch_start(&b, comm);
  for (int r = 0; !error && r < comm->nranks; r++) {
    const char *from = send ? send + (size_t)r * send_stride : NULL;
    char *to = recv ? recv + (size_t)r * recv_stride : NULL;
    if (r == comm->rank) {
      if (from && to) copy(to, from, size);
      continue;
    }
    if (from) error = batch_add(&b, r, true, from, size);
    if (!error && to) error = batch_add(&b, r, false, to, size);
  }
  return batch_run(&b, error);
}

/* One root on one side: gather (it receives) or scatter (it sends). */
static int rooted(ncclComm_t comm, const struct op *op, bool gather) {
  size_t size = op->count * type_size(op->type);
  struct batch b;
  if (comm->rank != op->peer) {
    batch_start(&b, comm);
    return batch_run(&b, batch_add(&b, op->peer, gather, gather ? op->send : op->recv, size));
  }
  if (gather) {
    copy((char *)op->recv + (size_t)comm->rank * size, op->send, size);
    return blocks(comm, NULL, 0, op->recv, size, size);
  }
  copy(op->recv, (const char *)op->send + (size_t)comm->rank * size, size);
  return blocks(comm, op->send, size, NULL, 0, size);
}

static int run_one(ncclComm_t comm, const struct op *op) {
  size_t size = op->count * type_size(op->type);
  switch (op->kind) {
  case OP_ALL_REDUCE: return reductions(comm, op, true);
  case OP_REDUCE: return reductions(comm, op, false);
  case OP_BROADCAST: return broadcast_piece(comm, op->send, op->recv, size, op->peer);
  case OP_REDUCE_SCATTER: return reduce_scatter(comm, op);
  case OP_ALL_GATHER: return blocks(comm, op->send, 0, op->recv, size, size);
  case OP_ALL_TO_ALL: return blocks(comm, op->send, size, op->recv, size, size);
  case OP_GATHER: return rooted(comm, op, true);
  case OP_SCATTER: return rooted(comm, op, false);
  default: return -EINVAL;
  }
}

/* A send to oneself meets the next receive from oneself. */
static void move_to_self(const struct op *ops, size_t n, int self) {
  size_t from = 0;
  for (size_t i = 0; i < n; i++) {
    if (ops[i].kind != OP_RECV || ops[i].peer != self) continue;
    while (from < n && (ops[from].kind != OP_SEND || ops[from].peer != self)) from++;
    if (from < n) {
      copy(ops[i].recv, ops[from].send, ops[i].count * type_size(ops[i].type));
      from++;
    }
  }
}

static int run_pairs(ncclComm_t comm, const struct op *ops, size_t n) {
  struct batch b;
  int error = 0;
  batch_start(&b, comm);
  move_to_self(ops, n, comm->rank);
  for (size_t i = 0; !error && i < n; i++) {
    bool sending = ops[i].kind == OP_SEND;
    if (ops[i].kind >= OP_SEND && ops[i].peer != comm->rank)
      error = batch_add(&b, ops[i].peer, sending, sending ? ops[i].send : ops[i].recv,
                        ops[i].count * type_size(ops[i].type));
  }
  return batch_run(&b, error);
}

int collective_run(ncclComm_t comm, const struct op *ops, size_t n) {
  int error = 0;
  pthread_mutex_lock(&comm->lock);
  for (size_t i = 0; !error && i < n; i++)
    if (ops[i].kind < OP_SEND) error = run_one(comm, &ops[i]);
  if (!error) error = run_pairs(comm, ops, n);
  pthread_mutex_unlock(&comm->lock);
  return error;
}
