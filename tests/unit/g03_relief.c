/* Tests of what is said of SPARKSHIM_RELIEF=cache. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "detector.h"

#define GIB ((uint64_t)1 << 30)

static struct {
  struct det_out out;
  struct finding last;
  unsigned n;
} said;

static void keep(struct det_out *out, const struct finding *f) {
  (void)out;
  said.last = *f;
  said.n++;
}

static void tell(void *state, int64_t result, uint64_t files, uint64_t dropped) {
  struct fact fact = {.kind = FACT_KIND_relief, .t = 1700000000000000};
  memset(&fact.u.relief.mem, 0xff, sizeof fact.u.relief.mem);
  fact.u.relief.call = "cudaMalloc";
  fact.u.relief.route = "device";
  fact.u.relief.size = 64 * GIB;
  fact.u.relief.result = result;
  fact.u.relief.files = files;
  fact.u.relief.dropped = dropped;
  fact.u.relief.free_after = 70 * GIB;
  fact.u.relief.wall_us = 1500000;
  fact.u.relief.mem.total = 122 * GIB;
  fact.u.relief.mem.free = 2 * GIB;
  fact.u.relief.mem.available = 112 * GIB;
  fact.u.relief.mem.cached = 110 * GIB;
  said.out.emit = keep;
  det_observe(state, det_mask(NULL), &fact, &said.out);
}

static void both_ends_are_said(void **unused) {
  (void)unused;
  void *state = calloc(1, det_state_size() + 16);
  assert_non_null(state);
  tell(state, 0, 3, 68 * GIB);
  assert_int_equal(said.n, 1);
  assert_int_equal(said.last.verdict, VERDICT_INFO);
  assert_string_equal(said.last.cause, "cache_relieved");
  assert_string_equal(said.last.text,
                      "cudaMalloc of 64.0 GiB was refused and then granted: 68.0 GiB of page cache of 3 data "
                      "files was given back in between (SPARKSHIM_RELIEF=cache)");
  assert_string_equal(said.last.evidence.item[0], "MemFree 2.0 GiB before and 70.0 GiB after it, 1500 ms");
  tell(state, 2, 1, GIB);
  assert_int_equal(said.last.verdict, VERDICT_INFO); /* the refusal is for g03_memory */
  assert_string_equal(said.last.text,
                      "cudaMalloc of 64.0 GiB was refused twice: giving back 1.0 GiB of page cache of 1 data "
                      "file in between did not help (SPARKSHIM_RELIEF=cache)");
  assert_string_equal(said.last.evidence.item[1],
                      "1 request granted and 1 refused after relief so far, 69.0 GiB of cache given back");
  free(state);
}

static void nonsense_is_survived(void **unused) {
  (void)unused;
  void *state = calloc(1, det_state_size() + 16);
  struct fact fact = {.kind = FACT_KIND_relief};
  assert_non_null(state);
  said.n = 0;
  memset(&fact.u.relief, 0xff, sizeof fact.u.relief);
  fact.u.relief.call = fact.u.relief.route = NULL;
  fact.u.relief.result = FACT_NO_I64;
  det_observe(state, det_mask(NULL), &fact, &said.out);
  assert_int_equal(said.n, 0); /* torn: nobody knows how it went */
  fact.u.relief.result = 0;
  det_observe(state, det_mask(NULL), &fact, &said.out);
  tell(state, 0, UINT64_MAX - 1, UINT64_MAX - 1);
  tell(state, 0, UINT64_MAX - 1, UINT64_MAX - 1);
  assert_int_equal(said.n, 3);
  free(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(both_ends_are_said), cmocka_unit_test(nonsense_is_survived)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
