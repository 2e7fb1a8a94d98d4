/* clock.c - time, from the machine or from the simulator's shared page (clock.h).
 *
 * Runs in the preloaded library on its hot path (clock_ticks) and in the program. Raw system calls: libc's
 * clock_gettime may be interposed (faketime and its kin), and then our times would not fit the launcher's.
 */
#include "clock.h"

#include <fcntl.h>
#include <linux/time.h>
#include <linux/time_types.h>
#include <sys/mman.h>

#include "sys.h"

static const struct clock_page *simulated;

static uint64_t read_ns(int clock) {
  struct __kernel_timespec ts = {0, 0};
  sys_call6(SYS_clock_gettime, clock, (long)&ts, 0, 0, 0, 0);
  return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

static bool is_clock_page(const struct clock_page *page) {
  static const char magic[8] = "SPKCLK1";
  for (unsigned i = 0; i < sizeof(magic); i++)
    if (page->magic[i] != magic[i]) return false;
  return true;
}

void clock_init(const char *root) {
  char path[4096];
  if (!root || !*root || simulated) return;
  size_t n = str_copy(path, sizeof(path), root);
  if (n + sizeof("/clock") > sizeof(path)) return;
  str_copy(path + n, sizeof(path) - n, "/clock");
  int fd = sys_open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY, 0);
  if (fd < 0) return;
  /* A file shorter than the page struct would kill by SIGBUS when read through the mapping. */
  struct clock_page copy;
  if (sys_read(fd, &copy, sizeof(copy)) == (long)sizeof(copy) && is_clock_page(&copy)) {
    void *map = sys_mmap(NULL, sizeof(copy), PROT_READ, MAP_SHARED, fd, 0);
    if (!sys_is_error(map)) simulated = map;
  }
  sys_close(fd);
}

/* Nanoseconds of simulated time since the simulation began. */
static uint64_t simulated_ns(const struct clock_page *page) {
  uint64_t jumped = __atomic_load_n(&page->jumped_us, __ATOMIC_RELAXED);
  return read_ns(CLOCK_MONOTONIC) - page->mono_ns0 + jumped * 1000;
}

uint64_t clock_us(void) {
  if (simulated) return simulated->unix_us + simulated_ns(simulated) / 1000;
  return read_ns(CLOCK_REALTIME) / 1000;
}

uint64_t clock_ticks(void) {
  if (__builtin_expect(simulated != NULL, 0)) return simulated_ns(simulated);
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#endif
}

uint64_t clock_ticks_to_us(uint64_t ticks, uint64_t tick0, uint64_t us0, uint64_t tick1, uint64_t us1) {
  enum { NOMINAL_TICKS_PER_US = 1000 };
  double per_tick = 1.0 / NOMINAL_TICKS_PER_US;
  if (tick1 > tick0 && us1 > us0) per_tick = (double)(us1 - us0) / (double)(tick1 - tick0);
  double us = (double)(int64_t)(ticks - tick0) * per_tick;
  return us0 + (uint64_t)(int64_t)us;
}
