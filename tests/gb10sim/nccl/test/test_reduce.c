/* test_reduce.c - the NCCL stand-in's data types: conversions in both directions, operators, averages. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "reduce.h"

static const struct reduction sum = {ncclSum, 1.0, 2};

/* Adding zero must give back every half and every bfloat16 bit for bit, but for the payload of NaNs. */
static void every_16_bit_value_survives(void **state) {
  (void)state;
  const ncclDataType_t types[] = {ncclFloat16, ncclBfloat16};
  const uint16_t exponent[] = {0x7C00, 0x7F80};
  for (int t = 0; t < 2; t++)
    for (uint32_t bits = 0; bits < 65536; bits++) {
      uint16_t in = (uint16_t)bits, out = 0;
      const void *one[] = {&in};
      reduce(&sum, types[t], &out, one, 1, 1);
      if ((in & exponent[t]) == exponent[t] && (in & ~exponent[t] & 0x7FFF))
        assert_true((out & exponent[t]) == exponent[t] && (out & ~exponent[t] & 0x7FFF));
      else
        assert_int_equal(in, out);
    }
}

static uint16_t add16(ncclDataType_t type, uint16_t a, uint16_t b) {
  uint16_t out = 0;
  const void *in[] = {&a, &b};
  reduce(&sum, type, &out, in, 2, 1);
  return out;
}

static void halves_round_to_even(void **state) {
  (void)state;
  assert_int_equal(add16(ncclFloat16, 0x3C00, 0x3C00), 0x4000); /* 1 + 1 = 2 */
  assert_int_equal(add16(ncclFloat16, 0x6800, 0x3C00), 0x6800); /* 2048 + 1: tie, to even */
  assert_int_equal(add16(ncclFloat16, 0x6801, 0x3C00), 0x6802); /* 2050 + 1: tie, to even */
  assert_int_equal(add16(ncclFloat16, 0x7BFF, 0x7BFF), 0x7C00); /* overflow: infinity */
  assert_int_equal(add16(ncclFloat16, 0x0001, 0x0001), 0x0002); /* smallest ones */
  assert_int_equal(add16(ncclFloat16, 0x03FF, 0x0001), 0x0400); /* into the normal ones */
  assert_int_equal(add16(ncclBfloat16, 0x3F80, 0x3F80), 0x4000);
  assert_int_equal(add16(ncclBfloat16, 0x4380, 0x3F80), 0x4380); /* 256 + 1: tie, to even */
  assert_int_equal(add16(ncclBfloat16, 0x4381, 0x3F80), 0x4382);
}

static void operators_on_integers(void **state) {
  (void)state;
  int8_t a[] = {-5, 100}, b[] = {3, 100}, out[2];
  const void *in[] = {a, b};
  reduce(&(struct reduction){ncclMin, 1.0, 2}, ncclInt8, out, in, 2, 2);
  assert_int_equal(out[0], -5);
  reduce(&(struct reduction){ncclMax, 1.0, 2}, ncclInt8, out, in, 2, 2);
  assert_int_equal(out[0], 3);
  reduce(&(struct reduction){ncclProd, 1.0, 2}, ncclInt8, out, in, 2, 2);
  assert_int_equal(out[0], -15);
  reduce(&(struct reduction){ncclAvg, 1.0, 2}, ncclInt8, out, in, 2, 2);
  assert_int_equal(out[0], -1);
  assert_int_equal(out[1], 100);
  uint64_t x = UINT64_MAX, y = 2, z = 0;
  const void *large[] = {&x, &y};
  reduce(&sum, ncclUint64, &z, large, 2, 1);
  assert_true(z == 1);
  reduce(&(struct reduction){ncclMax, 1.0, 2}, ncclUint64, &z, large, 2, 1);
  assert_true(z == UINT64_MAX);
  int64_t p = INT64_MAX - 1, q = 1, r = 0;
  const void *exact[] = {&p, &q};
  reduce(&sum, ncclInt64, &r, exact, 2, 1);
  assert_true(r == INT64_MAX);
}

static void operators_on_reals(void **state) {
  (void)state;
  float a = 1.5F, b = -4.0F, out = 0;
  const void *in[] = {&a, &b};
  reduce(&(struct reduction){ncclAvg, 1.0, 2}, ncclFloat32, &out, in, 2, 1);
  assert_true(out == -1.25F);
  reduce(&(struct reduction){ncclSum, 0.5, 2}, ncclFloat32, &out, in, 2, 1);
  assert_true(out == -1.25F);
  reduce(&(struct reduction){ncclMin, 1.0, 2}, ncclFloat32, &a, in, 2, 1); /* in place */
  assert_true(a == -4.0F);
}

static void sizes(void **state) {
  (void)state;
  const size_t expected[ncclNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  for (int t = 0; t < ncclNumTypes; t++) assert_int_equal(type_size((ncclDataType_t)t), expected[t]);
  assert_int_equal(type_size(ncclNumTypes), 0);
  assert_false(type_reduces(ncclFloat8e4m3));
  assert_true(type_reduces(ncclBfloat16));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_16_bit_value_survives),
      cmocka_unit_test(halves_round_to_even),
      cmocka_unit_test(operators_on_integers),
      cmocka_unit_test(operators_on_reals),
      cmocka_unit_test(sizes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
