/* How often the launcher looks, and what of it is written, on memory that does what it was seen to do on real machines. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "beat.h"

#define GIB (UINT64_C(1) << 30)
enum { SECOND = 1000000, RECORD = 1500 /* bytes of a sample in the log, about */ };
static const uint64_t start = 1796025478000000, total = UINT64_C(127535084) << 10;

/* ---- a machine and its watcher --------------------------------------------------------------------------------------- */
struct world {
  double (*available)(double t); /* GiB, t seconds after the start */
  uint64_t t;
  struct beat beat;
  struct thinner thinner;
  unsigned looks, written;
  unsigned on_slope, written_on_slope; /* between `from` and `until` */
  double from, until;
  double wrote[64]; /* times of the first records */
};

static struct fact sample_at(const struct world *w) {
  struct fact f = {.kind = FACT_KIND_sample, .t = w->t};
  struct fact_sample *s = &f.u.sample;
  memset(&s->page_size, 0xff, sizeof *s - offsetof(struct fact_sample, page_size));
  s->mem.total = total;
  s->mem.available = s->mem.free = (uint64_t)(w->available((double)(w->t - start) / SECOND) * (double)GIB);
  return f;
}

static void write_it(struct world *w, const struct fact *f) {
  double t = (double)(f->t - start) / SECOND;
  if (w->written < sizeof w->wrote / sizeof w->wrote[0]) w->wrote[w->written] = t;
  w->written++;
  w->written_on_slope += t > w->from && t <= w->until;
  w->thinner.bytes += RECORD;
}

static void look(struct world *w) {
  struct fact f = sample_at(w);
  double t = (double)(w->t - start) / SECOND;
  enum thin how = thin_judge(&w->thinner, &f, false);
  w->looks++;
  w->on_slope += t > w->from && t <= w->until;
  if (how == THIN_NO) {
    thin_hold(&w->thinner, &f);
  } else {
    const struct fact *held = thin_take_held(&w->thinner);
    if (held && how == THIN_CHANGE) write_it(w, held);
    write_it(w, &f);
    thin_written(&w->thinner, &f);
  }
  w->t += beat_next(&w->beat, w->t, &f.u.sample.mem);
}

static void run(struct world *w, double (*available)(double), double seconds) {
  w->available = available;
  if (!w->t) w->t = start;
  while (w->t <= start + (uint64_t)(seconds * SECOND)) look(w);
}

/* A straight line from a at t0 to b at t1. */
static double line(double t, double t0, double a, double t1, double b) {
  return t <= t0 ? a : t >= t1 ? b : a + (b - a) * (t - t0) / (t1 - t0);
}

/* ---- the beat ---------------------------------------------------------------------------------------------------------- */
static double level(double t) { return t < 1e9 ? 60 : 0; }

static void a_look_a_second(void **unused) {
  struct world w = {0};
  (void)unused;
  run(&w, level, 3600);
  assert_int_equal(w.looks, 3601);
}

static double resume_at; /* seconds */
static double resume(double t) { return line(t, resume_at, 34.0, resume_at + 1.5, 12.7); }

/* Whenever it begins between two looks. */
static void a_fall_within_a_second_and_a_half(void **unused) {
  (void)unused;
  for (resume_at = 5; resume_at <= 6; resume_at += 0.05) {
    struct world w = {.from = resume_at, .until = resume_at + 1.5};
    run(&w, resume, 20);
    assert_in_range(w.on_slope, 5, 35);
    assert_in_range(w.written_on_slope, 5, 35);
    assert_in_range(w.looks, 20, 80);
  }
}

static double server_start(double t) {
  return t < 3   ? line(t, 0, 28.97, 3, 27.3)
         : t < 6 ? line(t, 3, 27.3, 6, 23.8)
         : t < 8 ? line(t, 6, 23.8, 8, 10.6)
                 : line(t, 8, 10.6, 11, 6.27);
}

static void the_start_of_a_server(void **unused) {
  struct world w = {.from = 6, .until = 11};
  (void)unused;
  run(&w, server_start, 11);
  assert_in_range(w.on_slope, 20, 101);
  assert_in_range(w.written_on_slope, 10, 101);
}

static double load(double t) { return line(t, 10, 112, 30, 45); }

static void a_big_model_is_loaded(void **unused) {
  struct world w = {0};
  (void)unused;
  run(&w, load, 60);
  assert_in_range(w.looks, 60, 100); /* far from the edge: hardly faster */
}

static double near(double t) { return t < 1e9 ? 5 : 0; }

static void near_the_edge(void **unused) {
  struct world w = {0};
  (void)unused;
  run(&w, near, 100);
  assert_in_range(w.looks, 390, 402);
}

static double fall_and_level(double t) { return line(t, 0, 30, 1, 20); }

static void slower_by_degrees(void **unused) {
  struct world w = {0};
  (void)unused;
  run(&w, fall_and_level, 1);
  uint64_t before = w.beat.interval;
  assert_true(before < 200000);
  while (before < BEAT_SLOWEST_US) {
    look(&w);
    assert_in_range(w.beat.interval, before + 1, before + before / 2);
    before = w.beat.interval;
  }
}

static double saw(double t) {
  return 4 + 8 * (t / 2 - (double)(long)(t / 2));
} /* 4 to 12 GiB and at once back, every 2 s */
static double trembling(double t) { return (long)(t * 100) % 2 ? 1.5 : 1.6; }

/* A job that frees and takes all day costs no more than a moderate beat. */
static void a_day_up_and_down(void **unused) {
  double (*const days[])(double) = {saw, trembling};
  (void)unused;
  for (unsigned i = 0; i < 2; i++) {
    struct world w = {0};
    run(&w, days[i], 86400);
    assert_in_range(w.looks, 86400, 86400 * 6 + BEAT_STOCK);
    assert_true(w.thinner.bytes < THIN_LIMIT + 2 * RECORD);
  }
}

static void figures_that_are_not_there(void **unused) {
  struct beat b = {0};
  struct fact_memory m;
  (void)unused;
  memset(&m, 0xff, sizeof m);
  assert_int_equal(beat_next(&b, start, &m), BEAT_SLOWEST_US);
  m.total = m.available = 0;
  assert_in_range(beat_next(&b, start, &m), BEAT_FASTEST_US, BEAT_SLOWEST_US);
  m.available = UINT64_MAX - 1;
  assert_in_range(beat_next(&b, start - 5, &m), BEAT_FASTEST_US, BEAT_SLOWEST_US); /* and a clock that runs back */
}

/* ---- what is written --------------------------------------------------------------------------------------------------- */
static void nothing_happens_for_a_week(void **unused) {
  struct world w = {0};
  (void)unused;
  run(&w, level, 600);
  assert_in_range(w.written, 150, 240); /* each second at first, then more and more seldom */
  run(&w, level, 7 * 86400.0);
  assert_true(w.thinner.bytes < 12 << 20);
  assert_in_range(w.written, 5000, 8000);
}

static double late_fall(double t) { return line(t, 5000.5, 100, 5003.5, 40); }

static void a_slope_begins_where_it_began(void **unused) {
  struct world w = {.from = 5000.5, .until = 5003.5};
  (void)unused;
  run(&w, late_fall, 4990);
  w.written = 0;
  run(&w, late_fall, 5010);
  assert_in_range(w.written_on_slope, 3, 40);
  unsigned first = 0;
  while (w.wrote[first] <= 5000.5) first++;
  assert_true(first > 0 && w.wrote[first - 1] > 4999.4); /* the look before it, which had shown nothing */
}

static struct fact with(uint64_t t) {
  struct world w = {.available = level, .t = t};
  return sample_at(&w);
}

static void a_death_is_always_written(void **unused) {
  struct thinner th = {0};
  struct fact before = with(start), after = with(start + 1000);
  (void)unused;
  before.u.sample.oom_kill = after.u.sample.oom_kill = 3;
  thin_written(&th, &before);
  th.bytes = 2 * THIN_LIMIT;
  assert_int_equal(thin_judge(&th, &after, false), THIN_NO);
  assert_int_equal(thin_judge(&th, &after, true), THIN_CHANGE);
  after.u.sample.oom_kill = 4;
  assert_int_equal(thin_judge(&th, &after, false), THIN_CHANGE);
  after.u.sample.oom_kill = FACT_NO_U64; /* could not be read */
  assert_int_equal(thin_judge(&th, &after, false), THIN_NO);
}

static void what_counts_as_a_change(void **unused) {
  struct thinner th = {0};
  struct fact before = with(start), after = with(start + SECOND / 2);
  struct fact_sample *b = &before.u.sample, *a = &after.u.sample;
  struct {
    fact_u64 *before, *after;
    uint64_t little, much;
  } figures[] = {{&b->mem.swap_free, &a->mem.swap_free, total / 1000, total / 200},
                 {&b->pswpin, &a->pswpin, 1000, 30000},
                 {&b->pswpout, &a->pswpout, 1000, 30000},
                 {&b->some_avg10, &a->some_avg10, 100, 600},
                 {&b->full_avg10, &a->full_avg10, 100, 600},
                 {&b->some_total, &a->some_total, 10000, 600000},
                 {&b->compact_stall, &a->compact_stall, 10, 2000},
                 {&b->allocstall, &a->allocstall, 10, 2000}};
  (void)unused;
  for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
    *figures[i].before = total;
    thin_written(&th, &before);
    *figures[i].after = total - figures[i].little;
    assert_int_equal(thin_judge(&th, &after, false), THIN_NO);
    *figures[i].after = total - figures[i].much;
    assert_int_equal(thin_judge(&th, &after, false), THIN_CHANGE);
    th.bytes = 3 * THIN_STEP; /* eight times as coarse */
    assert_int_equal(thin_judge(&th, &after, false), THIN_NO);
    th.bytes = 0;
    *figures[i].after = *figures[i].before;
  }
}

static void what_is_held_is_taken_once(void **unused) {
  struct thinner th = {0};
  struct fact a = with(start), b = with(start + 1);
  (void)unused;
  assert_null(thin_take_held(&th));
  thin_hold(&th, &a);
  thin_hold(&th, &b);
  assert_int_equal(thin_take_held(&th)->t, start + 1);
  assert_null(thin_take_held(&th));
  thin_hold(&th, &a);
  thin_written(&th, &b);
  assert_null(thin_take_held(&th));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_look_a_second),
      cmocka_unit_test(a_fall_within_a_second_and_a_half),
      cmocka_unit_test(the_start_of_a_server),
      cmocka_unit_test(a_big_model_is_loaded),
      cmocka_unit_test(near_the_edge),
      cmocka_unit_test(slower_by_degrees),
      cmocka_unit_test(a_day_up_and_down),
      cmocka_unit_test(figures_that_are_not_there),
      cmocka_unit_test(nothing_happens_for_a_week),
      cmocka_unit_test(a_slope_begins_where_it_began),
      cmocka_unit_test(a_death_is_always_written),
      cmocka_unit_test(what_counts_as_a_change),
      cmocka_unit_test(what_is_held_is_taken_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
