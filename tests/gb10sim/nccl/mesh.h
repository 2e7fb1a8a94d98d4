/* mesh.h - how the ranks of a communicator find each other.
 *
 * A unique id holds the address of a listener in the process that made it, where a thread waits until every rank has
 * said who it is and where it listens, and sends everybody the whole list. Then each pair of ranks opens two
 * connections: one for the collectives, one for what ranks agree on while they make further communicators.
 */
#ifndef GB10SIM_NCCL_MESH_H
#define GB10SIM_NCCL_MESH_H

#include <stdatomic.h>

#include "net.h"
#include "nccl_types.h"

enum mesh_channel { MESH_DATA, MESH_CONTROL, MESH_CHANNELS };

/* What a rank says of itself. Two ranks with the same host and device hash share a GPU. */
struct mesh_rank {
  uint64_t token;
  int32_t nranks, rank;
  uint64_t host_hash;
  int32_t device;
  int32_t pad;
  struct sockaddr_in address;
};

struct mesh_peer {
  int fd[MESH_CHANNELS]; /* -1 for the rank itself */
  struct mesh_rank info;
};

/* Opens the listener and starts its thread. 0 or negative errno. */
int mesh_unique_id(ncclUniqueId *id);

/* Joins: fills peers[nranks]. `self` needs host_hash and device. 0 or negative errno: -ECANCELED when *stop, -EINVAL
 * when the id is none or the ranks disagree about their number or numbers. */
int mesh_join(const ncclUniqueId *id, int nranks, int rank, struct mesh_rank self, struct mesh_peer *peers,
              const atomic_int *stop);
void mesh_close(struct mesh_peer *peers, int nranks);

/* Every rank contributes size bytes, all[rank * size...] gets them. Over the control connections. */
int mesh_all_gather(struct mesh_peer *peers, int nranks, int rank, const void *mine, void *all, size_t size,
                    const atomic_int *stop);

#endif
