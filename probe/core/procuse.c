/* procuse.c - see procuse.h. Runs in the preloaded library's thread and in the program; raw system calls only. */
#include "procuse.h"

#include <fcntl.h>

#include "fact.h"
#include "lines.h"
#include "procstat.h"
#include "sys.h"

/* USER_HZ is 100 on x86_64 and aarch64 whatever the kernel's own beat (proc(5), asm/param.h). */
enum { TICK_US = 10000, NOT_STAT = -22, NOT_FOUND = -2 };

void procuse_clear(struct procuse *u) {
  *u = (struct procuse){.state = '?', .ppid = -1, .session = -1};
  u->start = u->cpu = u->threads = u->uid = FACT_NO_U64;
  u->anon = u->file = u->shmem = u->swap = u->read = FACT_NO_U64;
}

static void take_name(struct procuse *u, const char *text, size_t size) {
  size_t n = 0;
  while (n < size && n + 1 < sizeof(u->name) && (unsigned char)text[n] >= ' ') u->name[n] = text[n], n++;
  u->name[n] = '\0';
}

/* Bytes of "<n> kB". */
static uint64_t kilobytes(const char *line, size_t size, size_t at) {
  uint64_t v = line_number(line, size, &at);
  return line_word(line, size, at, " kB") ? known_times(v, 1024) : FACT_NO_U64;
}

static bool status_line(const char *line, size_t size, void *arg) {
  static const struct {
    const char *key;
    size_t offset;
  } sizes[] = {{"RssAnon:", offsetof(struct procuse, anon)},
               {"RssFile:", offsetof(struct procuse, file)},
               {"RssShmem:", offsetof(struct procuse, shmem)},
               {"VmSwap:", offsetof(struct procuse, swap)}};
  struct procuse *u = arg;
  size_t at;
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
    if ((at = line_word(line, size, 0, sizes[i].key))) {
      *(uint64_t *)(void *)((char *)u + sizes[i].offset) = kilobytes(line, size, at);
      return false;
    }
  if ((at = line_word(line, size, 0, "Name:\t"))) take_name(u, line + at, size - at);
  if ((at = line_word(line, size, 0, "Uid:"))) u->uid = line_number(line, size, &at);
  if ((at = line_word(line, size, 0, "Threads:"))) u->threads = line_number(line, size, &at);
  return false;
}

void procuse_parse_status(const char *text, size_t size, struct procuse *u) {
  lines_of_text(text, size, status_line, u);
}

/* The number of the next field; 0 for a negative one, of which none is ours. */
static uint64_t stat_field(const char *text, size_t size, size_t *at) {
  while (*at < size && text[*at] == ' ') ++*at;
  if (*at < size && text[*at] == '-') {
    ++*at;
    return line_number(text, size, at) == FACT_NO_U64 ? FACT_NO_U64 : 0;
  }
  return line_number(text, size, at);
}

static int small(uint64_t v) { return v <= INT32_MAX ? (int)v : -1; }

int procuse_parse_stat(const char *text, size_t size, struct procuse *u) {
  enum { PPID = 4, SESSION = 6, UTIME = 14, STIME = 15, THREADS = 20, START = 22 };
  uint64_t field[START + 1];
  size_t end = 0, open = size;
  for (size_t i = 0; i < size; i++) {
    if (text[i] == '(' && open == size) open = i;
    if (text[i] == ')') end = i; /* the name may hold parentheses: it ends at the last one */
  }
  if (open >= end || end + 3 >= size || text[end + 1] != ' ') return NOT_STAT;
  size_t at = end + 3;
  for (int i = PPID; i <= START; i++)
    if ((field[i] = stat_field(text, size, &at)) == FACT_NO_U64) return NOT_STAT;
  u->state = text[end + 2];
  u->ppid = small(field[PPID]);
  u->session = small(field[SESSION]);
  u->cpu = known_times(known_plus(field[UTIME], field[STIME]), TICK_US);
  u->threads = field[THREADS];
  u->start = field[START];
  if (!u->name[0]) take_name(u, text + open + 1, end - open - 1);
  return 0;
}

static bool io_line(const char *line, size_t size, void *arg) {
  struct procuse *u = arg;
  size_t at = line_word(line, size, 0, "read_bytes:");
  if (at) u->read = line_number(line, size, &at);
  return at != 0;
}

void procuse_parse_io(const char *text, size_t size, struct procuse *u) { lines_of_text(text, size, io_line, u); }

static bool stat_line(const char *line, size_t size, void *arg) {
  procuse_parse_stat(line, size, arg);
  return true;
}

int procuse_read(const char *root, int pid, struct procuse *u) {
  char path[64];
  procuse_clear(u);
  int status = lines_of_file(root, proc_path(pid, "status", path, sizeof(path)), status_line, u, NULL);
  int stat = lines_of_file(root, proc_path(pid, "stat", path, sizeof(path)), stat_line, u, NULL);
  if (status < 0 && stat < 0) return status;
  lines_of_file(root, proc_path(pid, "io", path, sizeof(path)), io_line, u, NULL);
  return 0;
}

int procuse_thread(const char *root, int pid, int tid, struct procuse *u) {
  char path[96], name[48];
  procuse_clear(u);
  if (tid < 0) return NOT_FOUND;
  size_t at = str_copy(name, sizeof(name), "task/");
  at = proc_put_number(name, sizeof(name), at, (uint64_t)tid);
  str_copy(name + at, sizeof(name) - at, "/stat");
  int error = lines_of_file(root, proc_path(pid, name, path, sizeof(path)), stat_line, u, NULL);
  return error < 0 ? error : u->state == '?' ? NOT_STAT : 0;
}

struct share {
  uint64_t anon, shmem;
};

static bool share_line(const char *line, size_t size, void *arg) {
  struct share *s = arg;
  size_t at;
  if ((at = line_word(line, size, 0, "Pss_Anon:"))) s->anon = kilobytes(line, size, at);
  if ((at = line_word(line, size, 0, "Pss_Shmem:"))) s->shmem = kilobytes(line, size, at);
  return false;
}

void procuse_parse_share(const char *text, size_t size, uint64_t *ret_anon, uint64_t *ret_shmem) {
  struct share s = {FACT_NO_U64, FACT_NO_U64};
  lines_of_text(text, size, share_line, &s);
  *ret_anon = s.anon;
  *ret_shmem = s.shmem;
}

int procuse_share(const char *root, int pid, uint64_t *ret_anon, uint64_t *ret_shmem) {
  char path[64];
  struct share s = {FACT_NO_U64, FACT_NO_U64};
  int error = lines_of_file(root, proc_path(pid, "smaps_rollup", path, sizeof(path)), share_line, &s, NULL);
  if (error < 0) return error;
  if (s.anon == FACT_NO_U64) return NOT_FOUND; /* a kernel before 5.4 does not divide them */
  *ret_anon = s.anon;
  *ret_shmem = s.shmem;
  return 0;
}

long procuse_command(const char *root, int pid, char *out, size_t size) {
  char path[64];
  return proc_text_read(root, proc_path(pid, "cmdline", path, sizeof(path)), out, size);
}
