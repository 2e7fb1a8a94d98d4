/* ranks.c - the NCCL stand-in as programs use it: four processes on one simulated Spark, one communicator.
 *
 * Each rank is a forked process with an NCCL_HOSTID of its own (two ranks on one host and GPU are refused, which is
 * tested too). The parent makes the unique ids, as a launcher would, and hands them down by memory.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nccl_types.h"

enum { RANKS = 4, COUNT = 1 << 20 };

#define NCCL_CALLS(X)                                                                             \
  X(ncclGetUniqueId, (ncclUniqueId *))                                                            \
  X(ncclCommInitRank, (ncclComm_t *, int, ncclUniqueId, int))                                     \
  X(ncclCommDestroy, (ncclComm_t))                                                                \
  X(ncclCommAbort, (ncclComm_t))                                                                  \
  X(ncclCommCount, (ncclComm_t, int *))                                                           \
  X(ncclCommUserRank, (ncclComm_t, int *))                                                        \
  X(ncclCommSplit, (ncclComm_t, int, int, ncclComm_t *, void *))                                  \
  X(ncclCommShrink, (ncclComm_t, int *, int, ncclComm_t *, void *, int))                          \
  X(ncclCommGetUniqueId, (ncclComm_t, ncclUniqueId *))                                            \
  X(ncclCommGrow, (ncclComm_t, int, const ncclUniqueId *, int, ncclComm_t *, void *))             \
  X(ncclCommGetAsyncError, (ncclComm_t, ncclResult_t *))                                          \
  X(ncclAllReduce, (const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, CUstream))     \
  X(ncclReduceScatter, (const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, CUstream)) \
  X(ncclAllGather, (const void *, void *, size_t, ncclDataType_t, ncclComm_t, CUstream))          \
  X(ncclSend, (const void *, size_t, ncclDataType_t, int, ncclComm_t, CUstream))                  \
  X(ncclRecv, (void *, size_t, ncclDataType_t, int, ncclComm_t, CUstream))                        \
  X(ncclGroupStart, (void))                                                                       \
  X(ncclGroupEnd, (void))                                                                         \
  X(ncclMemAlloc, (void **, size_t))                                                              \
  X(ncclMemFree, (void *))                                                                        \
  X(ncclRedOpCreatePreMulSum, (int *, void *, ncclDataType_t, ncclScalarResidence_t, ncclComm_t))

static struct {
#define X(name, args) ncclResult_t(*name) args;
  NCCL_CALLS(X)
#undef X
} nccl;

static int rank;

#define CHECK(condition)                                                             \
  do {                                                                               \
    if (!(condition)) {                                                              \
      fprintf(stderr, "%s:%d: rank %d: %s\n", __FILE__, __LINE__, rank, #condition); \
      _exit(1);                                                                      \
    }                                                                                \
  } while (0)

static void load(void) {
  void *lib = dlopen("libnccl.so.2", RTLD_NOW);
  CHECK(lib);
#define X(name, args)                       \
  *(void **)&nccl.name = dlsym(lib, #name); \
  CHECK(nccl.name);
  NCCL_CALLS(X)
#undef X
}

static float *floats(size_t n) {
  void *p;
  CHECK(!nccl.ncclMemAlloc(&p, n * sizeof(float)));
  return p;
}

static void sums(ncclComm_t comm, int ranks) {
  float *x = floats(COUNT + 1), *y = floats(COUNT + 1);
  for (int i = 0; i <= COUNT; i++) x[i] = (float)(rank + 1) * (float)(i % 7);
  CHECK(!nccl.ncclAllReduce(x, y, COUNT + 1, ncclFloat32, ncclSum, comm, NULL));
  int total = ranks * (ranks + 1) / 2;
  for (int i = 0; i <= COUNT; i++) CHECK(y[i] == (float)(total * (i % 7)));
  CHECK(!nccl.ncclReduceScatter(x, y, 100, ncclFloat32, ncclMax, comm, NULL));
  for (int i = 0; i < 100; i++) CHECK(y[i] == (float)(ranks * ((rank * 100 + i) % 7)));
  CHECK(!nccl.ncclAllGather(x, y, 10, ncclFloat32, comm, NULL));
  for (int i = 0; i < 10 * ranks; i++) CHECK(y[i] == (float)(i / 10 + 1) * (float)(i % 10 % 7));
  float half = 0.5F;
  int op;
  CHECK(!nccl.ncclRedOpCreatePreMulSum(&op, &half, ncclFloat32, ncclScalarHostImmediate, comm));
  CHECK(!nccl.ncclAllReduce(x, x, 7, ncclFloat32, op, comm, NULL));
  CHECK(x[1] == (float)total * 0.5F);
  CHECK(!nccl.ncclMemFree(x) && !nccl.ncclMemFree(y));
}

/* Everybody sends to everybody in one group, more than a socket buffers hold. */
static void pairs(ncclComm_t comm) {
  float *out = floats(RANKS * COUNT), *in = floats(RANKS * COUNT);
  for (int i = 0; i < RANKS * COUNT; i++) out[i] = (float)(rank * 1000 + i / COUNT);
  CHECK(!nccl.ncclGroupStart());
  for (int r = 0; r < RANKS; r++) {
    CHECK(!nccl.ncclSend(out + r * COUNT, COUNT, ncclFloat32, r, comm, NULL));
    CHECK(!nccl.ncclRecv(in + r * COUNT, COUNT, ncclFloat32, r, comm, NULL));
  }
  CHECK(!nccl.ncclGroupEnd());
  for (int i = 0; i < RANKS * COUNT; i++) CHECK(in[i] == (float)(i / COUNT * 1000 + rank));
  CHECK(!nccl.ncclMemFree(out) && !nccl.ncclMemFree(in));
}

static void expect_place(ncclComm_t comm, int ranks, int place) {
  int n = -1, at = -1;
  CHECK(!nccl.ncclCommCount(comm, &n) && !nccl.ncclCommUserRank(comm, &at));
  CHECK(n == ranks && at == place);
}

static void regroup(ncclComm_t comm) {
  ncclComm_t part, none, less;
  int gone[] = {1};
  CHECK(!nccl.ncclCommSplit(comm, rank % 2, -rank, &part, NULL)); /* the key turns the order round */
  expect_place(part, 2, rank < 2 ? 1 : 0);
  CHECK(!nccl.ncclCommSplit(comm, rank == 0 ? -1 : 0, 0, &none, NULL));
  CHECK((none == NULL) == (rank == 0));
  if (rank == 1) return;
  CHECK(!nccl.ncclCommShrink(comm, gone, 1, &less, NULL, 0));
  expect_place(less, 3, rank == 0 ? 0 : rank - 1);
  CHECK(!nccl.ncclCommDestroy(less) && !nccl.ncclCommDestroy(part));
}

static void wait_for(const int *flag) {
  for (int ms = 0; ms < 60000 && !__atomic_load_n(flag, __ATOMIC_ACQUIRE); ms++) usleep(1000);
  CHECK(__atomic_load_n(flag, __ATOMIC_ACQUIRE));
}

static void grow(ncclComm_t comm, ncclUniqueId *shared, int *ready) {
  ncclComm_t pair, more;
  CHECK(!nccl.ncclCommSplit(comm, rank < 2 ? 0 : -1, rank, &pair, NULL));
  if (rank == 0) {
    CHECK(!nccl.ncclCommGetUniqueId(pair, shared));
    __atomic_store_n(ready, 1, __ATOMIC_RELEASE);
  }
  wait_for(ready);
  if (rank == 3) return;
  if (rank < 2)
    CHECK(!nccl.ncclCommGrow(pair, 3, rank == 0 ? shared : NULL, -1, &more, NULL));
  else
    CHECK(!nccl.ncclCommGrow(NULL, 3, shared, 2, &more, NULL));
  expect_place(more, 3, rank);
  sums(more, 3);
}

/* Rank 3 dies; the others learn it while their operation is pending, abort, and go on. */
static void *abort_later(void *argument) {
  ncclComm_t comm = argument;
  ncclResult_t error = ncclSuccess;
  while (!error) nccl.ncclCommGetAsyncError(comm, &error);
  CHECK(error == ncclRemoteError);
  CHECK(!nccl.ncclCommAbort(comm));
  return NULL;
}

static void peer_dies(ncclComm_t comm) {
  if (rank == 3) _exit(0);
  pthread_t watchdog;
  float x = 1.0F, y;
  CHECK(!pthread_create(&watchdog, NULL, abort_later, comm));
  CHECK(!nccl.ncclAllReduce(&x, &y, 1, ncclFloat32, ncclSum, comm, NULL));
  pthread_join(watchdog, NULL);
}

struct shared {
  ncclUniqueId id, duplicate, grown;
  int ids, ready; /* 1 when the ids above are there */
};

static void rank_main(struct shared *shared) {
  char host[32];
  ncclComm_t comm;
  wait_for(&shared->ids);
  setenv("NCCL_HOSTID", "same", 1);
  CHECK(nccl.ncclCommInitRank(&comm, RANKS, shared->duplicate, rank) == ncclInvalidUsage);
  snprintf(host, sizeof host, "spark-%d", rank);
  setenv("NCCL_HOSTID", host, 1);
  CHECK(!nccl.ncclCommInitRank(&comm, RANKS, shared->id, rank));
  expect_place(comm, RANKS, rank);
  sums(comm, RANKS);
  pairs(comm);
  grow(comm, &shared->grown, &shared->ready);
  regroup(comm);
  peer_dies(comm);
  _exit(0);
}

/* The ranks are forked before there is a thread: qemu-user does not survive it otherwise. */
int main(void) {
  struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int bad = 0, status;
  load();
  CHECK(shared != MAP_FAILED);
  for (rank = 0; rank < RANKS; rank++)
    if (fork() == 0) rank_main(shared);
  rank = -1;
  CHECK(!nccl.ncclGetUniqueId(&shared->id) && !nccl.ncclGetUniqueId(&shared->duplicate));
  __atomic_store_n(&shared->ids, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < RANKS; i++) bad |= wait(&status) < 0 || status != 0;
  return bad;
}
