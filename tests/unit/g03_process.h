/* g03_process.h - for the tests of G3: a process as the detectors see it, told fact by fact, and what they said of it.
 * To be included once, by a test program. */
#ifndef G03_PROCESS_H
#define G03_PROCESS_H

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
#define NEVER FACT_NO_U64
#define UNLIMITED FACT_NO_U64

enum { MOST = 64 };

/* One process as the detectors see it, and everything that they said of it. */
struct process {
  struct det_out out; /* first: emit gets its address */
  void *state;
  uint64_t now;
  struct fact_memory mem;
  unsigned said;
  struct finding finding[MOST];
};

static inline void keep(struct det_out *out, const struct finding *f) {
  struct process *p = (struct process *)out;
  char line[512];
  assert_true(p->said < MOST);
  p->finding[p->said++] = *f;
  /* Whatever is said must be printable as a line and complete. */
  finding_line(f, false, line, sizeof line);
  assert_int_equal(strncmp(line, "G3 ", 3), 0);
  assert_true(f->text[0] && f->cause && f->object[0] && f->evidence.n > 0);
  assert_null(strstr(line, "unknown size"));
  assert_true(strlen(f->text) < FINDING_TEXT - 1);
  for (unsigned i = 0; i < f->evidence.n; i++) assert_true(strlen(f->evidence.item[i]) < FINDING_ITEM - 1);
  for (unsigned i = 0; i < f->fixes.n; i++) assert_true(strlen(f->fixes.item[i]) < FINDING_ITEM - 1);
  for (unsigned i = 0; i < f->ruled_out.n; i++) assert_true(strlen(f->ruled_out.item[i]) < FINDING_ITEM - 1);
  assert_true(f->verdict < VERDICT_WARN || f->fixes.n > 0);
}

/* In kB, as in /proc/meminfo. All else is not known. */
static inline struct fact_memory memory(uint64_t total, uint64_t free_kb, uint64_t available, uint64_t cached) {
  struct fact_memory m;
  memset(&m, 0xff, sizeof m);
  m.total = total * KIB;
  m.free = free_kb * KIB;
  m.available = available * KIB;
  m.cached = cached * KIB;
  m.buffers = 60000 * KIB;
  m.shmem = 10000 * KIB;
  m.swap_total = m.swap_free = 16777212 * KIB;
  return m;
}

static inline struct fact_memory idle(void) { return memory(127535084, 102000000, 120000000, 17000000); }
static inline struct fact_memory cache_hides_all(void) { return memory(127535084, 43537000, 121268000, 76168000); }
static inline struct fact_memory cache_full(void) { return memory(127535084, 943718, 62914560, 63000000); }
static inline struct fact_memory used_up(void) { return memory(127535084, 943718, 1153433, 734003); }

static inline void start(struct process *p, struct fact_memory mem) {
  memset(p, 0, sizeof *p);
  p->out.emit = keep;
  p->state = calloc(1, det_state_size());
  assert_non_null(p->state);
  p->now = START;
  p->mem = mem;
}

static inline void stop(struct process *p) { free(p->state); }

static inline void tell(struct process *p, struct fact *f) {
  f->t = p->now;
  det_observe(p->state, det_mask(NULL), f, &p->out);
}

static inline void refuse_as(struct process *p, const char *call, const char *route, uint64_t size, int64_t result) {
  struct fact f = {.kind = FACT_KIND_alloc_failed};
  f.u.alloc_failed = (struct fact_alloc_failed){.call = call,
                                                .route = route,
                                                .size = size,
                                                .result = result,
                                                .repeat = 1,
                                                .last = NEVER,
                                                .live_device = 0,
                                                .live_pinned = 0,
                                                .mem = p->mem};
  tell(p, &f);
}
static inline void refuse(struct process *p, uint64_t size) { refuse_as(p, "cudaMalloc", "device", size, 2); }

static inline void grant(struct process *p, uint64_t size) {
  struct fact f = {.kind = FACT_KIND_alloc_recovered};
  f.u.alloc_recovered = (struct fact_alloc_recovered){.call = "cudaMalloc", .route = "device", .size = size};
  tell(p, &f);
}

static inline void announce(struct process *p, uint64_t size) {
  struct fact f = {.kind = FACT_KIND_alloc_large};
  f.u.alloc_large = (struct fact_alloc_large){.call = "cudaMalloc", .route = "device", .size = size, .mem = p->mem};
  tell(p, &f);
}

static inline void ask(struct process *p, int64_t result) {
  struct fact f = {.kind = FACT_KIND_mem_query};
  f.u.mem_query = (struct fact_mem_query){.call = "cudaMemGetInfo",
                                          .result = result,
                                          .free = result ? FACT_NO_U64 : p->mem.free,
                                          .total = result ? FACT_NO_U64 : p->mem.total,
                                          .mem = p->mem};
  tell(p, &f);
}

static inline void end(struct process *p, int64_t status, uint64_t last_activity) {
  struct fact f = {.kind = FACT_KIND_exit};
  f.u.exit = (struct fact_exit){.status = status, .signal = FACT_NO_I64, .last_activity = last_activity, .mem = p->mem};
  tell(p, &f);
}

static inline void killed(struct process *p, int64_t signal, uint64_t last_activity) {
  struct fact f = {.kind = FACT_KIND_exit};
  f.u.exit = (struct fact_exit){
      .status = 128 + signal, .signal = signal, .last_activity = last_activity, .mem = p->mem};
  tell(p, &f);
}

static inline const struct finding *last(const struct process *p) {
  assert_true(p->said > 0);
  return &p->finding[p->said - 1];
}

static inline void assert_said(const struct process *p, enum verdict v, const char *cause, enum confidence c) {
  const struct finding *f = last(p);
  assert_string_equal(verdict_word(f->verdict), verdict_word(v));
  assert_string_equal(f->cause, cause);
  assert_string_equal(confidence_word(f->confidence), confidence_word(c));
}

static inline bool fixes_mention(const struct finding *f, const char *what) {
  for (unsigned i = 0; i < f->fixes.n; i++)
    if (strstr(f->fixes.item[i], what)) return true;
  return false;
}

/* ---- what a process holds as it goes (fact holding) ---------------------------------------------------- */

static inline void context(struct process *p) {
  tell(p, &(struct fact){.kind = FACT_KIND_mem, .u.mem = {.why = "first_context", .mem = p->mem}});
}

static inline void memlock(struct process *p, uint64_t soft) {
  tell(p, &(struct fact){.kind = FACT_KIND_limit, .u.limit = {.name = "memlock", .soft = soft, .hard = soft}});
}

/* Counters of the process, kept by the test; `holds` tells them. */
static struct fact_holding counters;

static inline void nothing_held(void) { counters = (struct fact_holding){.why = "growth"}; }

/* Memory moves: `from_free` goes out of MemFree and MemAvailable. */
static inline void taken(struct process *p, uint64_t bytes) {
  p->mem.free -= bytes < p->mem.free ? bytes : p->mem.free;
  p->mem.available -= bytes < p->mem.available ? bytes : p->mem.available;
}

static inline void holds(struct process *p, uint64_t size) {
  struct fact f = {.kind = FACT_KIND_holding, .u.holding = counters};
  f.u.holding.size = size;
  f.u.holding.mem = p->mem;
  tell(p, &f);
}

static inline void grow_device(struct process *p, uint64_t size) {
  counters.device += size;
  counters.device_grants++;
  taken(p, size);
  holds(p, size);
}

static inline void grow_pinned(struct process *p, uint64_t size) {
  counters.pinned += size;
  counters.pinned_grants++;
  taken(p, size);
  holds(p, size);
}

static inline void grow_host(struct process *p, uint64_t size) {
  p->mem.anon += size;
  taken(p, size);
}

/* A refusal as the library tells it: what is held, then the refusal. */
static inline void refuse_held(struct process *p, const char *call, const char *route, uint64_t size) {
  struct fact f = {.kind = FACT_KIND_alloc_failed};
  holds(p, size);
  f.u.alloc_failed = (struct fact_alloc_failed){.call = call,
                                                .route = route,
                                                .size = size,
                                                .result = 2,
                                                .repeat = 1,
                                                .last = NEVER,
                                                .live_device = counters.device,
                                                .live_pinned = counters.pinned,
                                                .mem = p->mem};
  tell(p, &f);
}

#endif
