/* Tests of G6 about speed, on facts: pace of the job when others come to the GPU, and all that looks like it. */
#include "holder_facts.h"

extern const struct detector det_g06_pace;

/* A sample every `step` seconds, with a look every five; `pace` calls a second, MemAvailable as it is. */
struct scene {
  struct process p;
  uint64_t work;
  struct fact_holder list[4];
  unsigned n;
  unsigned looked; /* seconds since the last look */
  unsigned step;
};

static void begin(struct scene *s) {
  memset(s, 0, sizeof *s);
  start(&s->p, &det_g06_pace, memory(40 * GIB, 50 * GIB, 8 * GIB));
  s->looked = 5;
  s->step = 1;
}

static void go(struct scene *s, unsigned seconds, uint64_t pace) {
  for (unsigned i = 0; i < seconds; i += s->step) {
    struct fact f = {.kind = FACT_KIND_sample};
    if (s->looked >= 5) look(&s->p, s->list, s->n), s->looked = 0;
    s->looked += s->step;
    s->p.sample.mem = s->p.mem;
    s->p.sample.job_work = s->work;
    f.u.sample = s->p.sample;
    tell(&s->p, f);
    s->work += pace * s->step;
    wait_s(&s->p, s->step);
  }
}

static void come(struct scene *s, struct fact_holder h) {
  s->list[s->n++] = h;
  s->p.mem.available -= 6 * GIB;
}

static void two_servers_join(void **state) {
  struct scene s;
  (void)state;
  begin(&s);
  go(&s, 60, 30);
  assert_int_equal(s.p.said, 0);
  come(&s, holding(501, "/opt/tts", 6 * GIB));
  go(&s, 4, 20);
  come(&s, service(502, "/opt/asr", 5 * GIB, "asr.service"));
  go(&s, 40, 10);
  assert_said(&s.p, VERDICT_WARN, "other_holder", CONFIDENCE_HIGH);
  assert_int_equal(s.p.said, 1);
  assert_non_null(strstr(last(&s.p)->text,
                         "the job goes at 33 % of its pace since 2 processes, among them tts (pid 501) with 6.0 GiB"));
  end(&s.p, 0, s.p.now);
  assert_int_equal(left_at(&s.p, "other_holder"), VERDICT_WARN); /* it was slowed down, whatever came of it */
  stop(&s.p);
}

/* The log of a job that has run for days has a sample now and then. */
static void in_a_coarse_log(void **state) {
  static const unsigned steps[] = {3, 10, 60};
  (void)state;
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    struct scene s;
    begin(&s);
    s.step = steps[i];
    go(&s, 20 * s.step, 30);
    come(&s, holding(501, "/opt/tts", 6 * GIB));
    go(&s, 20 * s.step, 10);
    assert_said(&s.p, VERDICT_WARN, "other_holder", CONFIDENCE_HIGH);
    stop(&s.p);
  }
}

/* Looks that show nothing new are not written: the first that lists them comes a minute after the one before. */
static void looks_are_written_when_they_change(void **state) {
  (void)state;
  for (int silent = 0; silent < 2; silent++) {
    struct scene s;
    begin(&s);
    go(&s, 6, 30);
    s.looked = 0;
    for (unsigned i = 0; i < 70; i++) s.looked = 0, go(&s, 1, 30);
    if (silent) { /* nor was NVML seen to answer: when they came is not known */
      struct fact f = {.kind = FACT_KIND_nvml};
      f.u.nvml = (struct fact_nvml){.call = "processes", .waited = 8 * SECOND};
      tell(&s.p, f);
    }
    s.looked = 5;
    come(&s, holding(501, "/opt/tts", 6 * GIB));
    go(&s, 40, 10);
    assert_int_equal(left_at(&s.p, "other_holder"), silent ? VERDICT_PASS : VERDICT_WARN);
    stop(&s.p);
  }
}

/* Their ending does not change that; that the pace comes back while they are there does. */
static void when_the_pace_comes_back(void **state) {
  for (int gone = 0; gone < 2; gone++) {
    struct scene s;
    (void)state;
    begin(&s);
    go(&s, 60, 30);
    come(&s, holding(501, "/opt/tts", 6 * GIB));
    go(&s, 40, 10);
    assert_said(&s.p, VERDICT_WARN, "other_holder", CONFIDENCE_HIGH);
    if (gone) s.n = 0;
    go(&s, 60, 30);
    assert_int_equal(left_at(&s.p, "other_holder"), gone ? VERDICT_WARN : VERDICT_INFO);
    stop(&s.p);
  }
}

/* One reading less each: memory that does not go down, a change that comes late; without both nothing is said. */
static void with_one_reading_it_is_medium(void **state) {
  static const struct {
    bool memory, soon;
    enum verdict verdict;
  } rows[] = {{false, true, VERDICT_WARN}, {true, false, VERDICT_WARN}, {false, false, VERDICT_PASS}};
  struct scene s;
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    begin(&s);
    go(&s, 60, 30);
    come(&s, holding(501, "/opt/tts", 6 * GIB));
    if (!rows[i].memory) s.p.mem.available += 6 * GIB;
    if (!rows[i].soon) go(&s, 60, 30);
    go(&s, 40, 10);
    assert_int_equal(left_at(&s.p, "other_holder"), rows[i].verdict);
    if (rows[i].verdict) assert_said(&s.p, VERDICT_WARN, "other_holder", CONFIDENCE_MEDIUM);
    stop(&s.p);
  }
}

enum alike {
  NOBODY_CAME,     /* a phase of the job itself */
  WAS_THERE,       /* the other was there from the start */
  GRAPHICS_CAME,   /* somebody has opened a window */
  OURS_CAME,       /* a worker of the job */
  UNEVEN_BEFORE,   /* evaluation every few steps */
  NOT_SLOW_ENOUGH, /* three quarters */
  SHORT,           /* a checkpoint of ten seconds */
  STOPPED,         /* no work at all: an end, a wait, a hang; not a pace */
  MUCH_LATER,      /* three minutes after they came */
  TOO_YOUNG,       /* nothing is known of what was before */
  UNCOUNTED,       /* the rings could not be read */
  NOT_SEEN,        /* nobody looked for six minutes in between */
  MAY_BE_OURS,     /* not to be seen, and the job itself is not listed */
  LEFT_AT_ONCE,    /* it came, and had ended before the job went slower */
  ALIKES
};

static void play(struct scene *s, enum alike what) {
  struct fact_holder h = holding(501, "/opt/tts", 6 * GIB);
  if (what == WAS_THERE) come(s, h);
  if (what == TOO_YOUNG) go(s, 12, 30);
  if (what == UNEVEN_BEFORE)
    for (int i = 0; i < 6; i++) go(s, 5, 30), go(s, 5, 12);
  else if (what != TOO_YOUNG)
    go(s, 60, 30);
  if (what == GRAPHICS_CAME) h.kind = "graphics";
  if (what == OURS_CAME) h.ours = true;
  if (what == MAY_BE_OURS) h.unseen = true;
  if (what != NOBODY_CAME && what != WAS_THERE) come(s, h);
  if (what == MUCH_LATER) go(s, 180, 30);
  if (what == NOT_SEEN) wait_s(&s->p, 360);
  if (what == LEFT_AT_ONCE) go(s, 6, 30), s->n = 0, go(s, 6, 30);
  go(s, what == SHORT ? 10 : 60, what == STOPPED ? 0 : what == NOT_SLOW_ENOUGH ? 22 : 10);
  if (what == SHORT) go(s, 60, 30);
}

static void look_alikes(void **state) {
  struct scene s;
  (void)state;
  for (enum alike what = 0; what < ALIKES; what++) {
    begin(&s);
    if (what == UNCOUNTED) {
      come(&s, holding(501, "/opt/tts", 6 * GIB));
      for (int i = 0; i < 60; i++) {
        struct fact f = {.kind = FACT_KIND_sample};
        f.u.sample = s.p.sample;
        if (i % 5 == 0) look(&s.p, s.list, i > 30);
        tell(&s.p, f);
        wait_s(&s.p, 1);
      }
    } else {
      play(&s, what);
    }
    if (s.p.said) print_error("look-alike %d\n", (int)what);
    assert_int_equal(s.p.said, 0);
    stop(&s.p);
  }
}

/* A process of the job has ended, and took its count with it: no pace below nothing. */
static void a_count_that_falls(void **state) {
  struct scene s;
  (void)state;
  begin(&s);
  go(&s, 60, 30);
  s.work = 5;
  go(&s, 60, 30);
  come(&s, holding(501, "/opt/tts", 6 * GIB));
  go(&s, 7, 10);
  s.work = 1;
  go(&s, 40, 10);
  assert_said(&s.p, VERDICT_WARN, "other_holder", CONFIDENCE_HIGH);
  stop(&s.p);
}

static uint64_t seed = 7;
static unsigned chance(unsigned below) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)((seed >> 33) % below);
}

/* Alone on the GPU, whatever the job does. */
static void alone_nothing_is_said(void **state) {
  (void)state;
  for (int round = 0; round < 200; round++) {
    struct scene s;
    begin(&s);
    s.list[s.n++] = graphics(1, "Xorg", 40 * MIB);
    for (int i = 0; i < 20; i++) {
      if (chance(4) == 0) s.n = chance(2);
      s.p.mem.available = chance(100) * GIB;
      go(&s, chance(40), chance(3) ? chance(100) : 0);
      if (chance(8) == 0) s.work = chance(1000);
      if (chance(8) == 0) wait_s(&s.p, chance(100));
    }
    assert_int_equal(s.p.said, 0);
    stop(&s.p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(two_servers_join),
      cmocka_unit_test(in_a_coarse_log),
      cmocka_unit_test(looks_are_written_when_they_change),
      cmocka_unit_test(when_the_pace_comes_back),
      cmocka_unit_test(with_one_reading_it_is_medium),
      cmocka_unit_test(look_alikes),
      cmocka_unit_test(a_count_that_falls),
      cmocka_unit_test(alone_nothing_is_said),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
