/* Facts and findings as records: every field of every kind, bytes that are not UTF-8, cuts, limits. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fact_json.h"

static char buffer[FACT_JSON_MAX];

static const char *note_record(const char *text) {
  struct fact f = {.kind = FACT_KIND_note, .t = 5};
  f.u.note.text = text;
  assert_true(fact_json(&f, buffer, sizeof buffer) > 0);
  return buffer;
}

static void assert_note(const char *text, const char *json) {
  char wanted[FACT_JSON_MAX];
  snprintf(wanted, sizeof wanted, "{\"v\":1,\"t\":5,\"k\":\"note\",\"text\":\"%s\"}\n", json);
  assert_string_equal(note_record(text), wanted);
}

static void unknown_fields_are_left_out(void **state) {
  (void)state;
  struct fact f = {.kind = FACT_KIND_device, .t = 1, .tid = 7};
  f.u.device = (struct fact_device){NULL, FACT_NO_I64, FACT_NO_I64, FACT_NO_I64};
  fact_json(&f, buffer, sizeof buffer);
  assert_string_equal(buffer, "{\"v\":1,\"t\":1,\"tid\":7,\"k\":\"device\"}\n");
}

static void numbers_at_their_limits(void **state) {
  (void)state;
  struct fact f = {.kind = FACT_KIND_coll_stats, .t = UINT64_MAX};
  f.u.coll_stats = (struct fact_coll_stats){.comm = 0xdeadbeef00112233, .count = 0, .bytes = UINT64_MAX - 1};
  fact_json(&f, buffer, sizeof buffer);
  assert_string_equal(buffer, "{\"v\":1,\"t\":9223372036854775807,\"k\":\"coll_stats\",\"comm\":\"0xdeadbeef00112233\","
                              "\"count\":0,\"bytes\":9223372036854775807}\n");
  f = (struct fact){.kind = FACT_KIND_device, .t = 1};
  f.u.device = (struct fact_device){"x", INT64_MIN + 1, -1, INT64_MAX};
  fact_json(&f, buffer, sizeof buffer);
  assert_string_equal(buffer, "{\"v\":1,\"t\":1,\"k\":\"device\",\"call\":\"x\",\"result\":-9223372036854775807,"
                              "\"version\":-1,\"count\":9223372036854775807}\n");
}

static void strings_are_escaped(void **state) {
  (void)state;
  assert_note("plain", "plain");
  assert_note("", "");
  assert_note("a\"b\\c/d", "a\\\"b\\\\c/d");
  assert_note("\b\t\n\f\r\x01\x1f\x7f", "\\b\\t\\n\\f\\r\\u0001\\u001f\x7f");
  assert_note("Gr\xc3\xbc\xc3\x9f \xf0\x9f\x9a\x80 \xef\xbf\xbd", "Gr\xc3\xbc\xc3\x9f \xf0\x9f\x9a\x80 \xef\xbf\xbd");
}

static void bytes_that_are_no_utf8_are_kept(void **state) {
  (void)state;
  assert_note("\xe4", "\\uf7e4");
  assert_note("a\x80z\xff", "a\\uf780z\\uf7ff");
  assert_note("\xc3", "\\uf7c3");                                  /* cut character at the end */
  assert_note("\xc0\xaf", "\\uf7c0\\uf7af");                       /* overlong */
  assert_note("\xe0\x80\xaf", "\\uf7e0\\uf780\\uf7af");            /* overlong */
  assert_note("\xed\xa0\x80", "\\uf7ed\\uf7a0\\uf780");            /* surrogate */
  assert_note("\xf4\x90\x80\x80", "\\uf7f4\\uf790\\uf780\\uf780"); /* beyond U+10FFFF */
  assert_note("\xee\x9f\xbf \xef\xa0\x80",
              "\xee\x9f\xbf \xef\xa0\x80");             /* U+E7FF and U+F800, neighbours of the range */
  assert_note("\xef\x9c\x80", "\\uf7ef\\uf79c\\uf780"); /* a real U+F700 */
  assert_note("\xef\x9f\xbf", "\\uf7ef\\uf79f\\uf7bf"); /* a real U+F7FF */
}

/* What a JSON reader makes of our string: escapes resolved to UTF-8. */
static void read_back(const char *json, char *out) {
  const char *s = strstr(json, "\"text\":\"") + 8;
  while (*s != '"') {
    unsigned code;
    if (*s != '\\') {
      *out++ = *s++;
    } else if (s[1] == 'u') {
      assert_int_equal(sscanf(s + 2, "%4x", &code), 1);
      if (code >= 0x800) {
        *out++ = (char)(0xe0 | code >> 12);
        *out++ = (char)(0x80 | (code >> 6 & 0x3f));
        *out++ = (char)(0x80 | (code & 0x3f));
      } else {
        assert_true(code < 0x20);
        *out++ = (char)code;
      }
      s += 6;
    } else {
      static const char from[] = "btnfr\"\\", to[] = "\b\t\n\f\r\"\\";
      *out++ = to[strchr(from, s[1]) - from];
      s += 2;
    }
  }
  *out = '\0';
}

static void any_bytes_come_back(void **state) {
  (void)state;
  char text[200], back[4 * sizeof text * 6];
  srand(1);
  for (int round = 0; round < 20000; round++) {
    size_t n = (size_t)rand() % (sizeof text - 1);
    for (size_t i = 0; i < n; i++) {
      /* Mostly bytes that begin or continue characters, the private range among them. */
      static const unsigned char likely[] = {0xef, 0x9c, 0x9f, 0x80, 0xbf, 0xc3, 0xf0, 0xed, 'a', '"', '\\', 1};
      text[i] = (char)(rand() % 3 ? likely[(size_t)rand() % sizeof likely] : 1 + rand() % 255);
    }
    text[n] = '\0';
    read_back(note_record(text), back);
    assert_true(fact_string_decode(back));
    assert_string_equal(back, text);
  }
}

static void long_strings_are_cut_between_characters(void **state) {
  (void)state;
  char text[6001], back[8192], mark[64];
  for (unsigned shift = 0; shift < 3; shift++) {
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (unsigned i = shift; i + 3 < sizeof text; i += 3) memcpy(text + i, "\xe2\x82\xac", 3);
    const char *json = note_record(text);
    const char *value = strstr(json, "\"text\":\"") + 8;
    assert_true(strlen(value) <= FACT_JSON_STRING + strlen("\"}\n"));
    read_back(json, back);
    assert_false(fact_string_decode(back));
    char *dots = strstr(back, "...");
    assert_non_null(dots);
    assert_memory_equal(back, text, (size_t)(dots - back));
    snprintf(mark, sizeof mark, "...%zu", strlen(text) - (size_t)(dots - back));
    assert_string_equal(dots, mark);
    assert_true((dots - back) % 3 == shift); /* a whole number of euro signs */
  }
}

static void a_string_that_just_fits_is_whole(void **state) {
  (void)state;
  char text[FACT_JSON_STRING + 2], back[FACT_JSON_STRING + 64];
  memset(text, 'y', sizeof text);
  text[FACT_JSON_STRING] = '\0';
  read_back(note_record(text), back);
  assert_string_equal(back, text);
  text[FACT_JSON_STRING] = 'y';
  text[FACT_JSON_STRING + 1] = '\0';
  read_back(note_record(text), back);
  assert_false(fact_string_decode(back));
}

static void a_buffer_too_small_gives_nothing(void **state) {
  (void)state;
  struct fact f = {.kind = FACT_KIND_note, .t = 5};
  f.u.note.text = "hello";
  size_t whole = fact_json(&f, buffer, sizeof buffer);
  for (size_t size = 0; size <= whole; size++) {
    memset(buffer, 'z', sizeof buffer);
    assert_int_equal(fact_json(&f, buffer, size), 0);
    if (size) assert_int_equal(buffer[0], '\0');
    assert_int_equal(buffer[size], 'z');
  }
  assert_int_equal(fact_json(&f, buffer, whole + 1), whole);
  f.kind = FACT_KIND_COUNT;
  assert_int_equal(fact_json(&f, buffer, sizeof buffer), 0);
}

/* Every kind with every field at its widest stays within FACT_JSON_MAX: 8 KiB of bytes that take six each. */
static void the_widest_records_fit(void **state) {
  (void)state;
  static char wide[8192];
  memset(wide, 0xff, sizeof wide - 1);
  struct fact_memory mem;
  memset(&mem, 0x7f, sizeof mem);
#define FACT(name, doc)                                                                 \
  {                                                                                     \
    struct fact f = {.kind = FACT_KIND_##name, .t = UINT64_MAX - 1, .tid = UINT32_MAX}; \
    struct fact_##name *u = &f.u.name;
#define FIELD(kind, type, name, unit, doc) u->name = WIDE_##type;
#define FACT_MEMORY(kind) u->mem = mem;
#define FACT_END(kind)                                    \
  assert_true(fact_json(&f, buffer, sizeof buffer) > 0);  \
  assert_non_null(strstr(buffer, "\"k\":\"" #kind "\"")); \
  }
#define WIDE_u64 UINT64_MAX - 1
#define WIDE_i64 INT64_MIN + 1
#define WIDE_hex UINT64_MAX - 1
#define WIDE_str wide
#define WIDE_flag true
#include "facts.def"
  struct finding g = {
      .g = UINT32_MAX, .verdict = VERDICT_FAIL, .cause = "alloc_refused_reclaimable", .retry = RETRY_MAY_HELP};
  memset(g.text, 0xff, sizeof g.text); /* no NUL at the end */
  memset(g.object, 0xff, sizeof g.object);
  g.evidence.n = g.fixes.n = g.ruled_out.n = 99;
  memset(g.evidence.item, 0xff, sizeof g.evidence.item);
  memset(g.fixes.item, 0xff, sizeof g.fixes.item);
  memset(g.ruled_out.item, 0xff, sizeof g.ruled_out.item);
  struct finding_telling how = {UINT32_MAX, UINT64_MAX - 1, UINT64_MAX - 1, wide, UINT64_MAX - 1};
  assert_true(finding_json(&g, &how, buffer, sizeof buffer) > 0);
}

static void a_finding_is_one_record(void **state) {
  (void)state;
  struct finding f = {.g = 3,
                      .verdict = VERDICT_WARN,
                      .cause = "oversize_request",
                      .confidence = CONFIDENCE_HIGH,
                      .retry = RETRY_USELESS,
                      .t = 9,
                      .object = "device",
                      .text = "too \"much\""};
  f.evidence = (struct finding_list){2, {"a", "b"}};
  struct finding_telling how = {.tid = 4, .count = 2, .last = 11};
  finding_json(&f, &how, buffer, sizeof buffer);
  assert_string_equal(
      buffer,
      "{\"v\":1,\"t\":9,\"tid\":4,\"k\":\"finding\",\"g\":3,\"verdict\":\"WARN\",\"cause\":\"oversize_request\","
      "\"confidence\":\"high\",\"retry\":\"useless\",\"object\":\"device\",\"text\":\"too \\\"much\\\"\","
      "\"evidence\":[\"a\",\"b\"],\"fixes\":[],\"ruled_out\":[],\"count\":2,\"last\":11}\n");
  how.shown = "5:77";
  finding_json(&f, &how, buffer, sizeof buffer);
  assert_non_null(strstr(buffer, "\"last\":11,\"shown\":\"5:77\"}\n"));
  how.pid = 42;
  assert_true(finding_json(&f, &how, buffer, sizeof buffer) > 0);
  assert_non_null(strstr(buffer, "\"shown\":\"5:77\",\"pid\":42}\n"));
}

static void kinds_have_words(void **state) {
  (void)state;
  assert_string_equal(fact_kind_word(FACT_KIND_header), "header");
  assert_string_equal(fact_kind_word(FACT_KIND_exit), "exit");
  assert_null(fact_kind_word(FACT_NONE));
  assert_null(fact_kind_word(FACT_KIND_COUNT));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(unknown_fields_are_left_out),
      cmocka_unit_test(numbers_at_their_limits),
      cmocka_unit_test(strings_are_escaped),
      cmocka_unit_test(bytes_that_are_no_utf8_are_kept),
      cmocka_unit_test(any_bytes_come_back),
      cmocka_unit_test(long_strings_are_cut_between_characters),
      cmocka_unit_test(a_string_that_just_fits_is_whole),
      cmocka_unit_test(a_buffer_too_small_gives_nothing),
      cmocka_unit_test(the_widest_records_fit),
      cmocka_unit_test(a_finding_is_one_record),
      cmocka_unit_test(kinds_have_words),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
