/* log.c - this process's log: one NDJSON file in the run's folder.
 *
 * One write(2) per record on a descriptor opened with O_APPEND, so that threads need no lock. The job owns the table of
 * descriptors: it may close ours, or put a file of its own in its place. So every write first looks whether
 * the descriptor is still the file it was (device and inode), and opens the file again by its path when it is
 * not; nothing is ever written to, or closed on, a descriptor that became the job's. A disk that takes nothing costs the records,
 * which are counted, never the job.
 */
#include <errno.h>
#include <fcntl.h>

#include "procstat.h"
#include "quiet.h"
#include "sinks.h"
#include "sys.h"

#include "poison.h"

enum {
  LOG_MAX = 16 << 20,
  LOG_ESSENTIAL = 256 << 10, /* kept for findings and the end */
  REOPENS = 64,              /* a job that closes our descriptor again and again is left alone */
};

static struct {
  int fd; /* -1: none */
  dev_t dev;
  ino_t ino;
  uint64_t bytes;   /* of all records, written or not */
  uint64_t dropped; /* since log_take_dropped() */
  uint32_t reopens;
  uint32_t torn;      /* the last write was cut: the next record begins on a line of its own */
  uint32_t reopening; /* tried lock */
  bool is_open;
  char stem[SINK_STEM];
  char path[RUN_PATH + SINK_STEM];
} log_file = {.fd = -1};

/* Moves a fresh descriptor out of the way of programs that count on the lowest numbers. */
static int move_up(int fd) {
  for (unsigned i = 0; i < sizeof(rundir_log_fds) / sizeof(rundir_log_fds[0]); i++) {
    int high = sys_fcntl(fd, F_DUPFD_CLOEXEC, rundir_log_fds[i]);
    if (high < 0) continue; /* beyond the process's limit */
    sys_close(fd);
    return high;
  }
  return fd;
}

/* "<host>-<pid>-<start>", and "-<n>" where a program that this process was before exec has that name. */
static void name_it(uint64_t start, unsigned n) {
  size_t at;
  rundir_host(log_file.stem);
  at = str_length(log_file.stem);
  log_file.stem[at++] = '-';
  at = proc_put_number(log_file.stem, sizeof(log_file.stem), at, (uint64_t)sys_getpid());
  log_file.stem[at++] = '-';
  at = proc_put_number(log_file.stem, sizeof(log_file.stem), at, start);
  if (n < 2) return;
  log_file.stem[at++] = '-';
  proc_put_number(log_file.stem, sizeof(log_file.stem), at, n);
}

/* Creates the file in the folder `dir`, whose path is log_file.path. */
static int create_in(int dir, uint64_t start) {
  enum { PROGRAMS = 1000 };
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY;
  size_t at = str_length(log_file.path);
  int fd = -EEXIST;
  at += str_copy(log_file.path + at, sizeof(log_file.path) - at, "/");
  for (unsigned n = 1; n <= PROGRAMS && fd == -EEXIST; n++) {
    name_it(start, n);
    size_t end = at + str_copy(log_file.path + at, sizeof(log_file.path) - at, log_file.stem);
    str_copy(log_file.path + end, sizeof(log_file.path) - end, ".ndjson");
    fd = sys_openat(dir, log_file.path + at, flags, 0600);
  }
  return fd;
}

static bool remember(int fd) {
  struct stat st;
  if (sys_fstat(fd, &st) < 0) return false;
  log_file.dev = st.st_dev;
  log_file.ino = st.st_ino;
  return true;
}

static int open_at(enum rundir_place where, const char *run, uint64_t start) {
  int dir = rundir_open(shim_env, where, run, log_file.path, RUN_PATH);
  if (dir < 0) return dir;
  int fd = create_in(dir, start);
  if (fd >= 0 && remember(fd)) {
    log_file.fd = move_up(fd);
    log_file.is_open = true;
    return dir;
  }
  if (fd >= 0) sys_close(fd);
  sys_close(dir);
  return fd < 0 ? fd : -EIO;
}

/* A forked child has inherited its parent's descriptor: closed when it still is that file, else it is the job's. */
static void leave_inherited(void) {
  struct stat st;
  int fd = log_file.fd;
  log_file.fd = -1;
  if (fd < 0 || sys_fstat(fd, &st) < 0 || st.st_dev != log_file.dev || st.st_ino != log_file.ino) return;
  sys_close(fd);
}

int log_open(const char *run, uint64_t start) {
  leave_inherited();
  log_file.is_open = false;
  log_file.bytes = log_file.dropped = 0;
  log_file.reopens = log_file.torn = log_file.reopening = 0;
  log_file.stem[0] = '\0';
  int dir = open_at(RUNDIR_STATE, run, start);
  if (dir < 0) dir = open_at(RUNDIR_TEMPORARY, run, start);
  if (dir < 0) log_file.stem[0] = '\0';
  return dir;
}

const char *log_stem(void) { return log_file.stem; }

static bool is_log(int fd) {
  struct stat st;
  return fd >= 0 && sys_fstat(fd, &st) == 0 && st.st_dev == log_file.dev && st.st_ino == log_file.ino;
}

/* The descriptor was closed or is the job's now. */
static int open_again(void) {
  int fd = -1;
  if (__atomic_exchange_n(&log_file.reopening, 1, __ATOMIC_ACQUIRE)) return -1; /* another thread is at it */
  if (is_log(__atomic_load_n(&log_file.fd, __ATOMIC_RELAXED)))
    fd = log_file.fd;
  else if (log_file.reopens < REOPENS) {
    log_file.reopens++;
    fd = sys_open(log_file.path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
    if (fd >= 0 && !is_log(fd)) {
      sys_close(fd);
      fd = -1;
    }
    if (fd >= 0) fd = move_up(fd);
    __atomic_store_n(&log_file.fd, fd, __ATOMIC_RELAXED);
  }
  __atomic_store_n(&log_file.reopening, 0, __ATOMIC_RELEASE);
  return fd;
}

/* Room is taken before the write, so that threads cannot pass the limit together. */
static bool take_room(size_t size, bool essential) {
  uint64_t limit = essential ? LOG_MAX : LOG_MAX - LOG_ESSENTIAL;
  if (__atomic_add_fetch(&log_file.bytes, size, __ATOMIC_RELAXED) <= limit) return true;
  __atomic_sub_fetch(&log_file.bytes, size, __ATOMIC_RELAXED);
  return false;
}

static bool write_record(int fd, const char *record, size_t size) {
  if (__atomic_exchange_n(&log_file.torn, 0, __ATOMIC_RELAXED) && quiet_write(fd, "\n", 1) != 1) {
    __atomic_store_n(&log_file.torn, 1, __ATOMIC_RELAXED);
    return false;
  }
  long written = quiet_write(fd, record, size);
  if (written > 0 && written < (long)size) __atomic_store_n(&log_file.torn, 1, __ATOMIC_RELAXED);
  return written == (long)size;
}

void log_write(const char *record, size_t size, bool essential) {
  if (!log_file.is_open || !size) return;
  if (take_room(size, essential)) {
    int fd = __atomic_load_n(&log_file.fd, __ATOMIC_RELAXED);
    if (!is_log(fd)) fd = open_again();
    if (fd >= 0 && write_record(fd, record, size)) return;
    __atomic_sub_fetch(&log_file.bytes, size, __ATOMIC_RELAXED);
  }
  __atomic_add_fetch(&log_file.dropped, 1, __ATOMIC_RELAXED);
}

uint64_t log_take_dropped(void) { return __atomic_exchange_n(&log_file.dropped, 0, __ATOMIC_RELAXED); }
