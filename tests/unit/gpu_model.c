/* Tests of probe/core/gpu_model: the driver's information file, and a machine that has none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "gpu_model.h"

static void parses_the_model(void **state) {
  (void)state;
  static const struct {
    const char *text, *model;
    int rc;
  } rows[] = {
      {"Model: \t\t NVIDIA GB10\nIRQ:   \t\t 120\n", "NVIDIA GB10", 0},
      {"IRQ: 1\nModel: NVIDIA H200 \r\n", "NVIDIA H200", 0},
      {"Model:\n", "", 0},
      {"Model: cut", "cut", 0},
      {"The Model: none\n", "untouched", -2},
      {"", "untouched", -2},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char out[32] = "untouched";
    assert_int_equal(gpu_model_parse(rows[i].text, out, sizeof out), rows[i].rc);
    assert_string_equal(out, rows[i].model);
  }
}

static void cuts_what_does_not_fit(void **state) {
  (void)state;
  char out[8];
  assert_int_equal(gpu_model_parse("Model: NVIDIA GB10\n", out, sizeof out), 0);
  assert_string_equal(out, "NVIDIA");
}

static void make_folder(const char *path) { assert_int_equal(mkdir(path, 0700), 0); }

static void reads_below_a_root(void **state) {
  (void)state;
  static const char *const folders[] = {"proc", "proc/driver", "proc/driver/nvidia", "proc/driver/nvidia/gpus",
                                        "proc/driver/nvidia/gpus/000f:01:00.0"};
  char root[] = "/tmp/sparkshim-gpu-XXXXXX", path[256], out[32] = "untouched";
  assert_non_null(mkdtemp(root));
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    snprintf(path, sizeof path, "%s/%s", root, folders[i]);
    make_folder(path);
  }
  assert_true(gpu_model_read(root, out, sizeof out) != 0 || access("/proc/driver/nvidia", F_OK) == 0);
  snprintf(path, sizeof path, "%s/%s/information", root, folders[4]);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs("Model: \t NVIDIA GB10\n", f);
  fclose(f);
  assert_int_equal(gpu_model_read(root, out, sizeof out), 0);
  assert_string_equal(out, "NVIDIA GB10");
  unlink(path);
  for (size_t i = sizeof folders / sizeof *folders; i--;) {
    snprintf(path, sizeof path, "%s/%s", root, folders[i]);
    rmdir(path);
  }
  rmdir(root);
}

static void no_driver_is_an_error(void **state) {
  (void)state;
  char out[32] = "untouched";
  if (access("/proc/driver/nvidia/gpus", F_OK) == 0) skip();
  assert_true(gpu_model_read(NULL, out, sizeof out) < 0);
  assert_true(gpu_model_read("/nonexistent", out, sizeof out) < 0);
  assert_string_equal(out, "untouched");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parses_the_model),
      cmocka_unit_test(cuts_what_does_not_fit),
      cmocka_unit_test(reads_below_a_root),
      cmocka_unit_test(no_driver_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
