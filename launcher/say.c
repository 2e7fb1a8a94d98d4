/* say.c - the launcher's own lines on stderr. They share the terminal with the job: one write(2) per line,
 * so that lines of two processes do not mix.
 */
#include "launcher.h"
#include "plain.h"
#include "quiet.h"

#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool silent;

void say_nothing(void) { silent = true; }
bool is_silent(void) { return silent; }

static void write_line(const char *format, va_list args) {
  char text[1024], line[sizeof text] = "sparkshim: ";
  size_t at = strlen(line);
  if (vsnprintf(text, sizeof text, format, args) < 0) return;
  at += plain_text(text, sizeof text, line + at, sizeof line - at - 1);
  line[at++] = '\n';
  quiet_write(STDERR_FILENO, line, at); /* a closed or full stderr has nobody to tell, and must not end us */
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
