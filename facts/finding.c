/* finding.c - the words and the one line of a finding.
 *
 * Runs in the preloaded library (also in its exit handler), in the program and in the tests. Freestanding: no
 * libc, no allocation, no state, so that it may be called on any stack and from a signal handler.
 */
#include "finding.h"
#include "plain.h"

const char *verdict_word(enum verdict v) {
  switch (v) {
  case VERDICT_PASS: return "PASS";
  case VERDICT_SKIP: return "SKIP";
  case VERDICT_INFO: return "INFO";
  case VERDICT_WARN: return "WARN";
  case VERDICT_FAIL: return "FAIL";
  }
  return "SKIP";
}

const char *confidence_word(enum confidence c) {
  switch (c) {
  case CONFIDENCE_LOW: return "low";
  case CONFIDENCE_MEDIUM: return "medium";
  case CONFIDENCE_HIGH: return "high";
  }
  return "low";
}

const char *retry_word(enum retry r) {
  switch (r) {
  case RETRY_UNKNOWN: return "unknown";
  case RETRY_USELESS: return "useless";
  case RETRY_MAY_HELP: return "may_help";
  }
  return "unknown";
}

struct line {
  char *out;
  size_t room; /* bytes that may be written, the NUL not counted */
  size_t used;
};

/* At most `max` bytes: the arrays of a finding need not be trusted to be NUL-ended. Behind a character that does not
 * fit, nothing does. */
static void put_text(struct line *l, const char *s, size_t max) {
  for (size_t at = 0; at < max && s[at];) {
    unsigned n = plain_length(s + at, max - at);
    if (l->room - l->used < (n ? n : 1)) {
      l->room = l->used;
      return;
    }
    if (!n) l->out[l->used++] = '?', at++;
    for (unsigned i = 0; i < n; i++) l->out[l->used++] = s[at++];
  }
}

static void put_word(struct line *l, const char *s) { put_text(l, s, SIZE_MAX); }

static void put_number(struct line *l, unsigned n) {
  char digits[10];
  unsigned at = sizeof(digits);
  do {
    digits[--at] = (char)('0' + n % 10);
    n /= 10;
  } while (n);
  put_text(l, digits + at, sizeof(digits) - at);
}

size_t finding_line(const struct finding *f, bool simulated, char *out, size_t size) {
  static const char mark[] = " (simulated)";
  const size_t mark_size = simulated ? sizeof(mark) - 1 : 0;
  if (!size) return 0;
  struct line l = {.out = out, .room = size - 1 > mark_size ? size - 1 - mark_size : 0};
  put_word(&l, "G");
  put_number(&l, f->g);
  put_word(&l, " ");
  put_word(&l, verdict_word(f->verdict));
  put_word(&l, ": ");
  put_text(&l, f->text, sizeof(f->text));
  if (f->fixes.n && f->fixes.item[0][0]) {
    put_word(&l, "; fix: ");
    put_text(&l, f->fixes.item[0], sizeof(f->fixes.item[0]));
  }
  l.room = size - 1;
  if (simulated) put_word(&l, mark);
  out[l.used] = '\0';
  return l.used;
}
