/* finding.c - the words and the one line of a finding.
 *
 * Runs in the preloaded library (also in its exit handler), in the program and in the tests. Freestanding: no
 * libc, no allocation, no state, so that it may be called on any stack and from a signal handler.
 */
#include "finding.h"

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

static void put_byte(struct line *l, char c) {
  if (l->used < l->room) l->out[l->used++] = (unsigned char)c < 0x20 || c == 0x7f ? '?' : c;
}

/* At most `max` bytes: the arrays of a finding need not be trusted to be NUL-ended. */
static void put_text(struct line *l, const char *s, size_t max) {
  for (size_t i = 0; i < max && s[i]; i++) put_byte(l, s[i]);
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

/* A cut must not leave half of a UTF-8 character: steps back to where the last whole one ends. */
static void drop_torn_character(struct line *l) {
  size_t lead = l->used;
  unsigned need;
  while (lead && l->used - lead < 3 && ((unsigned char)l->out[lead - 1] & 0xc0) == 0x80) lead--;
  if (!lead) return;
  unsigned char c = (unsigned char)l->out[lead - 1];
  need = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
  if (l->used - (lead - 1) < need) l->used = lead - 1;
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
  if (l.used == l.room) drop_torn_character(&l);
  l.room = size - 1;
  if (simulated) put_word(&l, mark);
  out[l.used] = '\0';
  return l.used;
}
