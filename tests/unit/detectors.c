/* Tests of what all detectors share: the mask of SPARKSHIM_DETECTORS, the states, the text builder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "detector.h"
#include "text.h"

enum { ALL = 0x7fe }; /* bits 1 to 10 */

static void mask_without_a_setting_is_all(void **state) {
  (void)state;
  assert_int_equal(det_mask(NULL), ALL);
  assert_int_equal(det_mask(""), ALL);
  assert_int_equal(det_mask(",,"), ALL);
}

static void mask_minus_takes_away(void **state) {
  (void)state;
  assert_int_equal(det_mask("-G4"), ALL & ~(1 << 4));
  assert_int_equal(det_mask("-G4,-G10"), ALL & ~(1 << 4) & ~(1 << 10));
  assert_int_equal(det_mask(" -g4 , -G5 "), ALL & ~(1 << 4) & ~(1 << 5));
}

static void mask_names_select(void **state) {
  (void)state;
  assert_int_equal(det_mask("G3"), 1 << 3);
  assert_int_equal(det_mask("G3,G7"), 1 << 3 | 1 << 7);
  assert_int_equal(det_mask("G3,G7,-G3"), 1 << 7);
}

static void mask_ignores_what_it_does_not_know(void **state) {
  (void)state;
  static const char *const odd[] = {"G0", "G11", "G99", "G",    "-",   "-G",  "G3x",
                                    "3",  "all", "G-3", "--G3", "G 3", "G003"};
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) assert_int_equal(det_mask(odd[i]), ALL);
  assert_int_equal(det_mask("nonsense,G3"), 1 << 3);
}

static void every_g_is_in_order_and_known(void **state) {
  (void)state;
  unsigned last = 0;
  size_t n = 0;
  for (; det_all[n]; n++) {
    assert_in_range(det_all[n]->g, last, 10);
    assert_non_null(det_all[n]->name);
    assert_non_null(det_all[n]->observe);
    last = det_all[n]->g;
  }
  assert_true(n > 0);
}

static void ignore(struct det_out *out, const struct finding *f) {
  (void)f;
  (void)out;
  fail_msg("a finding where none was due");
}

/* A kind that no detector knows changes nothing, and a detector that is switched off sees nothing. */
static void state_is_left_alone(void **state) {
  (void)state;
  size_t size = det_state_size();
  unsigned char *mem = aligned_alloc(16, (size + 15) / 16 * 16);
  assert_non_null(mem);
  memset(mem, 0, size);
  struct det_out out = {.emit = ignore};
  struct fact fact = {.kind = FACT_KIND_note, .t = 1};
  det_observe(mem, ALL, &fact, &out);
  fact = (struct fact){.kind = FACT_KIND_alloc_failed, .t = 1};
  fact.u.alloc_failed.result = 2;
  det_observe(mem, 0, &fact, &out);
  for (size_t i = 0; i < size; i++) assert_int_equal(mem[i], 0);
  free(mem);
}

static void sizes_read_well(void **state) {
  (void)state;
  static const struct {
    uint64_t bytes;
    const char *text;
  } rows[] = {
      {0, "0 bytes"},
      {256, "256 bytes"},
      {104856, "104856 bytes"},
      {104857, "0.1 MiB"},
      {20 << 20, "20.0 MiB"},
      {107374181, "102.4 MiB"},
      {107374182, "0.1 GiB"},
      {(uint64_t)1 << 30, "1.0 GiB"},
      {((uint64_t)2 << 30) - 1, "2.0 GiB"},
      {(uint64_t)43537000 * 1024, "41.5 GiB"},
      {429496729600, "400.0 GiB"},
      {UINT64_MAX - 1, "17179869184.0 GiB"},
      {UINT64_MAX, "an unknown size"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char buf[64];
    struct text t = text_in(buf, sizeof buf);
    text_size(&t, rows[i].bytes);
    assert_string_equal(buf, rows[i].text);
  }
}

static void text_is_cut_never_overrun(void **state) {
  (void)state;
  for (size_t size = 1; size < 16; size++) {
    char buf[17];
    memset(buf, '#', sizeof buf);
    struct text t = text_in(buf, size);
    text_add(&t, "abc");
    text_add(&t, NULL);
    text_number(&t, 1234567890123);
    assert_int_equal(strlen(buf), size - 1);
    assert_memory_equal(buf, "abc1234567890123", size - 1);
    for (size_t i = size; i < sizeof buf; i++) assert_int_equal(buf[i], '#');
  }
}

static void full_list_swallows(void **state) {
  (void)state;
  struct finding_list list = {0};
  for (int i = 0; i < FINDING_ITEMS + 3; i++) {
    struct text t = text_item(&list);
    text_number(&t, (uint64_t)i);
  }
  assert_int_equal(list.n, FINDING_ITEMS);
  assert_string_equal(list.item[FINDING_ITEMS - 1], "5");
}

static void equal_and_copy(void **state) {
  (void)state;
  assert_true(text_has_word("NVIDIA GB10", "GB10"));
  assert_true(text_has_word("GB10-1", "GB10"));
  assert_false(text_has_word("NVIDIA GB1", "GB10"));
  assert_false(text_has_word("NVIDIA GB100", "GB10"));
  assert_false(text_has_word("xGB10", "GB10"));
  assert_false(text_has_word("", "a"));
  char buf[4];
  assert_true(text_equal("a", "a"));
  assert_false(text_equal("a", "ab"));
  assert_false(text_equal("ab", "a"));
  assert_false(text_equal(NULL, "a"));
  assert_false(text_equal("a", NULL));
  assert_true(text_equal(NULL, NULL));
  text_copy(buf, sizeof buf, "abcdef");
  assert_string_equal(buf, "abc");
  text_copy(buf, sizeof buf, NULL);
  assert_string_equal(buf, "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(mask_without_a_setting_is_all),
      cmocka_unit_test(mask_minus_takes_away),
      cmocka_unit_test(mask_names_select),
      cmocka_unit_test(mask_ignores_what_it_does_not_know),
      cmocka_unit_test(every_g_is_in_order_and_known),
      cmocka_unit_test(state_is_left_alone),
      cmocka_unit_test(sizes_read_well),
      cmocka_unit_test(text_is_cut_never_overrun),
      cmocka_unit_test(full_list_swallows),
      cmocka_unit_test(equal_and_copy),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
