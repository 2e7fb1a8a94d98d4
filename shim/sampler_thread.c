/* sampler_thread.c - the library's own thread, which looks at the machine where no launcher does.
 *
 * Made by the real pthread_create, for code in C needs thread-local storage, from a hooked call after the first CUDA context,
 * and only in a process that has another thread already: what libc and the kernel allow a process with one thread alone
 * (unshare, a fork without warnings) stays allowed. It takes no signal but libc's own two, without which setuid(2) would wait
 * for ever, and SIGBUS, for the ring (ring_guard.c). It allocates nothing, is detached, has no destructors, is in no
 * table of anybody's, is never cancelled, never ends by itself, and is gone in a forked child, which may make its own.
 * Its table of descriptors is its own and begins empty: a thread that opens files at times of its own would get the number
 * that the job has just closed to open another file, and a copy of the job's table would keep its pipes open.
 *
 * A process whose main thread has left by pthread_exit(3) ends when its last thread does, and what is to be done at its end is
 * done there: that must not be a thread with a small stack and without the process's files. A second thread, the keeper, of
 * the usual size and with the process's descriptors, sleeps until the first one finds that the job's threads are gone, within
 * one look, and is the last one then.
 */
#include "sampler_thread.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

#include "beat.h"
#include "cgroup.h"
#include "clock.h"
#include "linkmap.h"
#include "procstat.h"
#include "procuse.h"
#include "sample.h"
#include "shim.h"
#include "sys.h"

#include "poison.h"

enum {
  RETRY_US = 1000 * 1000, /* between two looks whether there is another thread */
  RECORD = 2048,          /* bytes of a sample in the log, at most */
  REST_TRIES = 100,       /* 10 ms for the thread to come to rest at the end of the process */
};

/* The stack holds libc's static thread-local storage as well, which a process may have much of. */
static const size_t stack_sizes[] = {(size_t)256 << 10, (size_t)1 << 20};

enum { NOT_WANTED, WANTED, RUNS, GIVEN_UP };

static struct {
  uint32_t state;
  uint32_t stop;  /* futex word of clock_watch: the process ends */
  uint32_t looks; /* the thread is not asleep */
  uint64_t next_try;
  uint32_t over; /* futex word of the keeper: 1: to end */
  uint64_t mask; /* signals blocked in the thread that made both: the keeper's at its end */
  struct clock_watch watch;
  struct beat beat;
  struct thinner thinner;
  struct cgroup_place place;
} s;

static int own_tid;

#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define STORE(x, value) __atomic_store_n(&(x), value, __ATOMIC_RELEASE)
/* stop and looks: each side writes its own and then reads the other's. */
#define LOAD_IN_ORDER(x) __atomic_load_n(&(x), __ATOMIC_SEQ_CST)
#define STORE_IN_ORDER(x, value) __atomic_store_n(&(x), value, __ATOMIC_SEQ_CST)

/* ---- threads --------------------------------------------------------------------------------------------------------- */
struct thread_functions {
  int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  int (*attr_init)(pthread_attr_t *);
  int (*attr_destroy)(pthread_attr_t *);
  int (*attr_setstacksize)(pthread_attr_t *, size_t);
  int (*attr_setdetachstate)(pthread_attr_t *, int);
};

/* In libc since glibc 2.34, beside it before. */
static void *thread_function(const char *name) {
  void *found = linkmap_libc(name);
  return found ? found : linkmap_symbol("libpthread.so.0", NULL, name);
}

static bool find_functions(struct thread_functions *f) {
  *(void **)&f->create = thread_function("pthread_create");
  *(void **)&f->attr_init = thread_function("pthread_attr_init");
  *(void **)&f->attr_destroy = thread_function("pthread_attr_destroy");
  *(void **)&f->attr_setstacksize = thread_function("pthread_attr_setstacksize");
  *(void **)&f->attr_setdetachstate = thread_function("pthread_attr_setdetachstate");
  return f->create && f->attr_init && f->attr_destroy && f->attr_setstacksize && f->attr_setdetachstate;
}

static void set_mask(const uint64_t *mask, uint64_t *ret_old) {
  sys_call6(SYS_rt_sigprocmask, SIG_SETMASK, (long)mask, (long)ret_old, sizeof(*mask), 0, 0);
}

/* `stack` 0: the process's default. False: no thread could be had. */
static bool create(const struct thread_functions *f, size_t stack, void *(*run)(void *)) {
  pthread_attr_t attributes;
  pthread_t thread;
  if (f->attr_init(&attributes)) return false;
  bool good = !f->attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) &&
              (!stack || !f->attr_setstacksize(&attributes, stack)) && !f->create(&thread, &attributes, run, NULL);
  f->attr_destroy(&attributes);
  return good;
}

/* libc keeps two signals for itself: 32 cancels a thread, 33 makes all change their user (nptl/internals). */
static uint64_t all_but_what_is_needed(void) {
  enum { LIBC_CANCEL = 32, LIBC_SETXID = 33 };
  return ~((UINT64_C(1) << (LIBC_CANCEL - 1)) | (UINT64_C(1) << (LIBC_SETXID - 1)) | (UINT64_C(1) << (SIGBUS - 1)));
}

/* ---- the last thread of a process ------------------------------------------------------------------------------------ */
/* Ends behind the first thread. */
static void *keep(void *unused) {
  static const struct timespec pause = {0, 1000000};
  enum { TRIES = 1000 };
  struct procuse use;
  shim_thread.busy = 1;
  sys_call6(SYS_prctl, PR_SET_NAME, (long)"sparkshim-keep", 0, 0, 0, 0);
  while (!LOAD(s.over)) sys_call6(SYS_futex, (long)&s.over, FUTEX_WAIT, 0, 0, 0, 0);
  for (int i = 0; i < TRIES && LOAD(own_tid) && procuse_thread(NULL, 0, own_tid, &use) == 0; i++)
    sys_call6(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
  set_mask(&s.mask, NULL);
  shim_thread.busy = 0;
  return unused;
}

static void end_keeper(void) {
  STORE(s.over, 1);
  sys_call6(SYS_futex, (long)&s.over, FUTEX_WAKE, 1, 0, 0, 0);
}

/* The main thread has left, and no other is there but our two. */
static bool is_last(void) {
  struct procuse process, leader;
  if (procuse_read(NULL, 0, &process) || process.threads > 3) return false;
  return procuse_thread(NULL, 0, sys_getpid(), &leader) == 0 && leader.state == 'Z';
}

/* ---- looking --------------------------------------------------------------------------------------------------------- */
static uint64_t live_bytes(enum alloc_route from, enum alloc_route to) {
  uint64_t sum = 0;
  for (enum alloc_route route = from; route <= to; route++) {
    struct ring_counters c;
    if (route == ROUTE_PINNED && from != to) continue;
    ring_counters(route, &c);
    sum += c.live;
  }
  return sum;
}

static void write_sample(const char *why, enum thin how) {
  struct fact sample;
  const int self = sys_getpid();
  const struct sample_from from = {.root = shim_settings.root,
                                   .place = s.place.version ? &s.place : NULL,
                                   .pid = &self,
                                   .pids = 1,
                                   .parts = SAMPLE_ALL,
                                   .job_device = live_bytes(ROUTE_DEVICE, ROUTE_NCCL),
                                   .job_pinned = live_bytes(ROUTE_PINNED, ROUTE_PINNED)};
  const struct fact *held = thin_take_held(&s.thinner);
  if (held && how == THIN_CHANGE) {
    sample = *held;
    observe(&sample);
    s.thinner.bytes += RECORD;
  }
  sample_read(&from, why, &sample);
  observe(&sample);
  s.thinner.bytes += RECORD;
  thin_written(&s.thinner, &sample);
}

/* One look. Returns when the next one is due. */
static uint64_t look(const char *why) {
  struct fact sample;
  const struct sample_from machine = {
      .root = shim_settings.root, .parts = SAMPLE_MACHINE, .job_device = FACT_NO_U64, .job_pinned = FACT_NO_U64};
  sample_read(&machine, why, &sample);
  if (sample.u.sample.mem.total == FACT_NO_U64) return sample.t + BEAT_SLOWEST_US; /* no /proc here */
  enum thin how = thin_judge(&s.thinner, &sample, false);
  if (how == THIN_NO)
    thin_hold(&s.thinner, &sample);
  else
    write_sample(why, how);
  return sample.t + beat_next(&s.beat, sample.t, &sample.u.sample.mem);
}

/* Until the process is gone: a thread that ends runs code of libc and of whoever stands in for malloc. */
static void rest(void) {
  static uint32_t never;
  clock_watch_end(&s.watch);
  STORE_IN_ORDER(s.looks, 0);
  for (;;) sys_call6(SYS_futex, (long)&never, FUTEX_WAIT, 0, 0, 0, 0);
}

/* False before Linux 5.9. Nothing is copied, and so nothing closed, when all is to go (fs/file.c, close_range). */
static bool own_files(void) {
  enum { CLOSE_RANGE = 436, UNSHARE = 2 };
  return sys_call6(CLOSE_RANGE, 0, (long)UINT32_MAX, UNSHARE, 0, 0, 0) == 0;
}

bool sampler_thread_is_this(void) { return LOAD(s.state) == RUNS && LOAD(own_tid) == sys_gettid(); }

static void *run(void *unused) {
  uint64_t due;
  shim_thread.busy = 1;
  STORE(own_tid, sys_gettid());
  if (!own_files()) rest();
  sys_call6(SYS_prctl, PR_SET_NAME, (long)"sparkshim", 0, 0, 0, 0);
  cgroup_find(shim_settings.root, 0, &s.place);
  for (due = look("start"); !LOAD_IN_ORDER(s.stop);) {
    STORE_IN_ORDER(s.looks, 0);
    clock_watch_sleep(&s.watch, due, &s.stop);
    STORE_IN_ORDER(s.looks, 1);
    if (LOAD_IN_ORDER(s.stop)) break;
    if (is_last()) {
      clock_watch_end(&s.watch);
      end_keeper();
      return unused;
    }
    due = look(s.beat.interval < BEAT_SLOWEST_US ? "fast" : "tick");
  }
  rest();
  return unused;
}

/* ---- its life -------------------------------------------------------------------------------------------------------- */
static bool has_another_thread(void) {
  struct procuse use;
  return procuse_read(NULL, 0, &use) == 0 && use.threads != FACT_NO_U64 && use.threads > 1;
}

static bool start(void) {
  struct thread_functions f = {0};
  const uint64_t blocked = all_but_what_is_needed();
  const uint32_t at_once = 1;
  bool good = false;
  if (!find_functions(&f)) return false;
  /* The simulated clock is not to run on before the thread is there. */
  clock_watch_begin(&s.watch, shim_settings.root);
  clock_watch_sleep(&s.watch, clock_us(), &at_once);
  STORE(s.looks, 1);
  set_mask(&blocked, &s.mask); /* the new threads inherit it */
  if (create(&f, 0, keep)) {
    for (size_t i = 0; !good && i < sizeof(stack_sizes) / sizeof(stack_sizes[0]); i++)
      good = create(&f, stack_sizes[i], run);
    if (!good) end_keeper();
  }
  set_mask(&s.mask, NULL);
  if (!good) clock_watch_end(&s.watch);
  return good;
}

void sampler_thread_want(void) {
  uint32_t not_wanted = NOT_WANTED;
  if (!shim_settings.thread_on || shim_env("SPARKSHIM_LAUNCHER")) return;
  __atomic_compare_exchange_n(&s.state, &not_wanted, WANTED, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

void sampler_thread_offer(void) {
  uint32_t wanted = WANTED;
  if (likely(LOAD(s.state) != WANTED)) return;
  uint64_t now = clock_us();
  if (now < LOAD(s.next_try)) return;
  STORE(s.next_try, now + RETRY_US);
  if (!has_another_thread()) return;
  if (!__atomic_compare_exchange_n(&s.state, &wanted, RUNS, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) return;
  if (!start()) STORE(s.state, GIVEN_UP); /* no memory, or a limit on the number of processes */
}

void sampler_thread_rest(void) {
  static const struct timespec pause = {0, 100000}; /* 100 us */
  if (LOAD(s.state) != RUNS) return;
  STORE_IN_ORDER(s.stop, 1);
  for (int i = 0; i < REST_TRIES && LOAD_IN_ORDER(s.looks); i++) sys_call6(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
}

void sampler_thread_forget(void) {
  s.state = NOT_WANTED;
  s.stop = s.looks = s.over = 0;
  own_tid = 0;
  s.next_try = 0;
  s.watch = (struct clock_watch){0};
  s.beat = (struct beat){0};
  s.thinner = (struct thinner){0};
}
