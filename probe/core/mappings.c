/* mappings.c - see mappings.h. Runs in the preloaded library. */
#include "mappings.h"

#include <fcntl.h>

#include "fact.h"
#include "sys.h"

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A number at line[*at], which then stands behind it; false when there is none or it is too great. */
static bool number(const char *line, size_t *at, unsigned base, uint64_t *ret) {
  uint64_t v = 0;
  size_t from = *at;
  for (;; ++*at) {
    int digit = hex_digit(line[*at]);
    if (digit < 0 || digit >= (int)base) break;
    if (__builtin_mul_overflow(v, base, &v) || __builtin_add_overflow(v, (unsigned)digit, &v)) return false;
  }
  *ret = v;
  return *at > from;
}

static bool skip(const char *line, size_t *at, char c) {
  if (line[*at] != c) return false;
  ++*at;
  return true;
}

static bool letter(const char *line, size_t *at, char set, bool *ret) {
  *ret = line[*at] == set;
  return *ret || line[*at] == '-' ? (++*at, true) : false;
}

/* "7f12a000-7f12c000 r--p 00000000 fd:01 12345   /path" */
static bool parse_head(const char *line, struct mapping *m, size_t *ret_path) {
  uint64_t unused;
  size_t at = 0;
  if (!number(line, &at, 16, &m->start) || !skip(line, &at, '-') || !number(line, &at, 16, &m->end)) return false;
  if (!skip(line, &at, ' ') || !letter(line, &at, 'r', &m->readable) || !letter(line, &at, 'w', &m->writable))
    return false;
  if (!letter(line, &at, 'x', &m->executable)) return false;
  m->shared = line[at] == 's';
  if (line[at] != 's' && line[at] != 'p') return false;
  at++;
  if (!skip(line, &at, ' ') || !number(line, &at, 16, &m->offset) || !skip(line, &at, ' ')) return false;
  if (!number(line, &at, 16, &unused) || !skip(line, &at, ':') || !number(line, &at, 16, &unused)) return false;
  if (!skip(line, &at, ' ') || !number(line, &at, 10, &m->ino) || m->start >= m->end) return false;
  while (line[at] == ' ') at++;
  *ret_path = at;
  return true;
}

/* "Rss:   1024 kB": a figure in another unit is not believed. */
static uint64_t kilobytes(const char *text) {
  uint64_t v;
  size_t at = 0;
  while (text[at] == ' ') at++;
  if (!number(text, &at, 10, &v) || !str_equal(text + at, " kB") || __builtin_mul_overflow(v, 1024U, &v))
    return FACT_NO_U64;
  return v;
}

static uint32_t flag_of(char a, char b) {
  static const struct {
    char word[2];
    uint8_t flag;
  } flags[] = {{{'w', 'r'}, MAPPING_WRITE},   {{'e', 'x'}, MAPPING_EXEC},    {{'s', 'h'}, MAPPING_SHARED},
               {{'m', 's'}, MAPPING_SHARED},  {{'l', 'o'}, MAPPING_SPECIAL}, {{'i', 'o'}, MAPPING_SPECIAL},
               {{'p', 'f'}, MAPPING_SPECIAL}, {{'m', 'm'}, MAPPING_SPECIAL}, {{'h', 't'}, MAPPING_SPECIAL},
               {{'s', 'f'}, MAPPING_SPECIAL}, {{'u', 'm'}, MAPPING_SPECIAL}, {{'u', 'w'}, MAPPING_SPECIAL},
               {{'u', 'i'}, MAPPING_SPECIAL}};
  for (unsigned i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
    if (flags[i].word[0] == a && flags[i].word[1] == b) return flags[i].flag;
  return 0;
}

static uint32_t flags_of(const char *text) {
  uint32_t flags = MAPPING_FLAGS_SEEN;
  while (*text == ' ') text++;
  while (*text) {
    if (text[1] == '\0' || text[1] == ' ' || (text[2] && text[2] != ' '))
      return 0; /* a word of another length: a kernel that we do not know */
    flags |= flag_of(text[0], text[1]);
    text += 2;
    while (*text == ' ') text++;
  }
  return flags;
}

static const char *behind(const char *line, const char *key) {
  return str_starts(line, key) ? line + str_length(key) : NULL;
}

static void parse_field(const char *line, struct mapping *m) {
  const char *text;
  if ((text = behind(line, "Rss:"))) m->rss = kilobytes(text);
  if ((text = behind(line, "Anonymous:"))) m->anonymous = kilobytes(text);
  if ((text = behind(line, "Swap:"))) m->swap = kilobytes(text);
  if ((text = behind(line, "Locked:"))) m->locked = kilobytes(text);
  if ((text = behind(line, "VmFlags:"))) m->flags = flags_of(text);
}

bool mappings_finish(struct mappings_text *t) {
  bool begun = t->begun;
  t->begun = false;
  return begun && t->see(&t->m, t->arg);
}

/* Fields begin with a capital letter, heads with a small hexadecimal digit. */
static bool take_line(struct mappings_text *t) {
  struct mapping m = {.rss = FACT_NO_U64, .anonymous = FACT_NO_U64, .swap = FACT_NO_U64, .locked = FACT_NO_U64};
  size_t path;
  if (t->line[0] >= 'A' && t->line[0] <= 'Z') {
    if (t->begun && !t->cut) parse_field(t->line, &t->m);
    return false;
  }
  if (mappings_finish(t)) return true;
  if (!parse_head(t->line, &m, &path)) return false;
  str_copy(t->path, sizeof(t->path), t->cut ? "" : t->line + path);
  m.path = t->path;
  t->m = m;
  t->begun = true;
  return false;
}

bool mappings_feed(struct mappings_text *t, const char *text, size_t size) {
  for (size_t i = 0; i < size; i++) {
    if (text[i] != '\n') {
      if (t->used + 1 < sizeof(t->line))
        t->line[t->used++] = text[i];
      else
        t->cut = true;
      continue;
    }
    t->line[t->used] = '\0';
    bool enough = take_line(t);
    t->used = 0;
    t->cut = false;
    if (enough) return true;
  }
  return false;
}

int mappings_read(const char *name, mapping_see see, void *arg) {
  enum { READS = 1 << 16 }; /* 64 MiB: the 65530 mappings that Linux allows take 46 MiB of smaps */
  char chunk[1024], path[64];
  struct mappings_text t = {.see = see, .arg = arg};
  long n = 0;
  size_t at = str_copy(path, sizeof(path), "/proc/thread-self/");
  str_copy(path + at, sizeof(path) - at, name);
  int fd = sys_open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY, 0);
  if (fd < 0) return fd;
  bool enough = false;
  for (int i = 0; i < READS && !enough && (n = sys_read(fd, chunk, sizeof(chunk))) > 0; i++)
    enough = mappings_feed(&t, chunk, (size_t)n);
  sys_close(fd);
  if (!enough) mappings_finish(&t);
  return n < 0 ? (int)n : 0;
}

bool mapping_may_page_out(const struct mapping *m) {
  bool writable = m->writable || (m->flags & MAPPING_WRITE);
  bool shared = m->shared && (m->flags & MAPPING_SHARED);
  bool private = !m->shared && !(m->flags & MAPPING_SHARED);
  if (!(m->flags & MAPPING_FLAGS_SEEN) || (m->flags & (MAPPING_EXEC | MAPPING_SPECIAL)) || m->executable) return false;
  if (!m->ino || m->path[0] != '/') return false;
  if (m->anonymous || m->swap || m->locked) return false; /* not known is not 0 */
  return (shared && !writable) || private;
}
