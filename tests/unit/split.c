/* The split of memory: every class, sums that hold whatever the readings, facts followed, and the line. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "split.h"

#define KB(n) (UINT64_C(n) * 1024)
#define MIB(n) ((uint64_t)(n) << 20)
#define GIB(n) ((uint64_t)(n) << 30)

/* An idle Spark: facts/memory.md; 1.46 GiB are not accounted for. */
static struct split_input idle(void) {
  struct fact fact;
  fact_init(&fact, FACT_KIND_sample);
  struct split_input in = {.mem = fact.u.sample.mem};
  in.job_anon = in.job_device = in.job_pinned = FACT_NO_U64;
  in.mem.total = KB(127535084), in.mem.free = KB(102000000), in.mem.available = KB(120000000);
  in.mem.buffers = KB(10000), in.mem.cached = KB(17000000), in.mem.shmem = KB(20000), in.mem.anon = KB(4000000);
  in.mem.kreclaimable = KB(1500000), in.mem.sunreclaim = KB(1400000), in.mem.kernel_stack = KB(20000);
  in.mem.page_tables = KB(60000), in.mem.percpu = KB(10000), in.mem.swap_cached = 0, in.mem.huge_total = 0;
  return in;
}

static int64_t sum(const struct fact_split *s) {
  struct split_row rows[SPLIT_ROWS];
  int64_t total = 0;
  split_rows(s, rows);
  for (int i = 0; i < SPLIT_ROWS; i++)
    if (rows[i].bytes != FACT_NO_U64) total += rows[i].negative ? -(int64_t)rows[i].bytes : (int64_t)rows[i].bytes;
  return total;
}

static struct fact_split make(const struct split_input *in) {
  struct fact_split s;
  assert_true(split_make(in, "start", &s));
  assert_int_equal(sum(&s), (int64_t)in->mem.total);
  return s;
}

static void an_idle_machine(void **state) {
  (void)state;
  struct split_input in = idle();
  struct fact_split s = make(&in);
  assert_string_equal(s.why, "start");
  assert_int_equal(s.free, KB(102000000));
  assert_int_equal(s.cache, KB(18490000)); /* without shmem, with buffers and reclaimable slab */
  assert_int_equal(s.shmem, KB(20000));
  assert_int_equal(s.anon_others, KB(4000000));
  assert_int_equal(s.kernel, KB(1490000));
  assert_int_equal(s.driver, KB(1535084));
  assert_int_equal(s.rest, KB(1535084));
  assert_true(s.device_nobody == FACT_NO_U64); /* NVML was not asked */
  in.nvml = true;
  s = make(&in);
  assert_int_equal(s.device_nobody, 0);
  assert_int_equal(s.rest, KB(1535084));
}

static void who_holds_the_driver_s_memory(void **state) {
  (void)state;
  struct split_input in = idle();
  in.mem.free -= GIB(90), in.mem.available -= GIB(90);
  in.job_device = GIB(30), in.job_pinned = GIB(5), in.nvml = true, in.nvml_job = GIB(31), in.nvml_others = GIB(20);
  struct fact_split s = make(&in);
  assert_int_equal(s.pinned, GIB(5));
  assert_int_equal(s.device_job, GIB(31)); /* NVML counts what no hook sees */
  assert_int_equal(s.device_others, GIB(20));
  assert_int_equal(s.device_nobody, GIB(34) + KB(1535084) - SPLIT_DRIVER_OWN);
  assert_int_equal(s.rest, (int64_t)SPLIT_DRIVER_OWN);
  in.nvml_untold = true; /* of one process NVML does not tell the size: it may be that one's */
  s = make(&in);
  assert_true(s.device_nobody == FACT_NO_U64);
  assert_int_equal(s.rest, (int64_t)(GIB(34) + KB(1535084)));
}

/* Half of the machine is accounted for by no class, and yet MemAvailable says that all of it can be had. */
static void readings_that_contradict_name_nobody(void **state) {
  (void)state;
  struct split_input in = idle();
  in.nvml = true;
  in.mem.free -= GIB(60);
  struct fact_split s = make(&in);
  assert_int_equal(s.device_nobody, 0);
  assert_int_equal(s.rest, (int64_t)(GIB(60) + KB(1535084)));
  in.mem.available = FACT_NO_U64; /* does not contradict */
  s = make(&in);
  assert_in_range(s.device_nobody, GIB(58), GIB(61));
}

static void figures_that_overlap_are_shown_as_such(void **state) {
  (void)state;
  struct split_input in = idle();
  in.job_device = GIB(10);
  struct fact_split s = make(&in);
  assert_int_equal(s.rest, (int64_t)KB(1535084) - (int64_t)GIB(10));
}

static void cma_counts_only_where_there_is_an_area(void **state) {
  (void)state;
  struct split_input in = idle();
  in.mem.free = KB(9437184), in.mem.cma_total = KB(9043968), in.mem.cma_free = KB(8912896);
  struct fact_split s = make(&in);
  assert_int_equal(s.cma, KB(8912896));
  assert_int_equal(s.free, KB(524288));
  in.mem.cma_total = 0; /* the bug of kernel 7.0.0-1019 */
  s = make(&in);
  assert_int_equal(s.cma, 0);
  assert_int_equal(s.free, KB(9437184));
}

static void the_job_s_share_of_anonymous_memory(void **state) {
  (void)state;
  struct split_input in = idle();
  in.job_anon = KB(3000000);
  struct fact_split s = make(&in);
  assert_int_equal(s.anon_job, KB(3000000));
  assert_int_equal(s.anon_others, KB(1000000));
  in.job_anon = KB(9000000); /* forked processes count shared pages each */
  s = make(&in);
  assert_int_equal(s.anon_job, KB(4000000));
  assert_int_equal(s.anon_others, 0);
}

static void nothing_without_a_total(void **state) {
  (void)state;
  struct split_input in = idle();
  struct fact_split s = {.total = 7};
  in.mem.free = FACT_NO_U64;
  assert_false(split_make(&in, "", &s));
  in = idle();
  in.mem.total = 0;
  assert_false(split_make(&in, "", &s));
  assert_int_equal(s.total, 7);
}

static uint64_t any(void) {
  switch (rand() % 4) {
  case 0: return FACT_NO_U64;
  case 1: return (uint64_t)rand() << 10;
  case 2: return (uint64_t)rand() << 33 ^ (uint64_t)rand();
  default: return (uint64_t)rand() % 130 << 30;
  }
}

static void sums_hold_whatever_the_readings(void **state) {
  (void)state;
  srand(5);
  for (int round = 0; round < 100000; round++) {
    struct split_input in = {.job_anon = any(), .job_device = any(), .job_pinned = any()};
    struct fact_split s;
    char line[400];
#define MEM(name, key, doc) in.mem.name = any();
#include "memory_fields.def"
#undef MEM
    in.nvml = rand() % 2, in.nvml_untold = rand() % 2, in.nvml_job = any(), in.nvml_others = any();
    if (!split_make(&in, NULL, &s)) continue;
    struct split_row rows[SPLIT_ROWS];
    bool sane = s.total < (uint64_t)1 << 56;
    split_rows(&s, rows);
    for (int i = 0; i < SPLIT_ROWS; i++)
      sane = sane && (rows[i].bytes == FACT_NO_U64 || rows[i].bytes < (uint64_t)1 << 58);
    if (sane) assert_true(sum(&s) == (int64_t)s.total);
    size_t length = split_line(&s, line, sizeof line);
    assert_int_equal(length, strlen(line));
  }
}

/* ---- the line ---------------------------------------------------------------------------------------------------------- */

/* Reads the figures of a line back and adds them, in tenths. */
static long sum_of_line(const char *line, long *ret_total) {
  double total, part;
  long tenths = 0;
  assert_int_equal(sscanf(line, "%lf GiB =", &total), 1);
  const char *at = strchr(line, '=') + 1;
  for (int sign = 1; sscanf(at, " %lf", &part) == 1; at++) {
    tenths += sign * (long)(part * 10 + 0.5);
    at = strpbrk(at + 1, "+-");
    if (!at) break;
    sign = *at == '+' ? 1 : -1;
  }
  *ret_total = (long)(total * 10 + 0.5);
  return tenths;
}

static void the_line_adds_up(void **state) {
  (void)state;
  srand(9);
  for (int round = 0; round < 20000; round++) {
    struct split_input in = idle();
    struct fact_split s;
    char line[400];
    long total;
    in.mem.free = (uint64_t)rand() << 6, in.mem.cached = (uint64_t)rand() << 4, in.mem.anon = (uint64_t)rand() << 4;
    in.job_anon = (uint64_t)rand() << 3, in.nvml = rand() % 2, in.nvml_others = (uint64_t)rand() << (rand() % 6);
    in.job_device = (uint64_t)rand() << (rand() % 6), in.mem.total = GIB(300);
    assert_true(split_make(&in, "", &s));
    split_line(&s, line, sizeof line);
    assert_int_equal(sum_of_line(line, &total), 3000);
    assert_int_equal(total, 3000);
  }
}

static void the_line_of_an_idle_machine(void **state) {
  (void)state;
  struct split_input in = idle();
  struct fact_split s = make(&in);
  char line[400], cut[20];
  split_line(&s, line, sizeof line);
  assert_string_equal(line, "121.6 GiB = 97.3 free + 17.6 page cache + 3.8 of other processes + 1.4 kernel + "
                            "1.5 not accounted for");
  in.job_device = GIB(10);
  s = make(&in);
  split_line(&s, line, sizeof line);
  assert_non_null(strstr(line, " + 10.0 GPU, this job + "));
  assert_non_null(strstr(line, " - 8.5 counted twice"));
  assert_int_equal(split_line(&s, cut, sizeof cut), sizeof cut - 1);
}

/* ---- following --------------------------------------------------------------------------------------------------------- */
static struct fact fact_of(enum fact_kind kind, uint64_t t) {
  struct fact f;
  fact_init(&f, kind);
  f.t = t;
  return f;
}

static void add_holder(struct split_follow *s, uint64_t t, uint64_t bytes, bool ours) {
  struct fact f = fact_of(FACT_KIND_holder, t);
  f.u.holder.bytes = bytes;
  f.u.holder.ours = ours;
  assert_false(split_follow(s, &f));
}

static bool end_look(struct split_follow *s, uint64_t t, bool answered) {
  struct fact f = fact_of(FACT_KIND_nvml, t);
  f.u.nvml.call = "processes";
  f.u.nvml.answered = answered;
  return split_follow(s, &f);
}

static void facts_are_followed(void **state) {
  (void)state;
  struct split_follow follow;
  struct fact_split s;
  struct fact f = fact_of(FACT_KIND_sample, 4000000);
  split_follow_init(&follow);
  assert_false(split_now(&follow, "", &s)); /* nothing known yet */
  f.u.sample.mem = idle().mem;
  f.u.sample.mem.free -= GIB(60), f.u.sample.mem.available -= GIB(60);
  f.u.sample.job_anon = KB(1000000);
  assert_true(split_follow(&follow, &f));
  assert_true(split_now(&follow, "", &s));
  assert_true(s.device_nobody == FACT_NO_U64);
  add_holder(&follow, 4000001, GIB(20), true);
  add_holder(&follow, 4000001, GIB(15), false);
  add_holder(&follow, 4000001, GIB(5), false);
  assert_true(end_look(&follow, 4000001, true));
  assert_true(split_now(&follow, "", &s));
  assert_int_equal(s.device_job, GIB(20));
  assert_int_equal(s.device_others, GIB(20));
  assert_int_equal(s.device_nobody, GIB(20) + KB(1535084) - SPLIT_DRIVER_OWN);
  assert_int_equal(s.anon_job, KB(1000000));
  assert_false(end_look(&follow, 4000002, false)); /* no answer: the older one stands */
  assert_true(split_now(&follow, "", &s));
  assert_int_equal(s.device_others, GIB(20));
  assert_true(end_look(&follow, 4000003, true)); /* nobody is listed */
  assert_true(split_now(&follow, "", &s));
  assert_int_equal(s.device_others, 0);
  add_holder(&follow, 5000000, FACT_NO_U64, false);
  assert_true(end_look(&follow, 5000000, true));
  assert_true(split_now(&follow, "", &s));
  assert_true(s.device_nobody == FACT_NO_U64);
}

static void a_refusal_brings_its_own_reading(void **state) {
  (void)state;
  struct split_follow follow;
  struct fact_split s;
  struct fact f = fact_of(FACT_KIND_alloc_failed, 5000000);
  split_follow_init(&follow);
  f.u.alloc_failed.mem = idle().mem;
  f.u.alloc_failed.mem.free -= GIB(40);
  f.u.alloc_failed.live_device = GIB(30);
  f.u.alloc_failed.live_pinned = GIB(2);
  assert_true(split_follow(&follow, &f));
  assert_true(split_now(&follow, "refused", &s));
  assert_int_equal(s.device_job, GIB(30));
  assert_int_equal(s.pinned, GIB(2));
  f.u.alloc_failed.last = 4000000; /* held back: the reading is of later */
  f.u.alloc_failed.mem.free = 0;
  assert_false(split_follow(&follow, &f));
  assert_true(split_now(&follow, "refused", &s));
  assert_int_equal(s.free, KB(102000000) - GIB(40));
}

static void an_old_look_says_nothing_of_the_job(void **state) {
  (void)state;
  struct split_follow follow;
  struct fact_split s;
  struct fact f = fact_of(FACT_KIND_sample, 60000000);
  split_follow_init(&follow);
  add_holder(&follow, 1000000, GIB(50), true);
  assert_true(end_look(&follow, 1000000, true));
  f.u.sample.mem = idle().mem;
  f.u.sample.mem.free -= GIB(70), f.u.sample.mem.available -= GIB(70);
  f.u.sample.job_device = GIB(1);
  assert_true(split_follow(&follow, &f));
  assert_true(split_now(&follow, "", &s));
  assert_int_equal(s.device_job, GIB(1));
  assert_true(s.device_nobody == FACT_NO_U64); /* what the job took since would be called nobody's */
}

static void a_job_that_has_ended_holds_nothing(void **state) {
  (void)state;
  struct split_follow follow;
  struct fact_split s;
  struct fact f = fact_of(FACT_KIND_sample, 2000000);
  split_follow_init(&follow);
  add_holder(&follow, 1000000, GIB(50), true);
  assert_true(end_look(&follow, 1000000, true));
  f.u.sample.mem = idle().mem;
  f.u.sample.job_processes = 1, f.u.sample.job_anon = GIB(1);
  assert_true(split_follow(&follow, &f));
  f.u.sample.job_processes = 0, f.u.sample.job_anon = FACT_NO_U64;
  assert_true(split_follow(&follow, &f));
  assert_true(split_now(&follow, "end", &s));
  assert_int_equal(s.device_job + s.anon_job, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_idle_machine),
      cmocka_unit_test(who_holds_the_driver_s_memory),
      cmocka_unit_test(readings_that_contradict_name_nobody),
      cmocka_unit_test(figures_that_overlap_are_shown_as_such),
      cmocka_unit_test(cma_counts_only_where_there_is_an_area),
      cmocka_unit_test(the_job_s_share_of_anonymous_memory),
      cmocka_unit_test(nothing_without_a_total),
      cmocka_unit_test(sums_hold_whatever_the_readings),
      cmocka_unit_test(the_line_adds_up),
      cmocka_unit_test(the_line_of_an_idle_machine),
      cmocka_unit_test(facts_are_followed),
      cmocka_unit_test(a_refusal_brings_its_own_reading),
      cmocka_unit_test(a_job_that_has_ended_holds_nothing),
      cmocka_unit_test(an_old_look_says_nothing_of_the_job),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
