/* say.c - the launcher's own lines on stderr. They share the terminal with the job: one write(2) per line,
 * so that lines of two processes do not mix. Whoever waits for the job must not wait for somebody who reads these
 * lines: a pipe that stays full costs them.
 */
#include "launcher.h"
#include "plain.h"
#include "quiet.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static bool silent;

void say_nothing(void) { silent = true; }
bool is_silent(void) { return silent; }

static bool is_ready(const struct timespec *limit, const sigset_t *mask) {
  struct pollfd fd = {.fd = STDERR_FILENO, .events = POLLOUT};
  return ppoll(&fd, 1, limit, mask) == 1;
}

static long now_ms(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* All lines together wait for PATIENCE_MS. At a terminal that is held (Ctrl-S) somebody sits who will let it go on, or
 * end us by a signal: those are blocked while a job runs, and open here. */
static bool may_write(void) {
  enum { PATIENCE_MS = 5000 };
  static long left = PATIENCE_MS;
  const struct timespec at_once = {0, 0}, limit = {left / 1000, left % 1000 * 1000000};
  sigset_t none;
  if (is_ready(&at_once, NULL)) return true;
  sigemptyset(&none);
  if (isatty(STDERR_FILENO)) return is_ready(NULL, &none);
  long before = now_ms();
  bool ready = left > 0 && is_ready(&limit, NULL);
  left -= now_ms() - before;
  return ready;
}

void put_line(const char *line) {
  char text[8 * PATH_MAX + 64]; /* the command at the end is the longest */
  size_t n = strnlen(line, sizeof text - 1);
  if (!may_write()) return;
  memcpy(text, line, n);
  text[n++] = '\n';
  quiet_write(STDERR_FILENO, text, n); /* a closed stderr has nobody to tell, and must not end us */
}

bool say_finding(const struct finding *f, bool simulated) {
  const struct timespec at_once = {0, 0};
  char text[1024];
  size_t at = 0;
  if (silent || !is_ready(&at_once, NULL)) return false;
  if (isatty(STDERR_FILENO)) at = (size_t)snprintf(text, sizeof text, "\r\033[K"); /* what a progress bar left there */
  at += finding_line(f, simulated, text + at, sizeof text - at);
  text[at++] = '\n'; /* in the NUL's place */
  return quiet_write(STDERR_FILENO, text, at) == (long)at;
}

const char *stderr_file(void) {
  static char file[44]; /* two numbers of 64 bits */
  struct stat st;
  if (fstat(STDERR_FILENO, &st)) return NULL;
  snprintf(file, sizeof file, "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
  return file;
}

static void write_line(const char *format, va_list args) {
  char text[1000], line[1024] = "sparkshim: ";
  size_t at = strlen(line);
  if (vsnprintf(text, sizeof text, format, args) < 0) return;
  plain_text(text, sizeof text, line + at, sizeof line - at);
  put_line(line);
}

void say(const char *format, ...) {
  va_list args;
  if (silent) return;
  va_start(args, format);
  write_line(format, args);
  va_end(args);
}

void complain(const char *format, ...) {
  va_list args;
  va_start(args, format);
  write_line(format, args);
  va_end(args);
}

const char *shown(const char *text) {
  enum { TURNS = 8 };
  static char kept[TURNS][PATH_MAX];
  static unsigned turn;
  char *out = kept[turn++ % TURNS];
  plain_text(text, SIZE_MAX, out, sizeof kept[0]);
  return out;
}
