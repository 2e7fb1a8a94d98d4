/* line.c - the one line on the job's standard error.
 *
 * One write(2) of at most 512 bytes, and only while descriptor 2 is the file that it was when the library woke up: a
 * job that closed it and opened a data file got its number. A pipe that is full is not waited for: the log
 * has the finding. Raw system calls.
 */
#include <poll.h>
#include <sys/ioctl.h>
#include <asm/termbits.h>

#include "procstat.h"
#include "quiet.h"
#include "sampler_thread.h"
#include "sinks.h"
#include "sys.h"

#include "poison.h"

enum { LINE_MAX_BYTES = 512, STDERR = 2 };

static struct {
  bool usable, terminal;
  dev_t dev;
  ino_t ino;
  char file[44]; /* both as text: two numbers of 64 bits */
} line;

void line_open(void) {
  struct stat st;
  struct termios settings;
  line.usable = shim_settings.stderr_on && sys_fstat(STDERR, &st) == 0;
  if (!line.usable) return;
  line.dev = st.st_dev;
  line.ino = st.st_ino;
  size_t at = proc_put_number(line.file, sizeof(line.file), 0, st.st_dev);
  line.file[at++] = ':';
  proc_put_number(line.file, sizeof(line.file), at, st.st_ino);
  line.terminal = sys_call6(SYS_ioctl, STDERR, TCGETS, (long)&settings, 0, 0, 0) == 0;
}

/* The process's standard error, also in the library's own thread, which has a table of descriptors to itself. */
static int take_stderr(void) {
  enum { PIDFD_OPEN = 434, PIDFD_GETFD = 438 };
  if (!sampler_thread_is_this()) return STDERR;
  int process = (int)sys_call6(PIDFD_OPEN, sys_getpid(), 0, 0, 0, 0, 0);
  if (process < 0) return process;
  int fd = (int)sys_call6(PIDFD_GETFD, process, STDERR, 0, 0, 0, 0);
  sys_close(process);
  return fd;
}

static bool is_same_file(int fd) {
  struct stat st;
  return sys_fstat(fd, &st) == 0 && st.st_dev == line.dev && st.st_ino == line.ino;
}

static bool is_ready(int fd) {
  int64_t at_once[2] = {0, 0}; /* the kernel writes back what is left of it */
  struct pollfd p = {.fd = fd, .events = POLLOUT};
  return sys_call6(SYS_ppoll, (long)&p, 1, (long)at_once, 0, 0, 0) == 1 && (p.revents & POLLOUT);
}

static bool put(int fd, const char *text, size_t size) {
  return fd >= 0 && is_same_file(fd) && is_ready(fd) && quiet_write(fd, text, size) == (long)size;
}

const char *line_write(const struct finding *f) {
  static const char clear[] = "\r\033[K"; /* what a progress bar left there */
  char text[LINE_MAX_BYTES];
  size_t at = 0;
  if (!line.usable) return NULL;
  if (line.terminal) at = str_copy(text, sizeof(text), clear);
  at += finding_line(f, shim_settings.root != NULL, text + at, sizeof(text) - at);
  text[at++] = '\n'; /* in the NUL's place */
  int fd = take_stderr();
  bool done = put(fd, text, at);
  if (fd > STDERR) sys_close(fd);
  return done ? line.file : NULL;
}
