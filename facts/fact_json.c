/* fact_json.c - writes facts and findings as NDJSON, from the tables facts.def and memory_fields.def.
 *
 * Runs in the preloaded library, in foreign threads and on foreign stacks: the caller owns the buffer, nothing
 * is allocated, no libc function is called (printf would take locks and look at the locale).
 */
#include "fact_json.h"
#include "plain.h"

/* ---- the longest record of each kind, checked when compiled ------------------------------------------ */
enum {
  WIDTH_NUMBER = 20,
  WIDTH_FRAME = 112, /* {"v":1,"t":N,"tid":N,"k":"alloc_recovered"} newline NUL */
  WIDTH_u64 = WIDTH_NUMBER,
  WIDTH_i64 = WIDTH_NUMBER,
  WIDTH_hex = WIDTH_NUMBER,
  WIDTH_flag = 4,
  WIDTH_str = FACT_JSON_STRING + 2,
  WIDTH_MEMORY = 0
#define MEM(name, key, doc) +(sizeof(",\"mem_" #name "\":") + WIDTH_NUMBER)
#include "memory_fields.def"
#undef MEM
  ,
#define FACT(kind, doc) WIDTH_OF_##kind = WIDTH_FRAME
#define FIELD(kind, type, name, unit, doc) +(sizeof(",\"" #name "\":") + WIDTH_##type)
#define FACT_MEMORY(kind) +WIDTH_MEMORY
#define FACT_END(kind) ,
#include "facts.def"
  WIDTH_OF_FINDING = WIDTH_FRAME + 512 + 6 * (FINDING_TEXT + FINDING_OBJECT + 3 * FINDING_ITEMS * (FINDING_ITEM + 1))
};
#define FACT(kind, doc) \
  _Static_assert((int)WIDTH_OF_##kind <= (int)FACT_JSON_MAX, "FACT_JSON_MAX is too small for " #kind);
#include "facts.def"
_Static_assert((int)WIDTH_OF_FINDING <= (int)FACT_JSON_MAX, "FACT_JSON_MAX is too small for a finding");

/* ---- output --------------------------------------------------------------------------------------------- */
struct out {
  char *at;
  char *end; /* last byte, kept for the NUL */
  bool full;
};

static void put(struct out *o, const char *s, size_t n) {
  if ((size_t)(o->end - o->at) < n) {
    o->full = true;
    return;
  }
  for (size_t i = 0; i < n; i++) *o->at++ = s[i];
}

static void put_word(struct out *o, const char *s) {
  size_t n = 0;
  while (s[n]) n++;
  put(o, s, n);
}

static void put_u64(struct out *o, uint64_t v) {
  char digits[20];
  size_t at = sizeof(digits);
  if (v > INT64_MAX) v = INT64_MAX;
  do {
    digits[--at] = (char)('0' + v % 10);
    v /= 10;
  } while (v);
  put(o, digits + at, sizeof(digits) - at);
}

static void put_i64(struct out *o, int64_t v) {
  if (v < 0) put(o, "-", 1);
  put_u64(o, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

static void put_hex(struct out *o, uint64_t v) {
  char text[18];
  size_t at = sizeof(text);
  do {
    text[--at] = "0123456789abcdef"[v & 15];
    v >>= 4;
  } while (v);
  text[--at] = 'x';
  text[--at] = '0';
  put(o, text + at, sizeof(text) - at);
}

/* ---- strings ---------------------------------------------------------------------------------------------- */

enum { UNIT_MAX = 18 };

static unsigned put_unit_escape(char *out, unsigned code) {
  static const char hex[] = "0123456789abcdef";
  out[0] = '\\';
  out[1] = 'u';
  for (unsigned i = 0; i < 4; i++) out[2 + i] = hex[code >> (12 - 4 * i) & 15];
  return 6;
}

/* What the character at `s` looks like in JSON: out[UNIT_MAX], *ret_used = its bytes in `s`. Returns the length. */
static unsigned unit_of(const unsigned char *s, char *out, unsigned *ret_used) {
  uint32_t code = 0;
  unsigned n = utf8_length(s, &code), length = 0;
  *ret_used = n ? n : 1;
  if (!n) return put_unit_escape(out, 0xf700U + s[0]);
  if (code >= 0xf700 && code <= 0xf7ff) {
    for (unsigned i = 0; i < n; i++) length += put_unit_escape(out + length, 0xf700U + s[i]);
    return length;
  }
  if (code < 0x20) {
    static const char short_of[32] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    if (!short_of[code]) return put_unit_escape(out, code);
    out[0] = '\\';
    out[1] = short_of[code];
    return 2;
  }
  if (code == '"' || code == '\\') out[length++] = '\\';
  for (unsigned i = 0; i < n; i++) out[length++] = (char)s[i];
  return length;
}

/* Bytes of `s` that fit into `room` bytes of JSON, cut between two characters. */
static size_t fitting(const unsigned char *s, size_t max, size_t room) {
  char unit[UNIT_MAX];
  size_t at = 0;
  while (at < max && s[at]) {
    unsigned used, length = unit_of(s + at, unit, &used);
    if (length > room) break;
    room -= length;
    at += used;
  }
  return at;
}

/* At most `max` bytes of `text` are looked at: arrays of a finding need not be NUL-ended. */
static void put_string(struct out *o, const char *text, size_t max) {
  enum { MARK = 6 + WIDTH_NUMBER };
  const unsigned char *s = (const unsigned char *)text;
  char unit[UNIT_MAX];
  size_t end = fitting(s, max, FACT_JSON_STRING), length = end;
  while (length < max && s[length]) length++;
  if (length > end) end = fitting(s, max, FACT_JSON_STRING - MARK);
  put(o, "\"", 1);
  for (size_t at = 0; at < end;) {
    unsigned used, n = unit_of(s + at, unit, &used);
    put(o, unit, n);
    at += used;
  }
  if (length > end) {
    put_word(o, "\\uf700");
    put_u64(o, length - end);
  }
  put(o, "\"", 1);
}

static void put_key(struct out *o, const char *key) {
  put_word(o, ",\"");
  put_word(o, key);
  put_word(o, "\":");
}

static void put_text(struct out *o, const char *key, const char *text, size_t max) {
  put_key(o, key);
  put_string(o, text, max);
}

/* ---- fields, by type of facts.def --------------------------------------------------------------------------- */
static void field_u64(struct out *o, const char *key, fact_u64 v) {
  if (v == FACT_NO_U64) return;
  put_key(o, key);
  put_u64(o, v);
}

static void field_i64(struct out *o, const char *key, fact_i64 v) {
  if (v == FACT_NO_I64) return;
  put_key(o, key);
  put_i64(o, v);
}

/* An address of zero is an answer (a refused handle), so it is written; "not known" is left out. */
static void field_hex(struct out *o, const char *key, fact_hex v) {
  if (v == FACT_NO_U64) return;
  put_key(o, key);
  put(o, "\"", 1);
  put_hex(o, v);
  put(o, "\"", 1);
}

static void field_str(struct out *o, const char *key, fact_str v) {
  if (v) put_text(o, key, v, SIZE_MAX);
}

static void field_flag(struct out *o, const char *key, fact_flag v) {
  if (!v) return;
  put_key(o, key);
  put_word(o, "true");
}

static void fields_memory(struct out *o, const struct fact_memory *m) {
#define MEM(name, key, doc) field_u64(o, "mem_" #name, m->name);
#include "memory_fields.def"
#undef MEM
}

/* One function for each kind, made from the table. */
#define FACT(kind, doc) static void fields_of_##kind(struct out *o, const struct fact_##kind *f) {
#define FIELD(kind, type, name, unit, doc) field_##type(o, #name, f->name);
#define FACT_MEMORY(kind) fields_memory(o, &f->mem);
#define FACT_END(kind) }
#include "facts.def"

static void put_fields(struct out *o, const struct fact *f) {
  switch (f->kind) {
#define FACT(name, doc)              \
  case FACT_KIND_##name:             \
    fields_of_##name(o, &f->u.name); \
    break;
#include "facts.def"
  case FACT_NONE:
  case FACT_KIND_COUNT: break;
  }
}

static const char *const kind_words[FACT_KIND_COUNT] = {
#define FACT(name, doc) [FACT_KIND_##name] = #name,
#include "facts.def"
};

const char *fact_kind_word(enum fact_kind kind) { return (unsigned)kind < FACT_KIND_COUNT ? kind_words[kind] : NULL; }

/* ---- records -------------------------------------------------------------------------------------------------- */
static void open_record(struct out *o, char *buffer, size_t size, uint64_t t, uint32_t tid, const char *kind) {
  *o = (struct out){.at = buffer, .end = buffer + size - 1};
  put_word(o, "{\"v\":1,\"t\":");
  put_u64(o, t);
  if (tid) {
    put_key(o, "tid");
    put_u64(o, tid);
  }
  put_text(o, "k", kind, SIZE_MAX);
}

static size_t close_record(struct out *o, char *buffer) {
  put_word(o, "}\n");
  if (o->full) o->at = buffer;
  *o->at = '\0';
  return (size_t)(o->at - buffer);
}

size_t fact_json(const struct fact *f, char *buffer, size_t size) {
  const char *kind = fact_kind_word(f->kind);
  struct out o;
  if (!size) return 0;
  if (!kind) {
    buffer[0] = '\0';
    return 0;
  }
  open_record(&o, buffer, size, f->t, f->tid, kind);
  put_fields(&o, f);
  return close_record(&o, buffer);
}

static void put_list(struct out *o, const char *key, const struct finding_list *list) {
  unsigned n = list->n < FINDING_ITEMS ? list->n : FINDING_ITEMS;
  put_key(o, key);
  put(o, "[", 1);
  for (unsigned i = 0; i < n; i++) {
    if (i) put(o, ",", 1);
    put_string(o, list->item[i], FINDING_ITEM);
  }
  put(o, "]", 1);
}

size_t finding_json(const struct finding *f, const struct finding_telling *how, char *buffer, size_t size) {
  struct out o;
  if (!size) return 0;
  open_record(&o, buffer, size, f->t, how->tid, "finding");
  field_u64(&o, "g", f->g);
  field_str(&o, "verdict", verdict_word(f->verdict));
  field_str(&o, "cause", f->cause ? f->cause : "");
  field_str(&o, "confidence", confidence_word(f->confidence));
  field_str(&o, "retry", retry_word(f->retry));
  put_text(&o, "object", f->object, FINDING_OBJECT);
  put_text(&o, "text", f->text, FINDING_TEXT);
  put_list(&o, "evidence", &f->evidence);
  put_list(&o, "fixes", &f->fixes);
  put_list(&o, "ruled_out", &f->ruled_out);
  field_u64(&o, "count", how->count);
  field_u64(&o, "last", how->last);
  field_str(&o, "shown", how->shown);
  if (how->pid) field_u64(&o, "pid", how->pid);
  return close_record(&o, buffer);
}

/* U+F7xx is EF 9C..9F 80..BF in UTF-8. */
bool fact_string_decode(char *text) {
  unsigned char *from = (unsigned char *)text, *to = from;
  bool whole = true;
  while (*from) {
    uint32_t code;
    if (from[0] != 0xef || utf8_length(from, &code) != 3 || code < 0xf700 || code > 0xf7ff) {
      *to++ = *from++;
      continue;
    }
    from += 3;
    if (code != 0xf700) {
      *to++ = (unsigned char)(code & 0xff);
      continue;
    }
    whole = false;
    for (unsigned i = 0; i < 3; i++) *to++ = '.';
  }
  *to = '\0';
  return whole;
}
