/* watched.h - a job as its launcher sees it, told to the detectors second by second: for tests of what the launcher's
 * facts decide. One translation unit a test; before it stand cmocka.h, detector.h and
 *   static const struct detector *const judges[] = {...};
 * the detectors that are tested, so that no other one's findings are among theirs. */
#ifndef TESTS_WATCHED_H
#define TESTS_WATCHED_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB (uint64_t)1024
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)
#define SECOND (uint64_t)1000000
#define START (1700000000 * SECOND)
#define NEVER FACT_NO_U64

enum { MOST = 64, JUDGES = sizeof judges / sizeof judges[0], WORKER = 4711, LAUNCHER = 4700 };

struct watched {
  struct det_out out; /* first: emit gets its address */
  void *state[JUDGES];
  uint64_t now;
  struct fact_sample machine; /* the next sample is this */
  unsigned said;
  struct finding finding[MOST];
};

/* Whatever is said must be printable as a line, and complete. */
static void keep(struct det_out *out, const struct finding *f) {
  struct watched *w = (struct watched *)out;
  char line[512];
  assert_true(w->said < MOST);
  w->finding[w->said++] = *f;
  finding_line(f, false, line, sizeof line);
  assert_int_equal(strncmp(line, "G3 ", 3), 0);
  assert_true(f->text[0] && f->cause && f->object[0] && f->evidence.n > 0);
  assert_null(strstr(line, "unknown size"));
  assert_true(strlen(f->text) < FINDING_TEXT - 1);
  const struct finding_list *const list[] = {&f->evidence, &f->fixes, &f->ruled_out};
  for (unsigned k = 0; k < 3; k++)
    for (unsigned i = 0; i < list[k]->n; i++) {
      assert_true(list[k]->item[i][0] && strlen(list[k]->item[i]) < FINDING_ITEM - 1);
      assert_null(strstr(list[k]->item[i], "unknown size"));
    }
  assert_true(f->verdict < VERDICT_WARN || f->fixes.n > 0);
}

static void tell(struct watched *w, struct fact *f) {
  f->t = w->now;
  for (int i = 0; i < JUDGES; i++) judges[i]->observe(w->state[i], f, &w->out);
}

/* 121.6 GiB, of which `available_kb` can be had; 16 GiB of swap, free. */
static struct fact_sample machine(uint64_t available_kb) {
  struct fact_sample s;
  memset(&s, 0xff, sizeof s);
  s.why = "tick";
  s.page_size = 4096;
  s.oom_kill = 7;
  s.pswpin = s.pswpout = 1000;
  s.some_avg10 = s.full_avg10 = 0;
  s.job_processes = 2;
  s.mem.total = 127535084 * KIB;
  s.mem.available = s.mem.free = available_kb * KIB;
  s.mem.swap_total = s.mem.swap_free = 16777212 * KIB;
  return s;
}

static void header(struct watched *w, uint64_t pid, const char *writer) {
  struct fact f = {.kind = FACT_KIND_header};
  f.u.header = (struct fact_header){.writer = writer, .pid = pid, .ppid = LAUNCHER};
  tell(w, &f);
}

/* A launcher has asked NVML once: it looks for killers too. */
static void looked(struct watched *w) {
  struct fact f = {.kind = FACT_KIND_nvml};
  f.u.nvml = (struct fact_nvml){.call = "processes", .answered = true, .waited = 1000, .result = 0};
  tell(w, &f);
}

static void start_unwatched(struct watched *w, struct fact_sample first) {
  memset(w, 0, sizeof *w);
  w->out.emit = keep;
  for (int i = 0; i < JUDGES; i++) {
    w->state[i] = calloc(1, judges[i]->state_size);
    assert_non_null(w->state[i]);
  }
  w->now = START;
  w->machine = first;
  header(w, WORKER, "shim");
}

static void start(struct watched *w, struct fact_sample first) {
  start_unwatched(w, first);
  looked(w);
}

static void stop(struct watched *w) {
  for (int i = 0; i < JUDGES; i++) free(w->state[i]);
}

/* The launcher writes some looks without what takes long to read. */
static void look_at_machine(struct watched *w) {
  struct fact f = {.kind = FACT_KIND_sample};
  struct fact_sample *s = &f.u.sample;
  *s = w->machine;
  s->cgroup_current = s->cgroup_max = s->cgroup_oom = s->cgroup_oom_kill = FACT_NO_U64;
  s->job_some_avg10 = s->job_full_avg10 = s->job_full_total = FACT_NO_U64;
  s->job_processes = s->job_threads = s->job_anon = s->job_shmem = s->job_swap = s->job_cpu = FACT_NO_U64;
  s->job_read = s->job_work = s->job_device = s->job_pinned = FACT_NO_U64;
  tell(w, &f);
}

static void look(struct watched *w) {
  struct fact f = {.kind = FACT_KIND_sample};
  f.u.sample = w->machine;
  tell(w, &f);
}

static void pass(struct watched *w, double seconds) { w->now += (uint64_t)(seconds * (double)SECOND); }

static void pass_and_look(struct watched *w, double seconds) {
  pass(w, seconds / 2);
  look_at_machine(w);
  pass(w, seconds / 2);
  look(w);
}

static const struct finding *last(const struct watched *w) {
  assert_true(w->said > 0);
  return &w->finding[w->said - 1];
}

static void assert_said(const struct watched *w, enum verdict v, const char *cause, enum confidence c) {
  const struct finding *f = last(w);
  assert_string_equal(f->cause, cause);
  assert_string_equal(verdict_word(f->verdict), verdict_word(v));
  assert_string_equal(confidence_word(f->confidence), confidence_word(c));
}

static bool mentions(const struct finding_list *list, const char *what) {
  for (unsigned i = 0; i < list->n; i++)
    if (strstr(list->item[i], what)) return true;
  return false;
}

#endif
