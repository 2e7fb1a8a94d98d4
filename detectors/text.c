/* text.c - see text.h. Runs inside the preloaded library: no libc, no allocation, no state. */
#include "text.h"

#include "fact.h"

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

struct text text_in(char *buf, size_t size) {
  buf[0] = '\0';
  return (struct text){.at = buf, .room = size};
}

struct text text_item(struct finding_list *list) {
  if (list->n >= FINDING_ITEMS) return (struct text){0};
  return text_in(list->item[list->n++], FINDING_ITEM);
}

void text_add(struct text *t, const char *s) {
  if (!s || !t->room) return;
  for (; *s && t->room > 1; s++, t->room--) *t->at++ = *s;
  *t->at = '\0';
}

void text_number(struct text *t, uint64_t n) {
  char digits[21];
  size_t i = sizeof digits;
  digits[--i] = '\0';
  do {
    digits[--i] = (char)('0' + n % 10);
    n /= 10;
  } while (n);
  text_add(t, digits + i);
}

/* n / unit with one decimal; unit * 10 must not overflow. */
static void add_tenths(struct text *t, uint64_t n, uint64_t unit, const char *name) {
  uint64_t whole = n / unit;
  uint64_t tenths = (n % unit * 10 + unit / 2) / unit;
  text_number(t, whole + tenths / 10);
  text_add(t, ".");
  text_number(t, tenths % 10);
  text_add(t, name);
}

void text_size(struct text *t, uint64_t bytes) {
  if (bytes == FACT_NO_U64) {
    text_add(t, "an unknown size");
  } else if (bytes >= GIB / 10) {
    add_tenths(t, bytes, GIB, " GiB");
  } else if (bytes >= MIB / 10) {
    add_tenths(t, bytes, MIB, " MiB");
  } else {
    text_number(t, bytes);
    text_add(t, " bytes");
  }
}

void text_sized(struct text *t, const char *before, uint64_t bytes, const char *after) {
  text_add(t, before);
  text_size(t, bytes);
  text_add(t, after);
}

void text_seconds(struct text *t, const char *before, uint64_t us, const char *after) {
  text_add(t, before);
  text_number(t, us / 1000000);
  text_add(t, ".");
  text_number(t, us % 1000000 / 100000);
  text_add(t, " s");
  text_add(t, after);
}

void text_item_add(struct finding_list *list, const char *s) {
  struct text t = text_item(list);
  text_add(&t, s);
}

void text_item_sized(struct finding_list *list, const char *before, uint64_t bytes, const char *after) {
  struct text t = text_item(list);
  text_sized(&t, before, bytes, after);
}

bool text_equal(const char *a, const char *b) {
  if (!a || !b) return a == b;
  while (*a && *a == *b) a++, b++;
  return *a == *b;
}

bool text_starts(const char *s, const char *prefix) {
  if (!s) return false;
  while (*prefix && *s == *prefix) s++, prefix++;
  return !*prefix;
}

static bool is_alnum(char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

bool text_has_word(const char *s, const char *word) {
  for (const char *at = s; *at; at++) {
    size_t n = 0;
    while (word[n] && at[n] == word[n]) n++;
    if (!word[n] && !is_alnum(at[n]) && (at == s || !is_alnum(at[-1]))) return true;
  }
  return false;
}

void text_copy(char *buf, size_t size, const char *s) {
  struct text t = text_in(buf, size);
  text_add(&t, s);
}
