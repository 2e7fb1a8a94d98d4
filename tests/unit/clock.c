/* The clock: the machine's, and the simulator's page. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "clock.h"

static uint64_t libc_us(void) {
  struct timespec ts;
  clock_gettime(CLOCK_REALTIME, &ts);
  return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static void the_machines_time(void **state) {
  (void)state;
  uint64_t before = libc_us(), us = clock_us(), after = libc_us();
  assert_in_range(us, before, after);
  uint64_t tick0 = clock_ticks();
  usleep(2000);
  assert_true(clock_ticks() > tick0);
}

static void ticks_by_two_pairs(void **state) {
  (void)state;
  assert_int_equal(clock_ticks_to_us(1000, 1000, 50, 3000, 1050), 50);
  assert_int_equal(clock_ticks_to_us(2000, 1000, 50, 3000, 1050), 550);
  assert_int_equal(clock_ticks_to_us(5000, 1000, 50, 3000, 1050), 2050);  /* behind the second pair */
  assert_int_equal(clock_ticks_to_us(500, 1000, 5000, 3000, 6000), 4750); /* before the first */
  assert_int_equal(clock_ticks_to_us(3000, 1000, 50, 0, 0), 52);          /* one pair: 1 GHz */
  assert_int_equal(clock_ticks_to_us(3000, 1000, 50, 1000, 50), 52);
}

static void real_ticks_follow_real_time(void **state) {
  (void)state;
  uint64_t tick0 = clock_ticks(), us0 = clock_us();
  usleep(50000);
  uint64_t tick1 = clock_ticks(), us1 = clock_us();
  usleep(20000);
  uint64_t us = clock_us(), ticks = clock_ticks();
  int64_t off = (int64_t)(clock_ticks_to_us(ticks, tick0, us0, tick1, us1) - us);
  assert_in_range((uint64_t)(off < 0 ? -off : off), 0, 5000);
}

static char root[] = "/tmp/clock.XXXXXX";

static void write_page(const void *page, size_t size) {
  char path[64];
  snprintf(path, sizeof path, "%s/clock", root);
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, page, size), size);
  close(fd);
}

/* Last: there is no way back to the machine's time. */
static void simulated_time(void **state) {
  (void)state;
  char path[64];
  struct timespec ts;
  struct clock_page page = {.magic = "SPKCLK0", .unix_us = 1000000000};
  assert_non_null(mkdtemp(root));
  clock_gettime(CLOCK_MONOTONIC, &ts);
  page.mono_ns0 = (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
  clock_init(root); /* no such file */
  write_page(&page, 16);
  clock_init(root); /* too short */
  write_page(&page, sizeof page);
  clock_init(root); /* another magic */
  assert_true(clock_us() > UINT64_C(1500000000000000));
  page.magic[6] = '1';
  write_page(&page, sizeof page);
  clock_init(root);
  assert_in_range(clock_us(), 1000000000, 1000000000 + 5000000);
  snprintf(path, sizeof path, "%s/clock", root);
  int fd = open(path, O_RDWR);
  struct clock_page *shared = mmap(NULL, sizeof page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  assert_true(shared != MAP_FAILED);
  uint64_t ticks = clock_ticks();
  __atomic_fetch_add(&shared->jumped_us, UINT64_C(3) * 3600 * 1000000, __ATOMIC_RELAXED); /* three hours in no time */
  assert_in_range(clock_us(), UINT64_C(11800000000), UINT64_C(11800000000) + 5000000);
  assert_in_range(clock_ticks() - ticks, UINT64_C(10800000000000), UINT64_C(10805000000000)); /* ns */
  munmap(shared, sizeof page);
  close(fd);
  unlink(path);
  rmdir(root);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_machines_time),
      cmocka_unit_test(ticks_by_two_pairs),
      cmocka_unit_test(real_ticks_follow_real_time),
      cmocka_unit_test(simulated_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
