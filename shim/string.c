/* string.c - the four functions that a compiler may call on its own, for everything in this library.
 *
 * Hidden, so that libc's, or those of a sanitizer that is not up yet, are never reached. No loop here may be turned
 * into a call of the function that it stands in: gcc is told so by the pragma, clang by -fno-builtin.
 */
#include <stddef.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-loop-distribute-patterns")
#endif

#define HIDDEN __attribute__((visibility("hidden")))

HIDDEN void *memcpy(void *restrict dst, const void *restrict src, size_t n);
HIDDEN void *memmove(void *dst, const void *src, size_t n);
HIDDEN void *memset(void *dst, int byte, size_t n);
HIDDEN int memcmp(const void *a, const void *b, size_t n);

void *memcpy(void *restrict dst, const void *restrict src, size_t n) {
  char *to = dst;
  const char *from = src;
  while (n--) *to++ = *from++;
  return dst;
}

void *memmove(void *dst, const void *src, size_t n) {
  char *to = dst;
  const char *from = src;
  if (to <= from || to >= from + n) return memcpy(dst, src, n);
  while (n--) to[n] = from[n];
  return dst;
}

void *memset(void *dst, int byte, size_t n) {
  char *to = dst;
  while (n--) *to++ = (char)byte;
  return dst;
}

int memcmp(const void *a, const void *b, size_t n) {
  const unsigned char *x = a, *y = b;
  for (; n--; x++, y++)
    if (*x != *y) return *x < *y ? -1 : 1;
  return 0;
}
