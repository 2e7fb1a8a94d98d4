/* Tests of what the samples tell while it happens: collapse, livelock, fragmentation, and all that looks like them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "detector.h"

extern const struct detector det_g03_collapse, det_g03_livelock, det_g03_fragments;
static const struct detector *const judges[] = {&det_g03_collapse, &det_g03_livelock, &det_g03_fragments};

#include "watched.h"

static uint64_t gib(double n) { return (uint64_t)(n * (double)GIB); }

static unsigned count_of(const struct watched *w, const char *cause) {
  unsigned n = 0;
  for (unsigned i = 0; i < w->said; i++) n += !strcmp(w->finding[i].cause, cause);
  return n;
}

static void end_job(struct watched *w, int64_t status) {
  struct fact f = {.kind = FACT_KIND_job_end};
  f.u.job_end = (struct fact_job_end){.pid = WORKER, .exit = status, .signal = FACT_NO_I64};
  tell(w, &f);
}

static void end_process(struct watched *w, int64_t status) {
  struct fact f = {.kind = FACT_KIND_exit};
  memset(&f.u.exit, 0xff, sizeof f.u.exit);
  f.u.exit.status = status;
  f.u.exit.signal = FACT_NO_I64;
  f.u.exit.last_call = NULL;
  tell(w, &f);
}

/* ---- collapse --------------------------------------------------------------------------------------------------- */
/* MemAvailable moves from where it is to `to` within `seconds`, read `hz` times a second. */
static void ramp(struct watched *w, double to, double seconds, double hz) {
  double from = (double)w->machine.mem.available;
  int n = (int)(seconds * hz + 0.5);
  for (int i = 1; i <= n; i++) {
    w->machine.mem.available = (uint64_t)(from + (to * (double)GIB - from) * i / n);
    pass_and_look(w, 1 / hz);
  }
}

static void at(struct watched *w, double available) {
  start(w, machine(0));
  w->machine.mem.available = gib(available);
  look(w);
}

/* mem-10: 28.97, 27.3, 23.8, 10.6, 6.27 GiB over 11 s. */
static void serving_start(struct watched *w, double hz) {
  static const double level[] = {27.3, 23.8, 10.6, 6.27};
  at(w, 28.97);
  for (int i = 0; i < 4; i++) ramp(w, level[i], 2.75, hz);
}

static void test_collapse(void **state) {
  static const double hz[] = {1.1, 5, 20};
  (void)state;
  for (int i = 0; i < 3; i++) {
    struct watched w;
    serving_start(&w, hz[i]);
    assert_int_equal(w.said, 1);
    assert_said(&w, VERDICT_WARN, "collapse", CONFIDENCE_HIGH);
    assert_true(mentions(&last(&w)->evidence, "at this pace"));
    assert_true(mentions(&last(&w)->ruled_out, "page cache"));
    assert_false(mentions(&last(&w)->fixes, "drop_caches"));
    stop(&w);
  }
}

/* mem-10b, and others that end in time. */
static void test_loads_are_no_collapse(void **state) {
  static const struct {
    double from, to, seconds;
  } row[] = {{112, 45, 20}, {112, 12, 40}, {118, 9, 8}, {34, 12.7, 1.5}, {110, 20, 2}, {9, 5, 300}};
  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
    for (int hz = 1; hz <= 20; hz *= 4) {
      struct watched w;
      at(&w, row[i].from);
      ramp(&w, row[i].to, row[i].seconds, hz);
      for (int k = 0; k < 30; k++) pass_and_look(&w, 1);
      assert_int_equal(w.said, 0);
      stop(&w);
    }
}

/* The same fall, with tasks that wait for memory: 12.7 GiB are left, and gone in a second. */
static void test_collapse_under_pressure(void **state) {
  struct watched w;
  (void)state;
  at(&w, 34);
  w.machine.some_avg10 = 4120;
  ramp(&w, 12.7, 1.5, 20);
  assert_said(&w, VERDICT_WARN, "collapse", CONFIDENCE_HIGH);
  stop(&w);
}

/* One reading that differs is no fall. */
static void test_one_step(void **state) {
  struct watched w;
  (void)state;
  at(&w, 70);
  for (int i = 0; i < 5; i++) pass_and_look(&w, 1);
  w.machine.mem.available = gib(3);
  for (int i = 0; i < 5; i++) pass_and_look(&w, 1);
  assert_int_equal(w.said, 0);
  stop(&w);
}

/* A file is read: MemFree falls, MemAvailable does not. */
static void test_page_cache_is_no_collapse(void **state) {
  struct watched w;
  (void)state;
  at(&w, 115);
  for (int i = 0; i < 20; i++) {
    w.machine.mem.free = gib(100 - 5 * i);
    pass_and_look(&w, 1);
  }
  assert_int_equal(w.said, 0);
  stop(&w);
}

static void test_huge_pages_are_no_collapse(void **state) {
  struct watched w;
  (void)state;
  start(&w, machine(0));
  w.machine.mem.huge_total = 0;
  w.machine.mem.available = gib(60);
  look(&w);
  for (int i = 1; i <= 10; i++) {
    w.machine.mem.available = gib(60 - 5.6 * i);
    w.machine.mem.huge_total = gib(5.6 * i);
    pass_and_look(&w, 1);
  }
  assert_int_equal(w.said, 0);
  stop(&w);
}

static void test_collapse_withdrawn(void **state) {
  struct watched w;
  (void)state;
  serving_start(&w, 5);
  ramp(&w, 40, 2, 5);
  assert_said(&w, VERDICT_INFO, "collapse", CONFIDENCE_HIGH);
  assert_non_null(strstr(last(&w)->text, "came back"));
  stop(&w);
  serving_start(&w, 5);
  for (int i = 0; i < 70; i++) pass_and_look(&w, 1);
  assert_said(&w, VERDICT_INFO, "collapse", CONFIDENCE_HIGH);
  assert_non_null(strstr(last(&w)->text, "stands still there"));
  stop(&w);
  serving_start(&w, 5);
  end_job(&w, 0);
  assert_said(&w, VERDICT_INFO, "collapse", CONFIDENCE_HIGH);
  stop(&w);
  serving_start(&w, 5);
  end_job(&w, 1);
  assert_said(&w, VERDICT_WARN, "collapse", CONFIDENCE_HIGH);
  stop(&w);
}

/* Who grew decides what to do first. */
static void test_collapse_names_who_grew(void **state) {
  static const struct {
    double device, host, other;
    const char *fix;
  } row[] = {{5, 0, 0, "smaller share"}, {0, 5, 0, "shard by shard"}, {0, 0, 5, "other process"}};
  (void)state;
  for (int i = 0; i < 3; i++) {
    struct watched w;
    start(&w, machine(0));
    w.machine.mem.available = gib(60);
    w.machine.job_device = w.machine.job_pinned = w.machine.job_anon = w.machine.job_shmem = 0;
    look(&w);
    for (int k = 1; k <= 11; k++) {
      w.machine.mem.available -= gib(5);
      w.machine.job_device += gib(row[i].device);
      w.machine.job_anon += gib(row[i].host);
      pass_and_look(&w, 1);
    }
    assert_said(&w, VERDICT_WARN, "collapse", CONFIDENCE_HIGH);
    assert_non_null(strstr(last(&w)->fixes.item[0], row[i].fix));
    stop(&w);
  }
}

static void test_collapse_again_and_again(void **state) {
  struct watched w;
  (void)state;
  at(&w, 60);
  for (int i = 0; i < 10; i++) {
    ramp(&w, 4, 8, 5);
    ramp(&w, 60, 4, 5);
  }
  assert_int_equal(count_of(&w, "collapse"), 6); /* three times, each withdrawn */
  stop(&w);
}

/* ---- livelock ------------------------------------------------------------------------------------------------------- */
/* Memory at the edge: in kB, as in the reports. */
static struct fact_sample edge(uint64_t free_kb, uint64_t available_kb) {
  struct fact_sample s = machine(available_kb);
  s.mem.free = free_kb * KIB;
  s.mem.cached = 700000 * KIB;
  s.job_read = 1000 * MIB;
  s.refault = 5000;
  s.job_work = 100000;
  s.block_max = 2 * MIB;
  return s;
}

static void stall(struct watched *w, const char *call, double age, double idle, bool over) {
  struct fact f = {.kind = FACT_KIND_stall};
  memset(&f.u.stall, 0xff, sizeof f.u.stall);
  f.u.stall.pid = WORKER;
  f.u.stall.call = call;
  f.u.stall.state = "R";
  f.u.stall.age = call ? (uint64_t)(age * (double)SECOND) : FACT_NO_U64;
  f.u.stall.idle = (uint64_t)(idle * (double)SECOND);
  f.u.stall.thread_cpu = 15000;
  f.u.stall.over = over;
  tell(w, &f);
}

static void nvml(struct watched *w, bool answered, double waited) {
  struct fact f = {.kind = FACT_KIND_nvml};
  f.u.nvml = (struct fact_nvml){
      .call = "processes", .answered = answered, .waited = (uint64_t)(waited * (double)SECOND), .result = FACT_NO_I64};
  tell(w, &f);
}

enum sign { NONE, NVML, SWAP, FULL };

/* A sample a second, a stall record a minute, for `seconds`; the call has been in flight from the beginning. */
static void stand_still(struct watched *w, const char *call, int seconds, enum sign sign) {
  for (int i = 1; i <= seconds; i++) {
    if (sign == SWAP) w->machine.pswpin += 3000, w->machine.pswpout += 3000;
    if (sign == FULL) w->machine.full_avg10 = 780 + (uint64_t)i;
    pass_and_look(w, 1);
    if (sign == NVML && i % 30 == 0) nvml(w, false, i);
    if (i % 30 == 0) stall(w, call, i, i, false);
  }
}

static void test_livelock(void **state) {
  static const struct {
    uint64_t free_kb, available_kb;
    const char *call;
    enum sign sign;
  } row[] = {{141312, 1153434, "cudaMalloc", NVML},
             {912384, 1153434, "cudaMalloc", NVML},
             {200000, 314573, "ncclAllGather", FULL},
             {629146, 2097152, NULL, SWAP}};
  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
    struct watched w;
    start(&w, edge(row[i].free_kb, row[i].available_kb));
    look(&w);
    stand_still(&w, row[i].call, 55, row[i].sign);
    assert_int_equal(w.said, 0);
    for (int k = 56; k <= 299; k++) {
      if (row[i].sign == SWAP) w.machine.pswpin += 3000, w.machine.pswpout += 3000;
      pass_and_look(&w, 1);
      if (row[i].sign == NVML && k % 30 == 0) nvml(&w, false, k);
      if (k % 30 == 0) stall(&w, row[i].call, k, k, false);
    }
    assert_said(&w, VERDICT_WARN, "livelock", CONFIDENCE_MEDIUM);
    if (row[i].sign == SWAP) w.machine.pswpin += 3000, w.machine.pswpout += 3000;
    pass_and_look(&w, 1);
    assert_said(&w, VERDICT_FAIL, "livelock", CONFIDENCE_MEDIUM);
    assert_true(mentions(&last(&w)->evidence, "not excluded: a driver"));
    assert_non_null(strstr(last(&w)->text, row[i].call ? row[i].call : "no CUDA or NCCL call"));
    assert_false(mentions(&last(&w)->fixes, "drop_caches"));
    stop(&w);
  }
}

/* Everything the same but one. */
static void test_no_livelock(void **state) {
  struct watched w;
  (void)state;
  start(&w, edge(500000, 60000000)); /* memory to spare: a peer is gone, a kernel hangs */
  look(&w);
  stand_still(&w, "ncclAllReduce", 400, FULL);
  assert_int_equal(w.said, 0);
  stop(&w);
  start(&w, edge(20000000, 60000000));
  look(&w);
  stand_still(&w, "cudaStreamSynchronize", 400, NVML); /* the GPU does not answer: not for lack of memory */
  assert_int_equal(w.said, 0);
  stop(&w);
  start(&w, edge(500000, 1500000)); /* used up, but nothing says that anybody waits for memory */
  look(&w);
  stand_still(&w, "cudaDeviceSynchronize", 400, NONE);
  assert_int_equal(w.said, 0);
  stop(&w);
  start(&w, edge(500000, 4500000)); /* tight, not at the edge: it crawls */
  look(&w);
  stand_still(&w, "cudaMalloc", 600, SWAP);
  assert_int_equal(w.said, 0);
  stop(&w);
}

/* Swapped out once, never read back: no swapping in circles. */
static void test_swapping_out_alone(void **state) {
  struct watched w;
  (void)state;
  start(&w, edge(500000, 1500000));
  look(&w);
  for (int i = 1; i <= 400; i++) {
    w.machine.pswpout += 3000;
    pass_and_look(&w, 1);
    if (i % 30 == 0) stall(&w, NULL, 0, i, false);
  }
  assert_int_equal(w.said, 0);
  stop(&w);
}

/* A loader between two calls reads its files; another process of the job works. */
static void test_progress(void **state) {
  struct watched w;
  (void)state;
  for (int how = 0; how < 3; how++) {
    start(&w, edge(500000, 1500000));
    look(&w);
    for (int i = 1; i <= 400; i++) {
      w.machine.full_avg10 = 800;
      if (how == 0) w.machine.job_read += 200 * MIB;
      if (how == 1) w.machine.job_work += i % 20 == 0;
      if (how == 2) w.machine.job_read += 200 * MIB, w.machine.refault += 50000; /* what it reads had been dropped */
      pass_and_look(&w, 1);
      if (i % 30 == 0) stall(&w, NULL, 0, i, false);
    }
    if (how < 2)
      assert_int_equal(w.said, 0);
    else
      assert_said(&w, VERDICT_FAIL, "livelock", CONFIDENCE_MEDIUM);
    stop(&w);
  }
}

/* The stall began long before memory was short. */
static void test_short_at_the_end_only(void **state) {
  struct watched w;
  (void)state;
  start(&w, edge(500000, 60000000));
  look(&w);
  stand_still(&w, "ncclAllReduce", 390, FULL);
  w.machine.mem.available = 1500000 * KIB;
  for (int i = 0; i < 15; i++) pass_and_look(&w, 1);
  assert_int_equal(w.said, 0);
  stop(&w);
}

static void test_livelock_over(void **state) {
  struct watched w;
  (void)state;
  start(&w, edge(500000, 1500000));
  look(&w);
  stand_still(&w, "cudaMalloc", 400, FULL);
  assert_said(&w, VERDICT_FAIL, "livelock", CONFIDENCE_MEDIUM);
  stall(&w, "cudaMalloc", 401, 0, true);
  assert_said(&w, VERDICT_WARN, "livelock", CONFIDENCE_MEDIUM);
  assert_non_null(strstr(last(&w)->text, "went on"));
  end_job(&w, 0);
  assert_said(&w, VERDICT_INFO, "livelock", CONFIDENCE_MEDIUM);
  stop(&w);
}

/* Ended from outside while it stood still: that is how such a job ends. */
static void test_livelock_ended(void **state) {
  struct watched w;
  (void)state;
  start(&w, edge(500000, 1500000));
  look(&w);
  stand_still(&w, "cudaMalloc", 400, FULL);
  end_process(&w, 143);
  end_job(&w, 143);
  assert_said(&w, VERDICT_FAIL, "livelock", CONFIDENCE_MEDIUM);
  stop(&w);
}

/* NVML answered again, or there is no NVML at all. */
static void test_nvml_answers(void **state) {
  struct watched w;
  (void)state;
  start(&w, edge(500000, 1500000));
  look(&w);
  nvml(&w, false, 40);
  nvml(&w, true, 45);
  stand_still(&w, "cudaMalloc", 400, NONE);
  assert_int_equal(w.said, 0);
  stop(&w);
  start(&w, edge(500000, 1500000));
  look(&w);
  struct fact f = {.kind = FACT_KIND_nvml};
  f.u.nvml = (struct fact_nvml){.call = "load", .error = "libnvidia-ml.so.1: not found", .waited = 60 * SECOND};
  tell(&w, &f);
  stand_still(&w, "cudaMalloc", 400, NONE);
  assert_int_equal(w.said, 0);
  stop(&w);
}

/* The last record of a process that has gone without a word. */
static void test_old_stall(void **state) {
  struct watched w;
  (void)state;
  start(&w, edge(500000, 1500000));
  w.machine.full_avg10 = 800;
  look(&w);
  stall(&w, "cudaMalloc", 30, 30, false);
  for (int i = 0; i < 400; i++) pass_and_look(&w, 1);
  assert_int_equal(count_of(&w, "livelock"), 1); /* at 60 s; the record speaks for as long again as it had seen */
  assert_said(&w, VERDICT_WARN, "livelock", CONFIDENCE_MEDIUM);
  stop(&w);
}

/* ---- fragmentation ---------------------------------------------------------------------------------------------------- */
static struct fact_sample aged(uint64_t free_kb, uint64_t available_kb) {
  struct fact_sample s = machine(available_kb);
  s.mem.free = free_kb * KIB;
  s.block_max = 16 * MIB;
  s.blocks_large = 0;
  s.compact_stall = 2700000;
  s.compact_fail = 1350000;
  return s;
}

static void test_fragmented(void **state) {
  struct watched w;
  (void)state;
  start(&w, aged(60000000, 123731968));
  look(&w);
  assert_said(&w, VERDICT_WARN, "fragmentation", CONFIDENCE_HIGH);
  assert_true(mentions(&last(&w)->evidence, "1350000 of 2700000"));
  assert_non_null(strstr(last(&w)->fixes.item[0], "restart"));
  for (int i = 0; i < 10; i++) pass_and_look(&w, 1);
  end_job(&w, 1);
  assert_int_equal(w.said, 1);
  stop(&w);
}

static void test_not_fragmented(void **state) {
  struct watched w;
  struct fact_sample row[5];
  (void)state;
  row[0] = aged(60000000, 123731968); /* a block is there */
  row[0].blocks_large = 1;
  row[1] = aged(60000000, 123731968); /* the kernel has no such orders, or they could not be read */
  row[1].blocks_large = NEVER;
  row[2] = aged(1500000, 123731968);  /* full of page cache */
  row[3] = aged(60000000, 123731968); /* nobody has ever needed one */
  row[3].compact_fail = 12;
  row[4] = aged(1500000, 3000000); /* in use */
  for (int i = 0; i < 5; i++) {
    start(&w, row[i]);
    look(&w);
    for (int k = 0; k < 10; k++) pass_and_look(&w, 1);
    assert_int_equal(w.said, 0);
    stop(&w);
  }
}

/* It began with large blocks; they are used up later. */
static void test_used_up_is_not_fragmented(void **state) {
  struct watched w;
  (void)state;
  start(&w, aged(60000000, 110000000));
  w.machine.blocks_large = 782;
  look(&w);
  w.machine.blocks_large = 0;
  w.machine.compact_fail += 5000;
  pass_and_look(&w, 1);
  stall(&w, "cudaMalloc", 40, 40, false);
  assert_int_equal(w.said, 0);
  stop(&w);
}

/* Full of page cache, and compaction fails for an allocation of this job. Not for another call, nor without failing. */
static void test_compaction_fails_meanwhile(void **state) {
  static const struct {
    const char *call;
    uint64_t failed;
    bool said;
  } row[] = {{"cudaMalloc", 5000, true},
             {"cuMemCreate", 5000, true},
             {"ncclAllReduce", 5000, false},
             {"cudaMalloc", 3, false}};
  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
    struct watched w;
    start(&w, aged(1500000, 110000000));
    look(&w);
    w.machine.compact_fail += row[i].failed;
    for (int k = 0; k < 60; k++) pass_and_look(&w, 1);
    stall(&w, row[i].call, 60, 60, false);
    assert_int_equal(count_of(&w, "fragmentation"), row[i].said);
    stop(&w);
  }
}

static void test_nothing_known(void **state) {
  struct watched w;
  struct fact_sample blind;
  (void)state;
  memset(&blind, 0xff, sizeof blind);
  blind.why = NULL;
  start(&w, blind);
  for (int i = 0; i < 20; i++) pass_and_look(&w, 1);
  stall(&w, NULL, 0, 1000, false);
  nvml(&w, false, 1000);
  end_job(&w, 1);
  assert_int_equal(w.said, 0);
  stop(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_collapse),
      cmocka_unit_test(test_loads_are_no_collapse),
      cmocka_unit_test(test_collapse_under_pressure),
      cmocka_unit_test(test_one_step),
      cmocka_unit_test(test_page_cache_is_no_collapse),
      cmocka_unit_test(test_huge_pages_are_no_collapse),
      cmocka_unit_test(test_collapse_withdrawn),
      cmocka_unit_test(test_collapse_names_who_grew),
      cmocka_unit_test(test_collapse_again_and_again),
      cmocka_unit_test(test_livelock),
      cmocka_unit_test(test_no_livelock),
      cmocka_unit_test(test_swapping_out_alone),
      cmocka_unit_test(test_progress),
      cmocka_unit_test(test_short_at_the_end_only),
      cmocka_unit_test(test_livelock_over),
      cmocka_unit_test(test_livelock_ended),
      cmocka_unit_test(test_nvml_answers),
      cmocka_unit_test(test_old_stall),
      cmocka_unit_test(test_fragmented),
      cmocka_unit_test(test_not_fragmented),
      cmocka_unit_test(test_used_up_is_not_fragmented),
      cmocka_unit_test(test_compaction_fails_meanwhile),
      cmocka_unit_test(test_nothing_known),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
