/* Tests of swap_pressure, on facts: two that do not fit together, and every kind of swapping that is something else. */
#include "holder_facts.h"

extern const struct detector det_g06_swap;

struct rate {
  uint64_t in, out, full_us; /* pages and us in a second */
};

static struct fact_memory swapped(uint64_t used) {
  struct fact_memory m = memory(1500 * MIB, 3 * GIB, 2 * GIB);
  m.swap_free = m.swap_total - used;
  return m;
}

static void begin(struct process *p, uint64_t used) {
  start(p, &det_g06_swap, swapped(used));
  p->sample.page_size = 4096;
  p->sample.pswpin = 1000000, p->sample.pswpout = 2000000, p->sample.full_total = 5000000;
  p->sample.full_avg10 = 0;
}

static void go(struct process *p, unsigned seconds, struct rate r) {
  for (unsigned i = 0; i < seconds; i++) {
    struct fact f = {.kind = FACT_KIND_sample};
    p->sample.mem = p->mem;
    f.u.sample = p->sample;
    tell(p, f);
    p->sample.pswpin += r.in;
    p->sample.pswpout += r.out;
    p->sample.full_total += r.full_us;
    wait_s(p, 1);
  }
}

/* A sample every `step` seconds. */
static void go_coarse(struct process *p, unsigned step, unsigned samples, struct rate r) {
  for (unsigned i = 0; i < samples; i++) {
    go(p, 1, (struct rate){r.in * step, r.out * step, r.full_us * step});
    wait_s(p, step - 1);
    if (i % 3 == 2) look_at(p, holding(812, "/opt/tts", 40 * GIB));
  }
}

static const struct rate pressed = {3000, 2500, 78000};

static void two_do_not_fit(void **state) {
  struct process p;
  (void)state;
  begin(&p, 3 * GIB);
  look_at(&p, service(812, "/usr/bin/ollama", 40 * GIB, "ollama.service"));
  go(&p, 4, pressed);
  assert_int_equal(p.said, 0); /* a moment is nothing */
  p.sample.full_avg10 = 780;
  go(&p, 20, pressed);
  assert_said(&p, VERDICT_WARN, "swap_pressure", CONFIDENCE_MEDIUM);
  assert_int_equal(p.said, 1);
  assert_non_null(strstr(last(&p)->text, "3.0 GiB are in swap"));
  assert_non_null(strstr(last(&p)->text, "ollama (pid 812, service ollama.service) holds 40.0 GiB"));
  assert_true(list_says(&last(&p)->evidence, "7.8 %"));
  assert_non_null(strstr(last(&p)->fixes.item[0], "systemctl stop ollama.service"));
  end(&p, 0, p.now);
  assert_int_equal(left_at(&p, "swap_pressure"), VERDICT_WARN);
  stop(&p);
}

static void in_a_coarse_log(void **state) {
  struct process p;
  (void)state;
  for (int much = 0; much < 2; much++) {
    begin(&p, 3 * GIB);
    look_at(&p, holding(812, "/opt/tts", 40 * GIB));
    go_coarse(&p, 20, 12, much ? pressed : (struct rate){100, 100, 5000});
    assert_int_equal(left_at(&p, "swap_pressure"), much ? VERDICT_WARN : VERDICT_PASS);
    stop(&p);
  }
}

/* 64 KiB pages: the same number of pages is sixteen times as much. */
static void pages_have_sizes(void **state) {
  struct process p;
  (void)state;
  for (int large = 0; large < 2; large++) {
    begin(&p, 3 * GIB);
    p.sample.page_size = large ? 65536 : 4096;
    look_at(&p, holding(812, "/opt/tts", 40 * GIB));
    go(&p, 30, (struct rate){100, 100, 50000});
    assert_int_equal(left_at(&p, "swap_pressure"), large ? VERDICT_WARN : VERDICT_PASS);
    stop(&p);
  }
}

static void look_alikes(void **state) {
  static const struct {
    const char *what;
    struct rate r;
    uint64_t used;
  } rows[] = {
      {"swap in use, nothing moves", {0, 0, 0}, 4 * GIB},    {"read back after a pause", {3000, 0, 60000}, 4 * GIB},
      {"written out at a start", {0, 9000, 60000}, 4 * GIB}, {"a page now and then", {20, 15, 1000}, 4 * GIB},
      {"moves, and nobody waits", {3000, 2500, 0}, 4 * GIB}, {"next to nothing in swap", {3000, 2500, 70000}, GIB / 2},
  };
  struct process p;
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    begin(&p, rows[i].used);
    look_at(&p, holding(812, "/opt/tts", 40 * GIB));
    go(&p, 40, rows[i].r);
    if (p.said) print_error("%s\n", rows[i].what);
    assert_int_equal(p.said, 0);
    stop(&p);
  }
}

/* Swapping as in the case, and nobody to put it down to. */
static void nobody_beside(void **state) {
  struct process p;
  (void)state;
  for (int what = 0; what < 6; what++) {
    struct fact_holder h = holding(812, "/opt/tts", 40 * GIB);
    begin(&p, 3 * GIB);
    if (what == 1) h.ours = true;
    if (what == 2) h.kind = "graphics", h.bytes = 559 * MIB;
    if (what == 3) h.bytes = 700 * MIB;
    if (what == 4) p.sample.cgroup_max = 32 * GIB, p.sample.cgroup_current = 32 * GIB - MIB; /* its own limit */
    if (what) look_at(&p, h);
    if (what == 5) look(&p, NULL, 0); /* it has ended */
    go(&p, 40, pressed);
    assert_int_equal(p.said, 0);
    stop(&p);
  }
}

/* pgmajfault in the first minutes is the loading of libraries. */
static void major_faults_are_ordinary(void **state) {
  struct process p;
  (void)state;
  begin(&p, 0);
  look(&p, NULL, 0);
  for (int i = 0; i < 4; i++) p.sample.pgmajfault = 100 + (uint64_t)i, go(&p, 30, (struct rate){0, 0, 0});
  assert_int_equal(p.said, 0);
  stop(&p);
}

static uint64_t seed = 11;
static unsigned chance(unsigned below) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)((seed >> 33) % below);
}

static void alone_nothing_is_said(void **state) {
  (void)state;
  for (int round = 0; round < 300; round++) {
    struct process p;
    begin(&p, chance(16) * GIB);
    look_at(&p, graphics(1, "Xorg", chance(561) * MIB));
    for (int i = 0; i < 10; i++) {
      p.sample.full_avg10 = chance(10000);
      go(&p, chance(20), (struct rate){chance(100000), chance(100000), chance(1000000)});
      if (chance(4) == 0) p.sample.pswpin = chance(1000), p.sample.pswpout = chance(2) ? NO : 5;
      if (chance(3) == 0) p.sample.pswpout = 77;
    }
    assert_int_equal(p.said, 0);
    stop(&p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(two_do_not_fit),        cmocka_unit_test(in_a_coarse_log),
      cmocka_unit_test(pages_have_sizes),      cmocka_unit_test(look_alikes),
      cmocka_unit_test(nobody_beside),         cmocka_unit_test(major_faults_are_ordinary),
      cmocka_unit_test(alone_nothing_is_said),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
