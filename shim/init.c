/* init.c - falling out of sleep: settings, wake-up, the end of the process.
 *
 * There is no constructor. Hooks run before any constructor of this library could, and most processes under a
 * preload never touch a GPU: the library wakes at the first event that concerns it (rule 7 of DESIGN section 4), in
 * whichever thread that happens. Three states and the waking thread's id: a re-entry of the same thread passes
 * through, other threads wait up to 10 ms and then pass through as well.
 */
#include <time.h>

#include "clock.h"
#include "detector.h"
#include "fork.h"
#include "ledger.h"
#include "linkmap.h"
#include "process.h"
#include "shim.h"
#include "sys.h"

#include "poison.h"

enum { ASLEEP, WAKING, AWAKE, OFF };

uint32_t shim_life;
struct shim_settings shim_settings;

static int waking_thread, waking_process;

/* ---- environment ---------------------------------------------------------------------------------------------- */

extern char **environ __attribute__((weak, visibility("default")));

static const char *value_in(const char *entry, const char *name) {
  size_t n = str_length(name);
  return str_starts(entry, name) && entry[n] == '=' ? entry + n + 1 : NULL;
}

/* Before libc has set environ: the block that the kernel keeps. */
static const char *env_from_kernel(const char *name) {
  static char block[16384];
  static long size;
  int fd;
  if (!size) {
    fd = sys_open("/proc/self/environ", 0 /* O_RDONLY */ | 02000000 /* O_CLOEXEC */, 0);
    size = fd < 0 ? -1 : sys_read(fd, block, sizeof block - 1);
    if (fd >= 0) sys_close(fd);
  }
  for (long at = 0; at < size; at += (long)str_length(block + at) + 1) {
    const char *value = value_in(block + at, name);
    if (value) return value;
  }
  return NULL;
}

const char *shim_env(const char *name) {
  if (!&environ || !environ) return env_from_kernel(name);
  for (char **entry = environ; *entry; entry++) {
    const char *value = value_in(*entry, name);
    if (value) return value;
  }
  return NULL;
}

static bool env_is_off(const char *name) {
  const char *value = shim_env(name);
  return value && value[0] == '0' && !value[1];
}

/* Is `word` one of the words of `list`, divided by commas, colons or blanks? */
static bool list_has(const char *list, const char *word) {
  size_t n = str_length(word);
  while (n && *list) {
    while (*list == ',' || *list == ':' || *list == ' ') list++;
    if (str_starts(list, word) && (!list[n] || list[n] == ',' || list[n] == ':' || list[n] == ' ')) return true;
    while (*list && *list != ',' && *list != ':' && *list != ' ') list++;
  }
  return false;
}

/* SPARKSHIM_SKIP names commands: the program's file, or what it was called as (a script's interpreter has another). */
static bool is_skipped(void) {
  char text[512];
  const char *list = shim_env("SPARKSHIM_SKIP");
  long n;
  int fd;
  if (!list) return false;
  n = sys_readlinkat(SYS_AT_FDCWD, "/proc/self/exe", text, sizeof text - 1);
  text[n > 0 ? n : 0] = '\0';
  if (list_has(list, str_base(text))) return true;
  fd = sys_open("/proc/self/cmdline", 0 /* O_RDONLY */ | 02000000 /* O_CLOEXEC */, 0);
  if (fd < 0) return false;
  n = sys_read(fd, text, sizeof text - 1);
  sys_close(fd);
  text[n > 0 ? n : 0] = '\0';
  return list_has(list, str_base(text));
}

static bool env_is(const char *name, const char *wanted) {
  const char *value = shim_env(name);
  return value && str_equal(value, wanted);
}

static uint32_t number(const char *text, uint32_t otherwise) {
  uint32_t value = 0;
  if (!text || !*text) return otherwise;
  for (; *text; text++) {
    if (*text < '0' || *text > '9' || value > UINT32_MAX / 10 - 1) return otherwise;
    value = value * 10 + (uint32_t)(*text - '0');
  }
  return value;
}

/* The greatest power of two that is at most `n`, within what a ring may have. */
static uint32_t ring_entries(uint32_t n) {
  uint32_t entries = 64;
  while (entries * 2 <= n && entries < RING_ALLOCS_MAX) entries *= 2;
  return entries;
}

static const char *set_or_null(const char *name) {
  const char *value = shim_env(name);
  return value && *value ? value : NULL;
}

static void settings_read(void) {
  shim_settings.root = set_or_null("SPARKSHIM_ROOT");
  shim_settings.dir = set_or_null("SPARKSHIM_DIR");
  shim_settings.stderr_on = !env_is_off("SPARKSHIM_STDERR");
  shim_settings.thread_on = !env_is_off("SPARKSHIM_THREAD");
  shim_settings.detectors = det_mask(shim_env("SPARKSHIM_DETECTORS"));
  shim_settings.relief = env_is("SPARKSHIM_RELIEF", "cache");
  shim_settings.ring_allocs = ring_entries(number(shim_env("SPARKSHIM_RING"), RING_ALLOCS));
}

/* ---- waking ------------------------------------------------------------------------------------------------------ */

static void wake_up(void) {
  if (env_is_off("SPARKSHIM") || is_skipped() || !linkmap_init()) {
    __atomic_store_n(&shim_life, OFF, __ATOMIC_RELEASE);
    return;
  }
  settings_read();
  clock_init(shim_settings.root);
  sinks_open();
  fork_watch();
  process_init();
  exit_watch();
  __atomic_store_n(&shim_life, AWAKE, __ATOMIC_RELEASE);
  ledger_update("start");
}

static bool wait_for_waker(void) {
  struct timespec pause = {.tv_nsec = 200000};
  for (int i = 0; i < 50 && __atomic_load_n(&shim_life, __ATOMIC_ACQUIRE) == WAKING; i++)
    sys_call6(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
  return __atomic_load_n(&shim_life, __ATOMIC_ACQUIRE) == AWAKE;
}

static bool wake_slowly(void) {
  uint32_t asleep = ASLEEP;
  if (__atomic_compare_exchange_n(&shim_life, &asleep, WAKING, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    __atomic_store_n(&waking_process, sys_getpid(), __ATOMIC_RELAXED);
    __atomic_store_n(&waking_thread, sys_gettid(), __ATOMIC_RELEASE);
    shim_thread.busy++;
    wake_up();
    shim_thread.busy--;
    return __atomic_load_n(&shim_life, __ATOMIC_RELAXED) == AWAKE;
  }
  if (shim_thread.busy || __atomic_load_n(&waking_thread, __ATOMIC_ACQUIRE) == sys_gettid()) return false;
  if (waking_process && waking_process != sys_getpid()) { /* forked while another thread was waking the parent */
    __atomic_store_n(&shim_life, OFF, __ATOMIC_RELEASE);
    return false;
  }
  return wait_for_waker();
}

bool shim_wake(void) {
  uint32_t life = __atomic_load_n(&shim_life, __ATOMIC_ACQUIRE);
  if (likely(life == AWAKE)) return true;
  return life != OFF && wake_slowly();
}
