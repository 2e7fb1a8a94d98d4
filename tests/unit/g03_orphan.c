/* Tests of driver_orphan, on facts: memory of nobody, and all that looks like it. */
#include "holder_facts.h"

extern const struct detector det_g03_orphan;

static struct fact_memory used_up(void) { return memory(900 * MIB, 1100 * MIB, 700 * MIB); }
static struct fact_memory little_left(void) { return memory(9 * GIB, 10 * GIB, GIB); }

static void begin(struct process *p) { start(p, &det_g03_orphan, used_up()); }

struct shares {
  uint64_t nobody, job, others, pinned;
};

/* One split a second. */
static void go(struct process *p, unsigned seconds, struct shares m) {
  for (unsigned i = 0; i < seconds; i++) {
    struct fact f = {.kind = FACT_KIND_split};
    f.u.split = (struct fact_split){.why = "tick",
                                    .total = TOTAL,
                                    .device_nobody = m.nobody,
                                    .device_job = m.job,
                                    .device_others = m.others,
                                    .pinned = m.pinned,
                                    .driver = m.nobody == NO ? NO : m.nobody + m.job + m.others + m.pinned + GIB};
    tell(p, f);
    wait_s(p, 1);
  }
}

/* A process that held so much ends, and it stays with the driver. */
static void crash(struct process *p, uint64_t bytes) {
  go(p, 5, (struct shares){0, 0, bytes, 0});
  go(p, 11, (struct shares){bytes, 0, 0, 0});
}

static void a_crash_leaves_it_behind(void **state) {
  struct process p;
  (void)state;
  begin(&p);
  look_at(&p, holding(4242, "VLLM::EngineCore", 92 * GIB));
  go(&p, 20, (struct shares){0, 4 * GIB, 92 * GIB, 0});
  look(&p, NULL, 0);
  go(&p, 10, (struct shares){90 * GIB, 4 * GIB, 0, 0});
  assert_int_equal(p.said, 0);
  go(&p, 1, (struct shares){90 * GIB, 4 * GIB, 0, 0});
  assert_said(&p, VERDICT_WARN, "driver_orphan", CONFIDENCE_HIGH);
  assert_true(list_says(&last(&p)->evidence, "VLLM::EngineCore (pid 4242) held 92.0 GiB and has ended"));
  refuse(&p, 20 * GIB);
  assert_non_null(strstr(last(&p)->text, "cudaMalloc of 20.0 GiB was refused while the GPU driver holds 90.0 GiB"));
  wait_s(&p, 1);
  end(&p, 1, START);
  assert_said(&p, VERDICT_FAIL, "driver_orphan", CONFIDENCE_HIGH);
  assert_true(list_says(&last(&p)->fixes, "restart"));
  for (unsigned i = 0; i < p.said; i++) assert_false(list_says(&p.finding[i].fixes, "drop_caches"));
  stop(&p);
}

/* The log has the looks that show something new, and samples: the look of the crash counts until the next is due. */
static void between_two_looks(void **state) {
  for (int back = 0; back < 2; back++) {
    struct process p;
    struct fact f = {.kind = FACT_KIND_sample};
    (void)state;
    begin(&p);
    p.mem = memory(40 * GIB, 57 * GIB, 17 * GIB);
    p.mem.anon = 4 * GIB;
    f.u.sample = p.sample;
    for (int second = 0; second < 30; second++, wait_s(&p, 1)) {
      struct fact_holder h = holding(4242, "VLLM::EngineCore", 57 * GIB);
      if (second == 1) look_at(&p, h);
      if (second == 5) look(&p, NULL, 0);
      if (second == 9 && back) p.mem.free += 57 * GIB, p.mem.available += 57 * GIB;
      f.u.sample.mem = p.mem;
      tell(&p, f);
    }
    assert_int_equal(left_at(&p, "driver_orphan"), back ? VERDICT_PASS : VERDICT_WARN);
    stop(&p);
  }
}

/* A worker of the job was killed: NVML's list of others never had it. */
static void a_worker_leaves_it_behind(void **state) {
  struct process p;
  (void)state;
  begin(&p);
  go(&p, 20, (struct shares){0, 60 * GIB, 0, 0});
  go(&p, 11, (struct shares){58 * GIB, 2 * GIB, 0, 0});
  assert_said(&p, VERDICT_WARN, "driver_orphan", CONFIDENCE_HIGH);
  stop(&p);
}

static void after_a_crash_it_comes_back(void **state) {
  struct process p;
  (void)state;
  for (unsigned seconds = 2; seconds <= 9; seconds++) {
    begin(&p); /* seen from the start */
    go(&p, seconds, (struct shares){92 * GIB, 0, 0, 0});
    go(&p, 30, (struct shares){0, 0, 0, 0});
    assert_int_equal(p.said, 0);
    stop(&p);
    begin(&p); /* in mid-run */
    go(&p, 20, (struct shares){0, 4 * GIB, 92 * GIB, 0});
    go(&p, seconds, (struct shares){92 * GIB, 4 * GIB, 0, 0});
    go(&p, 30, (struct shares){GIB / 2, 4 * GIB, 0, 0});
    assert_int_equal(p.said, 0);
    stop(&p);
  }
}

enum alike {
  DRIVERS_OWN,      /* what exceeds the usual by little */
  NOT_ASKED,        /* no figure: NVML was not asked, or has N/A for one */
  PINNED_UNSEEN,    /* grows with the job: page-locked memory that no hook saw */
  FOUND_THERE,      /* it was there when the run began: a crash, or another kernel module */
  FREED_IN_ORDER,   /* a process ended, and gave all back */
  FREED_IN_PART,    /* it held little of what then is nobody's */
  GROWS_WITHOUT_END /* it grows, and nobody ended */
};

static void play(struct process *p, enum alike what) {
  switch (what) {
  case DRIVERS_OWN: go(p, 40, (struct shares){900 * MIB, 0, 0, 0}); break;
  case NOT_ASKED: go(p, 40, (struct shares){NO, 0, 0, 0}); break;
  case PINNED_UNSEEN:
    for (uint64_t i = 0; i < 40; i++) go(p, 1, (struct shares){i * GIB, 20 * GIB, 0, 0});
    break;
  case FOUND_THERE: go(p, 40, (struct shares){60 * GIB, 0, 0, 0}); break;
  case FREED_IN_ORDER:
    go(p, 20, (struct shares){0, 4 * GIB, 92 * GIB, 0});
    go(p, 20, (struct shares){0, 4 * GIB, 0, 0});
    break;
  case FREED_IN_PART:
    go(p, 20, (struct shares){0, 4 * GIB, 8 * GIB, 0});
    go(p, 20, (struct shares){30 * GIB, 4 * GIB, 0, 0});
    break;
  default:
    go(p, 20, (struct shares){0, 4 * GIB, 10 * GIB, 0});
    go(p, 40, (struct shares){30 * GIB, 4 * GIB, 10 * GIB, 0});
    break;
  }
}

static void look_alikes(void **state) {
  struct process p;
  (void)state;
  for (enum alike what = DRIVERS_OWN; what <= GROWS_WITHOUT_END; what++) {
    begin(&p);
    play(&p, what);
    refuse(&p, GIB);
    end(&p, 1, START);
    if (p.said) print_error("look-alike %d\n", (int)what);
    assert_int_equal(p.said, 0);
    stop(&p);
  }
}

/* What the end makes of it. */
static void ends(void **state) {
  static const struct {
    uint64_t size;
    int64_t status;
    bool granted;
    enum verdict verdict;
  } rows[] = {{20 * GIB, 1, false, VERDICT_FAIL},
              {20 * GIB, 0, false, VERDICT_INFO},
              {20 * GIB, 143, false, VERDICT_WARN},
              {20 * GIB, 1, true, VERDICT_WARN},
              {60 * GIB, 1, false, VERDICT_WARN} /* would not have fitted */};
  struct process p;
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    begin(&p);
    crash(&p, 28 * GIB);
    refuse(&p, rows[i].size);
    if (rows[i].granted) grant(&p, rows[i].size);
    end(&p, rows[i].status, START);
    assert_int_equal(left_at(&p, "driver_orphan"), rows[i].verdict);
    stop(&p);
  }
}

/* The free figure: sure where hardly anything was left. */
static void a_figure(void **state) {
  struct process p;
  (void)state;
  for (int half = 0; half < 2; half++) {
    begin(&p);
    p.mem = little_left();
    crash(&p, (half ? 59 : 90) * GIB);
    ask(&p);
    wait_s(&p, 1);
    end(&p, 1, NO);
    assert_said(&p, VERDICT_FAIL, "driver_orphan", half ? CONFIDENCE_MEDIUM : CONFIDENCE_HIGH);
    stop(&p);
  }
}

/* Before a job it is a note, and only after the patience. */
static void before_a_job(void **state) {
  struct process p;
  struct fact f = {.kind = FACT_KIND_split};
  (void)state;
  begin(&p);
  f.u.split = (struct fact_split){.why = "preflight", .total = TOTAL, .device_nobody = 57 * GIB, .driver = 58 * GIB};
  for (int i = 0; i < 10; i++, wait_s(&p, 1)) tell(&p, f);
  assert_int_equal(p.said, 0);
  f.u.split.device_nobody = 56 * GIB;
  tell(&p, f);
  assert_said(&p, VERDICT_INFO, "driver_orphan", CONFIDENCE_LOW);
  assert_non_null(strstr(last(&p)->text, "56.0 GiB"));
  stop(&p);
}

static void it_came_back_after_all(void **state) {
  struct process p;
  (void)state;
  begin(&p);
  crash(&p, 28 * GIB);
  assert_int_equal(left_at(&p, "driver_orphan"), VERDICT_WARN);
  go(&p, 1, (struct shares){0, 0, 0, 0});
  assert_int_equal(left_at(&p, "driver_orphan"), VERDICT_INFO);
  stop(&p);
}

static uint64_t seed = 13;
static unsigned chance(unsigned below) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)((seed >> 33) % below);
}

/* Figures that cannot be. */
static void nonsense(void **state) {
  (void)state;
  for (int round = 0; round < 2000; round++) {
    struct process p;
    begin(&p);
    for (int i = 0; i < 20; i++) {
      struct fact_holder h = holding(chance(3), NULL, chance(2) ? NO : chance(200) * GIB);
      struct shares m = {chance(3) ? chance(200) * GIB : NO - chance(3), chance(90) * GIB, chance(90) * GIB,
                         chance(3) ? 0 : NO};
      look(&p, &h, chance(2));
      go(&p, chance(15), m);
      if (chance(3) == 0) refuse(&p, chance(60) * GIB);
      if (chance(5) == 0) p.now -= SECOND;
    }
    end(&p, chance(2), NO);
    stop(&p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_crash_leaves_it_behind),
      cmocka_unit_test(between_two_looks),
      cmocka_unit_test(a_worker_leaves_it_behind),
      cmocka_unit_test(after_a_crash_it_comes_back),
      cmocka_unit_test(look_alikes),
      cmocka_unit_test(ends),
      cmocka_unit_test(a_figure),
      cmocka_unit_test(before_a_job),
      cmocka_unit_test(it_came_back_after_all),
      cmocka_unit_test(nonsense),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
