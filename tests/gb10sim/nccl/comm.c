/* comm.c - making and ending communicators. Blocks while ranks meet; may be called from any thread.
 *
 * Assumed: a communicator takes BUFFER_PER_RANK of device memory per rank (NCCL_BUFFSIZE's default, one channel; the
 * real amount depends on topology), and a configuration with blocking = 0 blocks all the same.
 */
#include "comm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver_client/driver_client.h"

enum { BUFFER_PER_RANK = 4 << 20, TEXT = 160 };

static _Thread_local char last_error[TEXT];

ncclResult_t comm_error(ncclResult_t result, const char *text) {
  snprintf(last_error, sizeof last_error, "%s", text);
  return result;
}

const char *comm_last_error(void) { return last_error; }

ncclResult_t comm_from_errno(int error) {
  switch (error) {
  case 0: return ncclSuccess;
  case -EINVAL: return ncclInvalidArgument;
  case -ECONNRESET: return ncclRemoteError;
  case -ECANCELED: return ncclInternalError;
  default: return ncclSystemError;
  }
}

static uint64_t hash(uint64_t seed, const char *text) {
  for (; *text; text++) /* FNV-1a */
    seed = (seed ^ (uint64_t)(unsigned char)*text) * 1099511628211U;
  return seed;
}

/* What makes a host: NCCL_HOSTID when set, else host name and boot id. */
static uint64_t own_host_hash(void) {
  const uint64_t seed = 14695981039346656037U;
  char name[256] = "", boot[64] = "";
  const char *given = getenv("NCCL_HOSTID");
  if (given && *given) return hash(seed, given);
  gethostname(name, sizeof name - 1);
  FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
  if (f) {
    if (!fgets(boot, sizeof boot, f)) boot[0] = 0;
    fclose(f);
  }
  return hash(hash(seed, name), boot);
}

/* NCCL refuses two ranks on one GPU. */
static ncclResult_t check_devices(const struct ncclComm *comm) {
  char text[TEXT];
  for (int a = 0; a < comm->nranks; a++)
    for (int b = 0; b < a; b++)
      if (comm->peers[a].info.host_hash == comm->peers[b].info.host_hash &&
          comm->peers[a].info.device == comm->peers[b].info.device) {
        snprintf(text, sizeof text, "Duplicate GPU detected : rank %d and rank %d both on CUDA device %x", b, a,
                 (unsigned)comm->peers[a].info.device);
        return comm_error(ncclInvalidUsage, text);
      }
  return ncclSuccess;
}

static void destroy(ncclComm_t comm) {
  if (comm->peers) mesh_close(comm->peers, comm->nranks);
  memory_give(comm->buffer);
  pthread_mutex_destroy(&comm->lock);
  free(comm->peers);
  free(comm);
}

void comm_release(ncclComm_t comm) {
  if (atomic_fetch_sub(&comm->references, 1) == 1) destroy(comm);
}

static ncclResult_t join(ncclComm_t comm, const ncclUniqueId *id) {
  const struct driver_client *d = driver_client();
  CUdevice device;
  if (!d || driver_client_context(d) || d->cuCtxGetDevice(&device))
    return comm_error(ncclUnhandledCudaError, "no CUDA context");
  comm->device = device;
  comm->host_hash = own_host_hash();
  comm->buffer_size = (size_t)comm->nranks * BUFFER_PER_RANK;
  struct mesh_rank self = {.host_hash = comm->host_hash, .device = device};
  int error = mesh_join(id, comm->nranks, comm->rank, self, comm->peers, &comm->stop);
  if (error) return comm_error(comm_from_errno(error), strerror(-error));
  ncclResult_t result = check_devices(comm);
  if (!result && memory_take(&comm->buffer, comm->buffer_size))
    result = comm_error(ncclUnhandledCudaError, "Cuda failure 2 'out of memory'");
  return result;
}

ncclResult_t comm_create(ncclComm_t *out, int nranks, const ncclUniqueId *id, int rank) {
  if (!out || !id || nranks < 1 || rank < 0 || rank >= nranks)
    return comm_error(ncclInvalidArgument, "invalid rank or number of ranks");
  *out = NULL;
  ncclComm_t comm = calloc(1, sizeof *comm);
  if (!comm) return ncclSystemError;
  comm->nranks = nranks;
  comm->rank = rank;
  atomic_store(&comm->references, 1);
  pthread_mutex_init(&comm->lock, NULL);
  comm->peers = malloc((size_t)nranks * sizeof *comm->peers);
  if (!comm->peers) {
    destroy(comm);
    return ncclSystemError;
  }
  for (int r = 0; r < nranks; r++) comm->peers[r] = (struct mesh_peer){.fd = {-1, -1}};
  ncclResult_t result = join(comm, id);
  if (result) {
    comm_release(comm);
    return result;
  }
  *out = comm;
  return ncclSuccess;
}
