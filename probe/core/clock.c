/* clock.c - time, from the machine or from the simulator's shared page (clock.h).
 *
 * Runs in the preloaded library and in the program. Raw system calls: libc's
 * clock_gettime may be interposed (faketime and its kin), and then our times would not fit the launcher's.
 */
#include "clock.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/time.h>
#include <linux/time_types.h>
#include <sys/mman.h>

#include "sys.h"

const struct clock_page *clock_simulated;

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

static struct clock_page *map_page(const char *root, bool writable) {
  char path[4096];
  struct clock_page *page = NULL;
  if (!root || !*root) return NULL;
  size_t n = str_copy(path, sizeof(path), root);
  if (n + sizeof("/clock") > sizeof(path)) return NULL;
  str_copy(path + n, sizeof(path) - n, "/clock");
  int fd = sys_open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOCTTY, 0);
  if (fd < 0) return NULL;
  /* A file shorter than the page struct would kill by SIGBUS when read through the mapping. */
  struct clock_page copy;
  if (sys_read(fd, &copy, sizeof(copy)) == (long)sizeof(copy) && is_clock_page(&copy)) {
    void *map = sys_mmap(NULL, sizeof(copy), writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
    if (!sys_is_error(map)) page = map;
  }
  sys_close(fd);
  return page;
}

void clock_init(const char *root) {
  if (!clock_simulated) clock_simulated = map_page(root, false);
}

/* Nanoseconds of simulated time since the simulation began. */
static uint64_t simulated_ns(const struct clock_page *page) {
  uint64_t jumped = __atomic_load_n(&page->jumped_us, __ATOMIC_RELAXED);
  return read_ns(CLOCK_MONOTONIC) - page->mono_ns0 + jumped * 1000;
}

uint64_t clock_us(void) {
  if (clock_simulated) return clock_simulated->unix_us + simulated_ns(clock_simulated) / 1000;
  return read_ns(CLOCK_REALTIME) / 1000;
}

uint64_t clock_simulated_ticks(void) { return simulated_ns(clock_simulated); }

/* ---- watchers ------------------------------------------------------------------------------------------------- */
static void futex_wait(const uint32_t *word, uint32_t value, uint64_t us) {
  struct __kernel_timespec ts = {(int64_t)(us / 1000000), (int64_t)(us % 1000000 * 1000)};
  sys_call6(SYS_futex, (long)word, FUTEX_WAIT, (long)value, (long)&ts, 0, 0);
}

static void futex_wake(const uint32_t *word) { sys_call6(SYS_futex, (long)word, FUTEX_WAKE, INT32_MAX, 0, 0, 0); }

void clock_watch_begin(struct clock_watch *w, const char *root) {
  *w = (struct clock_watch){0};
  if (clock_simulated) w->page = map_page(root, true);
  for (unsigned i = 0; w->page && i < CLOCK_WATCHERS && !w->place; i++) {
    struct clock_watcher *place = &w->page->watcher[i];
    uint32_t nobody = 0;
    if (!__atomic_compare_exchange_n(&place->pid, &nobody, (uint32_t)sys_getpid(), false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
      continue;
    __atomic_store_n(&place->due_us, UINT64_MAX, __ATOMIC_RELEASE);
    w->place = place;
  }
}

static void answer(const struct clock_watch *w, uint64_t due_us) {
  if (!w->place || __atomic_exchange_n(&w->place->due_us, due_us, __ATOMIC_ACQ_REL) == due_us) return;
  __atomic_add_fetch(&w->page->taken, 1, __ATOMIC_RELEASE);
  futex_wake(&w->page->taken);
}

void clock_watch_sleep(struct clock_watch *w, uint64_t due_us, const uint32_t *stop) {
  enum { LONGEST_US = 50000 }; /* a wake-up that came between the look at *stop and the wait is lost */
  answer(w, due_us);
  for (;;) {
    uint32_t moved = w->page ? __atomic_load_n(&w->page->moved, __ATOMIC_ACQUIRE) : 0;
    uint64_t now = clock_us();
    if (now >= due_us || __atomic_load_n(stop, __ATOMIC_ACQUIRE)) return;
    if (!w->page)
      futex_wait(stop, 0, due_us - now);
    else
      futex_wait(&w->page->moved, moved, due_us - now < LONGEST_US ? due_us - now : LONGEST_US);
  }
}

void clock_watch_wake(const struct clock_watch *w, const uint32_t *stop) {
  futex_wake(w->page ? &w->page->moved : stop);
}

void clock_watch_end(struct clock_watch *w) {
  answer(w, UINT64_MAX);
  if (w->place) __atomic_store_n(&w->place->pid, 0, __ATOMIC_RELEASE);
  if (w->page) sys_munmap(w->page, sizeof(*w->page));
  *w = (struct clock_watch){0};
}

uint64_t clock_ticks_to_us(uint64_t ticks, uint64_t tick0, uint64_t us0, uint64_t tick1, uint64_t us1) {
  enum { NOMINAL_TICKS_PER_US = 1000 };
  double per_tick = 1.0 / NOMINAL_TICKS_PER_US;
  if (tick1 > tick0 && us1 > us0) per_tick = (double)(us1 - us0) / (double)(tick1 - tick0);
  double us = (double)(int64_t)(ticks - tick0) * per_tick;
  return us0 + (uint64_t)(int64_t)us;
}
