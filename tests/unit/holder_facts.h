/* holder_facts.h - facts made by hand for the tests of detectors about other holders of memory, and what was said. */
#ifndef SPARKSHIM_TEST_HOLDER_FACTS_H
#define SPARKSHIM_TEST_HOLDER_FACTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "detector.h"

#define KIB (uint64_t)1024
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)
#define SECOND (uint64_t)1000000
#define START (1700000000 * SECOND)
#define NO FACT_NO_U64
#define TOTAL (127535084 * KIB)

enum { MOST = 256, OUR_UID = 1000 };

/* One process as the detectors see it, and everything that they said of it. */
struct process {
  struct det_out out; /* first: emit gets its address */
  const struct detector *only;
  void *state;
  uint64_t now;
  struct fact_memory mem;
  struct fact_sample sample;
  unsigned said;
  struct finding finding[MOST];
};

/* Whatever is said must be printable as a line, and complete. */
static inline void keep(struct det_out *out, const struct finding *f) {
  struct process *p = (struct process *)out;
  char line[512];
  assert_true(p->said < MOST);
  p->finding[p->said++] = *f;
  finding_line(f, false, line, sizeof line);
  assert_true(f->text[0] && f->cause && f->object[0] && f->evidence.n > 0 && f->t);
  assert_null(strstr(line, "unknown size"));
  assert_true(strlen(f->text) < FINDING_TEXT - 1);
  assert_true(f->verdict < VERDICT_WARN || f->fixes.n > 0);
  assert_true(f->verdict < VERDICT_FAIL || f->confidence > CONFIDENCE_LOW);
  /* One doubt and one name for it: medium is never said without the look-alike that is left. */
  bool named = false;
  for (unsigned i = 0; i < f->evidence.n; i++) named = named || strstr(f->evidence.item[i], "not excluded");
  if (f->verdict >= VERDICT_WARN) assert_int_equal(named, f->confidence != CONFIDENCE_HIGH);
  /* Harm last: nothing is ended by force first. */
  if (f->fixes.n) assert_null(strstr(f->fixes.item[0], "-9"));
}

static inline struct fact_memory memory(uint64_t free_bytes, uint64_t available, uint64_t cached) {
  struct fact_memory m;
  memset(&m, 0xff, sizeof m);
  m.total = TOTAL;
  m.free = free_bytes;
  m.available = available;
  m.cached = cached;
  m.buffers = 60 * MIB;
  m.shmem = 10 * MIB;
  m.swap_total = m.swap_free = 16 * GIB;
  return m;
}

static inline void tell(struct process *p, struct fact f) {
  f.t = p->now;
  p->only->observe(p->state, &f, &p->out);
}

static inline void start(struct process *p, const struct detector *only, struct fact_memory mem) {
  memset(p, 0, sizeof *p);
  p->out.emit = keep;
  p->only = only;
  p->state = calloc(1, only->state_size);
  assert_non_null(p->state);
  p->now = START;
  p->mem = mem;
  memset(&p->sample, 0xff, sizeof p->sample);
  struct fact f = {.kind = FACT_KIND_header};
  f.u.header = (struct fact_header){.writer = "shim", .uid = OUR_UID, .gpu = "NVIDIA GB10"};
  tell(p, f);
}

static inline void stop(struct process *p) { free(p->state); }

/* A holder as the collector tells it. The defaults are those of a program of ours that runs in a terminal. */
static inline struct fact_holder holding(uint64_t pid, const char *name, uint64_t bytes) {
  return (struct fact_holder){.pid = pid,
                              .name = name,
                              .argv = name,
                              .kind = "compute",
                              .bytes = bytes,
                              .ppid = 900,
                              .uid = OUR_UID,
                              .watched = 0,
                              .idle = NO};
}

static inline struct fact_holder service(uint64_t pid, const char *name, uint64_t bytes, const char *unit) {
  struct fact_holder h = holding(pid, name, bytes);
  h.managed = "service";
  h.unit = unit;
  h.ppid = 1;
  h.uid = 0;
  h.session_gone = false;
  return h;
}

static inline struct fact_holder orphan(uint64_t pid, const char *name, uint64_t bytes, uint64_t watched) {
  struct fact_holder h = holding(pid, name, bytes);
  h.ppid = 1;
  h.session_gone = true;
  h.watched = h.idle = watched;
  return h;
}

static inline struct fact_holder graphics(uint64_t pid, const char *name, uint64_t bytes) {
  struct fact_holder h = holding(pid, name, bytes);
  h.kind = "graphics";
  return h;
}

/* One whole look. */
static inline void look(struct process *p, const struct fact_holder *list, unsigned n) {
  unsigned compute = 0;
  for (unsigned i = 0; i < n; i++) {
    struct fact f = {.kind = FACT_KIND_holder};
    f.u.holder = list[i];
    compute += !strcmp(list[i].kind, "compute");
    tell(p, f);
  }
  struct fact f = {.kind = FACT_KIND_nvml};
  f.u.nvml = (struct fact_nvml){
      .call = "processes", .answered = true, .compute = compute, .graphics = n - compute, .gone = 0};
  tell(p, f);
}

static inline void look_at(struct process *p, struct fact_holder h) { look(p, &h, 1); }

static inline void refuse_with(struct process *p, const char *call, const char *route, uint64_t size, int64_t result,
                               uint64_t held) {
  struct fact f = {.kind = FACT_KIND_alloc_failed};
  f.u.alloc_failed = (struct fact_alloc_failed){.call = call,
                                                .route = route,
                                                .size = size,
                                                .result = result,
                                                .repeat = 1,
                                                .last = NO,
                                                .live_device = held,
                                                .live_pinned = 0,
                                                .mem = p->mem};
  tell(p, f);
}
static inline void refuse_as(struct process *p, const char *call, const char *route, uint64_t size, int64_t result) {
  refuse_with(p, call, route, size, result, 20 * GIB);
}
static inline void refuse_holding(struct process *p, uint64_t size, uint64_t held) {
  refuse_with(p, "cudaMalloc", "device", size, 2, held);
}
static inline void refuse(struct process *p, uint64_t size) { refuse_as(p, "cudaMalloc", "device", size, 2); }

static inline void grant(struct process *p, uint64_t size) {
  struct fact f = {.kind = FACT_KIND_alloc_recovered};
  f.u.alloc_recovered = (struct fact_alloc_recovered){.call = "cudaMalloc", .route = "device", .size = size};
  tell(p, f);
}

static inline void ask(struct process *p) {
  struct fact f = {.kind = FACT_KIND_mem_query};
  f.u.mem_query = (struct fact_mem_query){
      .call = "cudaMemGetInfo", .result = 0, .free = p->mem.free, .total = p->mem.total, .mem = p->mem};
  tell(p, f);
}

static inline void end(struct process *p, int64_t status, uint64_t last_activity) {
  struct fact f = {.kind = FACT_KIND_exit};
  f.u.exit = (struct fact_exit){.status = status, .signal = FACT_NO_I64, .last_activity = last_activity, .mem = p->mem};
  tell(p, f);
}

static inline void wait_s(struct process *p, uint64_t seconds) { p->now += seconds * SECOND; }

static inline const struct finding *last(const struct process *p) {
  assert_true(p->said > 0);
  return &p->finding[p->said - 1];
}

static inline void assert_said(const struct process *p, enum verdict v, const char *cause, enum confidence c) {
  const struct finding *f = last(p);
  assert_string_equal(f->cause, cause);
  assert_string_equal(verdict_word(f->verdict), verdict_word(v));
  assert_string_equal(confidence_word(f->confidence), confidence_word(c));
}

/* The last word on a cause: VERDICT_PASS when nothing was said. */
static inline enum verdict left_at(const struct process *p, const char *cause) {
  enum verdict v = VERDICT_PASS;
  for (unsigned i = 0; i < p->said; i++)
    if (!strcmp(p->finding[i].cause, cause)) v = p->finding[i].verdict;
  return v;
}

static inline void assert_quiet(const struct process *p) {
  for (unsigned i = 0; i < p->said; i++) assert_true(p->finding[i].verdict <= VERDICT_INFO);
}

static inline bool list_says(const struct finding_list *list, const char *what) {
  for (unsigned i = 0; i < list->n; i++)
    if (strstr(list->item[i], what)) return true;
  return false;
}

#endif
