/* rlimits.c - see rlimits.h. Runs in the preloaded library, in the job's threads. */
#include "rlimits.h"

#include <errno.h>

#include "fact.h"
#include "procstat.h"
#include "sys.h"

/* "unlimited" or a decimal number at *at, which then stands behind it. False: neither, or a number that overflows. */
static bool value_at(const char **at, uint64_t *out) {
  static const char unlimited[] = "unlimited";
  const char *s = *at;
  while (*s == ' ') s++;
  if (str_starts(s, unlimited)) {
    *out = FACT_NO_U64;
    s += sizeof(unlimited) - 1;
  } else {
    uint64_t n = 0;
    if (*s < '0' || *s > '9') return false;
    for (; *s >= '0' && *s <= '9'; s++) {
      if (n > (FACT_NO_U64 - 1 - (uint64_t)(*s - '0')) / 10) return false;
      n = n * 10 + (uint64_t)(*s - '0');
    }
    *out = n;
  }
  *at = s;
  return *s == ' ' || *s == '\n' || *s == '\0';
}

int limit_parse(const char *text, const char *row, uint64_t *ret_soft, uint64_t *ret_hard) {
  uint64_t soft, hard;
  while (text && !(str_starts(text, row) && text[str_length(row)] == ' ')) {
    text = str_find(text, "\n");
    if (text) text++;
  }
  if (!text) return -EINVAL;
  text += str_length(row);
  if (!value_at(&text, &soft) || !value_at(&text, &hard)) return -EINVAL;
  *ret_soft = soft;
  *ret_hard = hard;
  return 0;
}

int limit_read(const char *root, const char *row, uint64_t *ret_soft, uint64_t *ret_hard) {
  char text[4096];
  long n = proc_text_read(root, "/proc/self/limits", text, sizeof(text));
  return n < 0 ? (int)n : limit_parse(text, row, ret_soft, ret_hard);
}
