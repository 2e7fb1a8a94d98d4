/* Watchers of the simulated clock: a jump stops where they want to look, and goes on without those that do not. */
#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "check.h"
#include "clock.h"
#include "gb10sim.h"

enum { SECOND = 1000000 };

struct looker {
  uint64_t period_us;
  uint32_t stop, looks, late;
  long long least;
  struct clock_watch watch;
};

static void *look(void *argument) {
  struct looker *l = argument;
  uint64_t due = clock_us();
  l->least = meminfo("MemAvailable");
  for (;;) {
    due += l->period_us;
    clock_watch_sleep(&l->watch, due, &l->stop);
    if (__atomic_load_n(&l->stop, __ATOMIC_ACQUIRE)) return NULL;
    long long now = meminfo("MemAvailable");
    if (now < l->least) l->least = now;
    l->looks++;
    l->late += clock_us() > due + SECOND / 2;
  }
}

static pthread_t begin(struct looker *l) {
  pthread_t thread;
  clock_watch_begin(&l->watch, getenv("SPARKSHIM_ROOT"));
  EQUAL(l->watch.place != NULL, 1);
  EQUAL(pthread_create(&thread, NULL, look, l), 0);
  while (__atomic_load_n(&l->watch.place->due_us, __ATOMIC_ACQUIRE) == UINT64_MAX) {
  }
  return thread;
}

static void end(struct looker *l, pthread_t thread) {
  __atomic_store_n(&l->stop, 1, __ATOMIC_RELEASE);
  clock_watch_wake(&l->watch, &l->stop);
  EQUAL(pthread_join(thread, NULL), 0);
  clock_watch_end(&l->watch);
}

static uint64_t real_ms(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void an_hour_in_looks(void) {
  struct looker every_second = {.period_us = SECOND}, every_minute = {.period_us = 60 * SECOND};
  pthread_t a = begin(&every_second), b = begin(&every_minute);
  gb10sim_advance(UINT64_C(3600) * SECOND);
  end(&every_second, a), end(&every_minute, b);
  EQUAL(every_second.looks >= 3600 && every_second.looks < 3700, 1);
  EQUAL(every_minute.looks >= 60 && every_minute.looks < 63, 1);
  EQUAL(every_second.late < 10, 1); /* on a busy machine real time passes as well */
}

static void a_fall_seen_by_one_jump(void) {
  struct looker l = {.period_us = SECOND / 20};
  pthread_t thread = begin(&l);
  gb10sim_mark("resume");
  gb10sim_advance(2 * SECOND);
  end(&l, thread);
  EQUAL(l.looks >= 40, 1);
  EQUAL(l.least, 12 * 1024 * 1024);
}

static void who_does_not_look_holds_nobody_up(void) {
  struct clock_watch asleep;
  uint32_t stop = 1;
  clock_watch_begin(&asleep, getenv("SPARKSHIM_ROOT"));
  clock_watch_sleep(&asleep, clock_us() + SECOND, &stop);
  uint64_t before = real_ms();
  gb10sim_advance(UINT64_C(3600) * SECOND);
  EQUAL(real_ms() - before < 5000, 1);
  clock_watch_end(&asleep);
}

int main(void) {
  clock_init(getenv("SPARKSHIM_ROOT"));
  an_hour_in_looks();
  a_fall_seen_by_one_jump();
  who_does_not_look_holds_nobody_up();
  return check_failures != 0;
}
