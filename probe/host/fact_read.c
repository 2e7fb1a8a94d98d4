/* fact_read.c - see fact_read.h. No allocation, no state. */
#include "fact_read.h"
#include "fact_json.h"

#include <string.h>

enum {
  PAIRS = 96,     /* more members than any kind has; what is beyond is skipped */
  DEPTH_MAX = 32, /* of values that are skipped */
};

enum value_type { VALUE_OTHER, VALUE_STRING, VALUE_UNSIGNED, VALUE_NEGATIVE, VALUE_TRUE };

struct pair {
  const char *key;
  enum value_type type;
  const char *string;
  uint64_t number; /* of VALUE_NEGATIVE: the magnitude */
};

struct pairs {
  struct pair pair[PAIRS];
  size_t n;
  size_t next; /* where the next field is expected: writers keep the order of facts.def */
};

/* ---- scanning ------------------------------------------------------------------------------------------------ */
static char *skip_space(char *p) {
  while (*p == ' ' || *p == '\t' || *p == '\r') p++;
  return p;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

static bool read_hex4(const char *p, uint32_t *ret_code) {
  uint32_t code = 0;
  for (int i = 0; i < 4; i++) {
    int digit = hex_digit(p[i]);
    if (digit < 0) return false;
    code = code << 4 | (uint32_t)digit;
  }
  *ret_code = code;
  return true;
}

static char *put_utf8(char *to, uint32_t code) {
  if (code < 0x80) {
    *to++ = (char)code;
  } else if (code < 0x800) {
    *to++ = (char)(0xc0 | code >> 6);
    *to++ = (char)(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    *to++ = (char)(0xe0 | code >> 12);
    *to++ = (char)(0x80 | (code >> 6 & 0x3f));
    *to++ = (char)(0x80 | (code & 0x3f));
  } else {
    *to++ = (char)(0xf0 | code >> 18);
    *to++ = (char)(0x80 | (code >> 12 & 0x3f));
    *to++ = (char)(0x80 | (code >> 6 & 0x3f));
    *to++ = (char)(0x80 | (code & 0x3f));
  }
  return to;
}

/* "\uXXXX" at p (behind the 'u'), and its second half where it is a surrogate. Returns behind it, or NULL. A NUL
 * character would end the string: it is refused, as no writer of ours makes one. */
static char *read_unicode(char *p, char **to) {
  uint32_t code, low;
  if (!read_hex4(p, &code) || !code) return NULL;
  p += 4;
  if (code >= 0xd800 && code < 0xdc00) {
    if (p[0] != '\\' || p[1] != 'u' || !read_hex4(p + 2, &low) || low < 0xdc00 || low > 0xdfff) return NULL;
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    p += 6;
  } else if (code >= 0xdc00 && code < 0xe000) {
    return NULL;
  }
  *to = put_utf8(*to, code);
  return p;
}

/* The string at p (its opening quote), decoded in place: what is written never overtakes what is read. Returns
 * behind the closing quote, or NULL. */
static char *read_string(char *p, const char **ret_string) {
  char *to = ++p;
  *ret_string = to;
  for (;;) {
    if ((unsigned char)*p < 0x20) return NULL;
    if (*p == '"') break;
    if (*p != '\\') {
      *to++ = *p++;
      continue;
    }
    static const char from_letter[] = "\"\\/bfnrt", becomes[] = "\"\\/\b\f\n\r\t";
    const char *letter = p[1] ? strchr(from_letter, p[1]) : NULL;
    if (letter) {
      *to++ = becomes[letter - from_letter];
      p += 2;
    } else if (p[1] != 'u' || !(p = read_unicode(p + 2, &to))) {
      return NULL;
    }
  }
  *to = '\0';
  return p + 1;
}

/* A number; fractions, exponents and what does not fit 64 bits are VALUE_OTHER. */
static char *read_number(char *p, struct pair *pair) {
  bool negative = *p == '-', whole = true;
  uint64_t n = 0;
  if (negative) p++;
  if (*p < '0' || *p > '9') return NULL;
  for (; *p >= '0' && *p <= '9'; p++) {
    unsigned digit = (unsigned)(*p - '0');
    if (n > (UINT64_MAX - digit) / 10) whole = false;
    n = n * 10 + digit;
  }
  for (; *p == '.' || *p == 'e' || *p == 'E' || *p == '+' || *p == '-' || (*p >= '0' && *p <= '9'); p++) whole = false;
  if (negative && n > (uint64_t)INT64_MAX) whole = false;
  pair->number = n;
  pair->type = !whole ? VALUE_OTHER : negative ? VALUE_NEGATIVE : VALUE_UNSIGNED;
  return p;
}

static char *read_word(char *p, const char *word) {
  size_t n = strlen(word);
  return strncmp(p, word, n) ? NULL : p + n;
}

/* An array or object at p: only its end is looked for. Returns behind it, or NULL. */
static char *skip_nested(char *p) {
  int depth = 0;
  const char *string;
  do {
    if (*p == '"') {
      if (!(p = read_string(p, &string))) return NULL;
      continue;
    }
    if (!*p) return NULL;
    if (*p == '[' || *p == '{') depth++;
    if (*p == ']' || *p == '}') depth--;
    p++;
  } while (depth > 0 && depth < DEPTH_MAX);
  return depth ? NULL : p;
}

static char *read_value(char *p, struct pair *pair) {
  pair->type = VALUE_OTHER;
  switch (*p) {
  case '"': pair->type = VALUE_STRING; return read_string(p, &pair->string);
  case '[':
  case '{': return skip_nested(p);
  case 't': pair->type = VALUE_TRUE; return read_word(p, "true");
  case 'f': return read_word(p, "false");
  case 'n': return read_word(p, "null");
  default: return read_number(p, pair);
  }
}

/* The members of the object that is the line. False when it is none. */
static bool read_object(char *p, struct pairs *pairs) {
  p = skip_space(p);
  if (*p != '{') return false;
  p = skip_space(p + 1);
  while (*p != '}') {
    struct pair pair = {0};
    if (*p != '"' || !(p = read_string(p, &pair.key))) return false;
    p = skip_space(p);
    if (*p != ':' || !(p = read_value(skip_space(p + 1), &pair))) return false;
    if (pairs->n < PAIRS) pairs->pair[pairs->n++] = pair;
    p = skip_space(p);
    if (*p == ',') {
      p = skip_space(p + 1);
      if (*p == '}') return false;
    } else if (*p != '}') {
      return false;
    }
  }
  return !*skip_space(p + 1);
}

/* ---- taking -------------------------------------------------------------------------------------------------- */
static const struct pair *take(struct pairs *pairs, const char *key) {
  if (pairs->next < pairs->n && !strcmp(pairs->pair[pairs->next].key, key)) return &pairs->pair[pairs->next++];
  for (size_t i = 0; i < pairs->n; i++) {
    if (strcmp(pairs->pair[i].key, key)) continue;
    pairs->next = i + 1;
    return &pairs->pair[i];
  }
  return NULL;
}

static fact_u64 take_u64(struct pairs *pairs, const char *key) {
  const struct pair *p = take(pairs, key);
  return p && p->type == VALUE_UNSIGNED ? p->number : FACT_NO_U64;
}

static fact_i64 take_i64(struct pairs *pairs, const char *key) {
  const struct pair *p = take(pairs, key);
  if (!p || (p->type != VALUE_UNSIGNED && p->type != VALUE_NEGATIVE) || p->number > INT64_MAX) return FACT_NO_I64;
  return p->type == VALUE_NEGATIVE ? -(int64_t)p->number : (int64_t)p->number;
}

static fact_hex take_hex(struct pairs *pairs, const char *key) {
  const struct pair *p = take(pairs, key);
  uint64_t n = 0;
  if (!p || p->type != VALUE_STRING || strncmp(p->string, "0x", 2) || !p->string[2]) return FACT_NO_U64;
  for (const char *s = p->string + 2; *s; s++) {
    int digit = hex_digit(*s);
    if (digit < 0 || n >> 60) return FACT_NO_U64;
    n = n << 4 | (uint64_t)digit;
  }
  return n;
}

static fact_str take_str(struct pairs *pairs, const char *key) {
  const struct pair *p = take(pairs, key);
  if (!p || p->type != VALUE_STRING) return NULL;
  fact_string_decode((char *)p->string); /* it lies in the caller's line */
  return p->string;
}

static fact_flag take_flag(struct pairs *pairs, const char *key) {
  const struct pair *p = take(pairs, key);
  return p && p->type == VALUE_TRUE;
}

static void take_memory(struct pairs *pairs, struct fact_memory *m) {
#define MEM(name, key, doc) m->name = take_u64(pairs, "mem_" #name);
#include "memory_fields.def"
#undef MEM
}

/* One function for each kind, made from the table. */
#define FACT(kind, doc) static void take_##kind(struct pairs *pairs, struct fact_##kind *f) {
#define FIELD(kind, type, name, unit, doc) f->name = take_##type(pairs, #name);
#define FACT_MEMORY(kind) take_memory(pairs, &f->mem);
#define FACT_END(kind) }
#include "facts.def"

static void take_fields(struct pairs *pairs, struct fact *f) {
  switch (f->kind) {
#define FACT(name, doc)             \
  case FACT_KIND_##name:            \
    take_##name(pairs, &f->u.name); \
    break;
#include "facts.def"
  case FACT_NONE:
  case FACT_KIND_COUNT: break;
  }
}

static enum fact_kind kind_of(const char *word) {
  for (int kind = FACT_NONE + 1; kind < FACT_KIND_COUNT; kind++)
    if (!strcmp(word, fact_kind_word((enum fact_kind)kind))) return (enum fact_kind)kind;
  return FACT_NONE;
}

static bool verdict_of(const char *word, enum verdict *ret) {
  for (int v = VERDICT_PASS; word && v <= VERDICT_FAIL; v++)
    if (!strcmp(word, verdict_word((enum verdict)v))) {
      *ret = (enum verdict)v;
      return true;
    }
  return false;
}

static void take_finding(struct pairs *pairs, struct record *out) {
  struct logged_finding *f = &out->finding;
  uint64_t g = take_u64(pairs, "g");
  bool known = verdict_of(take_str(pairs, "verdict"), &f->verdict);
  f->cause = take_str(pairs, "cause");
  f->object = take_str(pairs, "object");
  f->shown = take_str(pairs, "shown");
  f->g = g <= 10 ? (unsigned)g : 0;
  out->kind = f->g && known && f->cause && f->object ? RECORD_FINDING : RECORD_FOREIGN;
}

void record_read(char *line, size_t size, struct record *out) {
  struct pairs pairs;
  pairs.n = pairs.next = 0;
  line[size] = '\0';
  out->kind = RECORD_BAD;
  if (strlen(line) != size || !read_object(line, &pairs)) return;
  uint64_t version = take_u64(&pairs, "v"), t = take_u64(&pairs, "t"), tid = take_u64(&pairs, "tid");
  const char *kind = take_str(&pairs, "k");
  if (version == FACT_NO_U64 || t == FACT_NO_U64 || !kind) return;
  out->kind = RECORD_FOREIGN;
  if (version != 1) return;
  if (!strcmp(kind, "finding")) {
    take_finding(&pairs, out);
    return;
  }
  out->fact.kind = kind_of(kind);
  if (out->fact.kind == FACT_NONE) return;
  out->fact.t = t;
  out->fact.tid = tid <= UINT32_MAX ? (uint32_t)tid : 0;
  take_fields(&pairs, &out->fact);
  out->kind = RECORD_FACT;
}
