/* A property of all detectors of G3 together: with more than 32 GiB available, no failed call and no death by signal
 * there is no FAIL, but for the free figure (page_cache_counted). Random facts of every kind from fixed seeds; the seed of a
 * sequence that breaks the property is printed, and `unit_g03_property SEED` plays it alone with all its facts.
 *
 * Two generators: one fills every field with anything, as a torn log would; one lets a machine and a job go on as they
 * do, with counters that grow and figures that move. That the sequences reach the detectors at all is proven by
 * breaking the premises: refusals, little memory and signals must bring FAILs. */
#include "g03_process.h"

enum { SEQUENCES = 3000, FACTS = 60, SEED = 20260115 };

/* What may not be in a sequence, and is put in to see the detectors speak. */
enum { REFUSALS = 1, SCARCE = 2, SIGNALS = 4 };

static uint64_t seed;
static bool aloud;

static uint64_t random64(void) { /* xorshift64*, for the same sequence everywhere */
  seed ^= seed >> 12;
  seed ^= seed << 25;
  seed ^= seed >> 27;
  return seed * 0x2545F4914F6CDD1DULL;
}
static uint64_t below(uint64_t n) { return n ? random64() % n : 0; }
static bool one_in(uint64_t n) { return below(n) == 0; }

/* ---- fields ------------------------------------------------------------------------------------------------- */

static uint64_t any_u64(void) {
  static const uint64_t often[] = {0, 1, 2, FACT_NO_U64, FACT_NO_U64 - 1, INT64_MAX};
  switch (below(6)) {
  case 0: return often[below(sizeof often / sizeof *often)];
  case 1: return below(200) * GIB;
  case 2: return below(100000);
  case 3: return below(200 * GIB);
  case 4: return below(3600 * SECOND);
  default: return below(10000); /* hundredths of a per cent */
  }
}
static int64_t any_i64(void) { return one_in(4) ? FACT_NO_I64 : (int64_t)below(4); }
static uint64_t any_hex(void) { return any_u64(); }
static bool any_flag(void) { return one_in(2); }
static const char *any_str(void) {
  static const char *const words[] = {NULL,
                                      "",
                                      "device",
                                      "pinned",
                                      "vmm",
                                      "pool",
                                      "nccl",
                                      "cudaMalloc",
                                      "cuMemAlloc",
                                      "memlock",
                                      "cgroup",
                                      "earlyoom",
                                      "systemd-oomd",
                                      "raylet",
                                      "compute",
                                      "graphics",
                                      "service",
                                      "container",
                                      "growth",
                                      "refused",
                                      "first_context",
                                      "start",
                                      "tick",
                                      "fast",
                                      "pressure",
                                      "end",
                                      "preflight",
                                      "processes",
                                      "load",
                                      "launcher",
                                      "shim",
                                      "libcudart.so.12",
                                      "R",
                                      "D",
                                      "NVIDIA GB10",
                                      "python",
                                      "cudart",
                                      "dlopen",
                                      "ncclAllReduce"};
  return words[below(sizeof words / sizeof *words)];
}
static struct fact_memory any_memory(void) {
  struct fact_memory m;
#define MEM(name, key, doc) m.name = any_u64();
#include "memory_fields.def"
#undef MEM
  return m;
}

static void fill(struct fact *f, enum fact_kind kind) {
  f->kind = kind;
  switch (kind) {
#define FACT(name, doc) case FACT_KIND_##name:
#define FIELD(name, type, field, unit, doc) f->u.name.field = any_##type();
#define FACT_MEMORY(name) f->u.name.mem = any_memory();
#define FACT_END(name) break;
#include "facts.def"
  default: break;
  }
}

static struct fact_memory *memory_in(struct fact *f) {
  switch (f->kind) {
#define FACT(name, doc)
#define FIELD(name, type, field, unit, doc)
#define FACT_MEMORY(name) \
  case FACT_KIND_##name:  \
    return &f->u.name.mem;
#define FACT_END(name)
#include "facts.def"
  default: return NULL;
  }
}

/* ---- a machine and a job that go on --------------------------------------------------------------------------- */

static struct {
  struct fact_memory mem;
  struct fact_sample sample;
  struct fact_holding holding;
} going;

static void begin_world(void) {
  struct fact f;
  fact_init(&f, FACT_KIND_sample);
  going.sample = f.u.sample;
  fact_init(&f, FACT_KIND_holding);
  going.holding = f.u.holding;
  going.mem = memory(127535084, 40000000 + below(80000000), 120000000, 17000000);
  going.mem.anon = below(40 * GIB);
}

static uint64_t moved(uint64_t n, uint64_t by, uint64_t least, uint64_t most) {
  uint64_t step = below(by + 1);
  n = one_in(2) ? n + step : n - (step < n ? step : n);
  return n < least ? least : n > most ? most : n;
}

static void grow(uint64_t *n, uint64_t most) { *n = (*n == FACT_NO_U64 ? 0 : *n) + below(most + 1); }

static void world_moves(uint64_t least) {
  struct fact_memory *m = &going.mem;
  m->available = moved(m->available, 12 * GIB, least, m->total);
  m->free = moved(m->free, 12 * GIB, 0, m->available);
  m->cached = moved(m->cached, 8 * GIB, 0, m->total);
  m->anon = moved(m->anon, 8 * GIB, 0, m->total);
  m->swap_free = moved(m->swap_free, 4 * GIB, 0, m->swap_total);
  if (one_in(50)) m->cma_total = one_in(2) ? 0 : below(16 * GIB), m->cma_free = below(8 * GIB);
}

static void sample_moves(struct fact_sample *s) {
  s->why = any_str();
  s->page_size = 4096;
  grow(&s->oom_kill, one_in(8)); /* somebody's victim */
  s->cgroup_oom_kill = 3;        /* more would be a death in the job */
  grow(&s->pswpin, 100000);
  grow(&s->pswpout, 100000);
  grow(&s->pgmajfault, 1000);
  grow(&s->refault, 100000);
  grow(&s->compact_stall, 1000);
  grow(&s->compact_fail, 1000);
  grow(&s->allocstall, 1000);
  grow(&s->full_total, SECOND);
  grow(&s->job_cpu, SECOND);
  s->some_avg10 = below(10000);
  s->full_avg10 = below(10000);
  s->block_max = below(4) * 8 * MIB;
  s->blocks_large = below(3);
  s->cgroup_current = below(100 * GIB);
  s->cgroup_max = one_in(3) ? below(100 * GIB) : FACT_NO_U64;
  s->job_processes = 1 + below(8);
  s->job_device = going.holding.device;
  s->job_pinned = going.holding.pinned;
}

static void holding_moves(struct fact_holding *h) {
  h->why = "growth";
  h->size = below(4 * GIB);
  grow(&h->device, 6 * GIB);
  grow(&h->pinned, one_in(3) ? 6 * GIB : 0);
  grow(&h->device_grants, 30);
  grow(&h->device_frees, one_in(3) ? 30 : 0);
  grow(&h->pinned_grants, 10);
  grow(&h->pinned_frees, 2);
  grow(&h->launches, 10000);
  grow(&h->rounds, 20);
  grow(&h->copied, one_in(3) ? 6 * GIB : MIB);
}

static void as_it_goes(struct fact *f, uint64_t least) {
  world_moves(least);
  if (f->kind == FACT_KIND_sample) sample_moves(&going.sample), f->u.sample = going.sample;
  if (f->kind == FACT_KIND_holding) holding_moves(&going.holding), f->u.holding = going.holding;
  struct fact_memory *m = memory_in(f);
  if (m) *m = going.mem;
}

/* ---- the premises --------------------------------------------------------------------------------------------- */

static bool is_failure(enum fact_kind kind) {
  return kind == FACT_KIND_alloc_failed || kind == FACT_KIND_call_failed || kind == FACT_KIND_launch_failed ||
         kind == FACT_KIND_image_failed || kind == FACT_KIND_load_failed;
}

static void succeed(struct fact *f) {
  switch (f->kind) {
  case FACT_KIND_mem_query: f->u.mem_query.result = 0; break;
  case FACT_KIND_comm: f->u.comm.result = 0; break;
  case FACT_KIND_device: f->u.device.result = 0; break;
  case FACT_KIND_child: f->u.child.status = 0; break;
  case FACT_KIND_sample: f->u.sample.cgroup_oom_kill = 3; break; /* nobody of the job is killed */
  case FACT_KIND_oom_victim: f->u.oom_victim.ours = false; break;
  default: break;
  }
}

static void plenty(struct fact_memory *m) {
  enum { LEAST_GIB = 32 };
  if (m->total == FACT_NO_U64 || m->total <= (LEAST_GIB + 1) * GIB) m->total = 122 * GIB;
  if (m->available > m->total || m->available <= LEAST_GIB * GIB)
    m->available = LEAST_GIB * GIB + 1 + below(m->total - LEAST_GIB * GIB);
  if (m->free > m->available) m->free = below(m->available + 1);
}

static int64_t own_status(void) {
  static const int64_t often[] = {0, 1, 1, 2, 3, 127, 128, 255, FACT_NO_I64};
  return often[below(sizeof often / sizeof *often)];
}

/* A refusal that memory explains: the figures are made to fit. */
static void refusal(struct fact *f) {
  fill(f, FACT_KIND_alloc_failed);
  f->u.alloc_failed.call = "cudaMalloc";
  f->u.alloc_failed.route = "device";
  f->u.alloc_failed.size = 2 * GIB;
  f->u.alloc_failed.result = 2;
  f->u.alloc_failed.last = FACT_NO_U64;
  f->u.alloc_failed.mem = going.mem;
  f->u.alloc_failed.mem.free = GIB;
}

static void make(struct fact *f, bool sane, unsigned broken) {
  enum fact_kind kind;
  do kind = (enum fact_kind)(1 + below(FACT_KIND_COUNT - 1));
  while (is_failure(kind) || kind == FACT_KIND_exit || kind == FACT_KIND_job_end);
  if (one_in(3)) kind = one_in(2) ? FACT_KIND_sample : FACT_KIND_holding;
  fill(f, kind);
  if (sane) as_it_goes(f, broken & SCARCE ? 0 : 32 * GIB + 1);
  if ((broken & REFUSALS) && one_in(20))
    refusal(f);
  else
    succeed(f);
  if (f->kind == FACT_KIND_header) f->u.header.gpu = one_in(2) ? "NVIDIA GB10" : NULL;
  struct fact_memory *m = memory_in(f);
  if (m && !(broken & SCARCE)) {
    bool refused = f->kind == FACT_KIND_alloc_failed;
    plenty(m);
    if (refused) m->free = GIB;
  }
}

static void make_end(struct fact *f, enum fact_kind kind, unsigned broken) {
  fill(f, kind);
  int64_t signal = (broken & SIGNALS) && one_in(2) ? 9 : FACT_NO_I64;
  int64_t status = signal == FACT_NO_I64 ? own_status() : 128 + signal;
  if (kind == FACT_KIND_exit) f->u.exit.signal = signal, f->u.exit.status = status;
  if (kind == FACT_KIND_job_end)
    f->u.job_end.signal = signal, f->u.job_end.exit = signal == FACT_NO_I64 ? status : FACT_NO_I64;
  if (kind == FACT_KIND_exit && one_in(2)) f->u.exit.last_activity = FACT_NO_U64;
  struct fact_memory *m = memory_in(f);
  if (m) *m = going.mem;
  if (m && !(broken & SCARCE)) plenty(m);
}

/* ---- sequences ------------------------------------------------------------------------------------------------- */

struct outcome {
  struct det_out out; /* first: emit gets its address */
  unsigned said, fails;
  char cause[64], text[FINDING_TEXT];
};

static void note(struct det_out *out, const struct finding *f) {
  struct outcome *o = (struct outcome *)out;
  o->said++;
  if (aloud) printf("  %s: %s: %s\n", verdict_word(f->verdict), f->cause, f->text);
  if (f->verdict != VERDICT_FAIL || !strcmp(f->cause, "page_cache_counted")) return;
  o->fails++;
  snprintf(o->cause, sizeof o->cause, "%s", f->cause);
  snprintf(o->text, sizeof o->text, "%s", f->text);
}

static const char *kind_word(enum fact_kind kind) {
  static const char *const words[] = {
      "none",
#define FACT(name, doc) #name,
#include "facts.def"
  };
  return words[kind];
}

static void show(const struct fact *f) {
  if (!aloud) return;
  const struct fact_memory *m = memory_in((struct fact *)(uintptr_t)f);
  printf("%llu %s", (unsigned long long)f->t, kind_word(f->kind));
  if (m) printf(" MemAvailable %llu MemFree %llu", (unsigned long long)m->available, (unsigned long long)m->free);
  printf("\n");
}

static void play(uint64_t from, unsigned broken, struct outcome *o) {
  enum { G3_ONLY = 1 << 3 };
  void *state = calloc(1, det_state_size());
  assert_non_null(state);
  memset(o, 0, sizeof *o);
  o->out.emit = note;
  seed = from;
  bool sane = !one_in(3), job_ends_first = one_in(2);
  struct fact f = {.t = START};
  begin_world();
  for (int i = 0; i < FACTS; i++) {
    f.t += below(one_in(10) ? 400 * SECOND : 2 * SECOND);
    make(&f, sane, broken);
    show(&f);
    det_observe(state, G3_ONLY, &f, &o->out);
  }
  for (int i = 0; i < 2; i++) {
    f.t += below(one_in(4) ? 60 * SECOND : SECOND);
    make_end(&f, (i == 0) == job_ends_first ? FACT_KIND_job_end : FACT_KIND_exit, broken);
    show(&f);
    det_observe(state, G3_ONLY, &f, &o->out);
  }
  free(state);
}

static uint64_t nth_seed(unsigned i) { return (SEED + (uint64_t)i) * 0x9E3779B97F4A7C15ULL | 1; }

static void plenty_and_no_failure_is_never_a_fail(void **state) {
  unsigned said = 0;
  (void)state;
  print_message("seeds: %u of %u on\n", SEQUENCES, SEED);
  for (unsigned i = 0; i < SEQUENCES; i++) {
    struct outcome o;
    play(nth_seed(i), 0, &o);
    said += o.said;
    if (o.fails) print_error("seed %llu: %s: %s\n", (unsigned long long)nth_seed(i), o.cause, o.text);
    assert_int_equal(o.fails, 0);
  }
  assert_true(said > SEQUENCES / 10); /* the sequences reach the detectors: there are notes and warnings */
}

static void broken_premises_bring_fails(void **state) {
  (void)state;
  static const unsigned broken[] = {REFUSALS, REFUSALS | SCARCE, SCARCE | SIGNALS};
  for (unsigned k = 0; k < sizeof broken / sizeof *broken; k++) {
    unsigned fails = 0;
    for (unsigned i = 0; i < SEQUENCES; i++) {
      struct outcome o;
      play(nth_seed(i), broken[k], &o);
      fails += o.fails > 0;
    }
    print_message("premises %u broken: %u of %u sequences fail\n", broken[k], fails, SEQUENCES);
    assert_true(fails > 0);
  }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(plenty_and_no_failure_is_never_a_fail),
                                     cmocka_unit_test(broken_premises_bring_fails)};
  if (argc == 2) {
    struct outcome o;
    aloud = true;
    play(strtoull(argv[1], NULL, 10), 0, &o);
    return o.fails > 0;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
