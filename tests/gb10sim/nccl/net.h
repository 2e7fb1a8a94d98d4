/* net.h - TCP between the ranks of a communicator. Blocking by poll in short steps, so that an abort ends it.
 * Thread-safe where two threads do not use one descriptor in the same direction. Returns 0 or negative errno:
 * -ECANCELED when *stop became non-zero, -ECONNRESET when the peer is gone. */
#ifndef GB10SIM_NCCL_NET_H
#define GB10SIM_NCCL_NET_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct net_transfer {
  int fd;
  bool sending;
  char *data;
  size_t left;
};

/* Listens on a free port of the address that NCCL_SOCKET_IFNAME (a prefix, "=" for an exact name) selects: else the
 * first interface that is up and not loopback, else loopback. IPv4. Returns the descriptor. */
int net_listen(struct sockaddr_in *ret_address);
int net_accept(int listener, const atomic_int *stop);
int net_connect(const struct sockaddr_in *address, const atomic_int *stop);

/* Moves all of transfers[0..n) at once; those of one descriptor and direction go in their order. */
int net_exchange(struct net_transfer *transfers, size_t n, const atomic_int *stop);
int net_send(int fd, const void *data, size_t size, const atomic_int *stop);
int net_recv(int fd, void *data, size_t size, const atomic_int *stop);

#endif
