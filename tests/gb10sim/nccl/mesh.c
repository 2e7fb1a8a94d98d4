/* mesh.c - see the header. The listener's thread ends when all ranks were served; one that is never used lives as
 * long as the process, as in the real library. */
#include "mesh.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static const char magic[8] = "GB10NCCL";

struct unique_id {
  char magic[8];
  uint64_t token;
  struct sockaddr_in address;
};

struct root {
  int listener;
  uint64_t token;
};

struct greeting {
  uint64_t token;
  int32_t rank, channel;
};

/* Sends every rank the list, or nothing (the connection closes) when they do not fit together. */
static void answer(int *fd, struct mesh_rank *list, int nranks) {
  bool complete = true;
  for (int r = 0; r < nranks; r++) complete = complete && fd[r] >= 0;
  for (int r = 0; r < nranks; r++) {
    if (complete) net_send(fd[r], list, (size_t)nranks * sizeof *list, NULL);
    if (fd[r] >= 0) close(fd[r]);
  }
}

/* Takes ranks until all have come; a rank that says something impossible ends the meeting. */
static void meet(const struct root *root) {
  struct mesh_rank first = {0}, *list = NULL;
  int *fds = NULL, come = 0;
  while (!list || come < first.nranks) {
    struct mesh_rank one;
    int fd = net_accept(root->listener, NULL);
    if (fd < 0) break;
    if (net_recv(fd, &one, sizeof one, NULL) || one.token != root->token) {
      close(fd);
      continue;
    }
    if (!list && one.nranks > 0) {
      first = one;
      list = calloc((size_t)one.nranks, sizeof *list);
      fds = malloc((size_t)one.nranks * sizeof *fds);
      for (int r = 0; fds && r < one.nranks; r++) fds[r] = -1;
    }
    if (!list || !fds || one.nranks != first.nranks || one.rank < 0 || one.rank >= first.nranks || fds[one.rank] >= 0) {
      close(fd);
      break;
    }
    list[one.rank] = one;
    fds[one.rank] = fd;
    come++;
  }
  if (list && fds) answer(fds, list, first.nranks);
  free(list);
  free(fds);
}

static void *root_main(void *argument) {
  struct root *root = argument;
  meet(root);
  close(root->listener);
  free(root);
  return NULL;
}

int mesh_unique_id(ncclUniqueId *id) {
  struct unique_id own = {.token = 0};
  struct root *root = malloc(sizeof *root);
  pthread_t thread;
  if (!root) return -ENOMEM;
  root->listener = net_listen(&own.address);
  if (root->listener < 0 || getrandom(&own.token, sizeof own.token, 0) != sizeof own.token) {
    int error = root->listener < 0 ? root->listener : -EIO;
    free(root);
    return error;
  }
  memcpy(own.magic, magic, sizeof magic);
  root->token = own.token;
  int error = pthread_create(&thread, NULL, root_main, root);
  if (error) {
    close(root->listener);
    free(root);
    return -error;
  }
  pthread_detach(thread);
  memset(id, 0, sizeof *id);
  memcpy(id, &own, sizeof own);
  return 0;
}

/* Tells the root who this rank is and gets the list. */
static int introduce(const struct unique_id *id, const struct mesh_rank *self, struct mesh_rank *list,
                     const atomic_int *stop) {
  int fd = net_connect(&id->address, stop);
  if (fd < 0) return fd;
  int error = net_send(fd, self, sizeof *self, stop);
  if (!error) error = net_recv(fd, list, (size_t)self->nranks * sizeof *list, stop);
  close(fd);
  return error;
}

static int connect_lower(const struct mesh_rank *self, struct mesh_peer *peers, const atomic_int *stop) {
  for (int r = 0; r < self->rank; r++)
    for (int c = 0; c < MESH_CHANNELS; c++) {
      struct greeting hello = {self->token, self->rank, c};
      int fd = net_connect(&peers[r].info.address, stop);
      if (fd < 0) return fd;
      peers[r].fd[c] = fd;
      int error = net_send(fd, &hello, sizeof hello, stop);
      if (error) return error;
    }
  return 0;
}

static int accept_higher(int listener, const struct mesh_rank *self, struct mesh_peer *peers, const atomic_int *stop) {
  for (int left = (self->nranks - self->rank - 1) * MESH_CHANNELS; left > 0; left--) {
    struct greeting hello;
    int fd = net_accept(listener, stop);
    if (fd < 0) return fd;
    int error = net_recv(fd, &hello, sizeof hello, stop);
    if (!error && (hello.token != self->token || hello.rank <= self->rank || hello.rank >= self->nranks ||
                   hello.channel < 0 || hello.channel >= MESH_CHANNELS))
      error = -EINVAL;
    if (error) {
      close(fd);
      return error;
    }
    peers[hello.rank].fd[hello.channel] = fd;
  }
  return 0;
}

int mesh_join(const ncclUniqueId *id, int nranks, int rank, struct mesh_rank self, struct mesh_peer *peers,
              const atomic_int *stop) {
  struct unique_id root;
  memcpy(&root, id, sizeof root);
  if (memcmp(root.magic, magic, sizeof magic) != 0) return -EINVAL;
  for (int r = 0; r < nranks; r++) peers[r] = (struct mesh_peer){.fd = {-1, -1}};
  int listener = net_listen(&self.address);
  if (listener < 0) return listener;
  self.token = root.token;
  self.nranks = nranks;
  self.rank = rank;
  struct mesh_rank *list = calloc((size_t)nranks, sizeof *list);
  int error = list ? introduce(&root, &self, list, stop) : -ENOMEM;
  for (int r = 0; !error && r < nranks; r++) peers[r].info = list[r];
  free(list);
  if (!error) error = connect_lower(&self, peers, stop);
  if (!error) error = accept_higher(listener, &self, peers, stop);
  close(listener);
  if (error) mesh_close(peers, nranks);
  return error;
}

void mesh_close(struct mesh_peer *peers, int nranks) {
  for (int r = 0; r < nranks; r++)
    for (int c = 0; c < MESH_CHANNELS; c++)
      if (peers[r].fd[c] >= 0) {
        close(peers[r].fd[c]);
        peers[r].fd[c] = -1;
      }
}

int mesh_all_gather(struct mesh_peer *peers, int nranks, int rank, const void *mine, void *all, size_t size,
                    const atomic_int *stop) {
  struct net_transfer *t = calloc((size_t)nranks * 2, sizeof *t);
  size_t n = 0;
  if (!t) return -ENOMEM;
  memcpy((char *)all + (size_t)rank * size, mine, size);
  for (int r = 0; r < nranks; r++) {
    if (r == rank) continue;
    t[n++] = (struct net_transfer){peers[r].fd[MESH_CONTROL], true, (char *)all + (size_t)rank * size, size};
    t[n++] = (struct net_transfer){peers[r].fd[MESH_CONTROL], false, (char *)all + (size_t)r * size, size};
  }
  int error = net_exchange(t, n, stop);
  free(t);
  return error;
}
