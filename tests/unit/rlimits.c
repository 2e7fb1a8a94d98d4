/* Tests of probe/core/rlimits: the kernel's file, and files that are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "rlimits.h"

#define NONE UINT64_MAX

static void parses_the_row(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int rc;
    uint64_t soft, hard;
  } rows[] = {
      {"Limit  Soft Limit  Hard Limit  Units\nMax locked memory         8388608              unlimited            "
       "bytes\n",
       0, 8388608, NONE},
      {"Max locked memory unlimited unlimited bytes", 0, NONE, NONE},
      {"Max locked memory 0 1\n", 0, 0, 1},
      {"Max locked memory 18446744073709551614 18446744073709551614", 0, NONE - 1, NONE - 1},
      {"Max locked memory 18446744073709551615 1", -22, 7, 7},
      {"Max locked memory 99999999999999999999 1", -22, 7, 7},
      {"Max locked memory 1x 1", -22, 7, 7},
      {"Max locked memory -1 1", -22, 7, 7},
      {"Max locked memory 1", -22, 7, 7},
      {"Max locked memory", -22, 7, 7},
      {"Max locked memory2 1 1", -22, 7, 7},
      {"  Max locked memory 1 1", -22, 7, 7},
      {"Max pending signals 1 1 signals\n", -22, 7, 7},
      {"", -22, 7, 7},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    uint64_t soft = 7, hard = 7;
    assert_int_equal(limit_parse(rows[i].text, LIMIT_MEMLOCK, &soft, &hard), rows[i].rc);
    assert_true(soft == rows[i].soft && hard == rows[i].hard);
  }
}

static void reads_our_own(void **state) {
  (void)state;
  uint64_t soft = 7, hard = 7;
  struct rlimit limit;
  assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
  assert_int_equal(limit_read(NULL, LIMIT_MEMLOCK, &soft, &hard), 0);
  assert_true(soft == (limit.rlim_cur == RLIM_INFINITY ? NONE : limit.rlim_cur));
  assert_true(hard == (limit.rlim_max == RLIM_INFINITY ? NONE : limit.rlim_max));
}

static void a_root_comes_first(void **state) {
  (void)state;
  char root[] = "/tmp/sparkshim-limits-XXXXXX", path[256];
  uint64_t soft = 7, hard = 7, real_soft = 7, real_hard = 7;
  assert_non_null(mkdtemp(root));
  assert_int_equal(limit_read(NULL, LIMIT_MEMLOCK, &real_soft, &real_hard), 0);
  assert_int_equal(limit_read(root, LIMIT_MEMLOCK, &soft, &hard), 0);
  assert_true(soft == real_soft && hard == real_hard);
  snprintf(path, sizeof path, "%s/proc", root);
  assert_int_equal(mkdir(path, 0700), 0);
  snprintf(path, sizeof path, "%s/proc/self", root);
  assert_int_equal(mkdir(path, 0700), 0);
  snprintf(path, sizeof path, "%s/proc/self/limits", root);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs("Max locked memory         12345                67890                bytes     \n", f);
  fclose(f);
  assert_int_equal(limit_read(root, LIMIT_MEMLOCK, &soft, &hard), 0);
  assert_true(soft == 12345 && hard == 67890);
  unlink(path);
  snprintf(path, sizeof path, "%s/proc/self", root);
  rmdir(path);
  snprintf(path, sizeof path, "%s/proc", root);
  rmdir(path);
  rmdir(root);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(parses_the_row), cmocka_unit_test(reads_our_own),
                                     cmocka_unit_test(a_root_comes_first)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
