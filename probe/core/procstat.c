/* procstat.c - reads /proc/<pid>/stat and other small files of /proc.
 *
 * Runs in the preloaded library while it wakes up, and in the program. Raw system calls only.
 */
#include "procstat.h"

#include <elf.h>
#include <fcntl.h>

#include "fact.h"
#include "sys.h"

enum { NOT_STAT = -22 };

/* The number at *at, which then stands behind it; false when there is none. */
static bool next_number(const char *text, size_t *at, uint64_t *ret) {
  uint64_t v = 0;
  while (text[*at] == ' ') ++*at;
  if (text[*at] == '-') ++*at; /* tty_nr and priorities may be negative; none of ours is */
  if (text[*at] < '0' || text[*at] > '9') return false;
  while (text[*at] >= '0' && text[*at] <= '9') v = v * 10 + (uint64_t)(text[(*at)++] - '0');
  *ret = v;
  return true;
}

int procstat_parse(const char *text, struct procstat *out) {
  enum { PPID = 4, SESSION = 6, START = 22 };
  struct procstat st = {0, 0, 0};
  size_t at = 0, name_end = 0;
  uint64_t v = 0;
  /* The name may hold spaces and parentheses: it ends at the last one. */
  for (size_t i = 0; text[i]; i++)
    if (text[i] == ')') name_end = i;
  if (!name_end || text[name_end + 1] != ' ' || !text[name_end + 2]) return NOT_STAT;
  at = name_end + 3;
  for (int field = PPID; field <= START; field++) {
    if (!next_number(text, &at, &v)) return NOT_STAT;
    if (field == PPID) st.ppid = (int)v;
    if (field == SESSION) st.session = (int)v;
    if (field == START) st.start = v;
  }
  *out = st;
  return 0;
}

size_t proc_put_number(char *out, size_t size, size_t at, uint64_t n) {
  char digits[20];
  size_t first = sizeof(digits);
  do {
    digits[--first] = (char)('0' + n % 10);
    n /= 10;
  } while (n);
  while (first < sizeof(digits) && at + 1 < size) out[at++] = digits[first++];
  if (at < size) out[at] = '\0';
  return at;
}

const char *proc_path(int pid, const char *name, char *out, size_t size) {
  size_t at = str_copy(out, size, "/proc/");
  if (pid)
    at = proc_put_number(out, size, at, (uint64_t)pid);
  else
    at += str_copy(out + at, size - at, "self");
  at += str_copy(out + at, size - at, "/");
  str_copy(out + at, size - at, name);
  return out;
}

static long read_whole(const char *path, char *out, size_t size) {
  size_t used = 0;
  long n;
  int fd = sys_open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY, 0);
  if (fd < 0) return fd;
  while ((n = sys_read(fd, out + used, size - 1 - used)) > 0) used += (size_t)n;
  sys_close(fd);
  if (n < 0) return n;
  if (used && out[used - 1] == '\n') used--;
  out[used] = '\0';
  return (long)used;
}

long proc_text_read(const char *root, const char *path, char *out, size_t size) {
  char below[4096];
  if (root && *root) {
    size_t at = str_copy(below, sizeof(below), root);
    str_copy(below + at, sizeof(below) - at, path);
    long n = read_whole(below, out, size);
    if (n >= 0) return n;
  }
  return read_whole(path, out, size);
}

/* The paths in a text that comes in pieces. Whatever stands before a line's path has no slash. */
struct paths {
  bool (*see)(const char *path, void *arg);
  void *arg;
  size_t used; /* of path[]; 0: none begun on this line */
  char path[2048];
};

static bool take_paths(struct paths *p, const char *text, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (text[i] != '\n') {
      if ((p->used || text[i] == '/') && p->used < sizeof(p->path)) p->path[p->used++] = text[i];
      continue;
    }
    size_t used = p->used;
    p->used = 0;
    if (!used || used == sizeof(p->path)) continue;
    p->path[used] = '\0';
    if (p->see(p->path, p->arg)) return true;
  }
  return false;
}

bool proc_mapped(int pid, bool (*see)(const char *path, void *arg), void *arg) {
  enum { READS = 1 << 14 }; /* 16 MiB, more than the 65530 mappings that Linux allows take */
  char text[1024];
  struct paths paths = {.see = see, .arg = arg, .used = 0};
  bool seen = false;
  long n;
  int fd = sys_open(proc_path(pid, "maps", text, sizeof(text)), O_RDONLY | O_CLOEXEC | O_NOCTTY, 0);
  if (fd < 0) return false;
  for (int i = 0; i < READS && !seen && (n = sys_read(fd, text, sizeof(text))) > 0; i++)
    seen = take_paths(&paths, text, (size_t)n);
  sys_close(fd);
  return seen;
}

int procstat_read(int pid, struct procstat *out) {
  char path[64], text[1024];
  long n = read_whole(proc_path(pid, "stat", path, sizeof(path)), text, sizeof(text));
  return n < 0 ? (int)n : procstat_parse(text, out);
}

static uint64_t read_page_size(void) {
  enum { PAIRS = 64 };
  uint64_t vector[2 * PAIRS];
  int fd = sys_open("/proc/self/auxv", O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return FACT_NO_U64;
  long n = sys_read(fd, vector, sizeof(vector));
  sys_close(fd);
  for (long i = 0; i + 1 < n / (long)sizeof(vector[0]); i += 2)
    if (vector[i] == AT_PAGESZ) return vector[i + 1];
  return FACT_NO_U64;
}

uint64_t proc_page_size(void) {
  static uint64_t known; /* 0: not read yet */
  uint64_t size = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (size) return size;
  size = read_page_size();
  if (size != FACT_NO_U64) __atomic_store_n(&known, size, __ATOMIC_RELAXED);
  return size;
}
