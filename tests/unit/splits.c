/* Where memory was over the time of a run: first, lowest, last, and what came before an end. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "splits.h"

#define GIB(n) ((uint64_t)(n) << 30)

static struct fact reading(enum fact_kind kind, uint64_t t, uint64_t free) {
  struct fact f;
  fact_init(&f, kind);
  f.t = t;
  struct fact_memory *m = kind == FACT_KIND_sample         ? &f.u.sample.mem
                          : kind == FACT_KIND_alloc_failed ? &f.u.alloc_failed.mem
                                                           : &f.u.exit.mem;
  m->total = GIB(121);
  m->free = m->available = free;
  if (kind == FACT_KIND_sample) f.u.sample.why = "tick";
  return f;
}

static void observe(struct splits *s, struct fact f) { splits_observe(s, &f); }

static void a_course(void **state) {
  (void)state;
  struct splits s = {.begun = false};
  struct split_at at;
  assert_false(splits_latest(&s, &at));
  observe(&s, reading(FACT_KIND_sample, 1, GIB(100)));
  observe(&s, reading(FACT_KIND_sample, 2, GIB(40)));
  observe(&s, reading(FACT_KIND_alloc_failed, 3, GIB(2))); /* between two samples */
  observe(&s, reading(FACT_KIND_sample, 4, GIB(60)));
  assert_int_equal(s.course.first.t, 1);
  assert_int_equal(s.course.lowest.t, 3);
  assert_int_equal(s.course.lowest.split.free, GIB(2));
  assert_int_equal(s.course.last.t, 4);
  assert_true(splits_latest(&s, &at));
  assert_int_equal(at.t, 4);
}

static void what_comes_with_the_end_is_not_before_it(void **state) {
  (void)state;
  struct splits s = {.begun = false};
  struct split_at at;
  struct fact end = reading(FACT_KIND_sample, 3, GIB(1));
  end.u.sample.why = "end";
  end.u.sample.job_processes = 0;
  observe(&s, reading(FACT_KIND_sample, 1, GIB(5)));
  observe(&s, reading(FACT_KIND_exit, 2, GIB(90)));
  observe(&s, end);
  assert_true(splits_latest(&s, &at));
  assert_int_equal(at.t, 1);
  assert_int_equal(at.split.free, GIB(5));
  assert_int_equal(s.course.lowest.t, 1); /* after the end it is nobody's edge */
  assert_int_equal(s.course.last.t, 3);
  assert_string_equal(s.course.last.split.why, "end");
}

static void readings_without_a_total_are_passed_over(void **state) {
  (void)state;
  struct splits s = {.begun = false};
  struct split_at at;
  struct fact f = reading(FACT_KIND_sample, 1, GIB(5));
  f.u.sample.mem.total = FACT_NO_U64;
  observe(&s, f);
  assert_false(splits_latest(&s, &at));
  assert_int_equal(s.course.first.t, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_course),
      cmocka_unit_test(what_comes_with_the_end_is_not_before_it),
      cmocka_unit_test(readings_without_a_total_are_passed_over),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
