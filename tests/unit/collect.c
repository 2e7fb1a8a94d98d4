/* The collectors, on a machine of files: who holds GPU memory, what kills, whom the kernel killed, which limits bind. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "clock.h"
#include "collect.h"

#include "machine_root.h"

/* What was emitted: facts with copies of their strings. */
enum { FACTS = 16, TEXT = 128 };
static struct got {
  struct fact fact;
  char name[TEXT], argv[TEXT], unit[TEXT], managed[TEXT], user[TEXT];
} got[FACTS];
static size_t n_got;

static void keep(char out[TEXT], const char *text) { snprintf(out, TEXT, "%s", text ? text : ""); }

static void emit(const struct fact *f, void *arg) {
  assert_ptr_equal(arg, &n_got);
  assert_true(n_got < FACTS);
  struct got *g = &got[n_got++];
  *g = (struct got){.fact = *f};
  if (f->kind == FACT_KIND_holder) {
    keep(g->name, f->u.holder.name), keep(g->argv, f->u.holder.argv);
    keep(g->unit, f->u.holder.unit), keep(g->managed, f->u.holder.managed);
    keep(g->user, f->u.holder.user);
  }
  if (f->kind == FACT_KIND_killer) keep(g->name, f->u.killer.name), keep(g->argv, f->u.killer.argv);
  if (f->kind == FACT_KIND_oom_victim) keep(g->name, f->u.oom_victim.name);
  if (f->kind == FACT_KIND_limit) keep(g->name, f->u.limit.name), keep(g->unit, f->u.limit.path);
}

/* A process of the other machine: `words` with '|' for the NULs. */
static void process(int pid, const char *comm, int parent, int session, unsigned ticks, const char *cgroup,
                    const char *words) {
  char name[64], text[512];
  snprintf(name, sizeof name, "/proc/%d/stat", pid);
  snprintf(text, sizeof text, "%d (%s) S %d %d %d 0 -1 0 0 0 0 0 %u 0 0 0 20 0 1 0 %d 0\n", pid, comm, parent, pid,
           session, ticks, 1000 + pid);
  put(name, text);
  snprintf(name, sizeof name, "/proc/%d/status", pid);
  snprintf(text, sizeof text, "Name:\t%s\nUid:\t1000\t0\t0\t0\n", comm);
  put(name, text);
  snprintf(name, sizeof name, "/proc/%d/cgroup", pid);
  snprintf(text, sizeof text, "0::%s\n", cgroup);
  put(name, text);
  snprintf(name, sizeof name, "/proc/%d/cmdline", pid);
  size_t n = strlen(words);
  for (size_t i = 0; i <= n; i++) text[i] = words[i] == '|' ? '\0' : words[i];
  put_bytes(name, text, n + 1);
}

static struct nvml_answer answer;

static void list(uint32_t pid, uint64_t bytes, uint32_t graphics, const char *name) {
  struct nvml_process *p = &answer.process[answer.n++];
  *p = (struct nvml_process){.pid = pid, .graphics = graphics, .bytes = bytes};
  snprintf(p->name, sizeof p->name, "%s", name);
  ++*(graphics ? &answer.graphics : &answer.compute);
}

static const struct fact_holder *holder(size_t i) {
  assert_int_equal(got[i].fact.kind, FACT_KIND_holder);
  return &got[i].fact.u.holder;
}

static void holders_and_who_they_are(void **state) {
  (void)state;
  static struct holder_looks h;
  const int job = getpid();
  const struct collect_job view = {.pid = job};
  n_got = 0;
  memset(&h, 0, sizeof h);
  memset(&answer, 0, sizeof answer);
  process(4242, "VLLM::EngineCor", 1, 4000, 5, "/user.slice/user-1000.slice/session-3.scope", "VLLM::EngineCore");
  process(900, "ollama", 1, 900, 5, "/system.slice/ollama.service", "/usr/bin/ollama|serve|--token|abc");
  process(901, "python3", 77, 77, 5, "/", "python3|a.py");
  process(77, "bash", 1, 77, 5, "/", "-bash");
  process(1200, "systemd", 1, 1200, 5, "/user.slice/user-1000.slice/user@1000.service/init.scope", "systemd|--user");
  process(902, "python3", 1200, 4000, 5, "/user.slice/user-1000.slice/user@1000.service/app.slice/a.scope", "b.py");
  put("/etc/passwd", "root:x:0:0::/:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n");
  list(4242, UINT64_C(104277) << 20, 0, "");
  list(900, UINT64_MAX, 0, "");
  list(901, 5, 1, "");
  list(6666666, 7, 0, "far away"); /* in another PID namespace */
  list((uint32_t)job, 9, 0, "");
  list(902, 8, 0, "");
  collect_holders(&h, &answer, 12, root, &view, emit, &n_got);
  assert_int_equal(n_got, 7);
  assert_string_equal(got[0].user, "alice");
  assert_string_equal(got[0].name, "VLLM::EngineCore");
  assert_string_equal(holder(0)->kind, "compute");
  assert_int_equal(holder(0)->bytes, UINT64_C(104277) << 20);
  assert_int_equal(holder(0)->ppid, 1);
  assert_int_equal(holder(0)->uid, 1000);
  assert_true(holder(0)->session_gone);
  assert_null(holder(0)->managed);
  assert_int_equal(holder(0)->watched, 0);
  assert_true(holder(0)->idle == FACT_NO_U64);
  assert_string_equal(got[1].name, "/usr/bin/ollama");
  assert_string_equal(got[1].argv, "/usr/bin/ollama serve --token ***");
  assert_string_equal(got[1].managed, "service");
  assert_string_equal(got[1].unit, "ollama.service");
  assert_true(holder(1)->bytes == FACT_NO_U64 && !holder(1)->session_gone);
  assert_string_equal(holder(2)->kind, "graphics");
  assert_true(!holder(2)->session_gone && !holder(2)->ours && !holder(2)->unseen);
  assert_true(holder(3)->unseen && holder(3)->ppid == FACT_NO_U64 && !holder(3)->session_gone && !got[3].argv[0]);
  assert_string_equal(got[3].name, "far away");
  assert_true(holder(4)->ours && !holder(4)->unseen && strstr(got[4].name, "unit_collect"));
  assert_int_equal(holder(5)->ppid, 1); /* taken in by the user's own systemd */
  assert_true(holder(5)->session_gone);
  const struct fact_nvml *n = &got[6].fact.u.nvml;
  assert_int_equal(got[6].fact.kind, FACT_KIND_nvml);
  assert_int_equal(got[6].fact.t, got[0].fact.t);
  assert_string_equal(n->call, "processes");
  assert_true(n->answered && !n->error && n->waited == 12 && n->result == 0);
  assert_int_equal(n->compute, 5);
  assert_int_equal(n->graphics, 1);
  assert_int_equal(n->gone, 0);
}

static void looks_are_compared(void **state) {
  (void)state;
  static struct holder_looks h;
  memset(&h, 0, sizeof h);
  process(10, "idle", 1, 10, 5, "/", "idle");
  process(11, "busy", 1, 11, 5, "/", "busy");
  process(12, "grows", 1, 12, 5, "/", "grows");
  process(13, "ends", 1, 13, 5, "/", "ends");
  for (int look = 0; look < 3; look++) {
    n_got = 0;
    memset(&answer, 0, sizeof answer);
    if (look) process(11, "busy", 1, 11, 500u * (unsigned)look, "/", "busy");
    list(10, 100, 0, ""), list(11, 100, 0, ""), list(12, 100u + (unsigned)look, 0, "");
    if (!look) list(13, 100, 0, "");
    collect_holders(&h, &answer, 0, root, NULL, emit, &n_got);
    usleep(20000);
  }
  assert_in_range(holder(0)->watched, 40000, 5000000);
  assert_int_equal(holder(0)->idle, holder(0)->watched);
  assert_int_equal(holder(1)->idle, 0);
  assert_int_equal(holder(2)->idle, 0);
  assert_int_equal(got[3].fact.u.nvml.gone, 1);
  process(10, "another", 1, 10, 5, "/", "another"); /* the pid again, by a younger process */
  put("/proc/10/stat", "10 (another) S 1 10 10 0 -1 0 0 0 0 0 5 0 0 0 20 0 1 0 999999 0\n");
  n_got = 0;
  collect_holders(&h, &answer, 0, root, NULL, emit, &n_got);
  assert_int_equal(holder(0)->watched, 0);
  assert_int_equal(got[3].fact.u.nvml.gone, 2);
}

static void more_than_there_is_room_for(void **state) {
  (void)state;
  static struct holder_looks h;
  memset(&h, 0, sizeof h);
  memset(&answer, 0, sizeof answer);
  for (uint32_t i = 0; i < NVML_PROCESSES; i++)
    answer.process[i] = (struct nvml_process){.pid = 7000000 + i, .bytes = 1};
  for (uint32_t round = 0; round < 4; round++) {
    answer.n = 8;
    for (uint32_t i = 0; i < answer.n; i++) answer.process[i].pid = 7000000 + round * 8 + i;
    n_got = 0;
    collect_holders(&h, &answer, 0, root, NULL, emit, &n_got);
    assert_int_equal(n_got, 9);
    assert_int_equal(h.n, 8);
    assert_int_equal(h.gone, round * 8);
  }
}

static void no_answer_is_told_with_its_reason(void **state) {
  (void)state;
  static struct holder_looks h;
  static struct nvml_answer failed = {.result = -1, .error = "library not found: x"};
  n_got = 0;
  collect_holders(&h, &failed, 3, root, NULL, emit, &n_got);
  assert_int_equal(n_got, 1);
  const struct fact_nvml *n = &got[0].fact.u.nvml;
  assert_string_equal(n->call, "load");
  assert_true(!n->answered && n->compute == FACT_NO_U64 && n->result == FACT_NO_I64);
  assert_string_equal(n->error, "library not found: x");
  struct nvml_client c = NVML_CLIENT_NONE;
  n_got = 0;
  collect_nvml_waits(&c, emit, &n_got);
  assert_int_equal(n_got, 0); /* nothing was asked */
  c.asked = clock_us() - 61000000;
  collect_nvml_waits(&c, emit, &n_got);
  assert_true(!got[0].fact.u.nvml.answered && !got[0].fact.u.nvml.error);
  assert_in_range(got[0].fact.u.nvml.waited, 61000000, 70000000);
}

/* ---- killers -------------------------------------------------------------------------------------------------------- */
static const struct fact_killer *killer(const char *name) {
  for (size_t i = 0; i < n_got; i++)
    if (!strcmp(got[i].name, name)) return &got[i].fact.u.killer;
  return NULL;
}

static const struct fact_killer *earlyoom(const char *words) {
  process(500, "earlyoom", 1, 500, 0, "/system.slice/earlyoom.service", words);
  n_got = 0;
  collect_killers(root, NULL, emit, &n_got);
  assert_int_equal(n_got, 1);
  assert_string_equal(got[0].name, "earlyoom");
  return killer("earlyoom");
}

static void earlyoom_s_thresholds(void **state) {
  (void)state;
  static const struct {
    const char *words;
    uint64_t mem, kill, swap;
  } row[] = {
      {"/usr/bin/earlyoom|-r|3600", 1000, 500, 1000},
      {"earlyoom|-m|5", 500, 250, 1000},
      {"earlyoom|-m|20,18|-s|100", 2000, 1800, FACT_NO_U64},
      {"earlyoom|-m4,2|-s|50,1", 400, 200, 5000},
      {"earlyoom|-M|12753508|--avoid|-m", 1000, 500, 1000}, /* a tenth of MemTotal */
      {"earlyoom|-S|1677721", 1000, 500, 1000},
      {"earlyoom|-m|x", 1000, 500, 1000},
      {"earlyoom|-m|-3", 1000, 500, 1000},
      {"earlyoom|-m|900", 1000, 500, 1000},
      {"earlyoom|-m", 1000, 500, 1000},
      {"earlyoom|-m|2.5,9", 250, 250, 1000},
  };
  put("/proc/meminfo", "MemTotal: 127535084 kB\nSwapTotal: 16777212 kB\n");
  for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
    const struct fact_killer *k = earlyoom(row[i].words);
    assert_int_equal(k->mem_min, row[i].mem);
    assert_int_equal(k->mem_kill, row[i].kill);
    assert_true(k->swap_min == row[i].swap);
    assert_false(k->ancestor);
  }
  put("/proc/meminfo", "MemTotal: 127535084 kB\nSwapTotal: 0 kB\n");
  assert_true(earlyoom("earlyoom")->swap_min == FACT_NO_U64); /* without swap it does not matter */
}

static void killers_of_all_kinds(void **state) {
  (void)state;
  put("/proc/meminfo", "MemTotal: 127535084 kB\n");
  process(501, "systemd-oomd", 1, 501, 0, "/", "/usr/lib/systemd/systemd-oomd");
  process(502, "raylet", 1, 502, 0, "/", "/opt/ray/core/src/ray/raylet/raylet|--raylet_socket_name=x");
  process(503, "nohang", 1, 503, 0, "/", "/usr/bin/python3|/usr/sbin/nohang|--monitor");
  process(504, "oomd_bin", 1, 504, 0, "/", "/usr/bin/oomd_bin");
  process(505, "vim", 1, 505, 0, "/", "vim|/etc/default/earlyoom");
  process(506, "python3", 1, 506, 0, "/", "python3|earlyoom.py");
  process(507, "systemd-oomctl", 1, 507, 0, "/", "oomctl");
  process(508, "earlyoom", 1, 508, 0, "/", ""); /* nothing but its name can be read */
  put("/proc/508/status", "Name:\tearlyoom\nNSpid:\t508\nVmPeak:\t1 kB\n");
  process(509, "earlyoom", 1, 509, 0, "/", "earlyoom|-m|99"); /* in a container: none of ours is within its reach */
  put("/proc/509/status", "Name:\tearlyoom\nNSpid:\t509\t1\nVmPeak:\t1 kB\n");
  put("/proc/502/environ", "A=1");
  n_got = 0;
  collect_killers(root, NULL, emit, &n_got);
  assert_int_equal(n_got, 5);
  assert_int_equal(killer("systemd-oomd")->swap_min, 1000);
  assert_int_equal(killer("raylet")->mem_kill, 500);
  assert_true(killer("raylet")->swap_min == FACT_NO_U64);
  assert_int_equal(killer("nohang")->mem_kill, 200);
  assert_true(killer("oomd")->mem_min == FACT_NO_U64);
  assert_int_equal(killer("earlyoom")->pid, 508);
  static const char set[] = "HOME=/\0RAY_memory_usage_threshold=0.9\0Z=1";
  put_bytes("/proc/502/environ", set, sizeof set);
  n_got = 0;
  collect_killers(root, NULL, emit, &n_got);
  assert_int_equal(killer("raylet")->mem_kill, 1000);
}

/* The job's ancestors are real: this program plays one by its command line. */
static void an_ancestor_is_told(void **state) {
  (void)state;
#ifdef UNDER_EMULATOR
  skip();
#endif
  char self[4096];
  put("/proc/meminfo", "MemTotal: 127535084 kB\n");
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  assert_true(n > 0);
  self[n] = '\0';
  pid_t pid = fork();
  if (!pid) {
    execl(self, "/opt/ray/raylet", root, (char *)NULL);
    _exit(9);
  }
  int status;
  waitpid(pid, &status, 0);
  assert_int_equal(status, 0);
}

/* Is run as "raylet": its child is the job. */
static int play_ancestor(const char *folder) {
  int pipes[2];
  char c;
  if (pipe(pipes)) return 1;
  pid_t job = fork();
  if (!job) {
    close(pipes[1]);
    _exit(read(pipes[0], &c, 1) != 0);
  }
  const struct collect_job view = {.pid = job};
  collect_killers(folder, &view, emit, &n_got);
  close(pipes[1]);
  waitpid(job, NULL, 0);
  const struct fact_killer *k = killer("raylet");
  return !(n_got == 1 && k && k->ancestor && k->pid == (uint64_t)getpid());
}

/* ---- victims -------------------------------------------------------------------------------------------------------- */
static void the_kernel_log_names_victims(void **state) {
  (void)state;
  const int mine[] = {4711};
  const struct collect_job job = {.more = mine, .n = 1};
  put("/proc/stat", "cpu  1 2 3\nbtime 1700000000\nprocesses 9\n");
  put("/dev/kmsg",
      "6,900,1000000,-;Linux version\n"
      "3,1000,50000000,-;Out of memory: Killed process 100 (too early) total-vm:1kB\n"
      "4,1001,90000000,-;python3 invoked oom-killer: gfp_mask=0x1\n"
      " SUBSYSTEM=x\n"
      "3,1002,90000001,-;Out of memory: Killed process 4711 (python3 (a) b) total-vm:155kB, anon-rss:1kB, UID:1000\n"
      "3,1003,90000002,-;Memory cgroup out of memory: Killed process 12 (a-name-that-is-cut) total-vm:1kB\n"
      "3,1004,90000003,-;oom_reaper: reaped process 4711 (python3), now anon-rss:0kB\n"
      "3,1005,90000004,-;user said: Killed process 13 (x) total-vm\n"
      "3,1006,90000005,-;Out of memory: Killed process 99999999999999999999 (x) total-vm\n"
      "3,1007,90000006,-;Out of memory: Killed process (x) total-vm\n"
      "3,1008,x,-;Out of memory: Killed process 14 (x) total-vm\n"
      "3,1009\nOut of memory: Killed process 15 (x)\n"
      "3,1010,90000007,-;Out of memory: Killed process 16 (old");
  n_got = 0;
  collect_victims(root, UINT64_C(1700000060) * 1000000, &job, emit, &n_got);
  assert_int_equal(n_got, 2);
  assert_int_equal(got[0].fact.u.oom_victim.pid, 4711);
  assert_string_equal(got[0].name, "python3 (a) b");
  assert_true(got[0].fact.u.oom_victim.ours && !got[0].fact.u.oom_victim.cgroup);
  assert_int_equal(got[0].fact.t, UINT64_C(1700000090000001));
  assert_int_equal(got[1].fact.u.oom_victim.pid, 12);
  assert_string_equal(got[1].name, "a-name-that-is-");
  assert_true(got[1].fact.u.oom_victim.cgroup && !got[1].fact.u.oom_victim.ours);
}

static void no_log_no_victims(void **state) {
  (void)state;
  n_got = 0;
  collect_victims(root, 0, NULL, emit, &n_got); /* the real log is another machine's */
  put("/dev/kmsg", "3,1,1,-;Out of memory: Killed process 16 (a) total-vm\n");
  collect_victims(root, 0, NULL, emit, &n_got); /* no time of the boot */
  assert_int_equal(n_got, 0);
}

/* ---- limits --------------------------------------------------------------------------------------------------------- */
static void limits_of_the_job(void **state) {
  (void)state;
  struct cgroup_place place;
  put("/proc/self/limits", "Limit                     Soft Limit           Hard Limit           Units     \n"
                           "Max locked memory         8388608              unlimited            bytes     \n"
                           "Max address space         unlimited            unlimited            bytes     \n");
  put("/proc/self/cgroup", "0::/a.slice/b.scope\n");
  put("/proc/self/mountinfo", "31 22 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  put("/sys/fs/cgroup/a.slice/memory.max", "107374182400\n");
  put("/sys/fs/cgroup/a.slice/b.scope/memory.max", "max\n");
  put("/sys/fs/cgroup/a.slice/b.scope/memory.current", "1\n");
  assert_int_equal(cgroup_find(root, 0, &place), 0);
  n_got = 0;
  collect_limits(root, getpid(), &place, emit, &n_got);
  assert_int_equal(n_got, 3);
  assert_string_equal(got[0].name, "memlock");
  assert_int_equal(got[0].fact.u.limit.soft, 8388608);
  assert_true(got[0].fact.u.limit.hard == FACT_NO_U64);
  assert_string_equal(got[1].name, "as");
  assert_true(got[1].fact.u.limit.soft == FACT_NO_U64);
  assert_string_equal(got[2].name, "cgroup");
  assert_int_equal(got[2].fact.u.limit.soft, UINT64_C(107374182400));
  assert_string_equal(got[2].unit, "/sys/fs/cgroup/a.slice");
}

static void odd_limits_are_not_told(void **state) {
  (void)state;
  put("/proc/self/limits", "Max locked\nMax address space\n");
  n_got = 0;
  collect_limits(root, 0, NULL, emit, &n_got);
  assert_int_equal(n_got, 0);
  collect_limits(NULL, getpid(), NULL, emit, &n_got);
  assert_int_equal(n_got, 2); /* this process's own */
}

int main(int argc, char **argv) {
#define WITH_ROOT(f) cmocka_unit_test_setup_teardown(f, begin, end)
  const struct CMUnitTest tests[] = {
      WITH_ROOT(holders_and_who_they_are),    WITH_ROOT(looks_are_compared),
      WITH_ROOT(more_than_there_is_room_for), WITH_ROOT(no_answer_is_told_with_its_reason),
      WITH_ROOT(earlyoom_s_thresholds),       WITH_ROOT(killers_of_all_kinds),
      WITH_ROOT(an_ancestor_is_told),         WITH_ROOT(the_kernel_log_names_victims),
      WITH_ROOT(no_log_no_victims),           WITH_ROOT(limits_of_the_job),
      WITH_ROOT(odd_limits_are_not_told),
  };
  if (argc == 2 && !strcmp(argv[0], "/opt/ray/raylet")) return play_ancestor(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
