/* meminfo.c - one reading of /proc/meminfo.
 *
 * Runs in the preloaded library beside a failing allocation, so it neither allocates nor calls libc; the file is
 * the kernel's, but under SPARKSHIM_ROOT anybody's: the parser takes any bytes.
 */
#include "meminfo.h"

#include <fcntl.h>

#include "sys.h"

static const struct {
  const char *key;
  size_t offset;
} fields[] = {
#define MEM(name, key, doc) {key, offsetof(struct fact_memory, name)},
#include "memory_fields.def"
#undef MEM
};
enum { FIELDS = sizeof(fields) / sizeof(fields[0]) };

static fact_u64 *field_at(struct fact_memory *m, unsigned i) {
  return (fact_u64 *)(void *)((char *)m + fields[i].offset);
}

static void forget(struct fact_memory *m) {
  for (unsigned i = 0; i < FIELDS; i++) *field_at(m, i) = FACT_NO_U64;
}

/* Counts of pages, not kB. */
static bool is_pages(unsigned i) { return str_starts(fields[i].key, "HugePages_"); }

static bool is_space(char c) { return c == ' ' || c == '\t'; }

/* "Key:" at the start of line[size]; returns the index behind the colon, 0 when it is another key. */
static size_t after_key(const char *line, size_t size, const char *key) {
  size_t i = 0;
  while (key[i] && i < size && line[i] == key[i]) i++;
  return !key[i] && i < size && line[i] == ':' ? i + 1 : 0;
}

/* The number behind line[at]; FACT_NO_U64 when there is none, it overflows, or it is in no unit we know. */
static uint64_t number(const char *line, size_t size, size_t at, bool *ret_kb) {
  uint64_t v = 0;
  while (at < size && is_space(line[at])) at++;
  if (at == size || line[at] < '0' || line[at] > '9') return FACT_NO_U64;
  for (; at < size && line[at] >= '0' && line[at] <= '9'; at++)
    if (__builtin_mul_overflow(v, 10U, &v) || __builtin_add_overflow(v, (unsigned)(line[at] - '0'), &v))
      return FACT_NO_U64;
  while (at < size && is_space(line[at])) at++;
  *ret_kb = size - at >= 2 && line[at] == 'k' && line[at + 1] == 'B';
  if (*ret_kb) at += 2;
  while (at < size && (is_space(line[at]) || line[at] == '\r')) at++;
  return at == size ? v : FACT_NO_U64;
}

static uint64_t times(uint64_t v, uint64_t by) {
  uint64_t product;
  if (v == FACT_NO_U64 || by == FACT_NO_U64 || __builtin_mul_overflow(v, by, &product)) return FACT_NO_U64;
  return product;
}

/* A figure in kB as bytes, a bare one as it stands (HugePages_*): a key in the other form than expected is not
 * believed. */
static uint64_t value_of(const char *line, size_t size, size_t at, bool want_kb) {
  bool kb = false;
  uint64_t v = number(line, size, at, &kb);
  if (v == FACT_NO_U64 || kb != want_kb) return FACT_NO_U64;
  return kb ? times(v, 1024) : v;
}

static void parse_line(const char *line, size_t size, struct fact_memory *out, uint64_t *huge_size) {
  size_t at = after_key(line, size, "Hugepagesize");
  if (at) {
    *huge_size = value_of(line, size, at, true);
    return;
  }
  for (unsigned i = 0; i < FIELDS; i++) {
    at = after_key(line, size, fields[i].key);
    if (!at) continue;
    *field_at(out, i) = value_of(line, size, at, !is_pages(i));
    return;
  }
}

int meminfo_parse(const char *text, size_t size, struct fact_memory *out) {
  struct fact_memory m;
  uint64_t huge_size = FACT_NO_U64;
  int found = 0;
  forget(&m);
  for (size_t at = 0; at < size;) {
    size_t end = at;
    while (end < size && text[end] != '\n') end++;
    parse_line(text + at, end - at, &m, &huge_size);
    at = end + 1;
  }
  for (unsigned i = 0; i < FIELDS; i++) {
    fact_u64 *v = field_at(&m, i);
    if (is_pages(i)) *v = times(*v, huge_size);
    if (*v != FACT_NO_U64) found++;
  }
  *out = m;
  return found;
}

static int open_below(const char *root, const char *path) {
  char full[4096];
  if (root && *root) {
    size_t n = str_copy(full, sizeof(full), root);
    str_copy(full + n, sizeof(full) - n, path);
    int fd = sys_open(full, O_RDONLY | O_CLOEXEC | O_NOCTTY, 0);
    if (fd >= 0) return fd;
  }
  return sys_open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY, 0);
}

int meminfo_read(const char *root, struct fact_memory *out) {
  char text[8192]; /* the kernel's file has about 1,600 bytes */
  size_t size = 0;
  long n;
  forget(out);
  int fd = open_below(root, "/proc/meminfo");
  if (fd < 0) return fd;
  do {
    n = sys_read(fd, text + size, sizeof(text) - size);
    if (n > 0) size += (size_t)n;
  } while (n > 0 && size < sizeof(text));
  sys_close(fd);
  if (n < 0) return (int)n;
  return meminfo_parse(text, size, out) ? 0 : -61; /* ENODATA: not a meminfo file */
}
