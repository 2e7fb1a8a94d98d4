/* Tests of G3 on facts: each cause, each look-alike, the boundary values, and what must never be said. */
#include "g03_process.h"

/* ---- form A: the free figure ------------------------------------------------------------------------ */

static void misleading_figure_is_a_note(void **state) {
  struct process p;
  (void)state;
  start(&p, cache_hides_all());
  ask(&p, 0);
  assert_said(&p, VERDICT_INFO, "page_cache_counted", CONFIDENCE_HIGH);
  assert_non_null(
      strstr(last(&p)->text, "says 41.5 GiB free although 115.7 GiB can be had: it counts 72.7 GiB of page"));
  for (int i = 0; i < 10; i++) ask(&p, 0);
  p.now += SECOND;
  end(&p, 0, NEVER);
  assert_int_equal(p.said, 1);
  stop(&p);
}

static void giving_up_after_it_is_a_failure(void **state) {
  struct process p;
  (void)state;
  start(&p, cache_hides_all());
  ask(&p, 0);
  p.now += SECOND;
  end(&p, 1, START - 1);
  assert_said(&p, VERDICT_FAIL, "page_cache_counted", CONFIDENCE_MEDIUM);
  assert_non_null(strstr(last(&p)->fixes.item[0], "drop_caches"));
  stop(&p);
}

/* The exit rule, one deviation a row. `said` counts the note that was made at once. */
static void giving_up_needs_all_of_it(void **state) {
  (void)state;
  static const struct {
    uint64_t wait, activity;
    int64_t status;
    bool fails;
  } rows[] = {
      {30 * SECOND, NEVER, 1, true},    {30 * SECOND + 1, NEVER, 1, false}, {SECOND, START, 1, true},
      {SECOND, START + 1, 1, false},    {SECOND, NEVER, 0, false},          {SECOND, NEVER, FACT_NO_I64, false},
      {SECOND, NEVER, 128 + 15, false}, {SECOND, NEVER, 128 + 2, false},    {SECOND, NEVER, 128 + 9, false},
      {SECOND, NEVER, 255, true},       {SECOND, NEVER, 128 + 11, false},   {SECOND, NEVER, 128 + 6, true},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct process p;
    start(&p, cache_hides_all());
    ask(&p, 0);
    p.now += rows[i].wait;
    end(&p, rows[i].status, rows[i].activity);
    assert_int_equal(last(&p)->verdict == VERDICT_FAIL, rows[i].fails);
    stop(&p);
  }
}

static void giving_up_by_a_signal(void **state) {
  (void)state;
  for (int signal = 1; signal < 32; signal++) {
    struct process p;
    start(&p, cache_hides_all());
    ask(&p, 0);
    p.now += SECOND;
    killed(&p, signal, NEVER);
    assert_int_equal(last(&p)->verdict == VERDICT_FAIL, signal == 6);
    if (signal == 6) assert_non_null(strstr(last(&p)->evidence.item[4], "ended by signal 6, 1000 ms later"));
    stop(&p);
  }
}

/* What fails after the figure is the likelier reason of the end. */
static void giving_up_after_another_failure(void **state) {
  (void)state;
  static const struct fact rows[] = {
      {.kind = FACT_KIND_call_failed, .u.call_failed = {.call = "cudaStreamSynchronize", .result = 700}},
      {.kind = FACT_KIND_call_failed, .u.call_failed = {.call = "ncclAllReduce", .result = 2}},
      {.kind = FACT_KIND_launch_failed, .u.launch_failed = {.call = "cudaLaunchKernel", .result = 209}},
      {.kind = FACT_KIND_image_failed, .u.image_failed = {.call = "cuModuleLoadData", .result = 218}},
      {.kind = FACT_KIND_comm, .u.comm = {.call = "ncclCommInitRank", .result = 3}},
      {.kind = FACT_KIND_load_failed,
       .u.load_failed = {.name = "libcudart.so.12", .family = "cudart", .how = "dlerror"}},
      /* What programs meet in good health */
      {.kind = FACT_KIND_call_failed, .u.call_failed = {.call = "cudaGetLastError", .result = 2}},
      {.kind = FACT_KIND_call_failed, .u.call_failed = {.call = "cudaFree", .result = 4}},
      {.kind = FACT_KIND_call_failed, .u.call_failed = {.call = "ncclCommInitRankConfig", .result = 7}},
      {.kind = FACT_KIND_comm, .u.comm = {.call = "ncclCommInitRank", .result = 0}},
      {.kind = FACT_KIND_load_failed, .u.load_failed = {.name = "libfoo.so", .how = "dlerror"}},
      {.kind = FACT_KIND_load_failed, .u.load_failed = {.name = "libcudnn.so.9", .family = "cudnn", .how = "unmapped"}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct process p;
    struct fact f = rows[i];
    start(&p, cache_hides_all());
    ask(&p, 0);
    tell(&p, &f);
    p.now += SECOND;
    end(&p, 1, NEVER);
    assert_string_equal(verdict_word(last(&p)->verdict), i < 6 ? "INFO" : "FAIL");
    stop(&p);
    start(&p, cache_hides_all()); /* before the figure it says nothing */
    tell(&p, &f);
    ask(&p, 0);
    p.now += SECOND;
    end(&p, 1, NEVER);
    assert_string_equal(verdict_word(last(&p)->verdict), "FAIL");
    stop(&p);
  }
}

static void a_later_good_figure_counts(void **state) {
  struct process p;
  (void)state;
  start(&p, cache_hides_all());
  ask(&p, 0);
  p.mem = idle();
  p.now += SECOND;
  ask(&p, 0);
  end(&p, 1, NEVER);
  assert_int_equal(p.said, 1);
  stop(&p);
}

static void a_refusal_takes_the_blame(void **state) {
  struct process p;
  (void)state;
  start(&p, cache_hides_all());
  ask(&p, 0);
  refuse(&p, 60 * GIB);
  p.now += SECOND;
  end(&p, 1, NEVER);
  assert_said(&p, VERDICT_FAIL, "alloc_refused_reclaimable", CONFIDENCE_HIGH);
  for (unsigned i = 0; i < p.said; i++)
    assert_false(p.finding[i].verdict >= VERDICT_WARN && !strcmp(p.finding[i].cause, "page_cache_counted"));
  stop(&p);
}

/* Figures that mislead nobody, or not because of page cache: nothing is said, whatever the process does. */
static void honest_figures(void **state) {
  (void)state;
  struct fact_memory rows[] = {
      idle(),
      memory(127535084, 90000000, 112400000, 22000000), /* just four fifths */
      memory(127535084, 4000000, 9000000, 5000000),     /* little to gain: memory is in use */
      memory(127535084, 43537000, 121268000, 20000000), /* page cache does not explain it */
      cache_hides_all(),                                /* shared memory is no page cache, see below */
      cache_hides_all(),                                /* HugeTLB in use, see below */
      cache_hides_all(),                                /* MemAvailable not known, see below */
  };
  rows[4].shmem = 60000000 * KIB;
  rows[5].huge_total = 64 * GIB;
  rows[5].huge_free = 40 * GIB;
  rows[6].available = FACT_NO_U64;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct process p;
    start(&p, rows[i]);
    ask(&p, 0);
    end(&p, 1, NEVER);
    assert_int_equal(p.said, 0);
    stop(&p);
  }
}

static void the_threshold_of_the_figure(void **state) {
  (void)state;
  for (int above = 0; above < 2; above++) {
    struct process p;
    uint64_t available = 100000000;
    start(&p, memory(127535084, available * 4 / 5 + (uint64_t)above * 4, available, 60000000));
    ask(&p, 0);
    assert_int_equal(p.said, above ? 0 : 1);
    stop(&p);
  }
}

/* A stack whose free figure already counts page cache. */
static void figure_from_available(void **state) {
  struct process p;
  (void)state;
  start(&p, cache_hides_all());
  struct fact f = {.kind = FACT_KIND_mem_query};
  f.u.mem_query = (struct fact_mem_query){
      .call = "cudaMemGetInfo", .result = 0, .free = p.mem.available, .total = p.mem.total, .mem = p.mem};
  tell(&p, &f);
  end(&p, 1, NEVER);
  assert_int_equal(p.said, 0);
  stop(&p);
}

/* A GPU with memory of its own: the machine's memory is not the question, and what was said is taken back. */
static void discrete_gpu(void **state) {
  struct process p;
  (void)state;
  start(&p, cache_full());
  refuse(&p, 2 * GIB);
  assert_said(&p, VERDICT_WARN, "alloc_refused_reclaimable", CONFIDENCE_HIGH);
  struct fact f = {.kind = FACT_KIND_mem_query};
  f.u.mem_query = (struct fact_mem_query){
      .call = "cudaMemGetInfo", .result = 0, .free = GIB, .total = 80 * GIB, .mem = p.mem};
  tell(&p, &f);
  assert_said(&p, VERDICT_INFO, "alloc_refused_reclaimable", CONFIDENCE_LOW);
  refuse(&p, 2 * GIB);
  end(&p, 1, NEVER);
  assert_int_equal(p.said, 2);
  stop(&p);
}

static void edges_of_a_shared_memory(void **state) {
  (void)state;
  static const struct {
    int64_t off; /* of the total that the driver tells, from the last one that passes for MemTotal */
    bool low, speaks;
  } rows[] = {{0, true, true}, {-1, true, false}, {0, false, true}, {1, false, false}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct process p;
    start(&p, cache_hides_all());
    p.mem.total = 128 * GIB;
    struct fact f = {.kind = FACT_KIND_mem_query};
    uint64_t total = (rows[i].low ? 112 * GIB : 144 * GIB) + (uint64_t)rows[i].off;
    f.u.mem_query = (struct fact_mem_query){
        .call = "cudaMemGetInfo", .result = 0, .free = p.mem.free, .total = total, .mem = p.mem};
    tell(&p, &f);
    assert_int_equal(p.said > 0, rows[i].speaks);
    stop(&p);
  }
}

static void edges_of_a_misleading_figure(void **state) {
  (void)state;
  static const struct {
    uint64_t free, available, cache, off; /* GiB; off: bytes that the answer is below MemFree */
    int64_t less_cache;
    bool speaks;
  } rows[] = {
      {24, 40, 8, 0, 0, true},        /* 16 GiB: an eighth of the machine, cache half of it */
      {24, 40, 8, 0, 1, false},       /* a byte of cache less */
      {24, 40, 16, 8 * GIB, 0, true}, /* a sixteenth below MemFree */
      {24, 40, 16, 8 * GIB + 1, 0, false},
      {25, 40, 16, 0, 0, false}, /* 15 GiB */
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct process p;
    start(&p, cache_hides_all());
    p.mem.total = 128 * GIB;
    p.mem.free = rows[i].free * GIB;
    p.mem.available = rows[i].available * GIB;
    p.mem.cached = rows[i].cache * GIB - (uint64_t)rows[i].less_cache;
    p.mem.buffers = p.mem.shmem = 0;
    struct fact f = {.kind = FACT_KIND_mem_query};
    f.u.mem_query = (struct fact_mem_query){
        .call = "cudaMemGetInfo", .result = 0, .free = p.mem.free - rows[i].off, .total = p.mem.total, .mem = p.mem};
    tell(&p, &f);
    assert_int_equal(p.said > 0, rows[i].speaks);
    stop(&p);
  }
}

static void another_model(void **state) {
  (void)state;
  static const struct {
    const char *gpu;
    bool speaks;
  } rows[] = {{"NVIDIA GB10", true}, {NULL, true}, {"NVIDIA H200", false}, {"NVIDIA GB100", false}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct process p;
    start(&p, cache_full());
    struct fact f = {.kind = FACT_KIND_header, .u.header = {.writer = "shim", .gpu = rows[i].gpu}};
    tell(&p, &f);
    ask(&p, 0);
    refuse(&p, 2 * GIB);
    end(&p, 1, NEVER);
    assert_int_equal(p.said > 0, rows[i].speaks);
    stop(&p);
  }
}

/* ---- form B: a refused request ---------------------------------------------------------------------- */

static void query_refused(void **state) {
  struct process p;
  (void)state;
  start(&p, cache_full());
  ask(&p, 2);
  assert_said(&p, VERDICT_WARN, "alloc_refused_reclaimable", CONFIDENCE_HIGH);
  p.now += SECOND;
  end(&p, 1, START - 1);
  assert_said(&p, VERDICT_FAIL, "alloc_refused_reclaimable", CONFIDENCE_HIGH);
  assert_int_equal(last(&p)->retry, RETRY_MAY_HELP);
  assert_non_null(strstr(last(&p)->fixes.item[0], "drop_caches"));
  stop(&p);
}

static void memory_used_up(void **state) {
  struct process p;
  (void)state;
  start(&p, used_up());
  struct fact f = {.kind = FACT_KIND_alloc_failed};
  f.u.alloc_failed = (struct fact_alloc_failed){.call = "cuMemCreate",
                                                .route = "vmm",
                                                .size = 20 * MIB,
                                                .result = 2,
                                                .repeat = 1,
                                                .last = NEVER,
                                                .live_device = 112 * GIB,
                                                .live_pinned = 0,
                                                .mem = p.mem};
  tell(&p, &f);
  assert_said(&p, VERDICT_WARN, "alloc_refused_exhausted", CONFIDENCE_HIGH);
  end(&p, 1, START);
  assert_said(&p, VERDICT_FAIL, "alloc_refused_exhausted", CONFIDENCE_HIGH);
  assert_string_equal(last(&p)->object, "vmm");
  assert_non_null(
      strstr(last(&p)->text, "cuMemCreate of 20.0 MiB was refused with error 2: memory is used up, 1.1 GiB"));
  assert_non_null(strstr(last(&p)->fixes.item[0], "smaller batch"));
  assert_false(fixes_mention(last(&p), "drop_caches"));
  assert_int_equal(last(&p)->retry, RETRY_USELESS);
  stop(&p);
}

static void what_holds_memory_comes_first(void **state) {
  (void)state;
  static const struct {
    uint64_t device, pinned, huge;
    const char *fix;
  } rows[] = {
      {112 * GIB, 0, 0, "smaller batch"},
      {2 * GIB, 90 * GIB, 0, "pinned host memory"},
      {2 * GIB, 0, 0, "find out who holds"},
      {2 * GIB, 0, 100 * GIB, "HugeTLB"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct process p;
    start(&p, used_up());
    if (rows[i].huge) {
      p.mem.huge_total = rows[i].huge;
      p.mem.huge_free = 0;
    }
    struct fact f = {.kind = FACT_KIND_alloc_failed};
    f.u.alloc_failed = (struct fact_alloc_failed){.call = "cudaMalloc",
                                                  .route = "device",
                                                  .size = GIB,
                                                  .result = 2,
                                                  .repeat = 1,
                                                  .last = NEVER,
                                                  .live_device = rows[i].device,
                                                  .live_pinned = rows[i].pinned,
                                                  .mem = p.mem};
    tell(&p, &f);
    assert_said(&p, VERDICT_WARN, "alloc_refused_exhausted", CONFIDENCE_HIGH);
    assert_non_null(strstr(last(&p)->fixes.item[0], rows[i].fix));
    stop(&p);
  }
}

struct judged {
  uint64_t size; /* MiB */
  uint64_t free, available, cached;
  const char *cause;
  enum confidence confidence;
};

/* Request against reading; the reserve is MemTotal / 64 = 1945 MiB here. Sizes of the reading in kB. */
static void request_against_reading(void **state) {
  (void)state;
  static const struct judged rows[] = {
      /* clear cases */
      {2048, 943718, 62914560, 63000000, "alloc_refused_reclaimable", CONFIDENCE_HIGH},
      {40960, 10485760, 62914560, 53000000, "alloc_refused_reclaimable", CONFIDENCE_HIGH},
      {81920, 10485760, 31457280, 22000000, "alloc_refused_exhausted", CONFIDENCE_HIGH},
      {20, 943718, 1153433, 734003, "alloc_refused_exhausted", CONFIDENCE_HIGH},
      /* MemFree alone covers it: something else may be the reason */
      {0, 314572, 83886080, 84000000, "alloc_refused_reclaimable", CONFIDENCE_HIGH},
      {1, 314572, 83886080, 84000000, "alloc_refused_reclaimable", CONFIDENCE_MEDIUM},
      /* page cache does not account for what is available */
      {2048, 943718, 62914560, 20000000, "alloc_refused_reclaimable", CONFIDENCE_MEDIUM},
      /* within the reserve, from above and from below */
      {40960, 10485760, 45000000, 40000000, "alloc_refused_reclaimable", CONFIDENCE_MEDIUM},
      {40960, 10485760, 43000000, 40000000, "alloc_refused_exhausted", CONFIDENCE_MEDIUM},
      /* plenty is free */
      {2048, 62914560, 83886080, 20000000, "alloc_refused_unexplained", CONFIDENCE_LOW},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct process p;
    start(&p, memory(127535084, rows[i].free, rows[i].available, rows[i].cached));
    refuse(&p, rows[i].size * MIB);
    assert_said(&p, VERDICT_WARN, rows[i].cause, rows[i].confidence);
    bool doubt = false;
    for (unsigned k = 0; k < last(&p)->evidence.n; k++) doubt |= !!strstr(last(&p)->evidence.item[k], "not excluded");
    assert_int_equal(doubt, rows[i].confidence != CONFIDENCE_HIGH);
    end(&p, 1, NEVER);
    assert_int_equal(last(&p)->verdict == VERDICT_FAIL, rows[i].confidence != CONFIDENCE_LOW);
    stop(&p);
  }
}

static void edges_of_the_judgement(void **state) {
  (void)state;
  struct fact_memory m = cache_full();
  uint64_t reserve = m.total / 64;
  uint64_t size = m.available - reserve;
  struct process p;
  start(&p, m);
  refuse(&p, size); /* what can be had covers it to the byte */
  assert_said(&p, VERDICT_WARN, "alloc_refused_reclaimable", CONFIDENCE_MEDIUM);
  stop(&p);
  start(&p, m);
  refuse(&p, size + 1);
  assert_said(&p, VERDICT_WARN, "alloc_refused_exhausted", CONFIDENCE_MEDIUM);
  stop(&p);
  m.free = 20 * GIB;
  start(&p, m);
  refuse(&p, m.free - reserve);
  assert_said(&p, VERDICT_WARN, "alloc_refused_unexplained", CONFIDENCE_LOW);
  stop(&p);
  start(&p, m);
  refuse(&p, m.total + m.swap_total);
  assert_said(&p, VERDICT_WARN, "alloc_refused_exhausted", CONFIDENCE_HIGH);
  stop(&p);
  start(&p, m);
  refuse(&p, m.total + m.swap_total + 1);
  assert_said(&p, VERDICT_WARN, "oversize_request", CONFIDENCE_HIGH);
  stop(&p);
}

/* To the byte: a reading in which the rule just holds, and the same with one byte less or more. */
static void edges_of_confidence(void **state) {
  (void)state;
  const uint64_t total = 64 * 8 * GIB, reserve = total / 64;
  static const uint64_t size = 100 * GIB;
  const struct {
    uint64_t request, free, available, cached, anon, huge;
    const char *cause;
    enum confidence confidence;
  } rows[] = {
      /* what can be had: reserve */
      {1, 0, reserve - 1, 0, 20 * GIB, 0, "alloc_refused_exhausted", CONFIDENCE_HIGH},
      {1, 0, reserve, 0, 20 * GIB, 0, "alloc_refused_exhausted", CONFIDENCE_MEDIUM},
      /* swap has room for 10 GiB */
      {size, 0, size - 10 * GIB - 1, 0, 10 * GIB, 0, "alloc_refused_exhausted", CONFIDENCE_HIGH},
      {size, 0, size - 10 * GIB, 0, 10 * GIB, 0, "alloc_refused_exhausted", CONFIDENCE_MEDIUM},
      /* free memory: the request */
      {size, size - 1, 3 * size, 3 * size, 0, 0, "alloc_refused_reclaimable", CONFIDENCE_HIGH},
      {size, size, 3 * size, 3 * size, 0, 0, "alloc_refused_reclaimable", CONFIDENCE_MEDIUM},
      /* page cache: half of the difference */
      {size, 0, 3 * size, 3 * size / 2, 0, 0, "alloc_refused_reclaimable", CONFIDENCE_HIGH},
      {size, 0, 3 * size, 3 * size / 2 - 1, 0, 0, "alloc_refused_reclaimable", CONFIDENCE_MEDIUM},
      /* what can be had: the request and two reserves */
      {size, 0, size + 2 * reserve, 3 * size, 0, 0, "alloc_refused_reclaimable", CONFIDENCE_HIGH},
      {size, 0, size + 2 * reserve - 1, 3 * size, 0, 0, "alloc_refused_reclaimable", CONFIDENCE_MEDIUM},
      /* free huge pages do not suffice; MemAvailable would, or would not either */
      {size, 0, size + reserve, 3 * size, 0, reserve - 1, "alloc_refused_exhausted", CONFIDENCE_MEDIUM},
      {size, 0, size + reserve - 1, 3 * size, 0, reserve - 1, "alloc_refused_exhausted", CONFIDENCE_HIGH},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct process p;
    start(&p, cache_full());
    p.mem.total = total;
    p.mem.free = rows[i].free;
    p.mem.available = rows[i].available;
    p.mem.cached = rows[i].cached;
    p.mem.buffers = p.mem.shmem = 0;
    p.mem.anon = rows[i].anon;
    p.mem.swap_free = p.mem.swap_total = 50 * GIB;
    if (rows[i].huge) p.mem.huge_total = p.mem.huge_free = rows[i].huge;
    refuse(&p, rows[i].request);
    assert_said(&p, VERDICT_WARN, rows[i].cause, rows[i].confidence);
    stop(&p);
  }
}

/* Locked page cache is counted as Cached but not as MemAvailable: dropping it is no cure. */
static void locked_cache_is_not_reclaimable(void **state) {
  struct process p;
  (void)state;
  start(&p, memory(127535084, 943718, 1153433, 90000000));
  p.mem.mlocked = p.mem.unevictable = 88000000 * KIB;
  refuse(&p, 2 * GIB);
  assert_said(&p, VERDICT_WARN, "alloc_refused_exhausted", CONFIDENCE_HIGH);
  assert_false(fixes_mention(last(&p), "drop_caches"));
  stop(&p);
}

static void hugetlb_leaves_a_doubt(void **state) {
  struct process p;
  (void)state;
  start(&p, cache_full());
  p.mem.huge_total = 16 * GIB;
  p.mem.huge_free = GIB;
  refuse(&p, 8 * GIB);
  assert_said(&p, VERDICT_WARN, "alloc_refused_exhausted", CONFIDENCE_MEDIUM);
  stop(&p);
  start(&p, cache_full());
  p.mem.huge_total = 64 * GIB;
  p.mem.huge_free = 40 * GIB;
  refuse(&p, 8 * GIB);
  assert_said(&p, VERDICT_WARN, "alloc_refused_reclaimable", CONFIDENCE_MEDIUM);
  stop(&p);
}

static void swap_leaves_a_doubt(void **state) {
  struct process p;
  (void)state;
  start(&p, memory(127535084, 943718, 12582912, 12000000)); /* 12 GiB can be had */
  p.mem.anon = 40 * GIB;
  refuse(&p, 20 * GIB); /* 12 + 16 of swap covers it */
  assert_said(&p, VERDICT_WARN, "alloc_refused_exhausted", CONFIDENCE_MEDIUM);
  stop(&p);
  start(&p, memory(127535084, 943718, 12582912, 12000000));
  p.mem.anon = 2 * GIB; /* nothing to swap out */
  refuse(&p, 20 * GIB);
  assert_said(&p, VERDICT_WARN, "alloc_refused_exhausted", CONFIDENCE_HIGH);
  stop(&p);
}

static void no_reading_no_cause(void **state) {
  struct process p;
  (void)state;
  start(&p, cache_full());
  memset(&p.mem, 0xff, sizeof p.mem);
  refuse(&p, 2 * GIB);
  assert_said(&p, VERDICT_WARN, "alloc_refused_unexplained", CONFIDENCE_LOW);
  end(&p, 1, NEVER);
  assert_int_equal(p.said, 1);
  stop(&p);
}

static void partial_readings(void **state) {
  (void)state;
  for (int missing = 0; missing < 4; missing++) {
    struct process p;
    start(&p, cache_full());
    if (missing == 0) p.mem.total = FACT_NO_U64;
    if (missing == 1) p.mem.free = FACT_NO_U64;
    if (missing == 2) p.mem.available = FACT_NO_U64;
    if (missing == 3) p.mem.total = 0;
    announce(&p, UINT64_MAX - 1);
    refuse(&p, 2 * GIB);
    assert_said(&p, VERDICT_WARN, "alloc_refused_unexplained", CONFIDENCE_LOW);
    assert_int_equal(p.said, 1);
    stop(&p);
  }
}

/* Page-locking what is there already does not need the size once more. */
static void registered_memory_exists(void **state) {
  (void)state;
  static const char *const calls[] = {"cudaHostRegister", "cuMemHostRegister_v2"};
  for (int i = 0; i < 2; i++) {
    struct process p;
    start(&p, memory(127535084, 31457280, 41943040, 10000000));
    refuse_as(&p, calls[i], "pinned", 80 * GIB, 2);
    assert_said(&p, VERDICT_WARN, "alloc_refused_unexplained", CONFIDENCE_LOW);
    stop(&p);
  }
}

static void loads(struct process *p, const char *soname) {
  tell(p, &(struct fact){.kind = FACT_KIND_load, .u.load = {.soname = soname, .family = "cudart", .how = "start"}});
}

/* A request of a few bytes that MemFree covers: page cache may be in the way, or a library of CUDA 12 on a machine with
 * CUDA 13. Both are said, and what tells them apart. */
static void a_library_of_cuda_12_is_named(void **state) {
  (void)state;
  static const struct {
    const char *soname;
    int64_t driver;
    uint64_t size, available;
    bool named;
    const char *cause;
  } rows[] = {
      {"libcudart.so.12", FACT_NO_I64, 256, 80, true, "alloc_refused_reclaimable"},
      {"libcudart.so.12", 13000, 256, 80, true, "alloc_refused_reclaimable"},
      {"libcudart.so.12", 12080, 256, 80, false, "alloc_refused_reclaimable"},
      {"libcudart.so.13", 13000, 256, 80, false, "alloc_refused_reclaimable"},
      {NULL, 13000, 256, 80, false, "alloc_refused_reclaimable"},
      {"libcudart.so.12", 13000, 2 * GIB, 80, false, "alloc_refused_reclaimable"}, /* memory explains it */
      {"libcudart.so.12", 13000, 2 * GIB, 1, false, "alloc_refused_exhausted"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct process p;
    start(&p, memory(127535084, 314572, rows[i].available * 1048576, 79 * 1048576));
    loads(&p, "libnccl.so.2");
    if (rows[i].soname) loads(&p, rows[i].soname);
    tell(&p, &(struct fact){.kind = FACT_KIND_device, .u.device = {.version = rows[i].driver, .count = FACT_NO_I64}});
    refuse(&p, rows[i].size);
    p.now += SECOND;
    end(&p, 1, NEVER);
    assert_int_equal(last(&p)->verdict, VERDICT_FAIL);
    assert_string_equal(last(&p)->cause, rows[i].cause);
    assert_int_equal(strstr(last(&p)->text, "or a library of CUDA 12 does not fit (low confidence)") != NULL,
                     rows[i].named);
    bool evidence = false;
    for (unsigned k = 0; k < last(&p)->evidence.n; k++)
      evidence |= strstr(last(&p)->evidence.item[k], "libcudart.so.12 is mapped") != NULL;
    assert_int_equal(evidence, rows[i].named);
    if (rows[i].size == 256) assert_int_equal(last(&p)->confidence, CONFIDENCE_MEDIUM);
    stop(&p);
  }
}

/* Free memory in pieces: told where a sample is at hand, and no more than told. */
static void free_blocks_are_named(void **state) {
  (void)state;
  for (uint64_t blocks = 0; blocks < 2; blocks++) {
    struct process p;
    struct fact f;
    start(&p, idle());
    fact_init(&f, FACT_KIND_sample);
    f.u.sample.block_max = (16 + 16 * blocks) * MIB;
    f.u.sample.blocks_large = blocks;
    f.u.sample.mem = p.mem;
    tell(&p, &f);
    refuse(&p, GIB);
    p.now += SECOND;
    end(&p, 1, NEVER);
    assert_said(&p, VERDICT_WARN, "alloc_refused_unexplained", CONFIDENCE_LOW);
    assert_int_equal(fixes_mention(last(&p), "restart"), !blocks);
    assert_non_null(
        strstr(last(&p)->evidence.item[3], blocks ? "the largest has 32.0 MiB" : "fragmentation is the likelier"));
    stop(&p);
  }
}

/* ... or it does, where the memory was never touched. Page cache is blamed only where it would have covered all. */
static void registered_memory_may_be_new(void **state) {
  (void)state;
  static const struct {
    uint64_t free, available, size; /* GiB */
    const char *cause;
    enum confidence c;
  } rows[] = {
      {0, 1, 4, "alloc_refused_exhausted", CONFIDENCE_HIGH},
      {0, 2, 4, "alloc_refused_exhausted", CONFIDENCE_MEDIUM}, /* a reserve is there, the size is not */
      {0, 60, 4, "alloc_refused_reclaimable", CONFIDENCE_HIGH},
      {5, 6, 8, "alloc_refused_unexplained", CONFIDENCE_LOW},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct process p;
    start(&p, memory(127535084, rows[i].free * 1048576, rows[i].available * 1048576, rows[i].available * 1048576));
    refuse_as(&p, "cudaHostRegister", "pinned", rows[i].size * GIB, 2);
    assert_said(&p, VERDICT_WARN, rows[i].cause, rows[i].c);
    stop(&p);
  }
}

static void mapped_files_must_be_unmapped_first(void **state) {
  struct process p;
  (void)state;
  start(&p, cache_full());
  p.mem.mapped = 50 * GIB;
  refuse(&p, 2 * GIB);
  assert_non_null(strstr(last(&p)->fixes.item[0], "mmap"));
  assert_true(fixes_mention(last(&p), "drop_caches"));
  stop(&p);
}

static void other_errors_are_not_memory(void **state) {
  (void)state;
  static const int64_t results[] = {0, 1, 3, 35, 46, 100, 101, 201, 304, 700, 712, 719, 801, 999, FACT_NO_I64, -2};
  for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
    struct process p;
    start(&p, used_up());
    refuse_as(&p, "cudaMalloc", "device", 2 * GIB, results[i]);
    if (results[i]) ask(&p, results[i]);
    end(&p, 1, NEVER);
    assert_int_equal(p.said, 0);
    stop(&p);
  }
}

static void nccl_numbers_are_its_own(void **state) {
  struct process p;
  (void)state;
  start(&p, used_up());
  refuse_as(&p, "ncclMemAlloc", "nccl", GIB, 4); /* ncclInvalidArgument */
  assert_int_equal(p.said, 0);
  refuse_as(&p, "ncclMemAlloc", "nccl", GIB, 1);
  assert_said(&p, VERDICT_WARN, "alloc_refused_exhausted", CONFIDENCE_MEDIUM);
  stop(&p);
  start(&p, idle());
  refuse_as(&p, "ncclMemAlloc", "nccl", GIB, 1);
  assert_int_equal(p.said, 0);
  stop(&p);
}

static void every_route_is_told(void **state) {
  (void)state;
  static const char *const routes[] = {"device", "managed", "pinned", "pool", "vmm", "array", "something new"};
  for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
    struct process p;
    start(&p, cache_full());
    refuse_as(&p, "cudaX", routes[i], 2 * GIB, 2);
    assert_said(&p, VERDICT_WARN, "alloc_refused_reclaimable", CONFIDENCE_HIGH);
    assert_string_equal(last(&p)->object, i == 6 ? "other" : routes[i]);
    stop(&p);
  }
}

static void size_not_known(void **state) {
  struct process p;
  (void)state;
  start(&p, used_up());
  p.out.emit = keep;
  struct fact f = {.kind = FACT_KIND_alloc_large};
  f.u.alloc_large = (struct fact_alloc_large){
      .call = "cudaMallocArray", .route = "array", .size = FACT_NO_U64, .mem = p.mem};
  tell(&p, &f);
  assert_int_equal(p.said, 0);
  stop(&p);
}

/* ---- the request that never fits ----------------------------------------------------------------------- */

static void oversize_is_told_before_the_call(void **state) {
  struct process p;
  (void)state;
  start(&p, idle());
  announce(&p, 429496729600);
  assert_said(&p, VERDICT_WARN, "oversize_request", CONFIDENCE_HIGH);
  assert_non_null(
      strstr(last(&p)->text, "cudaMalloc of 400.0 GiB asks for more than memory and swap together (137.6 GiB)"));
  announce(&p, 429496729600);
  refuse(&p, 429496729600);
  assert_int_equal(p.said, 1);
  p.now += SECOND;
  end(&p, 1, START - 1);
  assert_said(&p, VERDICT_FAIL, "oversize_request", CONFIDENCE_HIGH);
  assert_int_equal(p.said, 2);
  stop(&p);
}

static void announced_again_after_the_refusal(void **state) {
  struct process p;
  (void)state;
  start(&p, idle());
  announce(&p, 429496729600);
  refuse(&p, 429496729600);
  p.now += 60 * SECOND;
  announce(&p, 429496729600); /* and this call never came back */
  p.now += SECOND;
  end(&p, 1, NEVER);
  assert_int_equal(p.said, 2);
  assert_int_equal(last(&p)->verdict, VERDICT_WARN);
  assert_non_null(strstr(last(&p)->evidence.item[0], "returned 2"));
  stop(&p);
}

static void large_but_possible_is_fine(void **state) {
  struct process p;
  (void)state;
  start(&p, idle());
  announce(&p, 100 * GIB);
  announce(&p, p.mem.total + p.mem.swap_total);
  end(&p, 1, NEVER);
  assert_int_equal(p.said, 0);
  stop(&p);
}

static void oversize_never_refused(void **state) {
  (void)state;
  for (int64_t status = 0; status < 2; status++) {
    struct process p;
    start(&p, idle());
    announce(&p, 429496729600);
    p.now += SECOND;
    end(&p, status, START - 1);
    assert_said(&p, status ? VERDICT_WARN : VERDICT_INFO, "oversize_request", CONFIDENCE_HIGH);
    stop(&p);
  }
}

/* ---- what becomes of a refusal ---------------------------------------------------------------------- */

static void retry_that_succeeds(void **state) {
  (void)state;
  for (int64_t status = 0; status < 2; status++) {
    struct process p;
    start(&p, cache_full());
    refuse(&p, 2 * GIB);
    p.now += SECOND / 10;
    grant(&p, 2 * GIB);
    assert_said(&p, VERDICT_INFO, "alloc_refused_reclaimable", CONFIDENCE_HIGH);
    assert_int_equal(last(&p)->fixes.n, 0);
    p.now += SECOND;
    end(&p, status, p.now - SECOND);
    assert_int_equal(p.said, 2);
    stop(&p);
  }
}

static void smaller_grant_is_no_retry(void **state) {
  struct process p;
  (void)state;
  start(&p, cache_full());
  refuse(&p, 2 * GIB);
  grant(&p, 2 * GIB - 1);
  end(&p, 1, START - 1);
  assert_said(&p, VERDICT_FAIL, "alloc_refused_reclaimable", CONFIDENCE_HIGH);
  stop(&p);
}

/* The greatest size counts, and after a grant of it the account begins anew. */
static void grants_settle_up_to_their_size(void **state) {
  struct process p;
  (void)state;
  start(&p, used_up());
  refuse(&p, 40 * GIB);
  refuse(&p, 20 * GIB);
  grant(&p, 20 * GIB);
  assert_int_equal(p.said, 1);
  grant(&p, 40 * GIB);
  assert_said(&p, VERDICT_INFO, "alloc_refused_exhausted", CONFIDENCE_HIGH);
  refuse(&p, 2 * GIB);
  grant(&p, 2 * GIB);
  p.now += SECOND;
  end(&p, 1, START);
  assert_said(&p, VERDICT_INFO, "alloc_refused_exhausted", CONFIDENCE_HIGH);
  assert_non_null(strstr(last(&p)->evidence.item[0], "3 refusals in all, of 2.0 GiB to 40.0 GiB"));
  stop(&p);
}

static void grant_of_another_route_is_no_retry(void **state) {
  struct process p;
  (void)state;
  start(&p, cache_full());
  refuse_as(&p, "cuMemCreate", "vmm", 2 * GIB, 2);
  grant(&p, 2 * GIB);
  end(&p, 1, START - 1);
  assert_said(&p, VERDICT_FAIL, "alloc_refused_reclaimable", CONFIDENCE_HIGH);
  stop(&p);
}

static void probing_for_the_largest_batch(void **state) {
  struct process p;
  (void)state;
  start(&p, memory(127535084, 6291456, 7340032, 2000000));
  refuse(&p, 40 * GIB);
  refuse(&p, 20 * GIB);
  refuse(&p, 10 * GIB);
  assert_int_equal(p.said, 1);
  p.now += 10 * SECOND;
  end(&p, 0, p.now);
  assert_int_equal(p.said, 2);
  assert_said(&p, VERDICT_INFO, "alloc_refused_exhausted", CONFIDENCE_HIGH);
  assert_non_null(strstr(last(&p)->text, "3 refusals of cudaMalloc (up to 40.0 GiB)"));
  stop(&p);
}

static void refusal_exit_rule(void **state) {
  (void)state;
  static const struct {
    uint64_t wait, activity;
    int64_t status;
    enum verdict v;
  } rows[] = {
      {SECOND, NEVER, 1, VERDICT_FAIL},           {30 * SECOND, NEVER, 1, VERDICT_FAIL},
      {30 * SECOND + 1, NEVER, 1, VERDICT_WARN},  {SECOND, START, 1, VERDICT_FAIL},
      {SECOND, START + 1, 1, VERDICT_WARN},       {SECOND, NEVER, 0, VERDICT_INFO},
      {SECOND, NEVER, FACT_NO_I64, VERDICT_WARN}, {SECOND, NEVER, 143, VERDICT_WARN},
      {SECOND, NEVER, 137, VERDICT_WARN},         {SECOND, NEVER, 130, VERDICT_WARN},
      {SECOND, NEVER, 134, VERDICT_FAIL},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct process p;
    start(&p, cache_full());
    refuse(&p, 2 * GIB);
    p.now += rows[i].wait;
    end(&p, rows[i].status, rows[i].activity);
    assert_string_equal(verdict_word(last(&p)->verdict), verdict_word(rows[i].v));
    stop(&p);
  }
}

static void only_the_last_refusal_is_fatal(void **state) {
  struct process p;
  (void)state;
  start(&p, used_up());
  refuse_as(&p, "cudaHostAlloc", "pinned", 4 * GIB, 2);
  p.now += SECOND;
  refuse(&p, 2 * GIB);
  refuse(&p, 2 * GIB);
  end(&p, 1, NEVER);
  unsigned fails = 0;
  for (unsigned i = 0; i < p.said; i++) fails += p.finding[i].verdict == VERDICT_FAIL;
  assert_int_equal(fails, 1);
  assert_string_equal(last(&p)->object, "device");
  assert_non_null(strstr(last(&p)->evidence.item[0], "2 refusals"));
  stop(&p);
}

static void no_clock_may_run_backwards(void **state) {
  struct process p;
  (void)state;
  start(&p, cache_full());
  refuse(&p, 2 * GIB);
  p.now -= 1;
  end(&p, 1, NEVER);
  assert_int_equal(p.said, 1); /* the WARN stands */
  stop(&p);
}

/* A job that frees its cache and succeeds at every step gets two lines, not two a step. */
static void steady_retries_are_not_repeated(void **state) {
  struct process p;
  (void)state;
  start(&p, cache_full());
  for (int i = 0; i < 1000; i++) {
    refuse(&p, 2 * GIB);
    grant(&p, 2 * GIB);
  }
  assert_int_equal(p.said, 2);
  end(&p, 0, p.now);
  assert_int_equal(p.said, 3);
  assert_non_null(strstr(last(&p)->text, "1000 refusals"));
  stop(&p);
}

/* ... but when the retry is refused too, the line comes before the exception, and not without end. */
static void refused_retry_warns_again(void **state) {
  struct process p;
  (void)state;
  start(&p, cache_full());
  refuse(&p, 2 * GIB);
  grant(&p, 2 * GIB);
  refuse(&p, 2 * GIB);
  assert_int_equal(p.said, 2);
  refuse(&p, 2 * GIB);
  assert_int_equal(p.said, 3);
  assert_said(&p, VERDICT_WARN, "alloc_refused_reclaimable", CONFIDENCE_HIGH);
  for (int i = 0; i < 100; i++) {
    grant(&p, 2 * GIB);
    refuse(&p, 2 * GIB);
    refuse(&p, 2 * GIB);
  }
  unsigned warnings = 0;
  for (unsigned i = 0; i < p.said; i++) warnings += p.finding[i].verdict == VERDICT_WARN;
  assert_int_equal(warnings, 3);
  end(&p, 1, p.now - 1);
  assert_said(&p, VERDICT_FAIL, "alloc_refused_reclaimable", CONFIDENCE_HIGH);
  stop(&p);
}

static void counted_refusals_are_counted(void **state) {
  struct process p;
  (void)state;
  start(&p, used_up());
  struct fact f = {.kind = FACT_KIND_alloc_failed};
  f.u.alloc_failed = (struct fact_alloc_failed){.call = "cudaMalloc",
                                                .route = "device",
                                                .size = GIB,
                                                .result = 2,
                                                .repeat = 500,
                                                .live_device = NEVER,
                                                .live_pinned = NEVER,
                                                .mem = p.mem};
  tell(&p, &f);
  end(&p, 0, NEVER);
  assert_non_null(strstr(last(&p)->text, "500 refusals"));
  stop(&p);
}

/* A log that was thinned out tells the rest at the end: when the last one really was decides. */
static void held_back_refusals(void **state) {
  (void)state;
  static const struct {
    uint64_t at, activity;
    int64_t status;
    enum verdict v;
  } rows[] = {
      {START + 50 * SECOND, START + 49 * SECOND, 1, VERDICT_FAIL},
      {START + 50 * SECOND, START + 51 * SECOND, 1, VERDICT_WARN},
      {START + 20 * SECOND, START + 19 * SECOND, 1, VERDICT_WARN},
      {START + 50 * SECOND, START + 49 * SECOND, 0, VERDICT_INFO},
      {START + 60 * SECOND - 1, START + 60 * SECOND - 1, 1, VERDICT_FAIL},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct process p;
    start(&p, used_up());
    refuse(&p, GIB);
    p.now += 60 * SECOND;
    p.mem = idle(); /* by now there is plenty: no reading of the refusal */
    struct fact f = {.kind = FACT_KIND_alloc_failed};
    f.u.alloc_failed = (struct fact_alloc_failed){.call = "cudaMalloc",
                                                  .route = "device",
                                                  .size = GIB,
                                                  .result = 2,
                                                  .repeat = 7,
                                                  .last = rows[i].at,
                                                  .live_device = NEVER,
                                                  .live_pinned = NEVER,
                                                  .mem = p.mem};
    tell(&p, &f);
    assert_int_equal(p.said, 1);
    end(&p, rows[i].status, rows[i].activity);
    assert_said(&p, rows[i].v, "alloc_refused_exhausted", CONFIDENCE_HIGH);
    assert_non_null(strstr(last(&p)->evidence.item[0], "8 refusals"));
    stop(&p);
  }
}

static void held_back_and_older_than_what_is_known(void **state) {
  struct process p;
  (void)state;
  start(&p, used_up());
  p.now += SECOND;
  refuse(&p, GIB);
  p.now += SECOND;
  struct fact f = {.kind = FACT_KIND_alloc_failed};
  f.u.alloc_failed = (struct fact_alloc_failed){.call = "cudaMalloc",
                                                .route = "device",
                                                .size = 64 * GIB,
                                                .result = 2,
                                                .repeat = 7,
                                                .last = START,
                                                .live_device = NEVER,
                                                .live_pinned = NEVER,
                                                .mem = p.mem};
  tell(&p, &f);
  end(&p, 1, START + SECOND / 2);
  assert_said(&p, VERDICT_FAIL, "alloc_refused_exhausted", CONFIDENCE_HIGH);
  assert_null(strstr(last(&p)->evidence.item[0], "64.0 GiB"));
  stop(&p);
}

/* Two causes by one route: the counted ones belong to the latest. */
static void held_back_belongs_to_the_latest(void **state) {
  struct process p;
  (void)state;
  start(&p, cache_full());
  refuse(&p, GIB);
  p.mem = used_up();
  p.now += SECOND;
  refuse(&p, GIB);
  p.mem = cache_full();
  p.now += SECOND;
  refuse(&p, GIB);
  p.now += SECOND;
  struct fact f = {.kind = FACT_KIND_alloc_failed};
  f.u.alloc_failed = (struct fact_alloc_failed){.call = "cudaMalloc",
                                                .route = "device",
                                                .size = GIB,
                                                .result = 2,
                                                .repeat = 7,
                                                .last = p.now - 1,
                                                .live_device = NEVER,
                                                .live_pinned = NEVER,
                                                .mem = used_up()};
  tell(&p, &f);
  end(&p, 1, NEVER);
  unsigned fails = 0;
  for (unsigned i = 0; i < p.said; i++) {
    if (p.finding[i].verdict != VERDICT_FAIL) continue;
    fails++;
    assert_string_equal(p.finding[i].cause, "alloc_refused_reclaimable");
    assert_non_null(strstr(p.finding[i].evidence.item[0], "9 refusals"));
  }
  assert_int_equal(fails, 1);
  stop(&p);
}

static void held_back_refusal_of_another_route(void **state) {
  struct process p;
  (void)state;
  start(&p, used_up());
  refuse_as(&p, "cudaHostAlloc", "pinned", GIB, 2);
  p.now += 2 * SECOND;
  refuse(&p, GIB);
  p.now += SECOND;
  struct fact f = {.kind = FACT_KIND_alloc_failed};
  f.u.alloc_failed = (struct fact_alloc_failed){.call = "cudaHostAlloc",
                                                .route = "pinned",
                                                .size = GIB,
                                                .result = 2,
                                                .repeat = 1,
                                                .last = START + SECOND,
                                                .live_device = NEVER,
                                                .live_pinned = NEVER,
                                                .mem = p.mem};
  tell(&p, &f);
  end(&p, 1, NEVER);
  for (unsigned i = 0; i < p.said; i++)
    if (p.finding[i].verdict == VERDICT_FAIL) assert_string_equal(p.finding[i].object, "device");
  assert_int_equal(p.said, 4); /* two WARN, one FAIL, one WARN with a new count */
  stop(&p);
}

/* ---- properties --------------------------------------------------------------------------------------- */

static uint64_t seed;
static uint64_t random64(void) { /* xorshift64*, for the same sequence everywhere */
  seed ^= seed >> 12;
  seed ^= seed << 25;
  seed ^= seed >> 27;
  return seed * 0x2545F4914F6CDD1DULL;
}
static uint64_t below(uint64_t n) { return random64() % n; }

static struct fact_memory random_memory(uint64_t least_available) {
  uint64_t total = least_available + below(200 * GIB);
  uint64_t available = least_available + below(total - least_available + 1);
  struct fact_memory m;
  memset(&m, 0xff, sizeof m);
  m.total = total;
  m.available = available;
  m.free = below(available + 1);
  m.cached = below(total + 1);
  if (below(2)) m.shmem = below(m.cached + 1);
  if (below(2)) m.mapped = below(m.cached + 1);
  if (below(2)) m.swap_total = below(64 * GIB);
  if (m.swap_total != FACT_NO_U64) m.swap_free = below(m.swap_total + 1);
  if (below(4) == 0) m.cma_total = m.cma_free = below(m.free + 1);
  if (below(4) == 0) m.huge_total = m.huge_free = below(total);
  return m;
}

/* No refused call, no request beyond the machine and plenty available: no WARN and no FAIL of G3, but for the
 * free figure. */
static void plenty_and_no_refusal_is_never_blamed(void **state) {
  (void)state;
  seed = 3;
  for (int run = 0; run < 3000; run++) {
    struct process p;
    start(&p, random_memory(32 * GIB + 1));
    for (int i = 0; i < 20; i++) {
      p.now += below(40 * SECOND);
      p.mem = random_memory(32 * GIB + 1);
      switch (below(4)) {
      case 0: announce(&p, below(p.mem.total)); break;
      case 1: ask(&p, 0); break;
      case 2: grant(&p, below(p.mem.total)); break;
      default: tell(&p, &(struct fact){.kind = FACT_KIND_mem, .u.mem = {.why = "sample", .mem = p.mem}}); break;
      }
    }
    end(&p, (int64_t)below(3), below(2) ? NEVER : p.now - below(60 * SECOND));
    for (unsigned i = 0; i < p.said; i++) {
      bool area = p.finding[i].verdict == VERDICT_WARN && !strcmp(p.finding[i].cause, "cma_trap"); /* a reading */
      if (p.finding[i].verdict >= VERDICT_WARN && !area) assert_string_equal(p.finding[i].cause, "page_cache_counted");
    }
    stop(&p);
  }
}

/* The same facts give the same findings: what the report derives again is what was said live. */
static void replay_gives_the_same(void **state) {
  (void)state;
  for (int round = 0; round < 200; round++) {
    struct process p[2];
    for (int k = 0; k < 2; k++) {
      seed = (uint64_t)round + 1;
      start(&p[k], random_memory(GIB));
      for (int i = 0; i < 15; i++) {
        p[k].now += below(SECOND);
        p[k].mem = random_memory(GIB);
        switch (below(4)) {
        case 0: announce(&p[k], below(400 * GIB)); break;
        case 1: ask(&p[k], below(2) ? 2 : 0); break;
        case 2: grant(&p[k], below(100 * GIB)); break;
        default: refuse(&p[k], below(100 * GIB)); break;
        }
      }
      end(&p[k], (int64_t)below(2), NEVER);
    }
    assert_int_equal(p[0].said, p[1].said);
    for (unsigned i = 0; i < p[0].said; i++) {
      assert_string_equal(p[0].finding[i].text, p[1].finding[i].text);
      assert_int_equal(p[0].finding[i].verdict, p[1].finding[i].verdict);
      assert_int_equal(p[0].finding[i].confidence, p[1].finding[i].confidence);
    }
    stop(&p[0]);
    stop(&p[1]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(misleading_figure_is_a_note),
      cmocka_unit_test(giving_up_after_it_is_a_failure),
      cmocka_unit_test(giving_up_needs_all_of_it),
      cmocka_unit_test(giving_up_by_a_signal),
      cmocka_unit_test(giving_up_after_another_failure),
      cmocka_unit_test(a_later_good_figure_counts),
      cmocka_unit_test(a_refusal_takes_the_blame),
      cmocka_unit_test(honest_figures),
      cmocka_unit_test(the_threshold_of_the_figure),
      cmocka_unit_test(figure_from_available),
      cmocka_unit_test(discrete_gpu),
      cmocka_unit_test(edges_of_a_shared_memory),
      cmocka_unit_test(edges_of_a_misleading_figure),
      cmocka_unit_test(another_model),
      cmocka_unit_test(query_refused),
      cmocka_unit_test(memory_used_up),
      cmocka_unit_test(what_holds_memory_comes_first),
      cmocka_unit_test(request_against_reading),
      cmocka_unit_test(edges_of_the_judgement),
      cmocka_unit_test(edges_of_confidence),
      cmocka_unit_test(locked_cache_is_not_reclaimable),
      cmocka_unit_test(hugetlb_leaves_a_doubt),
      cmocka_unit_test(swap_leaves_a_doubt),
      cmocka_unit_test(no_reading_no_cause),
      cmocka_unit_test(partial_readings),
      cmocka_unit_test(registered_memory_exists),
      cmocka_unit_test(registered_memory_may_be_new),
      cmocka_unit_test(a_library_of_cuda_12_is_named),
      cmocka_unit_test(free_blocks_are_named),
      cmocka_unit_test(mapped_files_must_be_unmapped_first),
      cmocka_unit_test(other_errors_are_not_memory),
      cmocka_unit_test(nccl_numbers_are_its_own),
      cmocka_unit_test(every_route_is_told),
      cmocka_unit_test(size_not_known),
      cmocka_unit_test(oversize_is_told_before_the_call),
      cmocka_unit_test(announced_again_after_the_refusal),
      cmocka_unit_test(large_but_possible_is_fine),
      cmocka_unit_test(oversize_never_refused),
      cmocka_unit_test(retry_that_succeeds),
      cmocka_unit_test(smaller_grant_is_no_retry),
      cmocka_unit_test(grants_settle_up_to_their_size),
      cmocka_unit_test(grant_of_another_route_is_no_retry),
      cmocka_unit_test(probing_for_the_largest_batch),
      cmocka_unit_test(refusal_exit_rule),
      cmocka_unit_test(only_the_last_refusal_is_fatal),
      cmocka_unit_test(no_clock_may_run_backwards),
      cmocka_unit_test(steady_retries_are_not_repeated),
      cmocka_unit_test(refused_retry_warns_again),
      cmocka_unit_test(counted_refusals_are_counted),
      cmocka_unit_test(held_back_refusals),
      cmocka_unit_test(held_back_and_older_than_what_is_known),
      cmocka_unit_test(held_back_belongs_to_the_latest),
      cmocka_unit_test(held_back_refusal_of_another_route),
      cmocka_unit_test(plenty_and_no_refusal_is_never_blamed),
      cmocka_unit_test(replay_gives_the_same),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
