/* sample.c - see sample.h. Runs in the preloaded library's own thread and in the program. */
#include "sample.h"

#include <fcntl.h>
#include <linux/auxvec.h>

#include "clock.h"
#include "lines.h"
#include "meminfo.h"
#include "procuse.h"
#include "sys.h"

enum { LARGE_BLOCK = 32 << 20 }; /* fact sample: blocks_large */

/* ---- /proc/vmstat -------------------------------------------------------------------------------------------------- */
static bool vmstat_line(const char *line, size_t size, void *arg) {
  static const struct {
    const char *name;
    size_t offset;
  } counters[] = {{"oom_kill ", offsetof(struct fact_sample, oom_kill)},
                  {"pswpin ", offsetof(struct fact_sample, pswpin)},
                  {"pswpout ", offsetof(struct fact_sample, pswpout)},
                  {"pgmajfault ", offsetof(struct fact_sample, pgmajfault)},
                  {"workingset_refault_file ", offsetof(struct fact_sample, refault)},
                  {"compact_stall ", offsetof(struct fact_sample, compact_stall)},
                  {"compact_fail ", offsetof(struct fact_sample, compact_fail)}};
  struct fact_sample *s = arg;
  size_t at;
  for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
    if ((at = line_word(line, size, 0, counters[i].name))) {
      *(fact_u64 *)(void *)((char *)s + counters[i].offset) = line_number(line, size, &at);
      return false;
    }
  if (!line_word(line, size, 0, "allocstall")) return false;
  for (at = 0; at < size && line[at] != ' ';) at++; /* allocstall_normal, allocstall_movable, ... */
  add_known(&s->allocstall, line_number(line, size, &at));
  return false;
}

void sample_parse_vmstat(const char *text, size_t size, struct fact_sample *s) {
  s->allocstall = FACT_NO_U64;
  lines_of_text(text, size, vmstat_line, s);
}

/* ---- pressure ------------------------------------------------------------------------------------------------------ */

/* The figure behind `key`, which stands somewhere in the line. */
static uint64_t figure_of(const char *line, size_t size, const char *key, bool hundredths) {
  for (size_t i = 0; i < size; i++) {
    size_t at = line[i] == ' ' ? line_word(line, size, i, key) : 0;
    if (at) return hundredths ? line_hundredths(line, size, &at) : line_number(line, size, &at);
  }
  return FACT_NO_U64;
}

static bool pressure_line(const char *line, size_t size, void *arg) {
  struct sample_pressure *p = arg;
  if (line_word(line, size, 0, "some ")) {
    p->some_avg10 = figure_of(line, size, " avg10=", true);
    p->some_avg60 = figure_of(line, size, " avg60=", true);
    p->some_total = figure_of(line, size, " total=", false);
  } else if (line_word(line, size, 0, "full ")) {
    p->full_avg10 = figure_of(line, size, " avg10=", true);
    p->full_avg60 = figure_of(line, size, " avg60=", true);
    p->full_total = figure_of(line, size, " total=", false);
  }
  return false;
}

static struct sample_pressure no_pressure(void) {
  return (struct sample_pressure){FACT_NO_U64, FACT_NO_U64, FACT_NO_U64, FACT_NO_U64, FACT_NO_U64, FACT_NO_U64};
}

void sample_parse_pressure(const char *text, size_t size, struct sample_pressure *p) {
  *p = no_pressure();
  lines_of_text(text, size, pressure_line, p);
}

/* ---- /proc/buddyinfo ------------------------------------------------------------------------------------------------ */

/* "Node 0, zone   Normal   2400   1800 ...": free blocks of page size << 0, << 1, ... */
static bool buddyinfo_line(const char *line, size_t size, void *arg) {
  enum { ORDERS = 40 };
  struct fact_sample *s = arg;
  size_t at;
  if (!line_word(line, size, 0, "Node ") || s->page_size == FACT_NO_U64) return false;
  for (at = 0; at < size; at++)
    if (line_word(line, size, at, ", zone ")) break;
  at = line_word(line, size, at, ", zone ");
  if (!at) return false;
  while (at < size && line[at] == ' ') at++;
  while (at < size && line[at] != ' ') at++;
  for (int order = 0; order < ORDERS; order++) {
    uint64_t block = known_times(s->page_size, (uint64_t)1 << order), n = line_number(line, size, &at);
    if (n == FACT_NO_U64 || block == FACT_NO_U64) break;
    if (s->block_max == FACT_NO_U64 || (n && block > s->block_max)) s->block_max = n ? block : 0;
    if (block >= LARGE_BLOCK) add_known(&s->blocks_large, n);
  }
  return false;
}

void sample_parse_buddyinfo(const char *text, size_t size, struct fact_sample *s) {
  s->block_max = s->blocks_large = FACT_NO_U64;
  lines_of_text(text, size, buddyinfo_line, s);
}

/* ---- /proc/swaps ---------------------------------------------------------------------------------------------------- */

/* "Filename  Type  Size  Used  Priority", in kB; a name's blanks are written \040. */
static bool swaps_line(const char *line, size_t size, void *arg) {
  struct sample_swaps *s = arg;
  size_t at = 0;
  if (!size || line[0] != '/') return false;
  for (int word = 0; word < 2; word++) {
    while (at < size && line[at] != ' ' && line[at] != '\t') at++;
    while (at < size && (line[at] == ' ' || line[at] == '\t')) at++;
  }
  uint64_t total = known_times(line_number(line, size, &at), 1024);
  uint64_t used = known_times(line_number(line, size, &at), 1024);
  if (total == FACT_NO_U64 || used == FACT_NO_U64) return false;
  s->total = known_plus(s->total, total);
  s->used = known_plus(s->used, used);
  s->areas++;
  return false;
}

void sample_parse_swaps(const char *text, size_t size, struct sample_swaps *s) {
  *s = (struct sample_swaps){0, 0, 0};
  lines_of_text(text, size, swaps_line, s);
}

/* ---- the whole ------------------------------------------------------------------------------------------------------ */
static uint64_t page_size_of(const char *path) {
  enum { PAIRS = 64 };
  uint64_t vector[2 * PAIRS];
  int fd = sys_open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
  if (fd < 0) return FACT_NO_U64;
  long n = sys_read(fd, vector, sizeof(vector));
  sys_close(fd);
  for (long i = 0; i + 1 < n / (long)sizeof(vector[0]); i += 2)
    if (vector[i] == AT_PAGESZ && vector[i + 1] >= 1024 && !(vector[i + 1] & (vector[i + 1] - 1))) return vector[i + 1];
  return FACT_NO_U64;
}

uint64_t sample_page_size(const char *root) {
  static const char auxv[] = "/proc/self/auxv";
  if (root && *root) {
    char path[1024];
    size_t at = str_copy(path, sizeof(path), root);
    at += str_copy(path + at, sizeof(path) - at, auxv);
    uint64_t size = at + 1 < sizeof(path) ? page_size_of(path) : FACT_NO_U64;
    if (size != FACT_NO_U64) return size;
  }
  return page_size_of(auxv);
}

/* Where meminfo does not tell of swap. */
static void take_swaps(const char *root, struct fact_memory *m) {
  struct sample_swaps swaps = {0, 0, 0};
  if (m->swap_total != FACT_NO_U64 && m->swap_free != FACT_NO_U64) return;
  if (lines_of_file(root, "/proc/swaps", swaps_line, &swaps, NULL) < 0 || swaps.used > swaps.total) return;
  m->swap_total = swaps.total;
  m->swap_free = swaps.total - swaps.used;
}

static void take_machine(const char *root, struct fact_sample *s) {
  struct sample_pressure p = no_pressure();
  meminfo_read(root, &s->mem);
  take_swaps(root, &s->mem);
  lines_of_file(root, "/proc/vmstat", vmstat_line, s, NULL);
  lines_of_file(root, "/proc/pressure/memory", pressure_line, &p, NULL);
  s->some_avg10 = p.some_avg10;
  s->some_avg60 = p.some_avg60;
  s->some_total = p.some_total;
  s->full_avg10 = p.full_avg10;
  s->full_avg60 = p.full_avg60;
  s->full_total = p.full_total;
  s->page_size = sample_page_size(root);
  lines_of_file(root, "/proc/buddyinfo", buddyinfo_line, s, NULL);
}

static void take_cgroup(const struct cgroup_place *place, struct fact_sample *s) {
  struct sample_pressure p = no_pressure();
  struct cgroup_memory m;
  char path[CGROUP_PATH + 32];
  cgroup_read(place, &m);
  s->cgroup_current = m.current;
  s->cgroup_max = m.max;
  s->cgroup_oom = m.oom;
  s->cgroup_oom_kill = m.oom_kill;
  if (!place->pressure[0]) return;
  size_t at = str_copy(path, sizeof(path), place->pressure);
  str_copy(path + at, sizeof(path) - at, "/memory.pressure");
  lines_of_file(NULL, path, pressure_line, &p, NULL);
  s->job_some_avg10 = p.some_avg10;
  s->job_full_avg10 = p.full_avg10;
  s->job_full_total = p.full_total;
}

static void add_process(struct fact_sample *s, int pid) {
  struct procuse u;
  if (procuse_read(NULL, pid, &u) < 0) return;
  s->job_processes++;
  add_known(&s->job_threads, u.threads);
  add_known(&s->job_anon, u.anon);
  add_known(&s->job_shmem, u.shmem);
  add_known(&s->job_swap, u.swap);
  add_known(&s->job_cpu, u.cpu);
  add_known(&s->job_read, u.read);
}

/* Pages that several map are counted once by it. Nothing changes where one process does not tell. */
static void take_shares(const struct sample_from *from, struct fact_sample *s) {
  uint64_t anon = FACT_NO_U64, shmem = FACT_NO_U64, a, b;
  for (size_t i = 0; i < from->pids; i++) {
    struct procuse u;
    if (procuse_read(NULL, from->pid[i], &u) < 0) continue;
    if (procuse_share(NULL, from->pid[i], &a, &b) < 0) return;
    add_known(&anon, a);
    add_known(&shmem, b);
  }
  s->job_anon = anon;
  s->job_shmem = shmem;
}

void sample_read(const struct sample_from *from, const char *why, struct fact *out) {
  struct fact_sample *s = &out->u.sample;
  fact_init(out, FACT_KIND_sample);
  out->t = clock_us();
  s->why = why;
  s->job_device = from->job_device;
  s->job_pinned = from->job_pinned;
  if (from->parts & SAMPLE_MACHINE) take_machine(from->root, s);
  if (from->parts & SAMPLE_CGROUP && from->place) take_cgroup(from->place, s);
  if (!(from->parts & SAMPLE_JOB)) return;
  s->job_processes = 0;
  for (size_t i = 0; i < from->pids; i++) add_process(s, from->pid[i]);
  bool too_much = s->job_anon != FACT_NO_U64 && s->mem.anon != FACT_NO_U64 && s->job_anon > s->mem.anon;
  if (from->parts & SAMPLE_SHARES && s->job_processes > 1 && too_much) take_shares(from, s);
}
