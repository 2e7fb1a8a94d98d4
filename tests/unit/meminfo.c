/* /proc/meminfo: the kernel's text, other kernels' text, and anything else. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "meminfo.h"

static const char spark[] = "MemTotal:       127535084 kB\nMemFree:        43537000 kB\nMemAvailable:   121268000 kB\n"
                            "Buffers:           60000 kB\nCached:         76168000 kB\nSwapTotal:      16777212 kB\n"
                            "SwapFree:       16777212 kB\nActive(anon):    1000 kB\nHugePages_Total:      16\n"
                            "HugePages_Free:        4\nHugepagesize:       2048 kB\nHugetlb:           32768 kB\n";

static int parse(const char *text, struct fact_memory *m) { return meminfo_parse(text, strlen(text), m); }

static void figures_become_bytes(void **state) {
  (void)state;
  struct fact_memory m;
  assert_int_equal(parse(spark, &m), 9);
  assert_int_equal(m.total, UINT64_C(127535084) * 1024);
  assert_int_equal(m.free, UINT64_C(43537000) * 1024);
  assert_int_equal(m.available, UINT64_C(121268000) * 1024);
  assert_int_equal(m.swap_free, UINT64_C(16777212) * 1024);
  assert_int_equal(m.huge_total, UINT64_C(16) * 2048 * 1024);
  assert_int_equal(m.huge_free, UINT64_C(4) * 2048 * 1024);
  assert_true(m.cma_total == FACT_NO_U64);
  assert_true(m.anon == FACT_NO_U64); /* "Active(anon)" is not "AnonPages" */
}

static void what_is_not_a_figure_is_unknown(void **state) {
  (void)state;
  static const char *const odd[] = {
      "MemTotal: kB\n",
      "MemTotal:\n",
      "MemTotal\n",
      "MemTotal: -5 kB\n",
      "MemTotal: 12 MB\n",
      "MemTotal: 12\n",
      "MemTotal: 0x12 kB\n",
      "MemTotal: 12 kB kB\n",
      "memtotal: 12 kB\n",
      " MemTotal: 12 kB\n",
      "MemTotal 12 kB\n",
      "xMemTotal: 12 kB\n",
      "MemTotal: 99999999999999999999999 kB\n",
      "MemTotal: 18446744073709551615 kB\n",
      "MemTotal: 18014398509481984 kB\n", /* times 1024 it overflows */
      "HugePages_Total: 16 kB\nHugepagesize: 2048 kB\n",
      "HugePages_Total: 16\n",
      "HugePages_Total: 9223372036854775807\nHugepagesize: 2048 kB\n",
      "",
      "\n\n\n",
      "::::",
      "\xff\xfe",
  };
  for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
    struct fact_memory m;
    assert_int_equal(parse(odd[i], &m), 0);
    assert_true(m.total == FACT_NO_U64 && m.huge_total == FACT_NO_U64);
  }
}

static void spellings_that_mean_the_same(void **state) {
  (void)state;
  static const char *const same[] = {"MemTotal:12 kB",      "MemTotal:\t12 kB\n",  "MemTotal:   12kB\n",
                                     "MemTotal: 12 kB\r\n", "MemTotal: 12 kB  \n", "junk\nMemTotal: 12 kB\nMemFree"};
  for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
    struct fact_memory m;
    assert_int_equal(parse(same[i], &m), 1);
    assert_int_equal(m.total, 12 * 1024);
  }
}

/* A heap copy of just that size: a byte read beyond it is found by the sanitizer build. */
static void mutated_text_is_survived(void **state) {
  (void)state;
  srand(7);
  for (int round = 0; round < 20000; round++) {
    size_t size = (size_t)rand() % sizeof spark;
    char *text = malloc(size ? size : 1);
    struct fact_memory m;
    memcpy(text, spark, size);
    for (int i = rand() % 8; i > 0 && size; i--) text[(size_t)rand() % size] = (char)rand();
    int found = meminfo_parse(text, size, &m);
    assert_in_range(found, 0, 32);
    free(text);
  }
}

static void write_file(const char *path, const char *text) {
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}

static void below_a_root(void **state) {
  (void)state;
  char root[] = "/tmp/meminfo.XXXXXX", path[64];
  struct fact_memory m, real;
  assert_non_null(mkdtemp(root));
  assert_int_equal(meminfo_read(NULL, &real), 0);
  assert_int_equal(meminfo_read(root, &m), 0); /* nothing there: the machine's own */
  assert_int_equal(m.total, real.total);
  snprintf(path, sizeof path, "%s/proc", root);
  mkdir(path, 0700);
  snprintf(path, sizeof path, "%s/proc/meminfo", root);
  write_file(path, spark);
  assert_int_equal(meminfo_read(root, &m), 0);
  assert_int_equal(m.total, UINT64_C(127535084) * 1024);
  write_file(path, "no meminfo\n");
  assert_true(meminfo_read(root, &m) < 0);
  assert_true(m.total == FACT_NO_U64);
  unlink(path);
  snprintf(path, sizeof path, "%s/proc", root);
  rmdir(path);
  rmdir(root);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(figures_become_bytes),
      cmocka_unit_test(what_is_not_a_figure_is_unknown),
      cmocka_unit_test(spellings_that_mean_the_same),
      cmocka_unit_test(mutated_text_is_survived),
      cmocka_unit_test(below_a_root),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
