/* Tests of what filled the memory before a refusal: pinned host memory, data held twice, an allocator's reserve, and for
 * each what looks like it. */
#include "g03_process.h"

enum { REQUESTS_AT_MOST = 4096 };

/* 121.6 GiB, of which 116 can be had; little page cache. */
static struct fact_memory fresh(void) {
  struct fact_memory m = memory(127535084, 119000000, 121000000, 2000000);
  m.anon = 4 * GIB;
  return m;
}

static void begin(struct process *p) {
  start(p, fresh());
  nothing_held();
  context(p);
}

/* Somebody needs the rest: what is left is less than the machine keeps for itself. */
static void fill_up(struct process *p) { taken(p, p->mem.available - GIB); }

static const struct finding *failed(struct process *p, const char *cause, enum confidence c) {
  p->now += SECOND;
  end(p, 1, START - 1);
  assert_said(p, VERDICT_FAIL, cause, c);
  assert_false(strstr(last(p)->fixes.item[0], "drop_caches"));
  assert_int_equal(last(p)->retry, RETRY_USELESS);
  return last(p);
}

/* ---- pinned_host ------------------------------------------------------------------------------------- */

static void pinned_memory_fills_it(void **state) {
  (void)state;
  static const struct {
    const char *call, *route;
    uint64_t device, piece, last;
  } rows[] = {
      {"cudaHostAlloc", "pinned", 3 * GIB, 2 * GIB, 2 * GIB}, {"cuMemHostAlloc", "pinned", 0, GIB, 20 * GIB},
      {"cudaHostRegister", "pinned", 0, 8 * GIB, 30 * GIB}, /* more is free than the machine needs */
      {"cudaMalloc", "device", 3 * GIB, 5 * GIB, 6 * GIB},  /* the request that meets it may be another one */
      {"cuMemCreate", "vmm", 50 * GIB, 2 * GIB, 2 * GIB},   /* beside a model that does not grow */
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct process p;
    begin(&p);
    if (rows[i].device) grow_device(&p, rows[i].device);
    while (p.mem.available > rows[i].piece + 2 * GIB) grow_pinned(&p, rows[i].piece);
    refuse_held(&p, rows[i].call, rows[i].route, rows[i].last);
    assert_said(&p, VERDICT_WARN, "pinned_host", CONFIDENCE_MEDIUM);
    const struct finding *f = failed(&p, "pinned_host", CONFIDENCE_MEDIUM);
    assert_non_null(strstr(f->fixes.item[0], "pin"));
    stop(&p);
  }
}

static void pinned_memory_that_did_not_do_it(void **state) {
  struct process p;
  (void)state;
  begin(&p); /* a fixed pool, and then device memory grows until the end */
  grow_pinned(&p, 20 * GIB);
  while (p.mem.available > 3 * GIB) grow_device(&p, 2 * GIB);
  fill_up(&p);
  refuse_held(&p, "cudaMalloc", "device", 2 * GIB);
  failed(&p, "alloc_refused_exhausted", CONFIDENCE_HIGH);
  stop(&p);
  begin(&p); /* another program took most of it */
  grow_pinned(&p, 8 * GIB);
  grow_pinned(&p, 8 * GIB);
  fill_up(&p);
  refuse_held(&p, "cudaHostAlloc", "pinned", 8 * GIB);
  failed(&p, "alloc_refused_exhausted", CONFIDENCE_HIGH);
  stop(&p);
  begin(&p); /* others took more meanwhile */
  for (int i = 0; i < 17; i++) grow_pinned(&p, 2 * GIB);
  taken(&p, 40 * GIB);
  fill_up(&p);
  refuse_held(&p, "cudaHostAlloc", "pinned", 2 * GIB);
  failed(&p, "alloc_refused_exhausted", CONFIDENCE_HIGH);
  stop(&p);
  begin(&p); /* a little of it */
  while (counters.pinned < 15 * GIB) grow_pinned(&p, GIB);
  fill_up(&p);
  refuse_held(&p, "cudaHostAlloc", "pinned", 2 * GIB);
  failed(&p, "alloc_refused_exhausted", CONFIDENCE_HIGH);
  stop(&p);
  begin(&p); /* much of it, but page cache is what is in the way */
  while (p.mem.free > 5 * GIB) grow_pinned(&p, 4 * GIB);
  p.mem.available = 60 * GIB;
  p.mem.cached = 58 * GIB;
  refuse_held(&p, "cudaHostAlloc", "pinned", 4 * GIB);
  assert_said(&p, VERDICT_WARN, "alloc_refused_reclaimable", CONFIDENCE_HIGH);
  stop(&p);
}

/* ---- load_double_count --------------------------------------------------------------------------------- */

static void shard(struct process *p, uint64_t host, uint64_t pinned, uint64_t device) {
  if (host) grow_host(p, host);
  if (pinned) grow_pinned(p, pinned);
  grow_device(p, device);
  counters.copied += device;
}

static void data_is_held_twice(void **state) {
  (void)state;
  static const struct {
    uint64_t host, pinned, device, request;
  } rows[] = {
      {3 * GIB, 0, 4 * GIB, 4 * GIB}, /* anonymous staging */
      {0, 3 * GIB, 4 * GIB, 4 * GIB}, /* pinned staging */
      {GIB, 2 * GIB, 3 * GIB, 8 * GIB},  {GIB, 0, 2 * GIB, 2 * GIB},
      {20 * GIB, 0, 28 * GIB, 28 * GIB}, /* a few large ones, and a third that is staged and refused */
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct process p;
    begin(&p);
    uint64_t piece = rows[i].host + rows[i].pinned + rows[i].device;
    while (p.mem.available > piece + GIB) shard(&p, rows[i].host, rows[i].pinned, rows[i].device);
    if (rows[i].host > 10 * GIB) grow_host(&p, p.mem.available - GIB);
    p.mem.available = p.mem.free = 800 * MIB;
    refuse_held(&p, "cudaMalloc", "device", rows[i].request);
    const struct finding *f = failed(&p, "load_double_count", CONFIDENCE_MEDIUM);
    assert_non_null(strstr(f->text, "twice"));
    stop(&p);
  }
}

static void staging_that_is_given_back(void **state) {
  struct process p;
  (void)state;
  begin(&p); /* each shard's host copy goes before the next comes: the model is too large */
  while (p.mem.available > 10 * GIB) {
    shard(&p, 4 * GIB, 0, 4 * GIB);
    p.mem.anon -= 4 * GIB;
    p.mem.free += 4 * GIB;
    p.mem.available += 4 * GIB;
  }
  while (p.mem.available > 3 * GIB) grow_device(&p, 2 * GIB);
  fill_up(&p);
  refuse_held(&p, "cudaMalloc", "device", 4 * GIB);
  failed(&p, "alloc_refused_exhausted", CONFIDENCE_HIGH);
  stop(&p);
  begin(&p); /* another program grew, but before */
  grow_host(&p, 48 * GIB);
  while (p.mem.available > 3 * GIB) shard(&p, 0, 0, 2 * GIB);
  fill_up(&p);
  refuse_held(&p, "cudaMalloc", "device", 4 * GIB);
  failed(&p, "alloc_refused_exhausted", CONFIDENCE_HIGH);
  stop(&p);
  begin(&p); /* another program grew all at once */
  while (p.mem.available > 60 * GIB) shard(&p, 0, 0, 2 * GIB);
  grow_host(&p, 40 * GIB);
  while (p.mem.available > 3 * GIB) shard(&p, 0, 0, 2 * GIB);
  fill_up(&p);
  refuse_held(&p, "cudaMalloc", "device", 4 * GIB);
  failed(&p, "alloc_refused_exhausted", CONFIDENCE_HIGH);
  stop(&p);
}

/* ---- allocator_reserve --------------------------------------------------------------------------------- */

/* A step: data comes in, work is launched and waited for; then the allocator asks for more. */
static void step(struct process *p, uint64_t size) {
  counters.rounds++;
  counters.launches += 500;
  counters.copied += MIB;
  p->now += SECOND;
  if (size) grow_device(p, size);
}

static void load(struct process *p, uint64_t size) {
  for (; size >= 2 * GIB; size -= 2 * GIB) {
    counters.copied += 2 * GIB;
    grow_device(p, 2 * GIB);
  }
}

static uint64_t odd_size(unsigned i) { return GIB + i * 37 % 11 * (64 * MIB); }

static void memory_grows_in_steps(void **state) {
  (void)state;
  for (unsigned variant = 0; variant < 3; variant++) {
    struct process p;
    begin(&p);
    load(&p, 20 * GIB);
    for (unsigned i = 0; i < REQUESTS_AT_MOST && p.mem.available > 3 * GIB; i++) {
      step(&p, odd_size(i));
      if (variant == 1)
        for (unsigned quiet = 0; quiet < 5; quiet++) step(&p, 0);
      if (variant == 2 && i % 20 == 0) counters.device_frees++;
    }
    fill_up(&p);
    refuse_held(&p, "cudaMalloc", "device", 3 * GIB);
    assert_said(&p, VERDICT_WARN, "allocator_reserve", CONFIDENCE_HIGH);
    const struct finding *f = failed(&p, "allocator_reserve", CONFIDENCE_HIGH);
    assert_non_null(strstr(f->fixes.item[0], "empty"));
    assert_non_null(strstr(f->text, "rounds of work"));
    stop(&p);
  }
}

/* Equal sizes would have been served again: the program keeps them, or the allocator's pieces are all alike. */
static void equal_sizes_leave_a_doubt(void **state) {
  struct process p;
  (void)state;
  begin(&p);
  load(&p, 20 * GIB);
  while (p.mem.available > 3 * GIB) step(&p, GIB);
  fill_up(&p);
  refuse_held(&p, "cuMemCreate", "vmm", 3 * GIB);
  failed(&p, "allocator_reserve", CONFIDENCE_MEDIUM);
  stop(&p);
}

static void refuse_again(struct process *p, uint64_t freed, uint64_t size) {
  counters.why = "refused";
  refuse_held(p, "cudaMalloc", "device", size);
  assert_said(p, VERDICT_WARN, "allocator_reserve", CONFIDENCE_HIGH);
  counters.device -= freed;
  counters.device_frees += freed ? 50 : 1;
  refuse_held(p, "cudaMalloc", "device", size);
}

/* What PyTorch does when it is refused tells whether it kept anything: it frees that, and asks again. */
static void second_request_tells(void **state) {
  (void)state;
  static const struct {
    uint64_t freed, size;
    const char *cause;
  } rows[] = {{10 * GIB, 3 * GIB, "allocator_reserve"},
              {6 * GIB, 3 * GIB, "allocator_reserve"},
              {GIB, 3 * GIB, "alloc_refused_exhausted"},
              {0, 3 * GIB, "alloc_refused_exhausted"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct process p;
    begin(&p);
    load(&p, 20 * GIB);
    for (unsigned k = 0; p.mem.available > 3 * GIB; k++) step(&p, odd_size(k));
    fill_up(&p);
    refuse_again(&p, rows[i].freed, rows[i].size);
    failed(&p, rows[i].cause, CONFIDENCE_HIGH);
    bool kept = !strcmp(rows[i].cause, "allocator_reserve");
    unsigned loud = 0; /* of the other cause nothing is left standing */
    for (unsigned k = p.said; k-- > 0;) {
      if (strcmp(p.finding[k].cause, "allocator_reserve")) continue;
      loud = p.finding[k].verdict >= VERDICT_WARN;
      break;
    }
    assert_int_equal(loud, kept);
    stop(&p);
  }
}

/* Another request, or one after a grant, tells nothing about the first. */
static void other_requests_tell_nothing(void **state) {
  (void)state;
  for (int granted = 0; granted < 2; granted++) {
    struct process p;
    begin(&p);
    load(&p, 20 * GIB);
    for (unsigned k = 0; p.mem.available > 3 * GIB; k++) step(&p, odd_size(k));
    fill_up(&p);
    counters.why = "refused";
    refuse_held(&p, "cudaMalloc", "device", 3 * GIB);
    if (granted) counters.device_grants++;
    refuse_held(&p, "cudaMalloc", "device", granted ? 3 * GIB : 2 * GIB);
    failed(&p, "allocator_reserve", CONFIDENCE_HIGH);
    stop(&p);
  }
}

/* What PyTorch does: it frees what it can and asks again; the second refusal has the same cause. */
static void emptied_cache_does_not_hide_it(void **state) {
  struct process p;
  (void)state;
  begin(&p);
  load(&p, 20 * GIB);
  for (unsigned i = 0; p.mem.available > 3 * GIB; i++) step(&p, odd_size(i));
  refuse_held(&p, "cudaMalloc", "device", 3 * GIB);
  counters.device_frees += 60;
  counters.device -= GIB;
  p.mem.free += GIB, p.mem.available += GIB;
  refuse_held(&p, "cudaMalloc", "device", 3 * GIB + GIB);
  failed(&p, "allocator_reserve", CONFIDENCE_MEDIUM); /* now within what swap could give */
  stop(&p);
}

enum { TOO_LARGE, FIRST_PASS, JUMP, FREED, OTHERS, WITH_HOST, SHORT, RELOADED, KINDS };

static void growth_of_another_kind(struct process *p, int kind) {
  switch (kind) {
  case TOO_LARGE: /* a model that does not fit; quantising it makes rounds as well */
    while (p->mem.available > 3 * GIB) counters.rounds += 20, counters.copied += 4 * GIB, grow_device(p, 2 * GIB);
    break;
  case FIRST_PASS: /* activations of the first passes */
    load(p, 40 * GIB);
    step(p, 0);
    for (unsigned i = 0; p->mem.available > 3 * GIB; i++) grow_device(p, odd_size(i));
    break;
  case JUMP: /* steady, then one request too many */
    load(p, 20 * GIB);
    for (unsigned i = 0; i < 100; i++) step(p, i < 12 ? odd_size(i) : 0);
    step(p, 60 * GIB);
    taken(p, p->mem.available - 3 * GIB);
    break;
  case FREED: /* gives back what it takes */
    load(p, 20 * GIB);
    for (unsigned i = 0; p->mem.available > 3 * GIB; i++) counters.device_frees += 3, step(p, odd_size(i));
    break;
  case OTHERS: /* another program takes more than this one grows */
    load(p, 20 * GIB);
    for (unsigned i = 0; p->mem.available > 6 * GIB; i++) {
      taken(p, 4 * GIB);
      step(p, p->mem.available > 6 * GIB ? odd_size(i) : 0);
    }
    fill_up(p);
    break;
  case WITH_HOST: /* host memory grows along: no reserve of the device's allocator */
    load(p, 20 * GIB);
    for (unsigned i = 0; p->mem.available > 6 * GIB; i++) grow_host(p, GIB), step(p, odd_size(i));
    fill_up(p);
    break;
  case SHORT: /* a handful of steps: still warming up */
    load(p, 60 * GIB);
    for (unsigned i = 0; i < 8; i++) step(p, 6 * GIB);
    taken(p, p->mem.available - 2 * GIB);
    break;
  default: /* steps, and then a second model is loaded */
    load(p, 20 * GIB);
    for (unsigned i = 0; i < 30; i++) step(p, i < 9 ? odd_size(i) : 0);
    load(p, p->mem.available - GIB);
    break;
  }
}

static void other_growth_is_no_reserve(void **state) {
  (void)state;
  for (int kind = 0; kind < KINDS; kind++) {
    struct process p;
    begin(&p);
    growth_of_another_kind(&p, kind);
    refuse_held(&p, "cudaMalloc", "device", 8 * GIB);
    for (unsigned i = 0; i < p.said; i++) assert_string_not_equal(p.finding[i].cause, "allocator_reserve");
    failed(&p, kind == WITH_HOST ? "load_double_count" : "alloc_refused_exhausted", last(&p)->confidence);
    stop(&p);
  }
}

/* ---- all of them ------------------------------------------------------------------------------------------ */

static void granted_later_is_no_failure(void **state) {
  struct process p;
  (void)state;
  begin(&p);
  while (p.mem.available > 4 * GIB) grow_pinned(&p, 2 * GIB);
  refuse_held(&p, "cudaMalloc", "device", 6 * GIB);
  assert_said(&p, VERDICT_WARN, "pinned_host", CONFIDENCE_MEDIUM);
  grant(&p, 6 * GIB);
  assert_said(&p, VERDICT_INFO, "pinned_host", CONFIDENCE_MEDIUM);
  end(&p, 1, START - 1);
  assert_int_equal(p.said, 2);
  stop(&p);
}

/* A log of an older library, or one that was thinned out, has no such facts. */
static void without_the_facts_it_is_used_up(void **state) {
  struct process p;
  (void)state;
  start(&p, used_up());
  refuse(&p, 2 * GIB);
  assert_said(&p, VERDICT_WARN, "alloc_refused_exhausted", CONFIDENCE_HIGH);
  stop(&p);
}

/* Figures that are missing, or run backwards, cost the cause and nothing else. */
static void torn_facts(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    struct process p;
    begin(&p);
    memset(&counters, i % 2 ? 0xff : 0, sizeof counters);
    counters.why = NULL;
    if (i >= 2) memset(&p.mem, 0xff, sizeof p.mem);
    holds(&p, NEVER);
    counters.device = GIB;
    holds(&p, 0);
    p.mem = used_up();
    refuse_held(&p, "cudaMalloc", "device", 2 * GIB);
    assert_int_equal(last(&p)->verdict, VERDICT_WARN);
    stop(&p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pinned_memory_fills_it),
      cmocka_unit_test(pinned_memory_that_did_not_do_it),
      cmocka_unit_test(data_is_held_twice),
      cmocka_unit_test(staging_that_is_given_back),
      cmocka_unit_test(memory_grows_in_steps),
      cmocka_unit_test(equal_sizes_leave_a_doubt),
      cmocka_unit_test(second_request_tells),
      cmocka_unit_test(other_requests_tell_nothing),
      cmocka_unit_test(emptied_cache_does_not_hide_it),
      cmocka_unit_test(other_growth_is_no_reserve),
      cmocka_unit_test(granted_later_is_no_failure),
      cmocka_unit_test(without_the_facts_it_is_used_up),
      cmocka_unit_test(torn_facts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
