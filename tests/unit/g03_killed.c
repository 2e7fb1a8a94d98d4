/* Tests of who ended a process: each cause, each look-alike, and what must never be said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "detector.h"

extern const struct detector det_g03_killed;
static const struct detector *const judges[] = {&det_g03_killed};

#include "watched.h"

enum { KILL = 9, TERM = 15 };

static void ended(struct watched *w, int64_t status, int64_t signal) {
  struct fact f = {.kind = FACT_KIND_exit};
  memset(&f.u.exit, 0xff, sizeof f.u.exit);
  f.u.exit.status = status;
  f.u.exit.signal = signal;
  f.u.exit.last_call = NULL;
  tell(w, &f);
}

static void killed(struct watched *w, int64_t signal) { ended(w, 128 + signal, signal); }

static void job_ended(struct watched *w, int64_t exit, int64_t signal) {
  struct fact f = {.kind = FACT_KIND_job_end};
  f.u.job_end = (struct fact_job_end){.pid = WORKER, .exit = exit, .signal = signal};
  tell(w, &f);
}

static void killer(struct watched *w, const char *name, bool ancestor, uint64_t mem_min, uint64_t swap_min,
                   uint64_t mem_kill) {
  struct fact f = {.kind = FACT_KIND_killer};
  f.u.killer = (struct fact_killer){
      .name = name, .pid = 77, .ancestor = ancestor, .mem_min = mem_min, .swap_min = swap_min, .mem_kill = mem_kill};
  tell(w, &f);
}

static void earlyoom(struct watched *w) { killer(w, "earlyoom", false, 1000, 1000, 500); }
static void raylet(struct watched *w) { killer(w, "raylet", true, 500, NEVER, NEVER); }

static void victim(struct watched *w, uint64_t pid, bool cgroup, bool ours) {
  struct fact f = {.kind = FACT_KIND_oom_victim};
  f.u.oom_victim = (struct fact_oom_victim){.pid = pid, .name = "python3", .cgroup = cgroup, .ours = ours};
  tell(w, &f);
}

/* In a session's cgroup without a limit, from 60 GiB down to the edge. */
static struct fact_sample in_cgroup(uint64_t available_kb) {
  struct fact_sample s = machine(available_kb);
  s.cgroup_oom = 0;
  s.cgroup_oom_kill = 2;
  s.cgroup_current = 20 * GIB;
  return s;
}

static void down_to(struct watched *w, uint64_t available_kb) {
  look(w);
  for (int i = 4; i > 0; i--) {
    w->machine.mem.available = (available_kb + (uint64_t)i * 4000000) * KIB;
    pass_and_look(w, 1);
  }
  w->machine.mem.available = w->machine.mem.free = available_kb * KIB;
  pass_and_look(w, 0.2);
}

/* The victim's memory is back at the next reading. */
static void kernel_takes_one(struct watched *w, bool from_cgroup) {
  w->machine.oom_kill++;
  if (from_cgroup) w->machine.cgroup_oom_kill++;
  w->machine.mem.available = 90 * GIB;
  pass_and_look(w, 0.5);
}

/* ---- kernel_oom_kill -------------------------------------------------------------------------------------------- */
static void test_kernel(void **state) {
  (void)state;
  struct watched w;
  start(&w, in_cgroup(60000000));
  down_to(&w, 300000);
  kernel_takes_one(&w, true);
  killed(&w, KILL);
  assert_int_equal(w.said, 1);
  assert_said(&w, VERDICT_FAIL, "kernel_oom_kill", CONFIDENCE_HIGH);
  assert_non_null(strstr(last(&w)->text, "MemAvailable 0.3 GiB of 121.6 GiB"));
  assert_true(mentions(&last(&w)->evidence, "rose by 1"));
  assert_true(mentions(&last(&w)->ruled_out, "another process"));
  assert_true(mentions(&last(&w)->ruled_out, "cgroup_oom_kill"));
  assert_true(mentions(&last(&w)->ruled_out, "userspace_oom_kill"));
  assert_false(mentions(&last(&w)->fixes, "drop_caches"));
  killed(&w, KILL);
  assert_int_equal(w.said, 1);
  stop(&w);
}

/* What comes first is for who holds the greater part. */
static void test_fixes_by_who_holds_more(void **state) {
  (void)state;
  const uint64_t device[] = {1 * GIB, 100 * GIB};
  const char *first[] = {"end other holders", "hold less"};
  for (int i = 0; i < 2; i++) {
    struct watched w;
    start(&w, in_cgroup(60000000));
    w.machine.job_anon = 1 * GIB;
    w.machine.job_device = device[i];
    down_to(&w, 300000);
    kernel_takes_one(&w, true);
    killed(&w, KILL);
    assert_int_equal(last(&w)->fixes.n > 1, 1);
    assert_non_null(strstr(last(&w)->fixes.item[0], first[i]));
    assert_non_null(strstr(last(&w)->fixes.item[1], first[!i]));
    stop(&w);
  }
}

/* Where neither log nor cgroup names the victim, another process is left. */
static void test_kernel_without_cgroup(void **state) {
  (void)state;
  struct watched w;
  start(&w, machine(60000000));
  down_to(&w, 300000);
  kernel_takes_one(&w, false);
  killed(&w, KILL);
  assert_said(&w, VERDICT_FAIL, "kernel_oom_kill", CONFIDENCE_MEDIUM);
  assert_true(mentions(&last(&w)->evidence, "not excluded: the kernel's victim was another"));
  stop(&w);
}

static void test_kernel_named(void **state) {
  (void)state;
  struct watched w;
  start(&w, machine(60000000));
  down_to(&w, 300000);
  kernel_takes_one(&w, false);
  victim(&w, WORKER, false, true);
  killed(&w, KILL);
  assert_said(&w, VERDICT_FAIL, "kernel_oom_kill", CONFIDENCE_HIGH);
  assert_true(mentions(&last(&w)->evidence, "kernel log names python3"));
  stop(&w);
}

/* The number of a process in another PID namespace is no name. */
static void test_same_number_elsewhere(void **state) {
  (void)state;
  struct watched w;
  start(&w, machine(60000000));
  look(&w);
  victim(&w, WORKER, false, false);
  killed(&w, KILL);
  assert_said(&w, VERDICT_INFO, "killed_unknown", CONFIDENCE_HIGH);
  stop(&w);
}

static void test_log_names_another(void **state) {
  (void)state;
  for (int counted = 0; counted < 2; counted++) {
    struct watched w;
    start(&w, counted ? in_cgroup(60000000) : machine(60000000));
    down_to(&w, 300000);
    kernel_takes_one(&w, counted);
    victim(&w, WORKER + 1, false, counted); /* of this job only where its cgroup has counted it */
    killed(&w, KILL);
    assert_said(&w, VERDICT_INFO, "killed_unknown", CONFIDENCE_HIGH);
    stop(&w);
  }
}

/* Two victims in the job's cgroup, one of them perhaps this process. */
static void test_kernel_takes_two(void **state) {
  (void)state;
  struct watched w;
  start(&w, in_cgroup(60000000));
  down_to(&w, 300000);
  w.machine.oom_kill++;
  w.machine.cgroup_oom_kill++;
  pass_and_look(&w, 0.05);
  kernel_takes_one(&w, true);
  killed(&w, KILL);
  assert_said(&w, VERDICT_FAIL, "kernel_oom_kill", CONFIDENCE_MEDIUM);
  assert_true(mentions(&last(&w)->evidence, "more than one"));
  stop(&w);
}

/* Two on the machine, one of them in the job's cgroup: that is this one. */
static void test_kernel_takes_another_too(void **state) {
  (void)state;
  struct watched w;
  start(&w, in_cgroup(60000000));
  down_to(&w, 300000);
  w.machine.oom_kill++;
  kernel_takes_one(&w, true);
  killed(&w, KILL);
  assert_said(&w, VERDICT_FAIL, "kernel_oom_kill", CONFIDENCE_HIGH);
  stop(&w);
}

/* mem-38: another victim forty seconds before, memory enough now. */
static void test_victim_long_before(void **state) {
  (void)state;
  struct watched w;
  start(&w, machine(60000000));
  down_to(&w, 300000);
  kernel_takes_one(&w, false);
  for (int i = 0; i < 40; i++) pass_and_look(&w, 1);
  killed(&w, KILL);
  assert_said(&w, VERDICT_INFO, "killed_unknown", CONFIDENCE_HIGH);
  stop(&w);
}

/* The same moment, but the victim was in another cgroup: that one was at its own limit, or was simply larger. */
static void test_victim_elsewhere(void **state) {
  (void)state;
  static const uint64_t available[] = {70000000, 300000};
  for (int i = 0; i < 2; i++) {
    struct watched w;
    start(&w, in_cgroup(110000000));
    down_to(&w, available[i]);
    kernel_takes_one(&w, false);
    killed(&w, KILL);
    assert_said(&w, VERDICT_INFO, "killed_unknown", CONFIDENCE_HIGH);
    assert_true(mentions(&last(&w)->ruled_out, "no victim in the job's cgroup"));
    stop(&w);
  }
}

/* Nothing tells whose the victim was, and memory was not short: some cgroup's limit. */
static void test_victim_of_unknown_limit(void **state) {
  (void)state;
  struct watched w;
  start(&w, machine(110000000));
  down_to(&w, 70000000);
  kernel_takes_one(&w, false);
  killed(&w, KILL);
  assert_said(&w, VERDICT_INFO, "killed_unknown", CONFIDENCE_HIGH);
  stop(&w);
}

static void test_readings_far_apart(void **state) {
  (void)state;
  struct watched w;
  start(&w, in_cgroup(60000000));
  down_to(&w, 300000);
  pass(&w, 8);
  kernel_takes_one(&w, true);
  killed(&w, KILL);
  assert_said(&w, VERDICT_FAIL, "kernel_oom_kill", CONFIDENCE_MEDIUM);
  assert_true(mentions(&last(&w)->evidence, "far apart"));
  stop(&w);
}

/* 14 GiB a second: the last reading before the end had 10 GiB. */
static void test_fall_too_fast_to_read(void **state) {
  (void)state;
  struct watched w;
  start(&w, in_cgroup(0));
  w.machine.mem.available = 24 * GIB;
  look(&w);
  w.machine.mem.available = 10 * GIB;
  pass(&w, 1);
  look(&w);
  kernel_takes_one(&w, true);
  killed(&w, KILL);
  assert_said(&w, VERDICT_FAIL, "kernel_oom_kill", CONFIDENCE_MEDIUM);
  assert_true(mentions(&last(&w)->evidence, "not read at its lowest"));
  stop(&w);
}

/* A user-space killer would have acted at the same reading. Where swap is free, earlyoom would not. */
static void test_kernel_or_killer(void **state) {
  (void)state;
  struct watched w;
  start(&w, in_cgroup(60000000));
  earlyoom(&w);
  down_to(&w, 300000);
  kernel_takes_one(&w, true);
  killed(&w, KILL);
  assert_said(&w, VERDICT_FAIL, "kernel_oom_kill", CONFIDENCE_HIGH);
  stop(&w);
  start(&w, in_cgroup(60000000));
  w.machine.mem.swap_free = 0;
  earlyoom(&w);
  down_to(&w, 300000);
  kernel_takes_one(&w, true);
  killed(&w, KILL);
  assert_said(&w, VERDICT_FAIL, "kernel_oom_kill", CONFIDENCE_MEDIUM);
  assert_true(mentions(&last(&w)->evidence, "earlyoom is running"));
  stop(&w);
}

/* Two look-alikes are left: no FAIL. */
static void test_too_many_doubts(void **state) {
  (void)state;
  struct watched w;
  start_unwatched(&w, machine(60000000));
  down_to(&w, 300000);
  kernel_takes_one(&w, false);
  killed(&w, KILL);
  assert_said(&w, VERDICT_WARN, "kernel_oom_kill", CONFIDENCE_LOW);
  assert_true(mentions(&last(&w)->evidence, "nobody has looked"));
  stop(&w);
}

/* SIGTERM is never the kernel's. */
static void test_kernel_sends_no_sigterm(void **state) {
  (void)state;
  struct watched w;
  start(&w, in_cgroup(60000000));
  down_to(&w, 300000);
  kernel_takes_one(&w, true);
  killed(&w, TERM);
  assert_int_equal(w.said, 0);
  stop(&w);
}

/* ---- cgroup_oom_kill ---------------------------------------------------------------------------------------------- */
static struct fact_sample limited(uint64_t available_kb) {
  struct fact_sample s = in_cgroup(available_kb);
  s.cgroup_max = 32 * GIB;
  s.cgroup_current = 10 * GIB;
  return s;
}

static void test_cgroup_limit(void **state) {
  (void)state;
  struct watched w;
  start(&w, limited(90000000));
  look(&w);
  w.machine.cgroup_current = 31 * GIB;
  pass_and_look(&w, 1);
  w.machine.cgroup_oom++;
  kernel_takes_one(&w, true);
  killed(&w, KILL);
  assert_said(&w, VERDICT_FAIL, "cgroup_oom_kill", CONFIDENCE_HIGH);
  assert_non_null(strstr(last(&w)->text, "(32.0 GiB)"));
  assert_true(mentions(&last(&w)->ruled_out, "kernel_oom_kill"));
  assert_true(mentions(&last(&w)->fixes, "raise the limit"));
  stop(&w);
}

/* Version 1 has no counter of its own limit: nearly full is what tells. */
static void test_cgroup_limit_v1(void **state) {
  (void)state;
  struct watched w;
  start(&w, limited(90000000));
  w.machine.cgroup_oom = NEVER;
  w.machine.cgroup_current = 31 * GIB;
  look(&w);
  kernel_takes_one(&w, true);
  killed(&w, KILL);
  assert_said(&w, VERDICT_FAIL, "cgroup_oom_kill", CONFIDENCE_HIGH);
  stop(&w);
}

/* A limit far away, and a machine at its edge: the kernel for all. */
static void test_cgroup_limit_not_met(void **state) {
  (void)state;
  struct watched w;
  start(&w, limited(60000000));
  down_to(&w, 300000);
  kernel_takes_one(&w, true);
  killed(&w, KILL);
  assert_said(&w, VERDICT_FAIL, "kernel_oom_kill", CONFIDENCE_HIGH);
  stop(&w);
}

/* Both nearly full, and nothing says which it was. */
static void test_cgroup_and_machine(void **state) {
  (void)state;
  struct watched w;
  start(&w, limited(60000000));
  w.machine.cgroup_oom = NEVER;
  down_to(&w, 300000);
  w.machine.cgroup_current = 31 * GIB;
  pass_and_look(&w, 0.1);
  kernel_takes_one(&w, true);
  killed(&w, KILL);
  assert_said(&w, VERDICT_FAIL, "kernel_oom_kill", CONFIDENCE_MEDIUM);
  stop(&w);
}

/* A limit that cannot be seen from here (the host's, above a container). */
static void test_cgroup_limit_unseen(void **state) {
  (void)state;
  struct watched w;
  start(&w, in_cgroup(90000000));
  look(&w);
  kernel_takes_one(&w, true);
  killed(&w, KILL);
  assert_said(&w, VERDICT_FAIL, "cgroup_oom_kill", CONFIDENCE_MEDIUM);
  stop(&w);
}

static void test_cgroup_named(void **state) {
  (void)state;
  struct watched w;
  start(&w, machine(90000000));
  look(&w);
  kernel_takes_one(&w, false);
  victim(&w, WORKER, true, true);
  killed(&w, KILL);
  assert_said(&w, VERDICT_FAIL, "cgroup_oom_kill", CONFIDENCE_HIGH);
  stop(&w);
}

/* ---- userspace_oom_kill --------------------------------------------------------------------------------------------- */
static void test_ray(void **state) {
  (void)state;
  struct watched w;
  start(&w, machine(60000000));
  raylet(&w);
  down_to(&w, 6228480); /* 113.76 of 119.70 GB: 95 % */
  killed(&w, KILL);
  assert_said(&w, VERDICT_FAIL, "userspace_oom_kill", CONFIDENCE_MEDIUM);
  assert_non_null(strstr(last(&w)->text, "raylet ended this process by SIGKILL"));
  assert_true(mentions(&last(&w)->evidence, "not excluded: a person"));
  assert_true(mentions(&last(&w)->ruled_out, "oom_kill of /proc/vmstat unchanged"));
  assert_true(mentions(&last(&w)->fixes, "RAY_memory_usage_threshold"));
  stop(&w);
}

/* Somebody else's Ray, memory enough, a signal that it does not send. */
static void test_not_ray(void **state) {
  (void)state;
  struct watched w;
  start(&w, machine(60000000));
  killer(&w, "raylet", false, 500, NEVER, NEVER);
  down_to(&w, 6000000);
  killed(&w, KILL);
  assert_said(&w, VERDICT_INFO, "killed_unknown", CONFIDENCE_HIGH);
  stop(&w);
  start(&w, machine(110000000));
  raylet(&w);
  down_to(&w, 40000000);
  killed(&w, KILL);
  assert_said(&w, VERDICT_INFO, "killed_unknown", CONFIDENCE_HIGH);
  stop(&w);
  start(&w, machine(60000000));
  raylet(&w);
  down_to(&w, 6000000);
  killed(&w, TERM);
  assert_int_equal(w.said, 0);
  stop(&w);
}

/* A threshold of nearly all memory: the killer did it, but the program need not hold less. */
static void test_threshold_set_high(void **state) {
  (void)state;
  struct watched w;
  start(&w, machine(110000000));
  killer(&w, "earlyoom", false, 9900, NEVER, 0);
  pass_and_look(&w, 1);
  killed(&w, TERM);
  assert_said(&w, VERDICT_FAIL, "userspace_oom_kill", CONFIDENCE_MEDIUM);
  assert_non_null(strstr(last(&w)->text, "memory was not low"));
  assert_true(mentions(&last(&w)->evidence, "acts below 99.0 % of memory"));
  assert_true(mentions(&last(&w)->fixes, "-m"));
  assert_false(mentions(&last(&w)->fixes, "hold less"));
  stop(&w);
}

/* earlyoom: both memory and swap, SIGTERM first, SIGKILL below half of it. */
static void test_earlyoom(void **state) {
  (void)state;
  static const struct {
    uint64_t available_kb, swap_free_kb;
    int64_t signal;
    bool its;
  } row[] = {
      {12000000, 1600000, TERM, true},  {12000000, 1600000, KILL, false}, /* SIGKILL only below 5 % */
      {6000000, 800000, KILL, true},    {12000000, 9000000, TERM, false}, /* swap is left */
      {30000000, 1600000, TERM, false}, {30000000, 0, KILL, false},
  };
  for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
    struct watched w;
    start(&w, machine(60000000));
    w.machine.mem.swap_free = row[i].swap_free_kb * KIB;
    earlyoom(&w);
    down_to(&w, row[i].available_kb);
    pass(&w, 0.5);
    killed(&w, row[i].signal);
    if (row[i].its)
      assert_said(&w, VERDICT_FAIL, "userspace_oom_kill", CONFIDENCE_MEDIUM);
    else if (row[i].signal == KILL)
      assert_said(&w, VERDICT_INFO, "killed_unknown", CONFIDENCE_HIGH);
    else
      assert_int_equal(w.said, 0);
    stop(&w);
  }
}

static void test_earlyoom_without_swap(void **state) {
  (void)state;
  struct watched w;
  start(&w, machine(60000000));
  w.machine.mem.swap_free = w.machine.mem.swap_total = 0;
  earlyoom(&w);
  down_to(&w, 12000000);
  killed(&w, TERM);
  assert_said(&w, VERDICT_FAIL, "userspace_oom_kill", CONFIDENCE_MEDIUM);
  assert_true(mentions(&last(&w)->fixes, "--avoid"));
  stop(&w);
}

static void test_oomd(void **state) {
  (void)state;
  struct watched w;
  start(&w, machine(30000000));
  killer(&w, "systemd-oomd", false, NEVER, 1000, NEVER);
  look(&w);
  w.machine.job_full_avg10 = 6300;
  pass_and_look(&w, 1);
  killed(&w, KILL);
  assert_said(&w, VERDICT_FAIL, "userspace_oom_kill", CONFIDENCE_MEDIUM);
  stop(&w);
  start(&w, machine(30000000));
  killer(&w, "systemd-oomd", false, NEVER, 1000, NEVER);
  w.machine.full_avg10 = 200;
  look(&w);
  killed(&w, KILL);
  assert_said(&w, VERDICT_INFO, "killed_unknown", CONFIDENCE_HIGH);
  stop(&w);
}

/* Low memory six seconds before the end is no reason any more. */
static void test_killer_too_late(void **state) {
  (void)state;
  struct watched w;
  start(&w, machine(60000000));
  w.machine.mem.swap_free = 0;
  earlyoom(&w);
  down_to(&w, 4000000);
  w.machine.mem.available = 60 * GIB;
  for (int i = 0; i < 6; i++) pass_and_look(&w, 1);
  killed(&w, KILL);
  assert_said(&w, VERDICT_INFO, "killed_unknown", CONFIDENCE_HIGH);
  stop(&w);
}

static void test_killer_without_counter(void **state) {
  (void)state;
  struct watched w;
  start(&w, machine(60000000));
  w.machine.oom_kill = NEVER;
  raylet(&w);
  down_to(&w, 3000000);
  killed(&w, KILL);
  assert_said(&w, VERDICT_WARN, "userspace_oom_kill", CONFIDENCE_LOW);
  stop(&w);
}

/* ---- killed_unknown --------------------------------------------------------------------------------------------------- */
static void test_unknown(void **state) {
  (void)state;
  struct watched w;
  start(&w, machine(73400320));
  look(&w);
  pass_and_look(&w, 1);
  killed(&w, KILL);
  assert_said(&w, VERDICT_INFO, "killed_unknown", CONFIDENCE_HIGH);
  assert_non_null(strstr(last(&w)->text, "sender unknown: MemAvailable 70.0 GiB"));
  assert_true(mentions(&last(&w)->ruled_out, "oom_kill of /proc/vmstat unchanged"));
  stop(&w);
}

/* Low memory without any killer that is known: who sent it stays open. */
static void test_unknown_at_the_edge(void **state) {
  (void)state;
  struct watched w;
  start(&w, machine(60000000));
  down_to(&w, 300000);
  killed(&w, KILL);
  assert_said(&w, VERDICT_INFO, "killed_unknown", CONFIDENCE_HIGH);
  stop(&w);
}

static void test_unknown_without_readings(void **state) {
  (void)state;
  struct watched w;
  start_unwatched(&w, machine(0));
  killed(&w, KILL);
  assert_said(&w, VERDICT_INFO, "killed_unknown", CONFIDENCE_HIGH);
  assert_non_null(strstr(last(&w)->text, "not read"));
  stop(&w);
}

/* Other ends are not of this detector. */
static void test_other_ends(void **state) {
  (void)state;
  struct watched w;
  static const int64_t signals[] = {1, 2, 6, 11, TERM};
  for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
    start(&w, in_cgroup(60000000));
    down_to(&w, 300000);
    kernel_takes_one(&w, true);
    killed(&w, signals[i]);
    assert_int_equal(w.said, 0);
    stop(&w);
  }
  start(&w, in_cgroup(60000000));
  ended(&w, 1, FACT_NO_I64);
  ended(&w, 137, FACT_NO_I64); /* it wrote this itself: it was not killed */
  assert_int_equal(w.said, 0);
  stop(&w);
}

/* ---- the job as its launcher sees it ------------------------------------------------------------------------------------ */
static void test_job(void **state) {
  (void)state;
  struct watched w;
  start(&w, in_cgroup(60000000));
  down_to(&w, 300000);
  kernel_takes_one(&w, true);
  job_ended(&w, FACT_NO_I64, KILL);
  assert_said(&w, VERDICT_FAIL, "kernel_oom_kill", CONFIDENCE_HIGH);
  stop(&w);
  start(&w, machine(73400320));
  look(&w);
  job_ended(&w, 137, FACT_NO_I64);
  assert_said(&w, VERDICT_INFO, "killed_unknown", CONFIDENCE_HIGH);
  stop(&w);
}

/* Its status is 1: it had a worker, and that one is gone. */
static void test_job_lost_a_worker(void **state) {
  (void)state;
  struct watched w;
  for (int seen = 0; seen < 2; seen++) {
    start(&w, in_cgroup(60000000));
    down_to(&w, 300000);
    w.machine.job_processes -= (uint64_t)seen;
    kernel_takes_one(&w, true);
    for (int i = 0; i < 20; i++) pass_and_look(&w, 1);
    job_ended(&w, 1, FACT_NO_I64);
    if (seen)
      assert_said(&w, VERDICT_FAIL, "kernel_oom_kill", CONFIDENCE_MEDIUM);
    else
      assert_said(&w, VERDICT_WARN, "kernel_oom_kill", CONFIDENCE_LOW);
    assert_true(mentions(&last(&w)->evidence, "not excluded: the job failed for another reason"));
    stop(&w);
  }
}

static void test_job_worker_named(void **state) {
  (void)state;
  struct watched w;
  static const int waits[] = {5, 100};
  for (int i = 0; i < 2; i++) {
    start(&w, machine(60000000));
    down_to(&w, 300000);
    kernel_takes_one(&w, false);
    for (int k = 0; k < waits[i]; k++) pass_and_look(&w, 1);
    victim(&w, WORKER + 5, false, true);
    job_ended(&w, 1, FACT_NO_I64);
    if (i == 0)
      assert_said(&w, VERDICT_FAIL, "kernel_oom_kill", CONFIDENCE_MEDIUM);
    else
      assert_said(&w, VERDICT_WARN, "kernel_oom_kill", CONFIDENCE_LOW); /* it lived on for long */
    stop(&w);
  }
}

/* It went on without the worker and ended well; or it failed, and the kernel took nobody. */
static void test_job_survives(void **state) {
  (void)state;
  struct watched w;
  start(&w, in_cgroup(60000000));
  down_to(&w, 300000);
  kernel_takes_one(&w, true);
  job_ended(&w, 0, FACT_NO_I64);
  assert_int_equal(w.said, 0);
  stop(&w);
  start(&w, in_cgroup(60000000));
  down_to(&w, 300000);
  job_ended(&w, 1, FACT_NO_I64);
  assert_int_equal(w.said, 0);
  stop(&w);
}

/* ---- limit_not_covering ------------------------------------------------------------------------------------------------- */
static void test_limit(void **state) {
  (void)state;
  struct watched w;
  start(&w, machine(9437184));
  w.machine.cgroup_max = 100 * GIB;
  w.machine.cgroup_current = 6 * GIB;
  w.machine.job_device = 90 * GIB;
  look(&w);
  assert_int_equal(w.said, 0);
  w.machine.job_device = 110 * GIB;
  pass_and_look(&w, 1);
  assert_said(&w, VERDICT_INFO, "limit_not_covering", CONFIDENCE_MEDIUM);
  pass_and_look(&w, 1);
  assert_int_equal(w.said, 1);
  stop(&w);
}

/* No limit, one above the machine's memory, no device memory, or nothing known. */
static void test_limit_harmless(void **state) {
  (void)state;
  static const struct {
    uint64_t max, current, device;
  } row[] = {{NEVER, 6 * GIB, 110 * GIB},
             {200 * GIB, 6 * GIB, 110 * GIB},
             {100 * GIB, 99 * GIB, 0},
             {100 * GIB, 99 * GIB, NEVER},
             {100 * GIB, 20 * GIB, 80 * GIB}};
  for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
    struct watched w;
    start(&w, machine(9437184));
    w.machine.cgroup_max = row[i].max;
    w.machine.cgroup_current = row[i].current;
    w.machine.job_device = row[i].device;
    look(&w);
    assert_int_equal(w.said, 0);
    stop(&w);
  }
}

/* Nothing is known: no figure, a counter that runs back, times that stand still. */
static void test_nothing_known(void **state) {
  (void)state;
  struct watched w;
  struct fact_sample blind;
  memset(&blind, 0xff, sizeof blind);
  blind.why = NULL;
  start(&w, blind);
  look(&w);
  look(&w);
  killer(&w, NULL, true, NEVER, NEVER, NEVER);
  victim(&w, NEVER, true, false);
  killed(&w, KILL);
  assert_said(&w, VERDICT_INFO, "killed_unknown", CONFIDENCE_HIGH);
  stop(&w);
  start(&w, in_cgroup(300000));
  look(&w);
  w.machine.oom_kill = w.machine.cgroup_oom_kill = 0;
  pass_and_look(&w, 1);
  killed(&w, KILL);
  assert_said(&w, VERDICT_INFO, "killed_unknown", CONFIDENCE_HIGH);
  stop(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_kernel),
      cmocka_unit_test(test_fixes_by_who_holds_more),
      cmocka_unit_test(test_kernel_without_cgroup),
      cmocka_unit_test(test_kernel_named),
      cmocka_unit_test(test_same_number_elsewhere),
      cmocka_unit_test(test_log_names_another),
      cmocka_unit_test(test_kernel_takes_two),
      cmocka_unit_test(test_kernel_takes_another_too),
      cmocka_unit_test(test_victim_long_before),
      cmocka_unit_test(test_victim_elsewhere),
      cmocka_unit_test(test_victim_of_unknown_limit),
      cmocka_unit_test(test_readings_far_apart),
      cmocka_unit_test(test_fall_too_fast_to_read),
      cmocka_unit_test(test_kernel_or_killer),
      cmocka_unit_test(test_too_many_doubts),
      cmocka_unit_test(test_kernel_sends_no_sigterm),
      cmocka_unit_test(test_cgroup_limit),
      cmocka_unit_test(test_cgroup_limit_v1),
      cmocka_unit_test(test_cgroup_limit_not_met),
      cmocka_unit_test(test_cgroup_and_machine),
      cmocka_unit_test(test_cgroup_limit_unseen),
      cmocka_unit_test(test_cgroup_named),
      cmocka_unit_test(test_ray),
      cmocka_unit_test(test_not_ray),
      cmocka_unit_test(test_threshold_set_high),
      cmocka_unit_test(test_earlyoom),
      cmocka_unit_test(test_earlyoom_without_swap),
      cmocka_unit_test(test_oomd),
      cmocka_unit_test(test_killer_too_late),
      cmocka_unit_test(test_killer_without_counter),
      cmocka_unit_test(test_unknown),
      cmocka_unit_test(test_unknown_at_the_edge),
      cmocka_unit_test(test_unknown_without_readings),
      cmocka_unit_test(test_other_ends),
      cmocka_unit_test(test_job),
      cmocka_unit_test(test_job_lost_a_worker),
      cmocka_unit_test(test_job_worker_named),
      cmocka_unit_test(test_job_survives),
      cmocka_unit_test(test_limit),
      cmocka_unit_test(test_limit_harmless),
      cmocka_unit_test(test_nothing_known),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
