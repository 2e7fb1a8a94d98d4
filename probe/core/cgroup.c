/* cgroup.c - see cgroup.h. Runs in the preloaded library's own thread and in the program.
 *
 * Formats: cgroups(7), proc(5) (mountinfo), the kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
 */
#include "cgroup.h"

#include "fact.h"
#include "lines.h"
#include "procstat.h"
#include "sys.h"

enum { NOT_FOUND = -2 };
/* Version 1 writes "no limit" as the greatest multiple of the page size. */
#define NO_LIMIT ((uint64_t)1 << 62)

/* ---- where it is ----------------------------------------------------------------------------------------------------- */
struct view {
  char path[CGROUP_PATH];  /* of the process in the hierarchy; empty: it has none there */
  char mount[CGROUP_PATH]; /* where the hierarchy is mounted; empty: nowhere */
  char base[CGROUP_PATH];  /* which group of it is the mount's root */
};

struct views {
  struct view v1, v2;
};

struct word {
  const char *s;
  size_t n;
};

static struct word next_word(const char *line, size_t size, size_t *at, char end) {
  struct word w = {line + *at, 0};
  while (*at + w.n < size && w.s[w.n] != end) w.n++;
  *at += w.n + (*at + w.n < size);
  return w;
}

static bool same(struct word w, const char *text) { return line_word(w.s, w.n, 0, text) == w.n && w.n; }

/* One of the words of a list with commas. */
static bool lists(struct word list, const char *word) {
  size_t at = 0;
  while (at < list.n)
    if (same(next_word(list.s, list.n, &at, ','), word)) return true;
  return false;
}

static bool is_octal(char c) { return c >= '0' && c <= '7'; }

/* mountinfo writes blank, tab, newline and backslash as \ooo. Nothing is copied where it does not fit. */
static void copy_path(char out[CGROUP_PATH], struct word w) {
  size_t n = 0;
  for (size_t i = 0; i < w.n && n < CGROUP_PATH; i++) {
    const char *s = w.s + i;
    if (*s == '\\' && i + 3 < w.n && is_octal(s[1]) && is_octal(s[2]) && is_octal(s[3])) {
      out[n++] = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
      i += 3;
    } else {
      out[n++] = *s;
    }
  }
  out[n < CGROUP_PATH ? n : 0] = '\0';
}

/* "4:memory:/some/group" or "0::/some/group". */
static bool cgroup_line(const char *line, size_t size, void *arg) {
  struct views *views = arg;
  size_t at = 0;
  struct word number = next_word(line, size, &at, ':');
  struct word controllers = next_word(line, size, &at, ':');
  struct word path = {line + at, size - at};
  if (!path.n || path.s[0] != '/') return false;
  if (lists(controllers, "memory")) copy_path(views->v1.path, path);
  if (same(number, "0") && !controllers.n) copy_path(views->v2.path, path);
  return false;
}

/* "36 35 98:0 /base /mount options ... - type source options"; the first mount of a hierarchy counts. */
static bool mount_line(const char *line, size_t size, void *arg) {
  struct views *views = arg;
  size_t at = 0;
  for (int i = 0; i < 3; i++) next_word(line, size, &at, ' ');
  struct word base = next_word(line, size, &at, ' '), mount = next_word(line, size, &at, ' ');
  while (at < size && !same(next_word(line, size, &at, ' '), "-")) {
  }
  struct word type = next_word(line, size, &at, ' ');
  next_word(line, size, &at, ' ');
  struct word options = next_word(line, size, &at, ' ');
  bool v2 = same(type, "cgroup2"), v1 = same(type, "cgroup") && lists(options, "memory");
  struct view *view = v2 ? &views->v2 : &views->v1;
  if (!(v1 || v2) || view->mount[0] || !mount.n || mount.s[0] != '/') return false;
  copy_path(view->mount, mount);
  copy_path(view->base, base);
  return false;
}

/* The part of the process's group below the group that is the mount's root. */
static const char *below_base(const struct view *v) {
  size_t n = str_length(v->base);
  if (n == 1 || !str_starts(v->path, v->base)) return n == 1 && v->path[1] ? v->path : "";
  return v->path[n] == '/' ? v->path + n : "";
}

/* <root><mount><group>. Returns the length of the first two; 0 when there is none. */
static size_t folder_of(const struct view *v, const char *root, char out[CGROUP_PATH]) {
  out[0] = '\0';
  /* "/../x": a group outside of what this process's cgroup namespace shows. */
  if (!v->mount[0] || !v->path[0] || str_starts(v->path, "/..")) return 0;
  size_t at = str_copy(out, CGROUP_PATH, root);
  at += str_copy(out + at, CGROUP_PATH - at, v->mount);
  size_t top = at;
  at += str_copy(out + at, CGROUP_PATH - at, below_base(v));
  if (at + 1 < CGROUP_PATH) return top;
  out[0] = '\0';
  return 0;
}

/* The process's groups; *ret_below: below the root, whose mounts they then belong to. */
static int read_groups(const char *root, int pid, struct views *views, bool *ret_below) {
  char path[64];
  int error;
  if (root && *root) {
    error = lines_of_file(root, proc_path(pid, "cgroup", path, sizeof(path)), cgroup_line, views, ret_below);
    if (!error && *ret_below) return 0;
    views->v1.path[0] = views->v2.path[0] = '\0';
    error = lines_of_file(root, "/proc/self/cgroup", cgroup_line, views, ret_below);
    if (!error && *ret_below) return 0;
    views->v1.path[0] = views->v2.path[0] = '\0';
  }
  *ret_below = false;
  return lines_of_file(NULL, proc_path(pid, "cgroup", path, sizeof(path)), cgroup_line, views, NULL);
}

int cgroup_find(const char *root, int pid, struct cgroup_place *out) {
  struct views views;
  bool below;
  views.v1.path[0] = views.v1.mount[0] = views.v2.path[0] = views.v2.mount[0] = '\0';
  out->version = 0;
  out->top = 0;
  out->folder[0] = out->pressure[0] = '\0';
  int error = read_groups(root, pid, &views, &below);
  if (error < 0) return error;
  const char *prefix = below ? root : "";
  error = lines_of_file(below ? root : NULL, "/proc/self/mountinfo", mount_line, &views, NULL);
  if (error < 0) return error;
  size_t top = folder_of(&views.v2, prefix, out->pressure);
  out->top = folder_of(&views.v1, prefix, out->folder);
  if (out->top) {
    out->version = 1;
  } else if (top) {
    out->version = 2;
    out->top = top;
    str_copy(out->folder, sizeof(out->folder), out->pressure);
  }
  return out->version ? 0 : NOT_FOUND;
}

/* ---- what it says ---------------------------------------------------------------------------------------------------- */
static void file_in(char *out, size_t size, const char *folder, size_t length, const char *name) {
  size_t at = 0;
  while (at < length && at + 1 < size) out[at] = folder[at], at++;
  if (size) out[at] = '\0';
  at += str_copy(out + at, size - at, "/");
  str_copy(out + at, size - at, name);
}

static bool number_line(const char *line, size_t size, void *arg) {
  size_t at = 0;
  *(uint64_t *)arg = line_number(line, size, &at);
  return true;
}

/* The number that the file holds; FACT_NO_U64 for another text ("max"). */
static uint64_t number_in(const char *folder, size_t length, const char *name, int *ret_error) {
  char path[CGROUP_PATH + 40];
  uint64_t v = FACT_NO_U64;
  file_in(path, sizeof(path), folder, length, name);
  int error = lines_of_file(NULL, path, number_line, &v, NULL);
  if (ret_error) *ret_error = error;
  return v;
}

static void lower(struct cgroup_memory *m, uint64_t limit, size_t at) {
  if (limit == FACT_NO_U64 || limit >= NO_LIMIT || (m->max != FACT_NO_U64 && limit >= m->max)) return;
  m->max = limit;
  m->max_at = at;
}

/* From the group up to the mount. */
static void find_limit(const struct cgroup_place *p, struct cgroup_memory *m) {
  const char *name = p->version == 1 ? "memory.limit_in_bytes" : "memory.max";
  for (size_t n = str_length(p->folder); n >= p->top && n; n--) {
    if (n != p->top && p->folder[n] && p->folder[n] != '/') continue;
    lower(m, number_in(p->folder, n, name, NULL), n);
  }
}

static bool event_line(const char *line, size_t size, void *arg) {
  struct cgroup_memory *m = arg;
  size_t at;
  if ((at = line_word(line, size, 0, "oom "))) m->oom = line_number(line, size, &at);
  if ((at = line_word(line, size, 0, "oom_kill "))) m->oom_kill = line_number(line, size, &at);
  return false;
}

/* Version 1 counts no events of "oom", and names the least limit above, seen or not. */
static bool stat_line(const char *line, size_t size, void *arg) {
  size_t at = line_word(line, size, 0, "hierarchical_memory_limit ");
  if (at) *(uint64_t *)arg = line_number(line, size, &at);
  return at != 0;
}

static void read_v1(const struct cgroup_place *p, struct cgroup_memory *m) {
  char path[CGROUP_PATH + 40];
  uint64_t above = FACT_NO_U64;
  file_in(path, sizeof(path), p->folder, str_length(p->folder), "memory.oom_control");
  lines_of_file(NULL, path, event_line, m, NULL);
  file_in(path, sizeof(path), p->folder, str_length(p->folder), "memory.stat");
  lines_of_file(NULL, path, stat_line, &above, NULL);
  lower(m, above, p->top);
}

int cgroup_read(const struct cgroup_place *p, struct cgroup_memory *m) {
  char path[CGROUP_PATH + 40];
  int error = NOT_FOUND;
  m->current = m->max = m->oom = m->oom_kill = FACT_NO_U64;
  m->max_at = 0;
  if (!p->version) return error;
  size_t length = str_length(p->folder);
  m->current = number_in(p->folder, length, p->version == 1 ? "memory.usage_in_bytes" : "memory.current", &error);
  find_limit(p, m);
  if (p->version == 1) {
    read_v1(p, m);
  } else {
    file_in(path, sizeof(path), p->folder, length, "memory.events");
    lines_of_file(NULL, path, event_line, m, NULL);
  }
  return error;
}

/* ---- who manages it -------------------------------------------------------------------------------------------------- */

/* Units in which sessions of people run, or what they started: they do not restart what is in them. */
static bool carries_sessions(struct word w) {
  static const char *const names[] = {"user@",       "ssh.service",     "sshd",         "cron.service", "crond.service",
                                      "atd.service", "getty@",          "serial-getty", "gdm",          "lightdm",
                                      "sddm",        "display-manager", "console-getty"};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    if (line_word(w.s, w.n, 0, names[i])) return true;
  return false;
}

static bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

/* Container runtimes name a container by 64 hexadecimal digits: "docker-<id>.scope", "libpod-<id>.scope",
 * "cri-containerd-<id>.scope", "/docker/<id>", "/kubepods/.../<id>". LXC names it by its name. */
static struct word container_in(struct word w) {
  enum { ID = 64, SHOWN = 12 };
  static const char lxc[] = "lxc.payload.";
  size_t run = 0;
  for (size_t i = 0; i < w.n; i++) {
    run = is_hex(w.s[i]) ? run + 1 : 0;
    if (run == ID && (i + 1 == w.n || !is_hex(w.s[i + 1]))) return (struct word){w.s + i + 1 - ID, SHOWN};
  }
  size_t at = line_word(w.s, w.n, 0, lxc);
  return at ? (struct word){w.s + at, w.n - at} : (struct word){w.s, 0};
}

static bool ends_in(struct word w, const char *end) {
  size_t n = str_length(end);
  return w.n > n && line_word(w.s, w.n, w.n - n, end) == w.n;
}

const char *cgroup_manager(const char *path, size_t length, char *name, size_t size) {
  struct word service = {path, 0}, container = {path, 0};
  bool user = false; /* below a user's own service manager */
  for (size_t at = 0; at < length;) {
    struct word w = next_word(path, length, &at, '/');
    user = user || line_word(w.s, w.n, 0, "user@");
    if (ends_in(w, ".service") && !carries_sessions(w)) service = w;
    struct word id = container_in(w);
    if (id.n) container = id;
  }
  struct word found = container.n ? container : service;
  size_t n = 0;
  while (n < found.n && n + 1 < size) name[n] = found.s[n], n++;
  if (size) name[n] = '\0';
  if (container.n || !service.n) return container.n ? "container" : NULL;
  return user ? "user-service" : "service";
}

const char *cgroup_manager_of(const char *root, int pid, char *name, size_t size) {
  struct views views;
  char path[64];
  views.v1.path[0] = views.v2.path[0] = '\0';
  if (size) name[0] = '\0';
  if (lines_of_file(root, proc_path(pid, "cgroup", path, sizeof(path)), cgroup_line, &views, NULL) < 0) return NULL;
  const char *managed = cgroup_manager(views.v2.path, str_length(views.v2.path), name, size);
  return managed ? managed : cgroup_manager(views.v1.path, str_length(views.v1.path), name, size);
}
