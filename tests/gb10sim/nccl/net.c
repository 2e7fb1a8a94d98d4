/* net.c - see the header. No state. */
#define _GNU_SOURCE
#include "net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { STEP_MS = 20, BACKLOG = 512, BATCH = 256 };

static bool interface_wanted(const struct ifaddrs *i, const char *wanted) {
  if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !(i->ifa_flags & IFF_UP)) return false;
  if (!wanted || !*wanted) return !(i->ifa_flags & IFF_LOOPBACK);
  if (*wanted == '=') return strcmp(i->ifa_name, wanted + 1) == 0;
  return strncmp(i->ifa_name, wanted, strlen(wanted)) == 0;
}

static struct sockaddr_in own_address(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  struct ifaddrs *list;
  if (getifaddrs(&list)) return address;
  for (struct ifaddrs *i = list; i; i = i->ifa_next)
    if (interface_wanted(i, getenv("NCCL_SOCKET_IFNAME"))) {
      memcpy(&address.sin_addr, &((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr, sizeof address.sin_addr);
      break;
    }
  freeifaddrs(list);
  return address;
}

static void set_options(int fd) {
  int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

int net_listen(struct sockaddr_in *ret_address) {
  struct sockaddr_in address = own_address();
  socklen_t size = sizeof address;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -errno;
  if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, BACKLOG) ||
      getsockname(fd, (struct sockaddr *)&address, &size)) {
    int error = -errno;
    close(fd);
    return error;
  }
  set_options(fd);
  *ret_address = address;
  return fd;
}

/* Waits until one of the descriptors is ready. */
static int wait_ready(struct pollfd *polls, nfds_t n, const atomic_int *stop) {
  for (;;) {
    int ready = poll(polls, n, STEP_MS);
    if (ready > 0) return 0;
    if (ready < 0 && errno != EINTR) return -errno;
    if (stop && atomic_load(stop)) return -ECANCELED;
  }
}

int net_accept(int listener, const atomic_int *stop) {
  struct pollfd p = {.fd = listener, .events = POLLIN};
  for (;;) {
    int error = wait_ready(&p, 1, stop);
    if (error) return error;
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0) {
      set_options(fd);
      return fd;
    }
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) return -errno;
  }
}

int net_connect(const struct sockaddr_in *address, const atomic_int *stop) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -errno;
  set_options(fd);
  int error = 0;
  if (connect(fd, (const struct sockaddr *)address, sizeof *address)) {
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    socklen_t size = sizeof error;
    error = errno == EINPROGRESS ? wait_ready(&p, 1, stop) : -errno;
    if (!error && !getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size)) error = -error;
  }
  if (error) {
    close(fd);
    return error;
  }
  return fd;
}

/* Moves what goes without waiting. 0, or negative errno. */
static int step(struct net_transfer *t) {
  ssize_t moved = t->sending ? send(t->fd, t->data, t->left, MSG_NOSIGNAL) : recv(t->fd, t->data, t->left, 0);
  if (moved > 0) {
    t->data += moved;
    t->left -= (size_t)moved;
    return 0;
  }
  if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  return -ECONNRESET;
}

/* An earlier open transfer of the same descriptor and direction goes first. */
static bool is_next(const struct net_transfer *transfers, size_t i) {
  for (size_t k = 0; k < i; k++)
    if (transfers[k].left && transfers[k].fd == transfers[i].fd && transfers[k].sending == transfers[i].sending)
      return false;
  return true;
}

int net_exchange(struct net_transfer *transfers, size_t n, const atomic_int *stop) {
  for (;;) {
    struct pollfd polls[BATCH];
    size_t which[BATCH];
    nfds_t open = 0;
    for (size_t i = 0; i < n && open < BATCH; i++) {
      if (!transfers[i].left || !is_next(transfers, i)) continue;
      which[open] = i;
      polls[open++] = (struct pollfd){.fd = transfers[i].fd, .events = transfers[i].sending ? POLLOUT : POLLIN};
    }
    if (!open) return 0;
    int error = wait_ready(polls, open, stop);
    for (nfds_t k = 0; k < open && !error; k++)
      if (polls[k].revents) error = step(&transfers[which[k]]);
    if (error) return error;
  }
}

int net_send(int fd, const void *data, size_t size, const atomic_int *stop) {
  struct net_transfer t = {.fd = fd, .sending = true, .data = (char *)(uintptr_t)data, .left = size};
  return net_exchange(&t, 1, stop);
}

int net_recv(int fd, void *data, size_t size, const atomic_int *stop) {
  struct net_transfer t = {.fd = fd, .data = data, .left = size};
  return net_exchange(&t, 1, stop);
}
