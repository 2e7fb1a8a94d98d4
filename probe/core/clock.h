/* clock.h - the only clock of sparkshim.
 *
 * On a real machine: Unix time, and ticks of the processor's counter (TSC, cntvct_el0) for the hot path.
 * Under the simulated Spark (SPARKSHIM_ROOT has a file "clock", see struct clock_page) both come from the
 * simulator's shared page, so that hours of telemetry pass in a second. Freestanding: raw system calls.
 */
#ifndef SPARKSHIM_CLOCK_H
#define SPARKSHIM_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

enum { CLOCK_WATCHERS = 16 };

/* Somebody who looks at the simulated machine now and then: a jump of the clock stops at `due_us` (Unix time) until
 * he has set a later one. */
struct clock_watcher {
  uint32_t pid; /* 0 = free; atomic */
  uint32_t pad;
  uint64_t due_us; /* UINT64_MAX: nobody waits for him */
};

/* $SPARKSHIM_ROOT/clock, one page, mapped shared. now = unix_us + jumped_us + (monotonic - mono_ns0) / 1000.
 * Only the simulator writes it, but for `taken` and the watchers; jumped_us only grows (atomic add). */
struct clock_page {
  char magic[8]; /* "SPKCLK1" */
  uint64_t unix_us;
  uint64_t mono_ns0;
  uint64_t jumped_us;
  uint32_t moved; /* futex word: one more at each step of the clock */
  uint32_t taken; /* futex word: one more at each answer of a watcher */
  struct clock_watcher watcher[CLOCK_WATCHERS];
};

/* Reads SPARKSHIM_ROOT's clock page if `root` is not NULL and holds one. Idempotent, not thread-safe:
 * call once before the first reading. Without it the real clock is used. */
void clock_init(const char *root);

/* Unix time in microseconds. Async-signal-safe, keeps errno. */
uint64_t clock_us(void);

/* The simulator's page, NULL on a real machine, and its ticks: for clock_ticks() below alone. */
extern const struct clock_page *clock_simulated;
uint64_t clock_simulated_ticks(void);

/* Monotonic ticks, a few ns; the unit is found by pairing with clock_us(). Async-signal-safe. Inline, for it stands in
 * the path of every hooked call. */
static inline uint64_t clock_ticks(void) {
  if (__builtin_expect(clock_simulated != (void *)0, 0)) return clock_simulated_ticks();
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#endif
}

/* A thread that looks at the machine at set times. Under the simulator it takes a place in the clock page, so that hours
 * do not pass between two looks (no place left: it looks when it gets to it); on a real machine it only sleeps. */
struct clock_watch {
  struct clock_page *page;     /* NULL: real time */
  struct clock_watcher *place; /* in page, or NULL */
};
/* `root` as for clock_init(), which comes first. Each watch belongs to one thread. */
void clock_watch_begin(struct clock_watch *w, const char *root);
/* Sleeps until clock_us() has reached `due_us`, or *stop is not 0: at once where clock_watch_wake() was called, in
 * any case within 50 ms of real time. Says that the looks due before are taken. */
void clock_watch_sleep(struct clock_watch *w, uint64_t due_us, const uint32_t *stop);
/* Any thread of the process, after it has set *stop. */
void clock_watch_wake(const struct clock_watch *w, const uint32_t *stop);
void clock_watch_end(struct clock_watch *w);

/* Ticks to Unix microseconds by two pairs (ring_header); with only one pair by the nominal rate, 1 GHz. */
uint64_t clock_ticks_to_us(uint64_t ticks, uint64_t tick0, uint64_t us0, uint64_t tick1, uint64_t us1);

#endif
