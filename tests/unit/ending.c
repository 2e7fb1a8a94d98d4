/* Tests of what detectors share about the end of a process and about a reading of memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ending.h"
#include "number.h"
#include "reading.h"

#define GIB ((uint64_t)1 << 30)
#define SECOND (uint64_t)1000000
#define SEEN (1700000000 * SECOND)
#define NONE FACT_NO_I64

static struct fact end_of(int64_t status, int64_t signal, uint64_t later, uint64_t activity) {
  struct fact end = {.kind = FACT_KIND_exit, .t = SEEN + later};
  end.u.exit = (struct fact_exit){.status = status, .signal = signal, .last_activity = activity};
  return end;
}

static void whose_doing_it_was(void **state) {
  (void)state;
  static const struct {
    int64_t status, signal, found;
    bool own, gave_up;
  } rows[] = {
      {0, NONE, NONE, false, false},
      {NONE, NONE, NONE, false, false},
      {1, NONE, NONE, true, true},
      {127, NONE, NONE, true, true},
      {128, NONE, NONE, true, true},
      {129, NONE, 1, false, false},
      {130, NONE, 2, false, false},
      {134, NONE, 6, true, true},
      {134, 6, 6, true, true},
      {137, 9, 9, false, false},
      {137, NONE, 9, false, false},
      {139, 11, 11, true, false},
      {139, NONE, 11, true, false},
      {143, 15, 15, false, false},
      {143, NONE, 15, false, false},
      {192, NONE, 64, true, false},
      {193, NONE, NONE, true, true},
      {255, NONE, NONE, true, true},
      {FACT_NO_I64 + 1, NONE, NONE, true, true},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct fact end = end_of(rows[i].status, rows[i].signal, 0, FACT_NO_U64);
    assert_int_equal(ending_signal(&end), rows[i].found);
    assert_int_equal(ending_is_own_failure(&end), rows[i].own);
    assert_int_equal(ending_gave_up(&end), rows[i].gave_up);
  }
}

static void when_it_was(void **state) {
  (void)state;
  struct fact end = end_of(1, NONE, 30 * SECOND, FACT_NO_U64);
  assert_true(ending_follows(SEEN, &end));
  assert_false(ending_follows(SEEN - 1, &end));
  end = end_of(1, NONE, 0, SEEN);
  assert_true(ending_follows(SEEN, &end));
  assert_false(ending_follows(SEEN + 1, &end)); /* a clock that ran back */
  end = end_of(1, NONE, 1, SEEN + 1);
  assert_false(ending_follows(SEEN, &end));
}

static void what_becomes_of_a_warning(void **state) {
  (void)state;
  static const struct {
    int64_t status;
    uint64_t later;
    bool resolved;
    enum verdict v;
  } rows[] = {
      {0, 0, false, VERDICT_INFO},           {1, SECOND, true, VERDICT_INFO},    {1, SECOND, false, VERDICT_FAIL},
      {1, 31 * SECOND, false, VERDICT_WARN}, {143, SECOND, false, VERDICT_WARN}, {NONE, SECOND, false, VERDICT_WARN},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct fact end = end_of(rows[i].status, NONE, rows[i].later, FACT_NO_U64);
    assert_int_equal(ending_verdict(SEEN, rows[i].resolved, &end), rows[i].v);
  }
}

static void how_it_is_said(void **state) {
  (void)state;
  static const struct {
    int64_t status, signal;
    uint64_t seen, activity;
    const char *text;
  } rows[] = {
      {1, NONE, SEEN, FACT_NO_U64, "the process ended with status 1, 300 ms later; no CUDA work succeeded in between"},
      {134, 6, SEEN, SEEN, "the process was ended by signal 6, 300 ms later; no CUDA work succeeded in between"},
      {2, NONE, SEEN, SEEN + 1, "the process ended with status 2, 300 ms later; other CUDA work succeeded in between"},
      {NONE, NONE, SEEN + SECOND, FACT_NO_U64,
       "the process ended with status unknown; no CUDA work succeeded in between"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct finding_list list = {.n = 0};
    struct fact end = end_of(rows[i].status, rows[i].signal, 300000, rows[i].activity);
    ending_say(&list, rows[i].seen, &end);
    assert_int_equal(list.n, 1);
    assert_string_equal(list.item[0], rows[i].text);
  }
}

static struct fact_memory unknown_memory(void) {
  struct fact_memory m;
  memset(&m, 0xff, sizeof m);
  return m;
}

static void a_reading_needs_three_figures(void **state) {
  (void)state;
  struct fact_memory m = unknown_memory();
  assert_false(reading_of(&m).known);
  m.total = 128 * GIB, m.free = 5 * GIB, m.available = 9 * GIB;
  struct reading r = reading_of(&m);
  assert_true(r.known && !r.huge);
  assert_true(r.cache == 0 && r.swappable == 0 && r.reserve == 2 * GIB);
  assert_true(reading_gap(&r) == 4 * GIB && reading_droppable(&r) == 0);
  m.total = 8 * GIB;
  assert_true(reading_of(&m).reserve == GIB);
  m.total = 0;
  assert_false(reading_of(&m).known);
}

static void what_counts_for_cuda(void **state) {
  (void)state;
  struct fact_memory m = unknown_memory();
  m.total = 128 * GIB, m.free = 20 * GIB, m.available = 60 * GIB;
  m.cached = 50 * GIB, m.shmem = 20 * GIB, m.buffers = GIB, m.kreclaimable = GIB;
  m.cma_total = 9 * GIB, m.cma_free = 8 * GIB;
  m.anon = 10 * GIB, m.unevictable = 25 * GIB, m.swap_total = m.swap_free = 16 * GIB;
  struct reading r = reading_of(&m);
  assert_true(r.free == 12 * GIB && r.available == 52 * GIB && r.obtainable == 52 * GIB);
  assert_true(r.cache == 32 * GIB && reading_droppable(&r) == 32 * GIB);
  assert_true(r.swappable == 5 * GIB);
  m.cma_total = 0; /* the figure of a kernel that has no such area */
  assert_true(reading_of(&m).free == 20 * GIB);
  m.huge_total = 8 * GIB, m.huge_free = 3 * GIB;
  assert_true(reading_of(&m).huge && reading_of(&m).obtainable == 3 * GIB);
  m.free = 70 * GIB; /* nonsense: more than is available */
  r = reading_of(&m);
  assert_true(reading_gap(&r) == 0);
  m.cached = m.buffers = m.kreclaimable = UINT64_MAX - 1;
  assert_true(reading_of(&m).cache == UINT64_MAX);
}

static void sums_do_not_wrap(void **state) {
  (void)state;
  assert_true(num_plus(UINT64_MAX - 1, 2) == UINT64_MAX && num_plus(1, 2) == 3);
  assert_true(num_less(1, 2) == 0 && num_less(5, 2) == 3);
  assert_true(num_min(1, 2) == 1 && num_max(1, 2) == 2);
  assert_true(num_or_zero(FACT_NO_U64) == 0 && num_or_zero(7) == 7);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whose_doing_it_was),
      cmocka_unit_test(when_it_was),
      cmocka_unit_test(what_becomes_of_a_warning),
      cmocka_unit_test(how_it_is_said),
      cmocka_unit_test(a_reading_needs_three_figures),
      cmocka_unit_test(what_counts_for_cuda),
      cmocka_unit_test(sums_do_not_wrap),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
