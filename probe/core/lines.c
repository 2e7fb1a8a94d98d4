/* lines.c - see lines.h. Runs in the preloaded library's thread and in the program. */
#include "lines.h"

#include <fcntl.h>

#include "fact.h"
#include "sys.h"

void lines_of_text(const char *text, size_t size, line_see see, void *arg) {
  for (size_t at = 0; at < size;) {
    size_t end = at;
    while (end < size && text[end] != '\n') end++;
    if (see(text + at, end - at, arg)) return;
    at = end + 1;
  }
}

/* O_NONBLOCK: below a root the name may be a pipe that nobody writes. */
static int open_either(const char *root, const char *path, bool *ret_below) {
  enum { FLAGS = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK };
  char full[4096];
  *ret_below = false;
  if (root && *root) {
    size_t n = str_copy(full, sizeof(full), root);
    n += str_copy(full + n, sizeof(full) - n, path);
    int fd = n + 1 < sizeof(full) ? sys_open(full, FLAGS, 0) : -1;
    *ret_below = fd >= 0;
    if (fd >= 0) return fd;
  }
  return sys_open(path, FLAGS, 0);
}

/* Shows the whole lines in text[0..used), and moves what is left to the front. *cut: the line that is left has no room. */
static bool show_whole(char *text, size_t *used, bool *dropping, line_see see, void *arg) {
  size_t at = 0, end;
  for (;;) {
    for (end = at; end < *used && text[end] != '\n'; end++) {
    }
    if (end == *used) break;
    if (!*dropping && see(text + at, end - at, arg)) return true;
    *dropping = false;
    at = end + 1;
  }
  size_t left = *used - at;
  for (size_t i = 0; i < left; i++) text[i] = text[at + i];
  *used = left;
  if (left < LINES_LENGTH) return false;
  bool enough = !*dropping && see(text, left, arg);
  *dropping = true;
  *used = 0;
  return enough;
}

static long show_file(int fd, line_see see, void *arg) {
  char text[LINES_LENGTH];
  size_t used = 0, total = 0;
  bool dropping = false;
  long n = 0;
  while (total < LINES_BYTES && (n = sys_read(fd, text + used, sizeof(text) - used)) > 0) {
    used += (size_t)n;
    total += (size_t)n;
    if (show_whole(text, &used, &dropping, see, arg)) return 1;
  }
  if (used && !dropping) see(text, used, arg);
  return total ? 1 : n;
}

int lines_of_file(const char *root, const char *path, line_see see, void *arg, bool *ret_below) {
  bool below;
  int fd = open_either(root, path, &below);
  if (ret_below) *ret_below = below;
  if (fd < 0) return fd;
  long n = show_file(fd, see, arg);
  sys_close(fd);
  return n < 0 ? (int)n : 0;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

uint64_t line_number(const char *line, size_t size, size_t *at) {
  uint64_t v = 0;
  while (*at < size && (line[*at] == ' ' || line[*at] == '\t')) ++*at;
  if (*at >= size || !is_digit(line[*at])) return FACT_NO_U64;
  for (; *at < size && is_digit(line[*at]); ++*at)
    if (__builtin_mul_overflow(v, 10U, &v) || __builtin_add_overflow(v, (unsigned)(line[*at] - '0'), &v))
      return FACT_NO_U64;
  return v;
}

uint64_t line_hundredths(const char *line, size_t size, size_t *at) {
  uint64_t v = known_times(line_number(line, size, at), 100);
  if (v == FACT_NO_U64 || *at + 1 >= size || line[*at] != '.' || !is_digit(line[*at + 1])) return v;
  v = known_plus(v, (uint64_t)(line[*at + 1] - '0') * 10);
  *at += 2;
  if (*at < size && is_digit(line[*at])) v = known_plus(v, (uint64_t)(line[(*at)++] - '0'));
  return v;
}

size_t line_word(const char *line, size_t size, size_t at, const char *word) {
  while (*word && at < size && line[at] == *word) at++, word++;
  return *word ? 0 : at;
}

uint64_t known_times(uint64_t a, uint64_t b) {
  uint64_t v;
  return a == FACT_NO_U64 || b == FACT_NO_U64 || __builtin_mul_overflow(a, b, &v) ? FACT_NO_U64 : v;
}

uint64_t known_plus(uint64_t a, uint64_t b) {
  uint64_t v;
  return a == FACT_NO_U64 || b == FACT_NO_U64 || __builtin_add_overflow(a, b, &v) ? FACT_NO_U64 : v;
}

void add_known(uint64_t *sum, uint64_t v) {
  if (v == FACT_NO_U64) return;
  *sum = *sum == FACT_NO_U64 ? v : known_plus(*sum, v);
}
