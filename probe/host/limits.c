/* limits.c - facts limit (collect.h). /proc/<pid>/limits is read instead of getrlimit(2), so that another process's limits,
 * and a simulated machine's, come by the same code. */
#include "collect.h"
#include "clock.h"
#include "lines.h"
#include "procstat.h"

#include <string.h>

struct limits {
  struct {
    bool seen;
    uint64_t soft, hard; /* FACT_NO_U64: unlimited */
  } memlock, as;
};

/* "Max locked memory     8388608              unlimited            bytes" */
static uint64_t value_at(const char *line, size_t size, size_t *at) {
  while (*at < size && line[*at] == ' ') ++*at;
  size_t behind = line_word(line, size, *at, "unlimited");
  if (behind) *at = behind;
  return behind ? FACT_NO_U64 : line_number(line, size, at);
}

static bool limit_line(const char *line, size_t size, void *arg) {
  struct limits *l = arg;
  size_t at;
  if ((at = line_word(line, size, 0, "Max locked memory "))) {
    l->memlock.seen = true;
    l->memlock.soft = value_at(line, size, &at);
    l->memlock.hard = value_at(line, size, &at);
  } else if ((at = line_word(line, size, 0, "Max address space "))) {
    l->as.seen = true;
    l->as.soft = value_at(line, size, &at);
    l->as.hard = value_at(line, size, &at);
  }
  return false;
}

static void tell(const char *name, uint64_t soft, uint64_t hard, const char *path, uint64_t t, collect_emit emit,
                 void *arg) {
  struct fact fact;
  fact_init(&fact, FACT_KIND_limit);
  fact.t = t;
  fact.u.limit.name = name;
  fact.u.limit.soft = soft;
  fact.u.limit.hard = hard;
  fact.u.limit.path = path;
  emit(&fact, arg);
}

/* The simulated machine's limits stand in <root>/proc/self/limits, for the whole job. */
static struct limits limits_of(const char *root, int pid) {
  struct limits l = {0};
  char path[64];
  bool below = false;
  if (root && *root) lines_of_file(root, "/proc/self/limits", limit_line, &l, &below);
  if (below) return l;
  l = (struct limits){0};
  lines_of_file(NULL, proc_path(pid, "limits", path, sizeof path), limit_line, &l, NULL);
  return l;
}

/* The group's folder without the root, as the machine has it. */
static void tell_cgroup(const char *root, const struct cgroup_place *place, uint64_t t, collect_emit emit, void *arg) {
  struct cgroup_memory m;
  char path[CGROUP_PATH];
  size_t skip = root ? strlen(root) : 0;
  if (cgroup_read(place, &m) < 0 && m.max == FACT_NO_U64) return;
  if (m.max == FACT_NO_U64 || m.max_at >= sizeof path) return;
  memcpy(path, place->folder, m.max_at);
  path[m.max_at] = '\0';
  if (strncmp(path, root ? root : "", skip)) skip = 0;
  tell("cgroup", m.max, m.max, path + skip, t, emit, arg);
}

void collect_limits(const char *root, int pid, const struct cgroup_place *place, collect_emit emit, void *arg) {
  const uint64_t t = clock_us();
  struct limits l = limits_of(root, pid);
  if (l.memlock.seen) tell("memlock", l.memlock.soft, l.memlock.hard, NULL, t, emit, arg);
  if (l.as.seen) tell("as", l.as.soft, l.as.hard, NULL, t, emit, arg);
  if (place) tell_cgroup(root, place, t, emit, arg);
}
