/* world.c - mapping, lock and clock of the simulated Spark. See world.h.
 *
 * The lock word holds the holder's process id, so that a holder killed by SIGKILL does not stop the world: who
 * waits for longer than a second and finds the process gone takes the lock over.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "gb10sim.h"
#include "world.h"

static struct world *the_world;      /* atomic; set once */
static struct clock_page *the_clock; /* atomic; set once, before the_world */
static int attach_state;             /* atomic: 0 not tried, 1 done */

static uint64_t mono_ns(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void *map_file(const char *dir, const char *name, size_t size, bool create) {
  char path[WORLD_PATH + 32];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  int fd = open(path, O_RDWR | O_CLOEXEC | (create ? O_CREAT | O_EXCL : 0), 0600);
  if (fd < 0) return NULL;
  void *map = MAP_FAILED;
  struct stat st;
  if (create ? !ftruncate(fd, (off_t)size) : !fstat(fd, &st) && st.st_size >= (off_t)size)
    map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  int saved = errno;
  close(fd);
  errno = saved;
  return map == MAP_FAILED ? NULL : map;
}

static void attach(void) {
  const char *dir = getenv("GB10SIM_WORLD");
  if (!dir || !*dir) return;
  struct world *w = map_file(dir, "world", sizeof *w, false);
  struct clock_page *clock = map_file(dir, "root/clock", 4096, false);
  if (!w || !clock || w->size != sizeof *w) {
    static const char text[] = "gb10sim: GB10SIM_WORLD does not name a world of this build\n";
    if (write(2, text, sizeof text - 1) < 0) return;
    return;
  }
  __atomic_store_n(&the_clock, clock, __ATOMIC_RELEASE);
  __atomic_store_n(&the_world, w, __ATOMIC_RELEASE);
}

struct world *world_get(void) {
  struct world *w = __atomic_load_n(&the_world, __ATOMIC_ACQUIRE);
  if (w || __atomic_load_n(&attach_state, __ATOMIC_ACQUIRE) == 1) return w;
  int saved = errno;
  static int busy;
  while (__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE)) sched_yield();
  if (!__atomic_load_n(&attach_state, __ATOMIC_ACQUIRE)) {
    attach();
    __atomic_store_n(&attach_state, 1, __ATOMIC_RELEASE);
  }
  __atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
  errno = saved;
  return __atomic_load_n(&the_world, __ATOMIC_ACQUIRE);
}

static void world_defaults(struct world *w) {
#define SCALAR(id, words, unit, first) w->scalar[SCALAR_##id] = first;
#include "scalars.def"
#undef SCALAR
  /* A fresh boot: facts/memory.md names 1417 blocks of 16 MiB and 782 of 32 MiB; the small orders are filled in. */
  static const int64_t fresh[WORLD_ORDERS] = {2400, 1800, 1500, 1300, 1200, 1100, 1000,
                                              950,  900,  870,  850,  900,  1417, 782};
  memcpy(w->buddy, fresh, sizeof fresh);
  snprintf(w->host, sizeof w->host, "spark-sim");
  snprintf(w->boot_id, sizeof w->boot_id, "6b1f6d0e-0000-4000-8000-00000000c121");
  snprintf(w->kernel, sizeof w->kernel, "6.14.0-1013-nvidia");
  snprintf(w->cgroup, sizeof w->cgroup, "/user.slice/user-1000.slice/session-1.scope");
  snprintf(w->driver, sizeof w->driver, "580.95.05");
  snprintf(w->device_name, sizeof w->device_name, "NVIDIA GB10");
  snprintf(w->bus_id, sizeof w->bus_id, "0000000F:01:00.0");
  memcpy(w->uuid, "gb10sim-spark-01", 16);
}

struct world *world_create(const char *dir, uint64_t start_unix_us) {
  char path[WORLD_PATH + 32];
  snprintf(path, sizeof path, "%s/root", dir);
  if (mkdir(path, 0755)) return NULL;
  struct world *w = map_file(dir, "world", sizeof *w, true);
  struct clock_page *clock = w ? map_file(dir, "root/clock", 4096, true) : NULL;
  if (!clock) return NULL;
  world_defaults(w);
  memcpy(w->magic, "GB10SIM1", 8);
  w->size = sizeof *w;
  w->start_us = start_unix_us;
  w->next_event_us = UINT64_MAX;
  w->pace = 1.0;
  w->generation = 1;
  snprintf(w->dir, sizeof w->dir, "%s", dir);
  clock->unix_us = start_unix_us;
  clock->mono_ns0 = mono_ns();
  memcpy(clock->magic, "SPKCLK1", 8);
  __atomic_store_n(&the_clock, clock, __ATOMIC_RELEASE);
  __atomic_store_n(&the_world, w, __ATOMIC_RELEASE);
  __atomic_store_n(&attach_state, 1, __ATOMIC_RELEASE);
  return w;
}

void world_set_start(struct world *w) { the_clock->unix_us = w->start_us; }

static bool process_gone(int32_t pid) { return kill(pid, 0) && errno == ESRCH; }

void world_lock(struct world *w) {
  int saved = errno;
  int32_t me = getpid();
  uint64_t since = 0;
  for (;;) {
    int32_t holder = 0;
    if (__atomic_compare_exchange_n(&w->lock, &holder, me, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) break;
    uint64_t now = mono_ns();
    if (!since) since = now;
    if (now - since > 1000000000u && process_gone(holder) &&
        __atomic_compare_exchange_n(&w->lock, &holder, me, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
      break;
    if (now - since > 1000000)
      world_sleep_real(100);
    else
      sched_yield();
  }
  errno = saved;
}

/* Whoever lets go of the world carries out the signal that a line of the scenario has asked for: by then the files show
 * what the line before it has changed, and a caller that ends itself holds no lock. */
void world_unlock(struct world *w) {
  int32_t pid[WORLD_JOBS], number = w->signal_job, n = 0, me = getpid();
  bool mine = false;
  for (int i = 0; number && i < WORLD_JOBS; i++) {
    if (w->job[i].pid <= 1 || !w->job[i].has_context) continue;
    if (w->job[i].pid == me)
      mine = true;
    else
      pid[n++] = w->job[i].pid;
  }
  w->signal_job = 0;
  __atomic_store_n(&w->lock, 0, __ATOMIC_RELEASE);
  for (int i = 0; i < n; i++) kill(pid[i], number);
  if (mine) kill(me, number);
}

uint64_t world_now(const struct world *w) {
  (void)w;
  const struct clock_page *c = __atomic_load_n(&the_clock, __ATOMIC_ACQUIRE);
  return __atomic_load_n(&c->jumped_us, __ATOMIC_ACQUIRE) + (mono_ns() - c->mono_ns0) / 1000;
}

void world_sleep_real(uint64_t us) {
  struct timespec ts = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000};
  while (nanosleep(&ts, &ts) && errno == EINTR) {
  }
}

/* ---- watchers of the clock (probe/core/clock.h) ---- */

static uint64_t unix_now(const struct world *w) { return the_clock->unix_us + world_now(w); }

/* The earliest time at which a watcher wants to look; UINT64_MAX when none does. */
static uint64_t earliest_look(void) {
  uint64_t earliest = UINT64_MAX;
  for (int i = 0; i < CLOCK_WATCHERS; i++) {
    const struct clock_watcher *watcher = &the_clock->watcher[i];
    uint64_t due = __atomic_load_n(&watcher->due_us, __ATOMIC_ACQUIRE);
    if (__atomic_load_n(&watcher->pid, __ATOMIC_ACQUIRE) && due < earliest) earliest = due;
  }
  return earliest;
}

/* Whoever has not looked is not waited for until he looks again: he is stopped. */
static void give_up(uint64_t now_us) {
  for (int i = 0; i < CLOCK_WATCHERS; i++) {
    struct clock_watcher *watcher = &the_clock->watcher[i];
    uint64_t due = __atomic_load_n(&watcher->due_us, __ATOMIC_ACQUIRE);
    uint32_t pid = __atomic_load_n(&watcher->pid, __ATOMIC_ACQUIRE);
    if (!pid || due > now_us) continue;
    __atomic_compare_exchange_n(&watcher->due_us, &due, UINT64_MAX, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
  }
}

static void forget_the_dead(void) {
  for (int i = 0; i < CLOCK_WATCHERS; i++) {
    uint32_t pid = __atomic_load_n(&the_clock->watcher[i].pid, __ATOMIC_ACQUIRE);
    if (!pid || !process_gone((int32_t)pid)) continue;
    __atomic_store_n(&the_clock->watcher[i].due_us, UINT64_MAX, __ATOMIC_RELEASE);
    __atomic_store_n(&the_clock->watcher[i].pid, 0, __ATOMIC_RELEASE);
  }
}

/* Until all looks that are due have been taken. On a loaded machine a watcher may get no processor for long. */
static void await_looks(const struct world *w) {
  enum { PATIENCE_MS = 2000 };
  const uint64_t now = unix_now(w), until = mono_ns() + PATIENCE_MS * UINT64_C(1000000);
  for (;;) {
    uint32_t taken = __atomic_load_n(&the_clock->taken, __ATOMIC_ACQUIRE);
    if (earliest_look() > now) return;
    if (mono_ns() > until) break;
    const struct timespec pause = {0, 10000000};
    syscall(SYS_futex, &the_clock->taken, FUTEX_WAIT, taken, &pause, NULL, 0);
    forget_the_dead();
  }
  give_up(now);
}

/* In steps that end where a watcher wants to look. */
void world_advance(struct world *w, uint64_t us) {
  int saved = errno;
  while (us) {
    await_looks(w);
    uint64_t now = unix_now(w), look = earliest_look();
    if (look <= now) continue; /* it has become due in the meantime */
    uint64_t step = look - now < us ? look - now : us;
    __atomic_fetch_add(&the_clock->jumped_us, step, __ATOMIC_ACQ_REL);
    us -= step;
    world_refresh(w);
    __atomic_add_fetch(&the_clock->moved, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &the_clock->moved, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
  }
  await_looks(w);
  errno = saved;
}

void world_wait_until(struct world *w, uint64_t until_us) {
  while (world_now(w) < until_us) {
    world_sleep_real(1000);
    world_refresh(w);
  }
}

void world_refresh(struct world *w) {
  if (world_now(w) < __atomic_load_n(&w->next_event_us, __ATOMIC_ACQUIRE)) return;
  int saved = errno;
  world_lock(w);
  world_timeline(w, world_now(w));
  world_render(w);
  world_unlock(w);
  errno = saved;
}

void world_count(struct world *w, const char *name) {
  world_lock(w);
  for (int i = 0; i < WORLD_CALLS; i++) {
    struct world_call *c = &w->call[i];
    if (!c->name[0]) snprintf(c->name, sizeof c->name, "%s", name);
    if (strncmp(c->name, name, sizeof c->name - 1)) continue;
    c->count++;
    break;
  }
  world_unlock(w);
}

WORLD_API void gb10sim_advance(uint64_t us) {
  struct world *w = world_get();
  if (w) world_advance(w, us);
}

WORLD_API void gb10sim_mark(const char *name) {
  struct world *w = world_get();
  if (w) world_mark(w, name);
}

WORLD_API int gb10sim_touch(int64_t bytes) {
  struct world *w = world_get();
  return w ? world_touch(w, bytes) : 0;
}

/* ---- host versions of kernels: of this process ---- */

enum { KERNELS = 256 };
static struct {
  char name[256];
  gb10sim_kernel_fn fn;
} kernels[KERNELS];
static int n_kernels; /* atomic */

WORLD_API int gb10sim_register_kernel(const char *name, gb10sim_kernel_fn fn) {
  int i = __atomic_load_n(&n_kernels, __ATOMIC_ACQUIRE);
  if (i == KERNELS || strlen(name) >= sizeof kernels[i].name) return -1;
  strcpy(kernels[i].name, name);
  kernels[i].fn = fn;
  __atomic_store_n(&n_kernels, i + 1, __ATOMIC_RELEASE);
  return 0;
}

gb10sim_kernel_fn world_kernel(const char *name) {
  for (int i = __atomic_load_n(&n_kernels, __ATOMIC_ACQUIRE); i-- > 0;)
    if (!strcmp(kernels[i].name, name)) return kernels[i].fn;
  return NULL;
}
