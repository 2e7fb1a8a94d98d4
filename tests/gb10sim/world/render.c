/* render.c - the machine's files below SPARKSHIM_ROOT, from the world. See world.h.
 *
 * Every file is written beside its place and renamed over it, so that a reader sees the old text or the new
 * one. Raw open, write and rename: this runs inside jobs, sometimes in the middle of an allocation.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "world.h"

struct text {
  size_t n;
  char s[16384];
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  int n = vsnprintf(t->s + t->n, sizeof t->s - t->n, format, ap);
  va_end(ap);
  if (n > 0) t->n += (size_t)n < sizeof t->s - t->n ? (size_t)n : sizeof t->s - t->n - 1;
}

static void make_parents(char *path, size_t root_length) {
  for (char *p = path + root_length + 1; (p = strchr(p, '/')); p++) {
    *p = '\0';
    mkdir(path, 0755);
    *p = '/';
  }
}

static int put(const struct world *w, const char *name, const char *text, size_t n) {
  char path[2 * WORLD_PATH], temporary[WORLD_PATH + 64];
  snprintf(path, sizeof path, "%s/root%s", w->dir, name);
  snprintf(temporary, sizeof temporary, "%s/new.%d", w->dir, (int)getpid());
  int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return -errno;
  ssize_t put_n = write(fd, text, n);
  close(fd);
  if (put_n != (ssize_t)n) return -EIO;
  if (!rename(temporary, path)) return 0;
  make_parents(path, strlen(w->dir) + 5);
  return rename(temporary, path) ? -errno : 0;
}

static int put_text(const struct world *w, const char *name, const struct text *t) { return put(w, name, t->s, t->n); }

static int render_meminfo(const struct world *w) {
  static const struct {
    const char *name;
    bool count;
  } row[] = {
#define SCALAR(id, words, unit, first) {words, UNIT_##unit == UNIT_N},
#include "scalars.def"
#undef SCALAR
  };
  struct text t = {0};
  for (int i = 0; i <= SCALAR_MEMINFO_LAST; i++) {
    char key[64];
    if (w->scalar[i] < 0) continue;
    snprintf(key, sizeof key, "%s:", row[i].name);
    add(&t, "%-15s %8lld%s\n", key, (long long)w->scalar[i], row[i].count ? "" : " kB");
  }
  return put_text(w, "/proc/meminfo", &t);
}

static int render_vmstat(const struct world *w) {
  static const char *const always[] = {"nr_free_pages",     "pswpin",        "pswpout",      "pgmajfault",
                                       "allocstall_normal", "compact_stall", "compact_fail", "oom_kill"};
  struct text t = {0};
  for (unsigned i = 0; i < sizeof always / sizeof always[0]; i++) {
    long long value = i ? 0 : (long long)w->scalar[SCALAR_MemFree] / 4;
    for (int k = 0; k < w->n_vmstat; k++)
      if (!strcmp(w->vmstat[k].name, always[i])) value = (long long)w->vmstat[k].value;
    add(&t, "%s %lld\n", always[i], value);
  }
  for (int k = 0; k < w->n_vmstat; k++) {
    bool shown = false;
    for (unsigned i = 0; i < sizeof always / sizeof always[0]; i++) shown |= !strcmp(w->vmstat[k].name, always[i]);
    if (!shown) add(&t, "%s %lld\n", w->vmstat[k].name, (long long)w->vmstat[k].value);
  }
  return put_text(w, "/proc/vmstat", &t);
}

static int render_pressure(const struct world *w, const char *name, enum scalar first) {
  struct text t = {0};
  for (int k = 0; k < 2; k++) {
    const int64_t *v = &w->scalar[(int)first + 4 * k];
    add(&t, "%s avg10=%lld.%02lld avg60=%lld.%02lld avg300=%lld.%02lld total=%lld\n", k ? "full" : "some",
        (long long)v[0] / 100, (long long)v[0] % 100, (long long)v[1] / 100, (long long)v[1] % 100,
        (long long)v[2] / 100, (long long)v[2] % 100, (long long)v[3]);
  }
  return put_text(w, name, &t);
}

static int render_buddyinfo(const struct world *w) {
  struct text t = {0};
  add(&t, "Node 0, zone   Normal ");
  for (int i = 0; i < WORLD_ORDERS; i++) add(&t, "%6lld ", (long long)w->buddy[i]);
  add(&t, "\n");
  return put_text(w, "/proc/buddyinfo", &t);
}

static int render_swaps(const struct world *w) {
  struct text t = {0};
  add(&t, "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n");
  if (w->scalar[SCALAR_SwapTotal] > 0)
    add(&t, "/swap.img                               file\t\t%lld\t%lld\t\t-2\n",
        (long long)w->scalar[SCALAR_SwapTotal], (long long)(w->scalar[SCALAR_SwapTotal] - w->scalar[SCALAR_SwapFree]));
  return put_text(w, "/proc/swaps", &t);
}

static int put_of(const struct world *w, int32_t pid, const char *file, const struct text *t) {
  char name[64];
  snprintf(name, sizeof name, "/proc/%d/%s", pid, file);
  return put_text(w, name, t);
}

/* Cut at 15, as the kernel does. */
static void comm_of(const struct world_process *p, char comm[16]) { snprintf(comm, 16, "%.15s", p->name); }

/* Started 1000 + pid ticks after the boot; busy ones have worked since the world began. */
static int render_stat(const struct world *w, const struct world_process *p) {
  struct text t = {0};
  char comm[16];
  comm_of(p, comm);
  unsigned long long ticks = (unsigned long long)p->busy * (world_now(w) / 10000) / 100;
  add(&t, "%d (%s) %c %d %d %d 0 -1 4194304 0 0 0 0 %llu 0 0 0 20 0 1 0 %d 0 0 18446744073709551615\n", p->pid, comm,
      p->busy ? 'R' : 'S', p->parent, p->pid, p->session, ticks, 1000 + p->pid);
  return put_of(w, p->pid, "stat", &t);
}

static int render_status(const struct world *w, const struct world_process *p) {
  struct text t = {0};
  char comm[16];
  comm_of(p, comm);
  add(&t,
      "Name:\t%s\nState:\t%s\nPid:\t%d\nPPid:\t%d\nUid:\t%d\t%d\t%d\t%d\nRssAnon:\t%8lld kB\nRssFile:\t%8d kB\n"
      "RssShmem:\t%8d kB\nVmSwap:\t%8d kB\nThreads:\t1\n",
      comm, p->busy ? "R (running)" : "S (sleeping)", p->pid, p->parent, p->uid, p->uid, p->uid, p->uid,
      (long long)p->rss_kb, 0, 0, 0);
  return put_of(w, p->pid, "status", &t);
}

static void render_process(const struct world *w, const struct world_process *p) {
  struct text t = {0};
  char comm[16];
  comm_of(p, comm);
  add(&t, "%s\n", comm);
  put_of(w, p->pid, "comm", &t);
  render_stat(w, p);
  render_status(w, p);
  t.n = 0;
  if (p->cgroup[0])
    add(&t, "0::%s\n", p->cgroup);
  else if (p->service)
    add(&t, "0::/system.slice/%s.service\n",
        p->name[0] == '/' && strrchr(p->name, '/') ? strrchr(p->name, '/') + 1 : p->name);
  else
    add(&t, "0::/user.slice/user-1000.slice/session-%d.scope\n", p->session % 100);
  put_of(w, p->pid, "cgroup", &t);
  t.n = 0;
  for (const char *c = p->command[0] ? p->command : p->name; *c; c++) t.s[t.n++] = *c == ' ' ? '\0' : *c;
  t.s[t.n++] = '\0';
  put_of(w, p->pid, "cmdline", &t);
}

/* The processor time of busy processes moves with the clock. */
static void render_busy(struct world *w) {
  uint64_t now = world_now(w);
  if (now < w->busy_us + WORLD_BUSY_US) return;
  w->busy_us = now;
  for (int i = 0; i < WORLD_PROCS; i++)
    if (w->process[i].pid > 0 && w->process[i].busy) render_stat(w, &w->process[i]);
}

static void remove_process(const struct world *w, int32_t pid) {
  static const char *const files[] = {"comm", "stat", "status", "cgroup", "cmdline", ""};
  char path[WORLD_PATH + 96];
  for (unsigned i = 0; i < sizeof files / sizeof files[0]; i++) {
    snprintf(path, sizeof path, "%s/root/proc/%d/%s", w->dir, pid, files[i]);
    if (files[i][0])
      unlink(path);
    else
      rmdir(path);
  }
}

static int render_cpus(const struct world *w) {
  int rc = 0;
  for (int64_t i = 0; i < w->scalar[SCALAR_cpus] && !rc; i++) {
    char name[96];
    struct text t = {0};
    snprintf(name, sizeof name, "/sys/devices/system/cpu/cpu%lld/cpufreq/scaling_cur_freq", (long long)i);
    add(&t, "%lld\n", (long long)w->scalar[SCALAR_cpu_khz]);
    rc = put_text(w, name, &t);
  }
  return rc;
}

static int render_moving(const struct world *w) {
  int rc = render_vmstat(w);
  if (!rc) rc = render_pressure(w, "/proc/pressure/cpu", SCALAR_psi_cpu_some_avg10);
  if (!rc) rc = render_pressure(w, "/proc/pressure/memory", SCALAR_psi_memory_some_avg10);
  if (!rc) rc = render_pressure(w, "/proc/pressure/io", SCALAR_psi_io_some_avg10);
  if (!rc) rc = render_buddyinfo(w);
  if (!rc) rc = render_swaps(w);
  return rc;
}

static int render_fixed(const struct world *w) {
  struct text t = {0};
  add(&t,
      "Model: \t\t %s\nIRQ:   \t\t 100\nGPU UUID: \t GPU-67623130-7369-6d2d-7370-61726b2d3031\nVideo BIOS: \t "
      "??.??.??.??.??\nBus Type: \t PCIe\nDMA Size: \t 47 bits\nDMA Mask: \t 0x7fffffffffff\nBus Location: \t "
      "000f:01:00.0\nDevice Minor: \t 0\nGPU Firmware: \t %s\nGPU Excluded:\t No\n",
      w->device_name, w->driver);
  int rc = w->scalar[SCALAR_devices] > 0 ? put_text(w, "/proc/driver/nvidia/gpus/000f:01:00.0/information", &t) : 0;
  t.n = 0;
  add(&t, "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  %s  Release Build\n", w->driver);
  if (!rc) rc = put_text(w, "/proc/driver/nvidia/version", &t);
  t.n = 0;
  add(&t, "%s\n", w->boot_id);
  if (!rc) rc = put_text(w, "/proc/sys/kernel/random/boot_id", &t);
  t.n = 0;
  add(&t, "%s\n", w->kernel);
  if (!rc) rc = put_text(w, "/proc/sys/kernel/osrelease", &t);
  t.n = 0;
  add(&t, "%s\n", w->host);
  if (!rc) rc = put_text(w, "/proc/sys/kernel/hostname", &t);
  if (!rc && w->scalar[SCALAR_devices] > 0) rc = put(w, "/dev/nvidia0", "", 0);
  return rc;
}

/* ---- the job's own cgroup and limits, for whichever of its processes ---- */

static int put_in(const struct world *w, const char *folder, const char *file, const struct text *t) {
  char name[WORLD_PATH + 96];
  snprintf(name, sizeof name, "%s/%s", folder, file);
  return put_text(w, name, t);
}

/* A figure in bytes, or `none` where there is no limit. */
static int put_limit(const struct world *w, const char *folder, const char *file, int64_t kb, const char *none) {
  struct text t = {0};
  if (kb < 0)
    add(&t, "%s\n", none);
  else
    add(&t, "%lld\n", (long long)kb * 1024);
  return put_in(w, folder, file, &t);
}

/* The job's group and the one above it. */
static int render_cgroup_v2(const struct world *w) {
  char folder[WORLD_PATH + 32], above[WORLD_PATH + 32];
  struct text t = {0};
  snprintf(folder, sizeof folder, "/sys/fs/cgroup%s", w->cgroup);
  snprintf(above, sizeof above, "%s", folder);
  *strrchr(above, '/') = '\0';
  add(&t, "low 0\nhigh 0\nmax %lld\noom %lld\noom_kill %lld\noom_group_kill 0\n",
      (long long)w->scalar[SCALAR_cgroup_oom], (long long)w->scalar[SCALAR_cgroup_oom],
      (long long)w->scalar[SCALAR_cgroup_oom_kill]);
  int rc = put_in(w, folder, "memory.events", &t);
  if (!rc) rc = put_limit(w, folder, "memory.current", w->scalar[SCALAR_cgroup_current], "0");
  if (!rc) rc = put_limit(w, folder, "memory.max", w->scalar[SCALAR_cgroup_max], "max");
  if (!rc && strcmp(above, "/sys/fs/cgroup"))
    rc = put_limit(w, above, "memory.max", w->scalar[SCALAR_cgroup_above_max], "max");
  char pressure[WORLD_PATH + 64];
  snprintf(pressure, sizeof pressure, "%s/memory.pressure", folder);
  if (!rc) rc = render_pressure(w, pressure, SCALAR_psi_job_some_avg10);
  t.n = 0;
  add(&t, "0::%s\n", w->cgroup);
  if (!rc) rc = put_text(w, "/proc/self/cgroup", &t);
  t.n = 0;
  add(&t, "31 22 0:27 / /sys/fs/cgroup rw,nosuid,nodev shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
  return rc ? rc : put_text(w, "/proc/self/mountinfo", &t);
}

static int render_cgroup_v1(const struct world *w) {
  static const char unlimited[] = "9223372036854771712";
  char folder[WORLD_PATH + 32];
  struct text t = {0};
  int64_t own = w->scalar[SCALAR_cgroup_max], above = w->scalar[SCALAR_cgroup_above_max];
  snprintf(folder, sizeof folder, "/sys/fs/cgroup/memory%s", w->cgroup);
  add(&t, "oom_kill_disable 0\nunder_oom 0\noom_kill %lld\n", (long long)w->scalar[SCALAR_cgroup_oom_kill]);
  int rc = put_in(w, folder, "memory.oom_control", &t);
  if (!rc) rc = put_limit(w, folder, "memory.usage_in_bytes", w->scalar[SCALAR_cgroup_current], "0");
  if (!rc) rc = put_limit(w, folder, "memory.limit_in_bytes", own, unlimited);
  t.n = 0;
  int64_t least = above >= 0 && (own < 0 || above < own) ? above : own;
  if (least < 0)
    add(&t, "hierarchical_memory_limit %s\n", unlimited);
  else
    add(&t, "hierarchical_memory_limit %lld\n", (long long)least * 1024);
  if (!rc) rc = put_in(w, folder, "memory.stat", &t);
  t.n = 0;
  add(&t, "4:memory:%s\n1:name=systemd:%s\n", w->cgroup, w->cgroup);
  if (!rc) rc = put_text(w, "/proc/self/cgroup", &t);
  t.n = 0;
  add(&t, "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n");
  return rc ? rc : put_text(w, "/proc/self/mountinfo", &t);
}

/* A kernel without memory cgroups. */
static int render_no_cgroup(const struct world *w) {
  struct text t = {0};
  add(&t, "0::/\n");
  int rc = put_text(w, "/proc/self/cgroup", &t);
  t.n = 0;
  add(&t, "22 1 0:20 / /proc rw,nosuid,nodev,noexec shared:5 - proc proc rw\n");
  return rc ? rc : put_text(w, "/proc/self/mountinfo", &t);
}

static void add_rlimit(struct text *t, const char *name, int64_t kb) {
  char text[32] = "unlimited";
  if (kb >= 0) snprintf(text, sizeof text, "%lld", (long long)kb * 1024);
  add(t, "%-25s %-20s %-20s bytes\n", name, text, text);
}

static int render_limits(const struct world *w) {
  struct text t = {0};
  add(&t, "%-25s %-20s %-20s %s\n", "Limit", "Soft Limit", "Hard Limit", "Units");
  add_rlimit(&t, "Max locked memory", w->scalar[SCALAR_limit_memlock]);
  add_rlimit(&t, "Max address space", w->scalar[SCALAR_limit_as]);
  return put_text(w, "/proc/self/limits", &t);
}

/* Of the kernel itself: page size (the auxiliary vector), time of the boot, its log where it may be read. */
static int render_kernel(const struct world *w) {
  enum { AT_PAGESZ = 6 };
  const uint64_t auxv[4] = {AT_PAGESZ, (uint64_t)w->scalar[SCALAR_page_size] * 1024, 0, 0};
  struct text t = {0};
  int rc = put(w, "/proc/self/auxv", (const char *)auxv, sizeof auxv);
  add(&t, "btime %llu\n", (unsigned long long)((w->start_us - WORLD_UPTIME_US) / 1000000));
  if (!rc) rc = put_text(w, "/proc/stat", &t);
  return rc || !w->log[0] ? rc : put(w, "/dev/kmsg", w->log, strlen(w->log));
}

static int render_job(const struct world *w) {
  int64_t version = w->scalar[SCALAR_cgroup_version];
  int rc = version == 2 ? render_cgroup_v2(w) : version == 1 ? render_cgroup_v1(w) : render_no_cgroup(w);
  if (!rc) rc = render_limits(w);
  return rc ? rc : render_kernel(w);
}

static int render_processes(struct world *w) {
  for (int i = 0; i < WORLD_PROCS; i++) {
    if (w->process[i].pid > 0) render_process(w, &w->process[i]);
    if (w->process[i].pid < 0) {
      remove_process(w, -w->process[i].pid);
      w->process[i].pid = 0;
    }
  }
  return 0;
}

static int render_everything(struct world *w) {
  int rc = render_moving(w);
  if (!rc) rc = render_fixed(w);
  if (!rc) rc = render_cpus(w);
  if (!rc) rc = render_processes(w);
  if (!rc) rc = render_job(w);
  for (int i = 0; i < w->n_files && !rc; i++) rc = put(w, w->file[i].path, w->file[i].text, strlen(w->file[i].text));
  return rc;
}

int world_render(struct world *w) {
  int rc = 0;
  if (w->memory_rendered != w->memory_generation) rc = render_meminfo(w);
  w->memory_rendered = w->memory_generation;
  bool everything = w->rendered != w->generation;
  if (everything && !rc) rc = render_everything(w);
  if (!everything && w->moving_rendered != w->moving_generation && !rc) rc = render_moving(w);
  w->rendered = w->generation;
  w->moving_rendered = w->moving_generation;
  render_busy(w);
  return rc;
}

int world_render_locked(struct world *w) {
  world_lock(w);
  int rc = world_render(w);
  world_unlock(w);
  return rc;
}

void world_changed_all(struct world *w) {
  w->generation++;
  w->memory_generation++;
}

void world_changed(struct world *w, enum scalar id) {
  if (id <= SCALAR_MEMINFO_LAST)
    w->memory_generation++;
  else if (id >= SCALAR_psi_cpu_some_avg10 && id <= SCALAR_psi_io_full_total)
    w->moving_generation++;
  else
    w->generation++;
}

void world_changed_vmstat(struct world *w) { w->moving_generation++; }
