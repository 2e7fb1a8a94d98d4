/* The reader of ring files, on files that no ring would be: cut, mutated, lying about their size. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "ring_read.h"

enum { ALLOCS = 8, NAMES = 3, ROUTES = 2, TALLIES = 2, SLOTS = 4 };

static struct file {
  struct ring_header header;
  struct ring_route routes[ROUTES];
  struct ring_slot slots[SLOTS];
  struct ring_tally tallies[TALLIES];
  struct ring_child child;
  char names[NAMES][RING_NAME];
  struct ring_alloc allocs[ALLOCS];
} file;

static char path[] = "/tmp/ring_read.XXXXXX";

static void fill(void) {
  memset(&file, 0, sizeof file);
  struct ring_header *h = &file.header;
  memcpy(h->magic, RING_MAGIC, sizeof h->magic);
  h->version = RING_VERSION;
  h->size = sizeof *h;
  h->slots = SLOTS, h->slot_at = offsetof(struct file, slots);
  h->allocs = ALLOCS, h->alloc_at = offsetof(struct file, allocs);
  h->names = NAMES, h->name_at = offsetof(struct file, names);
  h->tallies = TALLIES, h->tally_at = offsetof(struct file, tallies);
  h->routes = ROUTES, h->route_at = offsetof(struct file, routes);
  h->child_at = offsetof(struct file, child);
  h->tick0 = 1000, h->us0 = 100, h->tick1 = 3000, h->us1 = 200;
  strcpy(file.names[1], "cudaMalloc");
  memset(file.names[2], 'x', RING_NAME); /* no end */
  h->alloc_next = 11;
  for (uint64_t n = 3; n < 11; n++) file.allocs[n % ALLOCS] = (struct ring_alloc){.seq = n + 1, .size = n};
  file.allocs[9 % ALLOCS].seq = 2; /* was being written */
  file.slots[1].tid = 42;
  file.slots[1].worked = UINT32_MAX;
  file.slots[2].calls = 1; /* its thread is gone */
  file.slots[2].worked = 7;
  file.tallies[0].route[1].count = 5;
  file.tallies[1].route[1].count = 6;
  file.tallies[1].route[1].by_class[47] = 6;
  file.routes[1].live = -3;
  file.routes[1].peak = 9;
}

static int open_with(size_t size, struct ring_file *ring) {
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  assert_int_equal(fwrite(&file, 1, size, f), size);
  fclose(f);
  return ring_open_file(path, ring);
}

static void what_is_there_is_read(void **state) {
  (void)state;
  struct ring_file ring;
  struct ring_alloc a;
  struct ring_counters c;
  fill();
  assert_int_equal(open_with(sizeof file, &ring), 0);
  assert_string_equal(ring_name(&ring, 1), "cudaMalloc");
  assert_string_equal(ring_name(&ring, 2), "");
  assert_string_equal(ring_name(&ring, 3), "");
  assert_int_equal(ring_us(&ring, 2000), 150);
  assert_int_equal(ring_us(&ring, 0), 0);
  assert_int_equal(ring_first_alloc(&ring), 3);
  for (uint64_t n = 3; n < 11; n++) {
    assert_int_equal(ring_get_alloc(&ring, n, &a), n != 9);
    if (n != 9) assert_int_equal(a.size, n);
  }
  assert_false(ring_get_alloc(&ring, 2, &a)); /* overwritten */
  assert_null(ring_thread(&ring, 0));
  assert_int_equal(ring_thread(&ring, 1)->tid, 42);
  assert_null(ring_thread(&ring, SLOTS));
  assert_int_equal(ring_work(&ring), (uint64_t)UINT32_MAX + 7);
  ring_route_counters(&ring, 1, &c);
  assert_int_equal(c.count, 11);
  assert_int_equal(c.by_class[47], 6);
  assert_int_equal(c.live, 0);
  assert_int_equal(c.peak, 9);
  ring_route_counters(&ring, ROUTES, &c);
  assert_int_equal(c.count, 0);
  assert_null(ring_vfork_child(&ring));
  ring_close(&ring);
}

static void the_state_alone(void **unused) {
  struct ring_file ring;
  struct ring_alloc a;
  struct ring_counters c;
  (void)unused;
  fill();
  assert_int_equal(open_with(sizeof file, &ring), 0);
  ring_close(&ring);
  assert_int_equal(ring_open_state(path, &ring), 0);
  assert_int_equal(ring.size, offsetof(struct file, allocs));
  assert_int_equal(ring_thread(&ring, 1)->tid, 42);
  ring_route_counters(&ring, 1, &c);
  assert_int_equal(c.count, 11);
  assert_string_equal(ring_name(&ring, 1), "cudaMalloc");
  assert_int_equal(ring_first_alloc(&ring), file.header.alloc_next); /* there are none to be had */
  assert_false(ring_get_alloc(&ring, 8, &a));
  ring_close(&ring);
  file.header.alloc_at = 8; /* a header that lies */
  assert_int_equal(open_with(sizeof file, &ring), 0);
  ring_close(&ring);
  assert_int_equal(ring_open_state(path, &ring), 0);
  ring_close(&ring);
  file.header.alloc_at = sizeof file.header; /* and what it needs lies behind that */
  if (!open_with(sizeof file, &ring)) ring_close(&ring);
  assert_int_equal(ring_open_state(path, &ring), -EINVAL);
}

static void a_pair_being_written_is_not_used(void **state) {
  (void)state;
  struct ring_file ring;
  fill();
  file.header.pair_seq = 7;
  assert_int_equal(open_with(sizeof file, &ring), 0);
  assert_int_equal(ring_us(&ring, 3000), 102); /* 1 GHz from the first pair */
  ring_close(&ring);
}

static void cut_files(void **state) {
  (void)state;
  struct ring_file ring;
  fill();
  for (size_t size = 0; size < sizeof file; size += 37) assert_int_equal(open_with(size, &ring), -EINVAL);
  assert_int_equal(open_with(sizeof file - 1, &ring), -EINVAL);
  assert_int_equal(ring_open_file("/nonexistent/ring", &ring), -ENOENT);
  assert_int_equal(ring_open_file("/tmp", &ring), -EINVAL);
}

static void read_everything(const struct ring_file *ring) {
  struct ring_alloc a = {0};
  struct ring_counters c;
  uint64_t n = ring_first_alloc(ring);
  for (unsigned i = 0; i < 16; i++) {
    ring_get_alloc(ring, n + i, &a);
    ring_thread(ring, i);
    ring_route_counters(ring, i, &c);
    ring_us(ring, a.ticks);
    assert_true(strlen(ring_name(ring, i)) < RING_NAME);
  }
  const struct ring_child *child = ring_vfork_child(ring);
  if (child) assert_true(strlen(child->program) < sizeof child->program);
}

static void mutated_files(void **state) {
  (void)state;
  struct ring_file ring;
  unsigned opened = 0;
  srand(3);
  for (int round = 0; round < 1000; round++) {
    fill();
    for (int i = 1 + rand() % 3; i > 0; i--)
      ((unsigned char *)&file)[(size_t)rand() % sizeof file.header] = (unsigned char)rand();
    if (open_with(sizeof file, &ring)) continue;
    opened++;
    read_everything(&ring);
    ring_close(&ring);
  }
  assert_true(opened > 50); /* the test has met both */
}

static int make_file(void **state) {
  (void)state;
  int fd = mkstemp(path);
  return fd < 0 || close(fd);
}

static int remove_file(void **state) {
  (void)state;
  return unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_there_is_read),
      cmocka_unit_test(the_state_alone),
      cmocka_unit_test(a_pair_being_written_is_not_used),
      cmocka_unit_test(cut_files),
      cmocka_unit_test(mutated_files),
  };
  return cmocka_run_group_tests(tests, make_file, remove_file);
}
