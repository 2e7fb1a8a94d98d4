/* The one line of a finding. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "finding.h"

static char line[1024];

static struct finding example(void) {
  struct finding f = {.g = 10, .verdict = VERDICT_FAIL, .text = "rank 1 does not answer"};
  return f;
}

static void text_and_fix(void **state) {
  (void)state;
  struct finding f = example();
  assert_int_equal(finding_line(&f, false, line, sizeof line), strlen("G10 FAIL: rank 1 does not answer"));
  assert_string_equal(line, "G10 FAIL: rank 1 does not answer");
  f.g = 3;
  f.verdict = VERDICT_INFO;
  f.fixes = (struct finding_list){2, {"restart it", "or not"}};
  finding_line(&f, true, line, sizeof line);
  assert_string_equal(line, "G3 INFO: rank 1 does not answer; fix: restart it (simulated)");
}

static void control_bytes_become_question_marks(void **state) {
  (void)state;
  struct finding f = example();
  strcpy(f.text, "a\nb\x1b[31mc\x7f \xc3\xa4");
  finding_line(&f, false, line, sizeof line);
  assert_string_equal(line, "G10 FAIL: a?b?[31mc? \xc3\xa4");
  /* C1 characters, bytes that are none, half a character, overlong forms, separators, what turns the direction. */
  strcpy(f.text, "\xc2\x9b\x9b\xff\xe2\x82\xc0\x9b|\xe2\x80\xa8|\xe2\x80\xae|\xe2\x81\xa6|\xd8\x9c|\xf0\x9f\x9a\x80");
  finding_line(&f, false, line, sizeof line);
  assert_string_equal(line, "G10 FAIL: ????????|???|???|???|??|\xf0\x9f\x9a\x80");
}

/* Whatever the room: NUL-ended, within it, the mark whole when the mark fits, no half of a character. */
static void every_size(void **state) {
  (void)state;
  struct finding f = example();
  memset(f.text, 0, sizeof f.text);
  for (unsigned i = 0; i < 40; i++)
    strcat(f.text, "\xe2\x82\xac"
                   "x");
  for (unsigned simulated = 0; simulated < 2; simulated++)
    for (size_t size = 1; size < 260; size++) {
      memset(line, '#', sizeof line);
      size_t n = finding_line(&f, simulated, line, size);
      assert_true(n < size);
      assert_int_equal(line[n], '\0');
      assert_int_equal(line[size], '#');
      assert_int_equal(strlen(line), n);
      if (simulated && size > 13) assert_string_equal(line + n - 12, " (simulated)");
      size_t end = simulated && size > 13 ? n - 12 : n;
      size_t tail = 0;
      while (tail < 3 && end > tail && (line[end - 1 - tail] & 0xc0) == 0x80) tail++;
      if (end > 12) assert_true(tail == 0 || tail == 2); /* ASCII, or the two bytes that end a euro sign */
    }
  assert_int_equal(finding_line(&f, false, line, 0), 0);
}

static void arrays_without_an_end(void **state) {
  (void)state;
  struct finding f = example();
  memset(f.text, 't', sizeof f.text);
  f.fixes.n = 1;
  memset(f.fixes.item[0], 'f', sizeof f.fixes.item[0]);
  size_t n = finding_line(&f, false, line, sizeof line);
  assert_int_equal(n, strlen("G10 FAIL: ") + FINDING_TEXT + strlen("; fix: ") + FINDING_ITEM);
}

static void words(void **state) {
  (void)state;
  assert_string_equal(verdict_word(VERDICT_PASS), "PASS");
  assert_string_equal(verdict_word(VERDICT_SKIP), "SKIP");
  assert_string_equal(verdict_word(VERDICT_WARN), "WARN");
  assert_string_equal(confidence_word(CONFIDENCE_MEDIUM), "medium");
  assert_string_equal(retry_word(RETRY_MAY_HELP), "may_help");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(text_and_fix), cmocka_unit_test(control_bytes_become_question_marks),
      cmocka_unit_test(every_size),   cmocka_unit_test(arrays_without_an_end),
      cmocka_unit_test(words),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
