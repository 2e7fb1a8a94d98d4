/* Tests of contiguous memory: an area that holds what seems to be free, a kernel that counts one it does not have, and
 * the limits, peers and shortages that look like them. */
#include "g03_process.h"

/* The trap of the reports: 9.0 GiB seem to be available, 8.5 of them in an area. */
static struct fact_memory in_area(void) {
  struct fact_memory m = memory(127506432, 9437184, 9437184, 3000000);
  m.cma_total = 9043968 * KIB;
  m.cma_free = 8912896 * KIB;
  return m;
}

/* 88 GiB free on a kernel with "CmaTotal: 0 kB" and CmaFree above it. */
static struct fact_memory phantom(void) {
  struct fact_memory m = memory(127506432, 92274688, 95000000, 3000000);
  m.cma_total = 0;
  m.cma_free = 940604 * KIB;
  return m;
}

static void nccl_ran(struct process *p, const char *call, int64_t result, uint64_t wall) {
  struct fact f = {.kind = FACT_KIND_comm};
  tell(p, &(struct fact){.kind = FACT_KIND_mem, .u.mem = {.why = "comm_failed", .mem = p->mem}});
  f.u.comm = (struct fact_comm){.call = call, .result = result, .wall_us = wall, .ranks = 2, .rank = 0};
  tell(p, &f);
}

static void call_failed(struct process *p, const char *call, int64_t result) {
  tell(p,
       &(struct fact){.kind = FACT_KIND_call_failed, .u.call_failed = {.call = call, .result = result, .arg = NEVER}});
}

/* ---- a real area ------------------------------------------------------------------------------------------- */

static void an_area_is_told_at_once(void **state) {
  struct process p;
  (void)state;
  start(&p, in_area());
  context(&p);
  assert_said(&p, VERDICT_WARN, "cma_trap", CONFIDENCE_HIGH);
  assert_non_null(strstr(last(&p)->text, "of 9.0 GiB that seem to be available 8.5 GiB lie in a contiguous area"));
  assert_non_null(strstr(last(&p)->text, "0.5 GiB can be had"));
  context(&p);
  ask(&p, 0);
  end(&p, 0, NEVER); /* the machine is as it is, however well this job went */
  assert_int_equal(p.said, 1);
  stop(&p);
}

static void areas_that_mislead_nobody(void **state) {
  (void)state;
  static const struct {
    uint64_t total, free_part, available; /* GiB in quarters */
    bool speaks;
  } rows[] = {
      {34, 34, 36, true},  {34, 34, 68, true}, {34, 34, 69, false}, /* half, and a little less */
      {8, 8, 10, true},    {4, 4, 5, false},                        /* a trifle */
      {34, 0, 36, false},  {0, 0, 36, false},                       /* in use; none */
      {30, 34, 36, false},                                          /* nonsense */
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct process p;
    start(&p, in_area());
    p.mem.cma_total = rows[i].total * GIB / 4;
    p.mem.cma_free = rows[i].free_part * GIB / 4;
    p.mem.free = p.mem.available = rows[i].available * GIB / 4;
    context(&p);
    assert_int_equal(p.said, rows[i].speaks);
    stop(&p);
  }
}

static void refused_because_of_the_area(void **state) {
  struct process p;
  (void)state;
  start(&p, in_area());
  refuse(&p, GIB);
  assert_said(&p, VERDICT_WARN, "cma_trap", CONFIDENCE_HIGH);
  p.now += SECOND;
  end(&p, 1, START - 1);
  assert_said(&p, VERDICT_FAIL, "cma_trap", CONFIDENCE_HIGH);
  assert_non_null(strstr(last(&p)->ruled_out.item[0], "alloc_refused_exhausted: with the area, 9.0 GiB"));
  assert_false(fixes_mention(last(&p), "drop_caches"));
  stop(&p);
  start(&p, in_area()); /* not even the area would have been enough */
  refuse(&p, 8 * GIB);
  assert_said(&p, VERDICT_WARN, "alloc_refused_exhausted", CONFIDENCE_HIGH);
  stop(&p);
  start(&p, in_area()); /* next to no area */
  p.mem.cma_total = p.mem.cma_free = 256 * MIB;
  p.mem.free = p.mem.available = 2 * GIB;
  refuse(&p, GIB);
  assert_string_equal(last(&p)->cause, "alloc_refused_exhausted");
  stop(&p);
}

/* ---- an area that is none ------------------------------------------------------------------------------------ */

static void registration_fails(void **state) {
  (void)state;
  static const struct {
    uint64_t memlock;
    bool read;
    uint64_t wall;
    enum confidence c;
    enum verdict v;
  } rows[] = {
      {UNLIMITED, true, 90000, CONFIDENCE_HIGH, VERDICT_FAIL},
      {0, false, 90000, CONFIDENCE_MEDIUM, VERDICT_FAIL},
      {UNLIMITED, true, 60 * SECOND, CONFIDENCE_MEDIUM, VERDICT_FAIL}, /* or a peer */
      {UNLIMITED, true, NEVER, CONFIDENCE_HIGH, VERDICT_FAIL},
      {8 * MIB, true, 90000, CONFIDENCE_LOW, VERDICT_WARN}, /* or the limit: two causes, no verdict */
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct process p;
    start(&p, phantom());
    tell(&p,
         &(struct fact){.kind = FACT_KIND_header, .u.header = {.gpu = "NVIDIA GB10", .kernel = "7.0.0-1019-nvidia"}});
    context(&p);
    assert_int_equal(p.said, 0);
    if (rows[i].read) memlock(&p, rows[i].memlock);
    nccl_ran(&p, "ncclCommInitRank", 2, rows[i].wall);
    assert_said(&p, VERDICT_WARN, "cma_trap", rows[i].c);
    p.now += SECOND;
    end(&p, 1, START - 1);
    assert_string_equal(verdict_word(last(&p)->verdict), verdict_word(rows[i].v));
    assert_non_null(strstr(last(&p)->evidence.item[3], "CmaFree 0.9 GiB, kernel 7.0.0-1019-nvidia"));
    if (rows[i].c == CONFIDENCE_HIGH) assert_non_null(strstr(last(&p)->fixes.item[0], "another kernel"));
    if (rows[i].c == CONFIDENCE_LOW) assert_non_null(strstr(last(&p)->fixes.item[0], "ulimit -l"));
    stop(&p);
  }
}

/* preflight looks at the machine before anything has failed. */
static void preflight_warns_of_such_a_kernel(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++) {
    struct process p;
    start(&p, i == 2 ? in_area() : phantom());
    if (i == 1) p.mem.cma_free = 0;
    ask(&p, 0);
    for (int k = 0; k < 2; k++) tell(&p, &(struct fact){.kind = FACT_KIND_split, .u.split = {.why = "preflight"}});
    tell(&p, &(struct fact){.kind = FACT_KIND_split, .u.split = {.why = "start"}});
    assert_int_equal(p.said, i != 1);
    if (i != 1) assert_said(&p, VERDICT_WARN, "cma_trap", i ? CONFIDENCE_HIGH : CONFIDENCE_MEDIUM);
    stop(&p);
  }
}

static void failures_of_another_kind(void **state) {
  (void)state;
  enum { AGREES, NO_FIELDS, FULL, CACHED, REMOTE, INTERNAL, UNHANDLED, DEVICE, KINDS };
  for (int kind = 0; kind < KINDS; kind++) {
    struct process p;
    int64_t result = kind == REMOTE ? 6 : kind == INTERNAL ? 3 : kind == UNHANDLED ? 1 : 2;
    start(&p, phantom());
    if (kind == AGREES) p.mem.cma_free = 0;
    if (kind == NO_FIELDS) p.mem.cma_total = p.mem.cma_free = NEVER;
    if (kind == FULL) p.mem.free = p.mem.available = GIB;
    if (kind == CACHED) p.mem.free = GIB;
    memlock(&p, UNLIMITED);
    if (kind == DEVICE)
      refuse(&p, GIB);
    else
      nccl_ran(&p, "ncclCommInitRank", result, 90000);
    end(&p, 1, START - 1);
    for (unsigned i = 0; i < p.said; i++) assert_string_not_equal(p.finding[i].cause, "cma_trap");
    assert_int_equal(p.said, kind == DEVICE); /* NCCL's failure alone says nothing about memory */
    stop(&p);
  }
}

static void any_call_of_nccl(void **state) {
  (void)state;
  static const char *const calls[] = {"ncclGroupEnd", "ncclAllReduce", "ncclCommGetAsyncError"};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    struct process p;
    start(&p, phantom());
    context(&p);
    memlock(&p, UNLIMITED);
    call_failed(&p, calls[i], 2);
    assert_said(&p, VERDICT_WARN, "cma_trap", CONFIDENCE_HIGH);
    stop(&p);
  }
  struct process p;
  start(&p, phantom());
  context(&p);
  call_failed(&p, "cudaMemcpy", 2);
  call_failed(&p, "ncclAllReduce", 5);
  call_failed(&p, NULL, 2);
  assert_int_equal(p.said, 0);
  stop(&p);
}

static void a_communicator_that_comes_up_later(void **state) {
  struct process p;
  (void)state;
  start(&p, phantom());
  memlock(&p, UNLIMITED);
  nccl_ran(&p, "ncclCommInitRankConfig", 2, 90000);
  nccl_ran(&p, "ncclGetUniqueId", 0, 90000); /* settles nothing */
  assert_int_equal(p.said, 1);
  nccl_ran(&p, "ncclCommInitRankConfig", 0, 90000);
  assert_said(&p, VERDICT_INFO, "cma_trap", CONFIDENCE_HIGH);
  end(&p, 1, START - 1);
  assert_int_equal(p.said, 2);
  stop(&p);
}

static void page_locking_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *call;
    int64_t result;
    uint64_t size, memlock;
    enum confidence c;
  } rows[] = {
      {"cudaHostRegister", 2, 4 * GIB, UNLIMITED, CONFIDENCE_HIGH},
      {"cudaHostRegister", 304, 4 * GIB, UNLIMITED, CONFIDENCE_HIGH},
      {"cudaHostAlloc", 2, 4 * GIB, 4 * GIB, CONFIDENCE_HIGH}, /* the limit covers it */
      {"cudaHostAlloc", 2, 4 * GIB, 4 * GIB - 1, CONFIDENCE_LOW},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct process p;
    start(&p, phantom());
    memlock(&p, rows[i].memlock);
    refuse_as(&p, rows[i].call, "pinned", rows[i].size, rows[i].result);
    assert_said(&p, VERDICT_WARN, "cma_trap", rows[i].c);
    p.now += SECOND;
    end(&p, 1, START - 1);
    assert_int_equal(last(&p)->verdict, rows[i].c == CONFIDENCE_LOW ? VERDICT_WARN : VERDICT_FAIL);
    stop(&p);
  }
  struct process p;
  start(&p, idle()); /* a failed system call by itself is not about memory */
  refuse_as(&p, "cudaHostRegister", "pinned", GIB, 304);
  end(&p, 1, START - 1);
  assert_int_equal(p.said, 0);
  stop(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_area_is_told_at_once),
      cmocka_unit_test(areas_that_mislead_nobody),
      cmocka_unit_test(refused_because_of_the_area),
      cmocka_unit_test(registration_fails),
      cmocka_unit_test(failures_of_another_kind),
      cmocka_unit_test(preflight_warns_of_such_a_kernel),
      cmocka_unit_test(any_call_of_nccl),
      cmocka_unit_test(a_communicator_that_comes_up_later),
      cmocka_unit_test(page_locking_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
