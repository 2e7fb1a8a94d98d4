/* sampler.c - see sampler.h. Two threads: one looks, one has the log written to the disk every few seconds, which may
 * take as long as the disk likes. The main thread looks before the first one begins and after it has ended.
 */
#include "sampler.h"
#include "around.h"
#include "beat.h"
#include "cgroup.h"
#include "clock.h"
#include "jobtree.h"
#include "joblog.h"
#include "live.h"
#include "procstat.h"
#include "sample.h"
#include "stallwatch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
  STACK = 512 << 10,           /* samples, records and findings lie on it */
  END_MS = 2000,               /* for which its end is waited: the look after it tells who killed the job */
  SYNC_MS = 5000,              /* between two writes to the disk: what a power-off may cost */
  TREE_US = 5 * 1000 * 1000,   /* between two looks at all processes of the machine */
  PLACE_US = 10 * 1000 * 1000, /* and at the job's cgroup: a manager may move the job after its start */
};

static struct {
  struct sampler_of of;
  const char *root;
  struct clock_watch watch;
  uint64_t first_due;
  uint32_t stop;  /* futex word of clock_watch */
  int wake;       /* eventfd: readable when the threads are to end */
  int folder;     /* inotify on the run's folder: a process has woken the library up; or negative */
  int pressure;   /* trigger on /proc/pressure/memory, or negative */
  uint32_t dirty; /* something was written since the disk was asked last */
  bool running;
  pthread_t thread;
  struct beat beat;
  struct thinner thinner;
  struct jobtree tree;
  uint64_t job_start; /* as in struct procstat */
  uint64_t tree_t;
  struct cgroup_place place;
  uint64_t place_t;
} s = {.wake = -1, .folder = -1, .pressure = -1};

/* ---- writing ------------------------------------------------------------------------------------------------------- */
static void write_fact(const struct fact *fact) {
  s.thinner.bytes += joblog_write(s.of.log, fact);
  __atomic_store_n(&s.dirty, 1, __ATOMIC_RELEASE);
}

/* ---- looking ------------------------------------------------------------------------------------------------------- */
static void read_all(const char *why, struct fact *sample) {
  struct ring_sums held;
  stallwatch_sums(&held);
  struct sample_from from = {.root = s.root,
                             .place = s.place.version ? &s.place : NULL,
                             .pid = s.tree.pid,
                             .pids = s.tree.n,
                             .parts = SAMPLE_ALL,
                             .job_device = held.device,
                             .job_pinned = held.pinned};
  sample_read(&from, why, sample);
  sample->u.sample.job_work = held.work;
}

static void read_machine(const char *why, struct fact *sample) {
  struct sample_from from = {
      .root = s.root, .parts = SAMPLE_MACHINE, .job_device = FACT_NO_U64, .job_pinned = FACT_NO_U64};
  sample_read(&from, why, sample);
}

static void write_sample(const char *why, enum thin how) {
  struct fact sample;
  const struct fact *held = thin_take_held(&s.thinner);
  if (held && how == THIN_CHANGE) write_fact(held);
  read_all(why, &sample);
  write_fact(&sample);
  thin_written(&s.thinner, &sample);
}

/* Memory may be what is waited for. */
static bool is_short(const struct fact_sample *now) {
  enum { SHARE = 16, WAITING = 1000 /* 10 % */ };
  const struct fact_memory *m = &now->mem;
  if (m->total != FACT_NO_U64 && m->available != FACT_NO_U64 && m->available < m->total / SHARE) return true;
  return now->some_avg10 != FACT_NO_U64 && now->some_avg10 >= WAITING;
}

/* A process of the job has woken the library up. */
static bool uses_gpu(void) {
  static bool ever;
  ever = ever || live_process(0);
  return ever;
}

/* One look. Returns when the next one is due. */
static uint64_t look(const char *why) {
  struct fact sample;
  bool ended = live_read(&s.tree);
  read_machine(why, &sample);
  enum thin how = thin_judge(&s.thinner, &sample, ended);
  if (how == THIN_NO)
    thin_hold(&s.thinner, &sample);
  else
    write_sample(why, how);
  if (ended) live_exits();
  stallwatch_look(is_short(&sample.u.sample), write_fact);
  around_look(&sample, uses_gpu(), thin_coarseness(&s.thinner));
  return sample.t + beat_next(&s.beat, sample.t, &sample.u.sample.mem);
}

static void look_at_processes(uint64_t now) {
  if (now - s.place_t >= PLACE_US) {
    s.place_t = now;
    cgroup_find(s.root, s.tree.job, &s.place);
  }
  if (now - s.tree_t < TREE_US || !jobtree_is_stale(&s.tree)) return;
  s.tree_t = now;
  jobtree_update(&s.tree);
}

/* ---- waiting ------------------------------------------------------------------------------------------------------- */

/* A trigger: readable when tasks have waited for memory for a seventh of a second within one, or for a seventh of two, which
 * is what the kernel lets any user ask for (Documentation/accounting/psi.rst). Negative where it does not, or under
 * the simulator, whose files do not trigger. */
static int open_pressure(void) {
  static const char *const triggers[] = {"some 150000 1000000", "some 300000 2000000"};
  for (size_t i = 0; !s.root && i < sizeof triggers / sizeof triggers[0]; i++) {
    int file = open("/proc/pressure/memory", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) return -1;
    if (write(file, triggers[i], strlen(triggers[i]) + 1) > 0) return file;
    close(file);
  }
  return -1;
}

static bool is_stopping(void) { return __atomic_load_n(&s.stop, __ATOMIC_ACQUIRE) != 0; }

/* The first look beside a process that uses the GPU is not to come when it is over. */
static int open_folder(void) {
  int notify = s.root ? -1 : inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (notify < 0 || inotify_add_watch(notify, s.of.dir, IN_CREATE) >= 0) return notify;
  close(notify);
  return -1;
}

static void drain(int notify) {
  char events[4096];
  while (read(notify, events, sizeof events) > 0) continue;
}

/* Real time, in which the kernel may wake us. True when memory is short. */
static bool wait_for_kernel(uint64_t due) {
  struct pollfd polls[3] = {
      {.fd = s.wake, .events = POLLIN}, {.fd = s.pressure, .events = POLLPRI}, {.fd = s.folder, .events = POLLIN}};
  uint64_t now = clock_us();
  if (now >= due) return false;
  struct timespec left = {.tv_sec = (time_t)((due - now) / 1000000), .tv_nsec = (long)((due - now) % 1000000 * 1000)};
  if (ppoll(polls, 3, &left, NULL) <= 0) return false;
  if (polls[1].revents & POLLERR) { /* the trigger is gone */
    close(s.pressure);
    s.pressure = -1;
  }
  if (polls[2].revents) drain(s.folder);
  return polls[1].revents & POLLPRI;
}

/* Why there is to be a look now. */
static const char *wait_until(uint64_t due) {
  const char *why = s.beat.interval && s.beat.interval < BEAT_SLOWEST_US ? "fast" : "tick";
  if (s.root)
    clock_watch_sleep(&s.watch, due, &s.stop);
  else if (wait_for_kernel(due))
    why = "pressure";
  return why;
}

static void *watch(void *unused) {
  (void)unused;
  prctl(PR_SET_NAME, "sparkshim-watch");
  s.pressure = open_pressure();
  s.folder = open_folder();
  for (uint64_t due = s.first_due; !is_stopping();) {
    const char *why = wait_until(due);
    if (is_stopping()) break;
    look_at_processes(clock_us());
    due = look(why);
  }
  if (s.pressure >= 0) close(s.pressure);
  if (s.folder >= 0) close(s.folder);
  return NULL;
}

static void *sync_log(void *unused) {
  struct pollfd end = {.fd = s.wake, .events = POLLIN};
  (void)unused;
  prctl(PR_SET_NAME, "sparkshim-sync");
  while (poll(&end, 1, SYNC_MS) == 0)
    if (__atomic_exchange_n(&s.dirty, 0, __ATOMIC_ACQ_REL)) fdatasync(s.of.log);
  return NULL;
}

/* ---- beginning and end --------------------------------------------------------------------------------------------- */
void sampler_before(const struct sampler_of *of) {
  s.of = *of;
  if (of->log < 0) return;
  s.root = getenv("SPARKSHIM_ROOT");
  if (s.root && !*s.root) s.root = NULL;
  cgroup_find(s.root, 0, &s.place);
  write_sample("start", THIN_REGULAR);
  /* The simulated clock is not to pass the next look, however long the thread takes to be there. */
  const uint32_t at_once = 1;
  s.first_due = s.thinner.last.t + BEAT_SLOWEST_US;
  clock_watch_begin(&s.watch, s.root);
  clock_watch_sleep(&s.watch, s.first_due, &at_once);
}

static int start_thread(pthread_t *thread, void *(*function)(void *)) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK);
  int error = pthread_create(thread, &attributes, function, NULL);
  pthread_attr_destroy(&attributes);
  return -error;
}

void sampler_begin(const struct sampler_of *of, int job) {
  pthread_t syncer;
  if (of->log < 0) return;
  struct procstat stat;
  s.tree.job = job;
  if (procstat_read(job, &stat) == 0) { /* it is there, if only as a zombie: nobody has waited for it yet */
    s.job_start = stat.start;
    s.tree.pid[0] = job;
    s.tree.start[0] = stat.start;
    s.tree.n = 1;
  }
  cgroup_find(s.root, job, &s.place);
  around_begin(&(struct around_of){s.root, &s.tree, &s.place, write_fact});
  s.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (s.wake < 0 || start_thread(&s.thread, watch)) {
    clock_watch_end(&s.watch);
    return;
  }
  s.running = true;
  if (!start_thread(&syncer, sync_log)) pthread_detach(syncer);
}

/* True when the thread is gone, and what it had is ours again. */
static bool stop_thread(void) {
  struct timespec until;
  __atomic_store_n(&s.stop, 1, __ATOMIC_RELEASE);
  eventfd_write(s.wake, 1);
  clock_watch_wake(&s.watch, &s.stop);
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += END_MS * 1000000L;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  return pthread_timedjoin_np(s.thread, NULL, &until) == 0;
}

void sampler_end(bool failed) {
  if (s.of.log < 0) return;
  if (s.running && !stop_thread()) { /* all but the machine's own files is still the thread's */
    struct fact sample;
    read_machine("end", &sample);
    live_stop();
    joblog_write(s.of.log, &sample);
    return;
  }
  if (s.running) clock_watch_end(&s.watch);
  s.running = false;
  live_end(&s.tree, s.job_start);
  write_sample("end", THIN_CHANGE);
  around_end(failed, uses_gpu());
  live_exits();
}
