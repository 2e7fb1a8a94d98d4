/* setting.c - one line of a scenario, applied to the world. See world.h and docs/gb10sim.md.
 *
 * The same code reads a scenario at the start (gb10sim) and a timeline line when it becomes due (whoever is
 * first). Called under the world's lock; it calls nothing of the job's.
 */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "world.h"

struct scalar_row {
  const char *words;
  enum scalar_unit unit;
};
static const struct scalar_row rows[SCALAR_COUNT] = {
#define SCALAR(id, words, unit, first) {words, UNIT_##unit},
#include "scalars.def"
#undef SCALAR
};

__attribute__((format(printf, 3, 4))) static int fail(char *error, size_t size, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  vsnprintf(error, size, format, ap);
  va_end(ap);
  return -1;
}

int words_split(struct words *out, const char *line) {
  out->n = 0;
  if (strlen(line) >= sizeof out->buffer) return -1;
  char *p = strcpy(out->buffer, line);
  for (;;) {
    while (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r') *p++ = '\0';
    if (!*p || *p == '#') return out->n;
    if (out->n == WORLD_WORDS) return -1;
    if (*p == '"') {
      out->w[out->n++] = ++p;
      p = strchr(p, '"');
      if (!p) return -1;
      *p++ = '\0';
      continue;
    }
    out->w[out->n++] = p;
    while (*p && *p != ' ' && *p != '\t' && *p != '\n' && *p != '\r') p++;
  }
}

struct unit_word {
  const char *word;
  double factor;
};

/* "1.5GiB" with a table of units, the first of which is what a bare number means. */
static int with_unit(const char *text, const struct unit_word *units, double *ret) {
  char *end;
  errno = 0;
  double v = strtod(text, &end);
  if (end == text || errno || !isfinite(v)) return -1;
  if (!*end) {
    *ret = v * units[0].factor;
    return 0;
  }
  for (const struct unit_word *u = units; u->word; u++)
    if (!strcmp(u->word, end)) {
      *ret = v * u->factor;
      return 0;
    }
  return -1;
}

static const struct unit_word duration_units[] = {{"s", 1e6},  {"us", 1},     {"ms", 1e3},    {"min", 60e6},
                                                  {"m", 60e6}, {"h", 3600e6}, {"d", 86400e6}, {NULL, 0}};
static const struct unit_word byte_units[] = {{"B", 1},         {"kB", 1024},        {"KiB", 1024},
                                              {"MiB", 1048576}, {"GiB", 1073741824}, {"TiB", 1099511627776.0},
                                              {"MB", 1e6},      {"GB", 1e9},         {NULL, 0}};
static const struct unit_word kb_units[] = {{"kB", 1},          {"KiB", 1},         {"B", 1.0 / 1024},
                                            {"MiB", 1024},      {"GiB", 1048576},   {"TiB", 1073741824},
                                            {"MB", 1e6 / 1024}, {"GB", 1e9 / 1024}, {NULL, 0}};
static const struct unit_word milliwatt_units[] = {{"W", 1000}, {"mW", 1}, {NULL, 0}};
static const struct unit_word millijoule_units[] = {{"J", 1000}, {"mJ", 1}, {"kJ", 1e6}, {NULL, 0}};
static const struct unit_word hundredths[] = {{"%", 100}, {NULL, 0}};
static const struct unit_word plain[] = {{"", 1}, {"MHz", 1}, {"kHz", 1}, {"C", 1}, {"%", 1}, {"GHz", 1e6}, {NULL, 0}};

int parse_duration(const char *text, uint64_t *ret_us) {
  double v;
  if (with_unit(text, duration_units, &v) || v < 0 || v > 1e18) return -1;
  *ret_us = (uint64_t)llround(v);
  return 0;
}

int parse_bytes(const char *text, uint64_t *ret_bytes) {
  double v;
  if (with_unit(text, byte_units, &v) || v < 0 || v > 1e18) return -1;
  *ret_bytes = (uint64_t)llround(v);
  return 0;
}

int parse_scalar(enum scalar_unit unit, const char *text, int64_t *ret_value) {
  static const struct unit_word *const tables[] = {kb_units,        plain,          hundredths,
                                                   milliwatt_units, duration_units, millijoule_units};
  double v;
  if (unit == UNIT_N && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
    char *end;
    *ret_value = strtoll(text, &end, 16);
    return *end ? -1 : 0;
  }
  if (with_unit(text, tables[unit], &v) || fabs(v) > 9e18) return -1;
  *ret_value = llround(v);
  return 0;
}

enum scalar_unit scalar_unit_of(enum scalar id) { return rows[id].unit; }

enum scalar scalar_find(const struct words *in, int at, int *ret_used) {
  for (int used = 4; used >= 1; used--) {
    char text[WORLD_TEXT] = "";
    if (at + used > in->n) continue;
    for (int i = 0; i < used; i++)
      snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "", in->w[at + i]);
    for (int s = 0; s < SCALAR_COUNT; s++)
      if (!strcmp(rows[s].words, text)) {
        *ret_used = used;
        return (enum scalar)s;
      }
  }
  return SCALAR_COUNT;
}

/* "NAME... VALUE [UNIT]", or "NAME... +VALUE" / "-VALUE" for a change. 1 when the line is not a number's. */
static int set_scalar(struct world *w, const struct words *in, char *error, size_t size) {
  int used = 0;
  enum scalar id = scalar_find(in, 0, &used);
  if (id == SCALAR_COUNT) return 1;
  int rest = in->n - used;
  char text[96];
  if (rest < 1 || rest > 2) return fail(error, size, "%s takes one value", rows[id].words);
  snprintf(text, sizeof text, "%s%s", in->w[used], rest == 2 ? in->w[used + 1] : "");
  int64_t value;
  bool absent = !strcmp(text, "none") || !strcmp(text, "unlimited");
  if (absent) value = -1;
  if (!absent && parse_scalar(rows[id].unit, text, &value))
    return fail(error, size, "%s: not a value: %s", rows[id].words, text);
  bool relative = !absent && (text[0] == '+' || text[0] == '-');
  if (relative && w->scalar[id] < 0) w->scalar[id] = 0;
  w->scalar[id] = relative ? w->scalar[id] + value : value;
  if (!absent && w->scalar[id] < 0) w->scalar[id] = 0;
  return 0;
}

static int copy_text(char *out, size_t out_size, const struct words *in, char *error, size_t size) {
  if (in->n != 2) return fail(error, size, "%s takes one value", in->w[0]);
  if (strlen(in->w[1]) >= out_size) return fail(error, size, "%s: text too long", in->w[0]);
  strcpy(out, in->w[1]);
  return 0;
}

int world_vmstat_index(struct world *w, const char *name) {
  for (int i = 0; i < w->n_vmstat; i++)
    if (!strcmp(w->vmstat[i].name, name)) return i;
  if (w->n_vmstat == WORLD_VMSTAT || strlen(name) >= sizeof w->vmstat[0].name) return -1;
  strcpy(w->vmstat[w->n_vmstat].name, name);
  w->vmstat[w->n_vmstat].value = 0;
  return w->n_vmstat++;
}

static int set_vmstat(struct world *w, const struct words *in, char *error, size_t size) {
  if (in->n != 3) return fail(error, size, "vmstat takes a name and a number");
  char *end;
  long long value = strtoll(in->w[2], &end, 10);
  if (*end || end == in->w[2]) return fail(error, size, "vmstat: not a number: %s", in->w[2]);
  int i = world_vmstat_index(w, in->w[1]);
  if (i < 0) return fail(error, size, "vmstat: name too long, or more than %d names", WORLD_VMSTAT);
  struct world_vmstat *v = &w->vmstat[i];
  v->value = in->w[2][0] == '+' ? v->value + value : value;
  return 0;
}

static int set_buddyinfo(struct world *w, const struct words *in, char *error, size_t size) {
  if (in->n - 1 > WORLD_ORDERS) return fail(error, size, "buddyinfo has %d orders at most", WORLD_ORDERS);
  for (int i = 0; i < WORLD_ORDERS; i++) {
    char *end = NULL;
    w->buddy[i] = i + 1 < in->n ? strtoll(in->w[i + 1], &end, 10) : 0;
    if (end && *end) return fail(error, size, "buddyinfo: not a number: %s", in->w[i + 1]);
  }
  return 0;
}

static int process_option(struct world_process *p, const char *word, const char *value) {
  int64_t kb = -1;
  if (!strcmp(word, "name") && strlen(value) < sizeof p->name) return strcpy(p->name, value), 0;
  if (!strcmp(word, "command") && strlen(value) < sizeof p->command) return strcpy(p->command, value), 0;
  if (!strcmp(word, "cgroup") && strlen(value) < sizeof p->cgroup)
    return strcpy(p->cgroup, value), *value == '/' ? 0 : -1;
  if (!strcmp(word, "uid")) return p->uid = atoi(value), p->uid < 0 ? -1 : 0;
  if (!strcmp(word, "busy")) return p->busy = atoi(value), p->busy < 0 ? -1 : 0;
  if (!strcmp(word, "rss")) return parse_scalar(UNIT_KB, value, &p->rss_kb);
  if (!strcmp(word, "parent")) return p->parent = atoi(value), p->parent < 0 ? -1 : 0;
  if (!strcmp(word, "session")) return p->session = atoi(value), p->session < 0 ? -1 : 0;
  if (!strcmp(word, "type")) {
    p->graphics = !strcmp(value, "graphics");
    if (!strcmp(value, "none")) p->memory_kb = -2;
    return p->graphics || !strcmp(value, "none") || !strcmp(value, "compute") ? 0 : -1;
  }
  if (strcmp(word, "memory")) return -1;
  if (strcmp(value, "N/A") && parse_scalar(UNIT_KB, value, &kb)) return -1;
  p->memory_kb = kb;
  return 0;
}

static struct world_process *process_slot(struct world *w, int32_t pid) {
  struct world_process *empty = NULL;
  for (int i = 0; i < WORLD_PROCS; i++) {
    if (w->process[i].pid == pid) return &w->process[i];
    if (!w->process[i].pid && !empty) empty = &w->process[i];
  }
  return empty;
}

/* "process PID gone" or "process PID name N [parent P] [type compute|graphics|none] [memory S|N/A] [service] ..." */
static int set_process(struct world *w, const struct words *in, char *error, size_t size) {
  int32_t pid = in->n >= 3 ? atoi(in->w[1]) : 0;
  if (pid <= 0) return fail(error, size, "process takes a pid and at least one property");
  struct world_process *slot = process_slot(w, pid);
  if (!slot) return fail(error, size, "more than %d processes", WORLD_PROCS);
  if (!strcmp(in->w[2], "gone")) return slot->pid = slot->pid == pid ? -pid : 0, 0;
  struct world_process p = *slot;
  if (p.pid != pid) p = (struct world_process){.pid = pid, .parent = 1, .session = pid, .uid = 1000, .memory_kb = -1};
  for (int i = 2; i < in->n; i++) {
    if (!strcmp(in->w[i], "service"))
      p.service = 1;
    else if (i + 1 >= in->n || process_option(&p, in->w[i], in->w[i + 1]))
      return fail(error, size, "process: cannot read \"%s\" and what follows", in->w[i]);
    else
      i++;
  }
  if (!p.name[0]) return fail(error, size, "process %d needs a name", pid);
  *slot = p;
  return 0;
}

static int set_attribute(struct world *w, const struct words *in, char *error, size_t size) {
  if (in->n != 3 || w->n_attributes == WORLD_ATTRIBUTES)
    return fail(error, size, "attribute takes a CUdevice_attribute number and a value");
  w->attribute[w->n_attributes++] = (struct world_attribute){atoi(in->w[1]), atoi(in->w[2])};
  return 0;
}

/* "file /path "line" "line"...": a file of the machine with this text. */
static int set_file(struct world *w, const struct words *in, char *error, size_t size) {
  if (in->n < 2 || in->w[1][0] != '/' || strstr(in->w[1], ".."))
    return fail(error, size, "file takes an absolute path and lines of text");
  int i = 0;
  while (i < w->n_files && strcmp(w->file[i].path, in->w[1])) i++;
  if (i == WORLD_FILES) return fail(error, size, "more than %d files", WORLD_FILES);
  struct world_file *f = &w->file[i];
  size_t used = 0;
  for (int k = 2; k < in->n; k++) used += strlen(in->w[k]) + 1;
  if (used >= sizeof f->text || strlen(in->w[1]) >= sizeof f->path) return fail(error, size, "file: text too long");
  strcpy(f->path, in->w[1]);
  f->text[0] = '\0';
  for (int k = 2; k < in->n; k++) strcat(strcat(f->text, in->w[k]), "\n");
  if (i == w->n_files) w->n_files++;
  return 0;
}

/* "cgroup path /a/b": where the job is. Its figures are scalars. */
static int set_cgroup(struct world *w, const struct words *in, char *error, size_t size) {
  if (in->n != 3 || in->w[2][0] != '/' || strstr(in->w[2], "..") || strlen(in->w[2]) >= sizeof w->cgroup)
    return fail(error, size, "cgroup path takes an absolute path");
  strcpy(w->cgroup, in->w[2]);
  return 0;
}

static int32_t a_job_pid(const struct world *w) {
  for (int i = 0; i < WORLD_JOBS; i++)
    if (w->job[i].pid > 1 && w->job[i].has_context) return w->job[i].pid;
  return 0;
}

/* "kmsg "text"": a line of the kernel log, now. "%job" in it is the pid of a process of the job. */
static int set_kmsg(struct world *w, const struct words *in, char *error, size_t size) {
  char text[WORLD_TEXT + 32];
  if (in->n != 2 || strlen(in->w[1]) >= WORLD_TEXT) return fail(error, size, "kmsg takes one quoted line");
  const char *job = strstr(in->w[1], "%job");
  if (job)
    snprintf(text, sizeof text, "%.*s%d%s", (int)(job - in->w[1]), in->w[1], a_job_pid(w), job + 4);
  else
    snprintf(text, sizeof text, "%s", in->w[1]);
  size_t used = strlen(w->log);
  int n = snprintf(w->log + used, sizeof w->log - used, "4,%d,%llu,-;%s\n", 1000 + w->log_lines,
                   (unsigned long long)(world_now(w) + WORLD_UPTIME_US), text);
  if (n < 0 || (size_t)n >= sizeof w->log - used) {
    w->log[used] = '\0';
    return fail(error, size, "kmsg: the log is full");
  }
  w->log_lines++;
  return 0;
}

static int set_page_cache(struct world *w, const struct words *in, char *error, size_t size) {
  int64_t kb;
  if (in->n != 2 || parse_scalar(UNIT_KB, in->w[1], &kb) || (in->w[1][0] != '+' && in->w[1][0] != '-'))
    return fail(error, size, "page-cache takes +SIZE or -SIZE");
  world_page_cache(w, kb);
  return 0;
}

static int set_kill(struct world *w, const struct words *in, char *error, size_t size) {
  int number = in->n == 3 ? atoi(in->w[2]) : 0;
  if (in->n != 3 || strcmp(in->w[1], "job") || number <= 0 || number > 64)
    return fail(error, size, "kill takes \"job\" and a signal number");
  w->signal_job = number;
  return 0;
}

static int set_start(struct world *w, const struct words *in, char *error, size_t size) {
  struct tm tm = {0};
  int y, m, d, h, mi, s, n = 0;
  if (in->n != 2 || sscanf(in->w[1], "%d-%d-%dT%d:%d:%dZ%n", &y, &m, &d, &h, &mi, &s, &n) != 6 || in->w[1][n])
    return fail(error, size, "start takes a time like 2026-01-15T08:00:00Z");
  tm.tm_year = y - 1900, tm.tm_mon = m - 1, tm.tm_mday = d, tm.tm_hour = h, tm.tm_min = mi, tm.tm_sec = s;
  w->start_us = (uint64_t)timegm(&tm) * 1000000;
  return 0;
}

static int set_pace(struct world *w, const struct words *in, char *error, size_t size) {
  double v;
  if (in->n != 2 || with_unit(in->w[1], plain, &v) || v < 1 || v > 1e7)
    return fail(error, size, "pace takes a number of 1 or more");
  w->pace = v;
  return 0;
}

static int set_driver_version(struct world *w, const struct words *in, char *error, size_t size) {
  if (in->n != 3 || strlen(in->w[2]) >= sizeof w->driver) return fail(error, size, "driver version takes one value");
  strcpy(w->driver, in->w[2]);
  return 0;
}

static int set_device_name(struct world *w, const struct words *in, char *error, size_t size) {
  if (in->n != 3 || strlen(in->w[2]) >= sizeof w->device_name) return fail(error, size, "device name takes one value");
  strcpy(w->device_name, in->w[2]);
  return 0;
}

static int set_image(struct world *w, const struct words *in, char *error, size_t size) {
  if (in->n != 3 || strcmp(in->w[1], "accept"))
    return fail(error, size, "image takes \"accept\" and a target like sm_120a");
  if (strlen(w->accept) + strlen(in->w[2]) + 3 > sizeof w->accept) return fail(error, size, "image: too many targets");
  strcat(strcat(w->accept[0] ? w->accept : strcat(w->accept, " "), in->w[2]), " ");
  return 0;
}

static int set_text(struct world *w, const struct words *in, char *error, size_t size) {
  if (!strcmp(in->w[0], "host")) return copy_text(w->host, sizeof w->host, in, error, size);
  if (!strcmp(in->w[0], "boot_id")) return copy_text(w->boot_id, sizeof w->boot_id, in, error, size);
  return copy_text(w->kernel, sizeof w->kernel, in, error, size);
}

static int set_timeline(struct world *w, const struct words *in, const char *line, char *error, size_t size) {
  return world_timeline_setting(w, in, line, error, size);
}

typedef int (*setting_fn)(struct world *, const struct words *, char *, size_t);
static const struct {
  const char *word, *second;
  setting_fn set;
} settings[] = {
    {"vmstat", NULL, set_vmstat},
    {"buddyinfo", NULL, set_buddyinfo},
    {"process", NULL, set_process},
    {"attribute", NULL, set_attribute},
    {"file", NULL, set_file},
    {"page-cache", NULL, set_page_cache},
    {"cgroup", "path", set_cgroup},
    {"kmsg", NULL, set_kmsg},
    {"kill", NULL, set_kill},
    {"start", NULL, set_start},
    {"pace", NULL, set_pace},
    {"driver", "version", set_driver_version},
    {"device", "name", set_device_name},
    {"image", NULL, set_image},
    {"host", NULL, set_text},
    {"boot_id", NULL, set_text},
    {"kernel", NULL, set_text},
    {"fail", NULL, world_rule_setting},
    {"block", NULL, world_rule_setting},
    {"delay", NULL, world_rule_setting},
    {"signal", NULL, world_rule_setting},
};

int world_setting(struct world *w, const char *line, char *error, size_t error_size) {
  struct words in;
  if (words_split(&in, line) < 0) return fail(error, error_size, "too many words, or a quote without its end");
  if (!in.n) return 0;
  world_changed_all(w);
  if (!strcmp(in.w[0], "at") || !strcmp(in.w[0], "over")) return set_timeline(w, &in, line, error, error_size);
  for (unsigned i = 0; i < sizeof settings / sizeof settings[0]; i++) {
    if (strcmp(settings[i].word, in.w[0])) continue;
    if (settings[i].second && (in.n < 2 || strcmp(settings[i].second, in.w[1]))) continue;
    return settings[i].set(w, &in, error, error_size);
  }
  int rc = set_scalar(w, &in, error, error_size);
  return rc <= 0 ? rc : fail(error, error_size, "unknown word \"%s\"", in.w[0]);
}

int world_setting_locked(struct world *w, const char *line, char *error, size_t error_size) {
  world_lock(w);
  int rc = world_setting(w, line, error, error_size);
  world_unlock(w);
  return rc;
}
