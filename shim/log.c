/* log.c - this process's log: one NDJSON file in the run's folder.
 *
 * No descriptor is kept: the table of descriptors is the job's, which may close what it finds there, count it, lower
 * its limit below it, or put a file of its own in its place. Each record opens the file by its path, looks whether it is
 * still that file (device and inode), and is written by one write(2) under O_APPEND, so that threads need no
 * lock. What cannot be written (a full disk, no descriptor left, another root or user) costs the record, which is
 * counted, never the job. One page of the file stays mapped, without access: children and the launcher find it in /proc/<pid>/maps.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "procstat.h"
#include "quiet.h"
#include "sinks.h"
#include "sys.h"

#include "poison.h"

enum {
  LOG_MAX = 16 << 20,
  LOG_ESSENTIAL = 256 << 10, /* kept for findings and the end */
  MARK = 4096,               /* bytes mapped; the kernel makes whole pages of it */
};

static struct {
  dev_t dev;
  ino_t ino;
  void *mark;       /* the page that stays mapped, or NULL */
  uint64_t bytes;   /* of all records, written or not */
  uint64_t dropped; /* since log_take_dropped() */
  uint32_t torn;    /* the last write was cut: the next record begins on a line of its own */
  bool is_open;
  char stem[SINK_STEM];
  char path[RUN_PATH + SINK_STEM];
} log_file;

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
  const int flags = O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY;
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

/* Read access is what the kernel asks of a descriptor for any mapping. */
static void map_mark(int fd) {
  void *mark = sys_mmap(NULL, MARK, PROT_NONE, MAP_PRIVATE, fd, 0);
  log_file.mark = sys_is_error(mark) ? NULL : mark;
}

/* A relative SPARKSHIM_DIR is taken from where the first process of the run stood when it woke up: its children may stand
 * elsewhere, and would leave logs all over the job's folders. */
static const char *settled_env(const char *name) {
  static char base[RUN_PATH];
  const char *value = shim_env(name);
  if (!str_equal(name, "SPARKSHIM_DIR") || !value || !*value || *value == '/') return value;
  return rundir_of_ancestor(base, sizeof(base)) ? base : value;
}

static int open_at(enum rundir_place where, const char *run, uint64_t start) {
  int dir = rundir_open(settled_env, where, run, log_file.path, RUN_PATH);
  if (dir < 0) return dir;
  int fd = create_in(dir, start);
  if (fd >= 0 && remember(fd)) {
    map_mark(fd);
    sys_close(fd);
    log_file.is_open = true;
    return dir;
  }
  if (fd >= 0) sys_close(fd);
  sys_close(dir);
  return fd < 0 ? fd : -EIO;
}

int log_open(const char *run, uint64_t start) {
  if (log_file.mark) sys_munmap(log_file.mark, MARK); /* a forked child leaves its parent's log */
  log_file.mark = NULL;
  log_file.is_open = false;
  log_file.bytes = log_file.dropped = 0;
  log_file.torn = 0;
  log_file.stem[0] = '\0';
  int dir = open_at(RUNDIR_STATE, run, start);
  if (dir < 0) dir = open_at(RUNDIR_TEMPORARY, run, start);
  if (dir < 0) log_file.stem[0] = '\0';
  return dir;
}

const char *log_stem(void) { return log_file.stem; }

static bool is_log(int fd) {
  struct stat st;
  return sys_fstat(fd, &st) == 0 && st.st_dev == log_file.dev && st.st_ino == log_file.ino;
}

/* Numbers 0 to 2 may be free in a job with closed standard files: what its other threads print must not land in the log. */
static int above_standard(int fd) {
  enum { FIRST_FREE = 3 };
  if (fd < 0 || fd >= FIRST_FREE) return fd;
  int above = sys_fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE);
  sys_close(fd);
  return above;
}

/* Whatever lies at the path by now, opening it neither waits nor takes a terminal. */
static int open_log(void) {
  const int flags = O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  int fd = above_standard(sys_open(log_file.path, flags, 0));
  if (fd < 0 || is_log(fd)) return fd;
  sys_close(fd);
  return -ESTALE;
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

static bool append(const char *record, size_t size) {
  int fd = open_log();
  if (fd < 0) return false;
  bool done = write_record(fd, record, size);
  sys_close(fd);
  return done;
}

void log_write(const char *record, size_t size, bool essential) {
  if (!log_file.is_open || !size) return;
  if (take_room(size, essential)) {
    if (append(record, size)) return;
    __atomic_sub_fetch(&log_file.bytes, size, __ATOMIC_RELAXED);
  }
  __atomic_add_fetch(&log_file.dropped, 1, __ATOMIC_RELAXED);
}

uint64_t log_take_dropped(void) { return __atomic_exchange_n(&log_file.dropped, 0, __ATOMIC_RELAXED); }
