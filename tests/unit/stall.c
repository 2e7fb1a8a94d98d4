/* When a call in flight becomes a fact. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "stall.h"

enum { SECOND = 1000000, LIMIT = 30 * SECOND };
static const uint64_t start = 1796025478000000;

static struct stall_state state;
static struct stall_view view;

static void begin(void) {
  state = (struct stall_state){0};
  view = (struct stall_view){.t = start, .calls = 10, .activity = start - SECOND};
}

/* Times of the call in flight are never twice the same to the microsecond. */
static enum stall_event at(uint64_t seconds) {
  view.t = start + seconds * SECOND;
  view.mark = view.since / SECOND;
  if (view.since) view.since = view.mark * SECOND + seconds % 3;
  return stall_judge(&state, &view, LIMIT);
}

/* Times of STALL_LASTS when it is looked at every 5 s until `end`, as many as fit. */
static unsigned told(uint64_t end, uint64_t *times, unsigned size) {
  unsigned n = 0;
  for (uint64_t t = 0; t <= end; t += 5)
    if (at(t) == STALL_LASTS && n < size) times[n++] = t;
  return n;
}

static void a_call_that_does_not_return(void **unused) {
  uint64_t times[64];
  (void)unused;
  begin();
  view.tid = 7;
  view.since = start;
  assert_int_equal(at(14), STALL_NONE);
  assert_int_equal(at(16), STALL_NEAR);
  assert_int_equal(at(29), STALL_NEAR);
  assert_int_equal(at(30), STALL_LASTS);
  assert_int_equal(at(31), STALL_NEAR);
  assert_int_equal(stall_idle(&state, &view), 17 * SECOND); /* the number of calls was first seen at 14 */
  view.since = 0, view.tid = 0, view.calls++;
  assert_int_equal(at(40), STALL_OVER);
  assert_int_equal(at(40), STALL_NONE);
  begin();
  view.tid = 7;
  view.since = start;
  unsigned n = told(86400, times, 64);
  assert_int_equal(times[0], 30);
  assert_int_equal(times[9], 300); /* each limit: whoever judges five minutes is told at five minutes */
  assert_in_range(n, 30, 90);      /* and a day of it does not fill the log */
}

static void another_call_ends_the_first(void **unused) {
  (void)unused;
  begin();
  view.tid = 7;
  view.since = start;
  assert_int_equal(at(35), STALL_LASTS);
  view.tid = 8; /* the first has returned, another thread's is younger, and a stall of its own */
  view.since = start + 2 * SECOND;
  assert_int_equal(at(40), STALL_OVER);
  assert_int_equal(at(40), STALL_LASTS);
  view.tid = 8;
  view.since = start + 39 * SECOND;
  assert_int_equal(at(45), STALL_OVER);
  assert_int_equal(at(45), STALL_NONE);
}

static void others_go_on(void **unused) {
  (void)unused;
  begin();
  view.tid = 7;
  view.since = start;
  at(0);
  view.calls += 5;
  view.activity = start + 34 * SECOND;
  assert_int_equal(at(35), STALL_LASTS); /* told, and that calls of other threads return */
  assert_int_equal(stall_idle(&state, &view), 0);
  assert_int_equal(at(37), STALL_NEAR);
  assert_int_equal(stall_idle(&state, &view), 2 * SECOND);
}

static void no_call_in_flight(void **unused) {
  uint64_t times[8];
  (void)unused;
  begin();
  assert_int_equal(told(3600, times, 8), 0); /* memory is there: a server that waits for requests */
  begin();
  view.is_short = true;
  view.activity = 0;
  assert_int_equal(told(3600, times, 8), 0); /* it has done nothing yet */
  begin();
  view.is_short = true;
  assert_int_equal(at(0), STALL_NONE);
  assert_int_equal(at(35), STALL_NEAR);
  assert_int_equal(at(59), STALL_NEAR);
  assert_int_equal(at(60), STALL_LASTS);
  assert_int_equal(at(65), STALL_NEAR);
  view.is_short = false; /* it goes on, and is told on */
  assert_int_equal(at(90), STALL_LASTS);
  view.calls++;
  assert_int_equal(at(95), STALL_OVER);
  assert_int_equal(at(95), STALL_NONE);
}

static void clocks_that_do_not_agree(void **unused) {
  (void)unused;
  begin();
  view.tid = 7;
  view.since = start + 1000 * SECOND;
  view.activity = UINT64_MAX;
  assert_int_equal(at(10), STALL_NONE);
  assert_int_equal(stall_idle(&state, &view), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_call_that_does_not_return),
      cmocka_unit_test(another_call_ends_the_first),
      cmocka_unit_test(others_go_on),
      cmocka_unit_test(no_call_in_flight),
      cmocka_unit_test(clocks_that_do_not_agree),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
