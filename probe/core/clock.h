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

/* $SPARKSHIM_ROOT/clock, one page, mapped shared. now = unix_us + jumped_us + (monotonic - mono_ns0) / 1000.
 * Only the simulator writes it; jumped_us only grows (atomic add). */
struct clock_page {
  char magic[8]; /* "SPKCLK1" */
  uint64_t unix_us;
  uint64_t mono_ns0;
  uint64_t jumped_us;
};

/* Reads SPARKSHIM_ROOT's clock page if `root` is not NULL and holds one. Idempotent, not thread-safe:
 * call once before the first reading. Without it the real clock is used. */
void clock_init(const char *root);

/* Unix time in microseconds. Async-signal-safe, keeps errno. */
uint64_t clock_us(void);

/* Monotonic ticks, a few ns; the unit is found by pairing with clock_us(). Async-signal-safe. */
uint64_t clock_ticks(void);

/* Ticks to Unix microseconds by two pairs (ring_header); with only one pair by the nominal rate, 1 GHz. */
uint64_t clock_ticks_to_us(uint64_t ticks, uint64_t tick0, uint64_t us0, uint64_t tick1, uint64_t us1);

#endif
