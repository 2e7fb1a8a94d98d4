/* ring_read.c - see ring_read.h. */
#include "ring_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"

enum { LARGEST = 256 << 20 };

/* `whole`: with the allocations, which come last and are most of it. */
static int copy_file(int fd, bool whole, struct ring_file *ring) {
  struct ring_header head;
  struct stat st;
  size_t done = 0;
  if (fstat(fd, &st)) return -errno;
  if (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof head || st.st_size > LARGEST) return -EINVAL;
  ring->size = (size_t)st.st_size;
  if (!whole && pread(fd, &head, sizeof head, 0) == (ssize_t)sizeof head && head.alloc_at >= sizeof head &&
      head.alloc_at < ring->size)
    ring->size = head.alloc_at;
  ring->data = aligned_alloc(128, (ring->size + 127) & ~(size_t)127);
  if (!ring->data) return -ENOMEM;
  while (done < ring->size) {
    ssize_t n = read(fd, ring->data + done, ring->size - done);
    if (n < 0 && errno != EINTR) return -errno;
    if (n == 0) return -EINVAL; /* cut meanwhile */
    if (n > 0) done += (size_t)n;
  }
  return 0;
}

static bool lies_within(const struct ring_file *ring, uint32_t at, uint64_t count, uint64_t size) {
  return at % 8 == 0 && at <= ring->size && count <= (ring->size - at) / size;
}

static bool is_sound(const struct ring_file *ring, bool whole) {
  const struct ring_header *h = ring->header;
  if (!h || memcmp(h->magic, RING_MAGIC, sizeof h->magic) || h->version != RING_VERSION || h->size != sizeof *h)
    return false;
  if (!h->allocs || h->allocs > RING_ALLOCS_MAX || h->allocs & (h->allocs - 1)) return false;
  return lies_within(ring, h->slot_at, h->slots, sizeof(struct ring_slot)) &&
         (!whole || lies_within(ring, h->alloc_at, h->allocs, sizeof(struct ring_alloc))) &&
         lies_within(ring, h->name_at, h->names, RING_NAME) &&
         lies_within(ring, h->tally_at, h->tallies, sizeof(struct ring_tally)) && h->routes <= RING_ROUTES &&
         lies_within(ring, h->route_at, h->routes, sizeof(struct ring_route)) &&
         lies_within(ring, h->child_at, 1, sizeof(struct ring_child));
}

static int open_copy(const char *path, bool whole, struct ring_file *ret) {
  struct ring_file ring = {.whole = whole};
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) return -errno;
  int error = copy_file(fd, whole, &ring);
  close(fd);
  ring.header = (const struct ring_header *)(void *)ring.data;
  if (!error && !is_sound(&ring, whole)) error = -EINVAL;
  if (error) {
    free(ring.data);
    return error;
  }
  /* An odd number: the process died while it renewed the pair, and the first one has to do. */
  if (!(ring.header->pair_seq & 1)) ring.tick1 = ring.header->tick1, ring.us1 = ring.header->us1;
  *ret = ring;
  return 0;
}

int ring_open_file(const char *path, struct ring_file *ret) { return open_copy(path, true, ret); }
int ring_open_state(const char *path, struct ring_file *ret) { return open_copy(path, false, ret); }

void ring_close(struct ring_file *ring) {
  free(ring->data);
  *ring = (struct ring_file){0};
}

void ring_same_boot(struct ring_file *ring) {
  ring->us1 = clock_us();
  ring->tick1 = clock_ticks();
}

uint64_t ring_us(const struct ring_file *ring, uint64_t ticks) {
  const struct ring_header *h = ring->header;
  return ticks ? clock_ticks_to_us(ticks, h->tick0, h->us0, ring->tick1, ring->us1) : 0;
}

const char *ring_name(const struct ring_file *ring, unsigned call) {
  if (call >= ring->header->names) return "";
  const char *name = ring->data + ring->header->name_at + (size_t)call * RING_NAME;
  return memchr(name, '\0', RING_NAME) ? name : "";
}

static const void *at(const struct ring_file *ring, uint32_t offset) { return ring->data + offset; }

const struct ring_slot *ring_thread(const struct ring_file *ring, unsigned i) {
  if (i >= ring->header->slots) return NULL;
  const struct ring_slot *slot = (const struct ring_slot *)at(ring, ring->header->slot_at) + i;
  return slot->tid || slot->calls ? slot : NULL;
}

uint64_t ring_work(const struct ring_file *ring) {
  uint64_t sum = 0;
  for (unsigned i = 0; i < ring->header->slots; i++) {
    const struct ring_slot *slot = ring_thread(ring, i);
    if (slot) sum += slot->worked;
  }
  return sum;
}

void ring_route_counters(const struct ring_file *ring, unsigned route, struct ring_counters *out) {
  *out = (struct ring_counters){0};
  if (route >= ring->header->routes) return;
  ring_sum(at(ring, ring->header->tally_at), ring->header->tallies, at(ring, ring->header->route_at), route, out);
}

uint64_t ring_first_alloc(const struct ring_file *ring) {
  const struct ring_header *h = ring->header;
  if (!ring->whole) return h->alloc_next;
  return h->alloc_next > h->allocs ? h->alloc_next - h->allocs : 0;
}

bool ring_get_alloc(const struct ring_file *ring, uint64_t number, struct ring_alloc *out) {
  const struct ring_header *h = ring->header;
  if (!ring->whole) return false;
  const struct ring_alloc *entry = (const struct ring_alloc *)at(ring, h->alloc_at) + (number & (h->allocs - 1));
  if (entry->seq != number + 1) return false;
  *out = *entry;
  return true;
}

const struct ring_child *ring_vfork_child(const struct ring_file *ring) {
  const struct ring_child *child = at(ring, ring->header->child_at);
  if (!child->pid || !memchr(child->program, '\0', sizeof child->program) ||
      !memchr(child->argv, '\0', sizeof child->argv))
    return NULL;
  return child;
}
