/* around.c - see around.h. */
#include "around.h"
#include "clock.h"
#include "collect.h"
#include "fact_list.h"
#include "sample.h"
#include "split.h"
#include "stallwatch.h"

#include <string.h>

enum {
  SECOND = 1000 * 1000,
  PATIENCE_US = 15 * SECOND, /* after the first look: what a crash has left is given back within ten seconds */
  QUICK_US = 2 * SECOND,     /* between two looks within that time */
  SLOW_US = 10 * SECOND,     /* and behind it */
  WRITE_US = 60 * SECOND,    /* after which a look is written that shows nothing new */
  MOVED = 256 << 20,         /* bytes: a holder that has grown or shrunk by so much is news */
  WAIT_MS = 1000,            /* for the only look, at the end of a job that failed */
  KILLERS = 16,              /* that are told once; more than that, each time that they are seen */
  SIMULATED_MS = 300,        /* under the simulator its clock waits while we do: hours must not pass before an answer */
};

static struct {
  struct around_of of;
  bool knows_killers, knows_limits;
  uint64_t killer[KILLERS]; /* those told: process ids */
  size_t killers;
  uint64_t oom_kill; /* of the last look */
  uint64_t victims;  /* until when the kernel log was read */
  struct nvml_client nvml;
  struct holder_looks holders;
  bool has_looked;             /* an answer came */
  uint64_t first, next;        /* look at the holders */
  uint64_t told_wait;          /* of the question that waits: the time waited that was written */
  struct fact_list look, last; /* the present look, and the last one written */
  uint64_t written;
  struct split_follow split;
  uint64_t split_t; /* of the latest that was written */
} s = {.nvml = NVML_CLIENT_NONE};

static struct collect_job job(void) {
  return (struct collect_job){.pid = s.of.tree->job, .more = s.of.tree->pid, .n = s.of.tree->n};
}

static void pass(const struct fact *fact, void *unused) {
  (void)unused;
  s.of.write(fact);
}

/* ---- victims, killers, limits -------------------------------------------------------------------------------------- */
static void find_victims(void) {
  struct collect_job of = job();
  uint64_t now = clock_us();
  collect_victims(s.of.root, s.victims, &of, pass, NULL);
  s.victims = now;
}

static void pass_killer(const struct fact *fact, void *unused) {
  for (size_t i = 0; i < s.killers; i++)
    if (s.killer[i] == fact->u.killer.pid) return;
  if (s.killers < KILLERS) s.killer[s.killers++] = fact->u.killer.pid;
  pass(fact, unused);
}

/* At the first look, and at the end of a job that failed for those that came after it: each is told once. */
static void find_killers(void) {
  struct collect_job of = job();
  collect_killers(s.of.root, &of, pass_killer, NULL);
  s.knows_killers = true;
}

/* `pid`: 0 when the job is gone, which had what the launcher handed down. */
static void find_limits(int pid) {
  if (!s.knows_limits) collect_limits(s.of.root, pid, s.of.place, pass, NULL);
  s.knows_limits = true;
}

void around_begin(const struct around_of *of) {
  s.of = *of;
  s.oom_kill = FACT_NO_U64;
  s.victims = clock_us();
  split_follow_init(&s.split);
}

/* ---- where memory is ----------------------------------------------------------------------------------------------- */

/* With the readings of this moment. */
static void write_split(const char *why) {
  struct ring_sums held;
  stallwatch_sums(&held);
  struct sample_from from = {.root = s.of.root,
                             .pid = s.of.tree->pid,
                             .pids = s.of.tree->n,
                             .parts = SAMPLE_MACHINE | SAMPLE_JOB | SAMPLE_SHARES,
                             .job_device = held.device,
                             .job_pinned = held.pinned};
  struct fact now, split;
  sample_read(&from, why, &now);
  split_follow(&s.split, &now);
  fact_init(&split, FACT_KIND_split);
  split.t = now.t;
  if (!split_now(&s.split, why, &split.u.split)) return;
  s.of.write(&split);
  s.split_t = now.t;
}

/* ---- holders ------------------------------------------------------------------------------------------------------- */
static void keep(const struct fact *fact, void *unused) {
  (void)unused;
  fact_list_add(&s.look, fact);
  split_follow(&s.split, fact);
}

static bool same_holder(const struct fact_holder *a, const struct fact_holder *b) {
  uint64_t moved = a->bytes > b->bytes ? a->bytes - b->bytes : b->bytes - a->bytes;
  return a->pid == b->pid && a->ours == b->ours && moved < MOVED;
}

/* Whether the two lists, in the order of NVML, are of the same processes with about the same memory. */
static bool same_look(const struct fact_list *a, const struct fact_list *b) {
  if (a->n != b->n) return false;
  for (size_t i = 0; i < a->n; i++) {
    if (a->fact[i].kind != b->fact[i].kind) return false;
    if (a->fact[i].kind == FACT_KIND_holder && !same_holder(&a->fact[i].u.holder, &b->fact[i].u.holder)) return false;
    if (a->fact[i].kind == FACT_KIND_nvml && a->fact[i].u.nvml.answered != b->fact[i].u.nvml.answered) return false;
  }
  return true;
}

static void write_look(uint64_t now) {
  for (size_t i = 0; i < s.look.n; i++) s.of.write(&s.look.fact[i]);
  write_split("tick");
  fact_list_free(&s.last);
  s.last = s.look;
  s.look = (struct fact_list){NULL, 0};
  s.written = now;
}

static void take_answer(uint64_t now, uint64_t waited, unsigned coarse) {
  struct collect_job of = job();
  fact_list_free(&s.look);
  collect_holders(&s.holders, &s.nvml.answer, waited, s.of.root, &of, keep, NULL);
  if (!s.has_looked) s.first = now;
  s.has_looked = true;
  s.told_wait = 0;
  bool early = now - s.first <= PATIENCE_US;
  s.next = now + (s.nvml.answer.error[0] ? WRITE_US : early ? QUICK_US : SLOW_US);
  if (early || !same_look(&s.last, &s.look) || now - s.written >= (uint64_t)WRITE_US << coarse) write_look(now);
}

/* Written when it has waited 2, 4, 8, ... seconds, and every two minutes. */
static void tell_wait(uint64_t waited) {
  enum { SELDOM_US = 120 * SECOND };
  uint64_t due = s.told_wait < SELDOM_US ? 2 * s.told_wait : s.told_wait + SELDOM_US;
  if (waited < (due ? due : QUICK_US)) return;
  s.told_wait = waited;
  collect_nvml_waits(&s.nvml, pass, NULL);
}

/* `real_ms`: how long an answer may be waited for. */
static void look_at_holders(int real_ms, unsigned coarse) {
  uint64_t now = clock_us();
  bool fresh = !s.nvml.asked;
  if (fresh && (now < s.next || nvml_ask(&s.nvml))) return;
  uint64_t asked = s.nvml.asked;
  /* Once for each question: while the simulated driver does not answer, looks go on. */
  if (s.of.root && fresh && real_ms < SIMULATED_MS) real_ms = SIMULATED_MS;
  enum nvml_state state = nvml_take(&s.nvml, real_ms);
  now = clock_us();
  uint64_t waited = now > asked ? now - asked : 0;
  if (state == NVML_ANSWERED)
    take_answer(now, waited, coarse);
  else
    tell_wait(waited);
}

/* ---- the whole ----------------------------------------------------------------------------------------------------- */
void around_look(const struct fact *sample, bool uses_gpu, unsigned coarse) {
  uint64_t kills = sample->u.sample.oom_kill;
  find_limits(s.of.tree->job);
  if (!s.knows_killers) find_killers();
  if (s.oom_kill != FACT_NO_U64 && kills != s.oom_kill) find_victims();
  s.oom_kill = kills;
  if (uses_gpu && !s.split_t) write_split("start");
  if (uses_gpu) look_at_holders(0, coarse);
}

void around_end(bool failed, bool uses_gpu) {
  find_victims();
  if (failed) find_limits(0);
  if (failed) find_killers();
  if (failed && uses_gpu && !s.has_looked) look_at_holders(WAIT_MS, 0);
  if (failed && uses_gpu && clock_us() - s.split_t > SECOND) write_split("end");
  nvml_end(&s.nvml);
}
