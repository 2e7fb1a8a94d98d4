/* reduce.c - see the header. Element by element, in the order of the ranks: every rank gets the same bits. */
#include "reduce.h"

#include <math.h>
#include <string.h>

enum kind { KIND_NONE, KIND_SIGNED, KIND_UNSIGNED, KIND_REAL };

static const struct {
  size_t size;
  enum kind kind;
} types[ncclNumTypes] = {
    [ncclInt8] = {1, KIND_SIGNED},     [ncclUint8] = {1, KIND_UNSIGNED},  [ncclInt32] = {4, KIND_SIGNED},
    [ncclUint32] = {4, KIND_UNSIGNED}, [ncclInt64] = {8, KIND_SIGNED},    [ncclUint64] = {8, KIND_UNSIGNED},
    [ncclFloat16] = {2, KIND_REAL},    [ncclFloat32] = {4, KIND_REAL},    [ncclFloat64] = {8, KIND_REAL},
    [ncclBfloat16] = {2, KIND_REAL},   [ncclFloat8e4m3] = {1, KIND_NONE}, [ncclFloat8e5m2] = {1, KIND_NONE},
};

union value {
  int64_t i;
  uint64_t u;
  double d;
};

size_t type_size(ncclDataType_t type) { return (unsigned)type < ncclNumTypes ? types[type].size : 0; }

int type_reduces(ncclDataType_t type) { return (unsigned)type < ncclNumTypes && types[type].kind != KIND_NONE; }

static float float_of_bits(uint32_t bits) {
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

static uint32_t bits_of_float(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return bits;
}

static double half_to_double(uint16_t h) {
  int exponent = (h >> 10) & 31, fraction = h & 1023;
  double magnitude;
  if (exponent == 31)
    magnitude = fraction ? (double)NAN : (double)INFINITY;
  else if (exponent == 0)
    magnitude = ldexp(fraction, -24);
  else
    magnitude = ldexp(fraction + 1024, exponent - 25);
  return h & 0x8000 ? -magnitude : magnitude;
}

static uint16_t double_to_half(double d) {
  uint16_t sign = signbit(d) ? 0x8000 : 0;
  double magnitude = fabs(d);
  if (isnan(d)) return (uint16_t)(sign | 0x7E00);
  if (magnitude >= 65520.0) return (uint16_t)(sign | 0x7C00);
  int exponent;
  frexp(magnitude, &exponent);
  if (magnitude == 0.0 || exponent < -13) exponent = -13;
  /* A multiple of the half's last place, ties to even; a carry runs into the exponent by itself. */
  long steps = lrint(ldexp(magnitude, 11 - exponent));
  return (uint16_t)(sign | (uint16_t)((exponent + 13) * 1024 + steps));
}

static uint16_t float_to_bfloat(float f) {
  uint32_t bits = bits_of_float(f);
  if (isnan(f)) return (uint16_t)((bits >> 16) | 0x40);
  return (uint16_t)((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

static union value load(ncclDataType_t type, const void *at) {
  union value v = {0};
  int32_t i32;
  uint32_t u32;
  uint16_t u16;
  float f;
  switch (type) {
  case ncclInt8:
    v.i = (int64_t)(*(const uint8_t *)at ^ 0x80) - 0x80; /* sign-extended */
    break;
  case ncclUint8: v.u = *(const uint8_t *)at; break;
  case ncclInt32:
    memcpy(&i32, at, 4);
    v.i = i32;
    break;
  case ncclUint32:
    memcpy(&u32, at, 4);
    v.u = u32;
    break;
  case ncclFloat16:
    memcpy(&u16, at, 2);
    v.d = half_to_double(u16);
    break;
  case ncclBfloat16:
    memcpy(&u16, at, 2);
    v.d = (double)float_of_bits((uint32_t)u16 << 16);
    break;
  case ncclFloat32:
    memcpy(&f, at, 4);
    v.d = (double)f;
    break;
  default: /* 64-bit types: the bits as they are */ memcpy(&v, at, 8);
  }
  return v;
}

static void store(ncclDataType_t type, void *at, union value v) {
  uint16_t u16;
  float f;
  switch (type) {
  case ncclFloat16:
    u16 = double_to_half(v.d);
    memcpy(at, &u16, 2);
    break;
  case ncclBfloat16:
    u16 = float_to_bfloat((float)v.d);
    memcpy(at, &u16, 2);
    break;
  case ncclFloat32:
    f = (float)v.d;
    memcpy(at, &f, 4);
    break;
  default: /* integers wrap; little endian, so the low bytes come first */ memcpy(at, &v, types[type].size);
  }
}

static union value combine_signed(ncclRedOp_t op, union value a, union value b) {
  if (op == ncclMax || op == ncclMin) return (op == ncclMax) == (a.i < b.i) ? b : a;
  return (union value){.u = op == ncclProd ? a.u * b.u : a.u + b.u};
}

static union value combine_unsigned(ncclRedOp_t op, union value a, union value b) {
  if (op == ncclMax || op == ncclMin) return (op == ncclMax) == (a.u < b.u) ? b : a;
  return (union value){.u = op == ncclProd ? a.u * b.u : a.u + b.u};
}

static union value combine_real(ncclRedOp_t op, union value a, union value b) {
  if (op == ncclMax || op == ncclMin) return (op == ncclMax) == (a.d < b.d) ? b : a;
  return (union value){.d = op == ncclProd ? a.d * b.d : a.d + b.d};
}

static union value scaled(enum kind kind, union value v, double scale) {
  if (kind == KIND_REAL)
    v.d *= scale;
  else
    v.u *= (uint64_t)(int64_t)scale;
  return v;
}

static union value divided(enum kind kind, union value v, int by) {
  if (kind == KIND_REAL)
    v.d /= by;
  else if (kind == KIND_SIGNED)
    v.i /= by;
  else
    v.u /= (uint64_t)by;
  return v;
}

double type_to_double(ncclDataType_t type, const void *value) {
  union value v = load(type, value);
  switch (types[type].kind) {
  case KIND_REAL: return v.d;
  case KIND_SIGNED: return (double)v.i;
  default: return (double)v.u;
  }
}

void reduce(const struct reduction *how, ncclDataType_t type, void *out, const void *const *in, int n, size_t count) {
  enum kind kind = types[type].kind;
  size_t size = types[type].size;
  for (size_t i = 0; i < count; i++) {
    union value sum = {0};
    for (int k = 0; k < n; k++) {
      union value v = load(type, (const char *)in[k] + i * size);
      if (how->scale != 1.0) v = scaled(kind, v, how->scale);
      if (k == 0)
        sum = v;
      else if (kind == KIND_REAL)
        sum = combine_real(how->op, sum, v);
      else if (kind == KIND_SIGNED)
        sum = combine_signed(how->op, sum, v);
      else
        sum = combine_unsigned(how->op, sum, v);
    }
    if (how->op == ncclAvg) sum = divided(kind, sum, how->nranks);
    store(type, (char *)out + i * size, sum);
  }
}
