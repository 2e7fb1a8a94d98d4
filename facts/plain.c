/* plain.c - see plain.h. */
#include "plain.h"

unsigned utf8_length(const unsigned char *s, uint32_t *ret_code) {
  static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
  unsigned n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;
  if (!n) return 0;
  uint32_t code = n == 1 ? s[0] : s[0] & (0x7fU >> n);
  for (unsigned i = 1; i < n; i++) {
    if ((s[i] & 0xc0) != 0x80) return 0;
    code = code << 6 | (s[i] & 0x3fU);
  }
  if (code < least[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return 0;
  *ret_code = code;
  return n;
}

/* Line and paragraph separators, and what changes the direction of writing (Unicode's Bidi_Control). */
static int is_shown(uint32_t code) {
  if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return 0;
  if (code == 0x061c || code == 0x200e || code == 0x200f) return 0;
  return !(code >= 0x2028 && code <= 0x202e) && !(code >= 0x2066 && code <= 0x2069);
}

unsigned plain_length(const char *s, size_t max) {
  unsigned char bytes[4] = {0, 0, 0, 0}; /* a character that is cut by `max` is none */
  uint32_t code = 0;
  for (unsigned i = 0; i < sizeof(bytes) && i < max && s[i]; i++) bytes[i] = (unsigned char)s[i];
  unsigned n = utf8_length(bytes, &code);
  return n && is_shown(code) ? n : 0;
}

size_t plain_text(const char *s, size_t max, char *out, size_t size) {
  size_t used = 0;
  for (size_t at = 0; at < max && s[at];) {
    unsigned n = plain_length(s + at, max - at);
    if (size - used <= (n ? n : 1)) break;
    if (!n) out[used++] = '?', at++;
    for (unsigned i = 0; i < n; i++) out[used++] = s[at++];
  }
  out[used] = '\0';
  return used;
}
