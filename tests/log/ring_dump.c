/* ring_dump.c - prints what a ring file holds, for the tests: ring_dump FILE */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ring_read.h"

static void print_allocs(const struct ring_file *ring) {
  struct ring_alloc a;
  uint64_t valid = 0, in_order = 0, last = 0;
  for (uint64_t n = ring_first_alloc(ring); n < ring->header->alloc_next; n++) {
    if (!ring_get_alloc(ring, n, &a)) continue;
    valid++;
    in_order += a.ticks >= last;
    last = a.ticks;
  }
  printf("allocs %" PRIu64 " valid %" PRIu64 " in_order %" PRIu64 "\n", ring->header->alloc_next, valid, in_order);
}

int main(int argc, char **argv) {
  struct ring_file ring;
  struct ring_counters c;
  unsigned threads = 0;
  int error = argc == 2 ? ring_open_file(argv[1], &ring) : -1;
  if (error) {
    fprintf(stderr, "ring_dump: %s\n", argc == 2 ? strerror(-error) : "usage: ring_dump FILE");
    return 1;
  }
  for (unsigned i = 0; i < ring.header->slots; i++) threads += ring_thread(&ring, i) != NULL;
  printf("pid %u entries %u threads %u\n", ring.header->pid, ring.header->allocs, threads);
  print_allocs(&ring);
  for (unsigned r = 0; r < ring.header->routes; r++) {
    ring_route_counters(&ring, r, &c);
    if (c.count || c.failed)
      printf("route %u count %" PRIu64 " frees %" PRIu64 " failed %" PRIu64 " bytes %" PRIu64 " live %" PRIu64
             " peak %" PRIu64 "\n",
             r, c.count, c.frees, c.failed, c.bytes, c.live, c.peak);
  }
  ring_close(&ring);
  return 0;
}
