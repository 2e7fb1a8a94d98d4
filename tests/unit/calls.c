/* calls.c - what hooked calls write down: allocations, refusals, large requests, memory queries, look-ups. The
 * library's wrappers and slow paths are linked into this program; ring, log and link map are stand-ins kept here. */
#include <setjmp.h>
#include <stdarg.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "alloc.h"
#include "calls.h"
#include "hooks.h"
#include "pagecache.h"
#include "sampler_thread.h"

/* ---- stand-ins for the rest of the library ------------------------------------------------------------------------- */
__thread struct shim_thread shim_thread;
uint32_t shim_life = SHIM_AWAKE, shim_objects;
struct shim_settings shim_settings;
static struct ring_slot slot;
static struct fact facts[4096];
static unsigned made;
static int64_t live[ROUTE_COUNT];
static int calls_real;

bool shim_wake(void) { return shim_life == SHIM_AWAKE; }
static uint32_t same_process = 1;
uint32_t *fork_mark = &same_process;
bool fork_child_begins(void) { return false; }
void dl_settle(void) {}
struct ring_slot *ring_slot_get(void) {
  return &slot;
}
void observe(struct fact *fact) {
  if (made < sizeof facts / sizeof facts[0]) facts[made] = *fact;
  made++;
}
void ring_alloc_note(enum hook_id call, enum alloc_route route, uint64_t ptr, uint64_t size, uint32_t result,
                     uint64_t ticks) {
  (void)call, (void)ptr, (void)ticks;
  if (!result) live[route] += (int64_t)size;
}
void ring_free_note(enum hook_id call, enum alloc_route route, uint64_t ptr, uint64_t size, uint64_t ticks) {
  (void)call, (void)ptr, (void)ticks;
  live[route] -= (int64_t)size;
}
void ring_untracked_note(enum alloc_route route) { (void)route; }
void ring_counters(enum alloc_route route, struct ring_counters *out) {
  *out = (struct ring_counters){.live = (uint64_t)live[route], .count = 1};
}
uint32_t ring_grown;
static uint64_t growth_step;
void ring_growth_step(uint64_t bytes) { growth_step = bytes; }
void ring_work(struct ring_work *out) { *out = (struct ring_work){slot.launches, slot.rounds, slot.copied}; }
void coll_at_exit(void) {}
static unsigned thread_wanted, thread_offers;
void sampler_thread_want(void) { thread_wanted++; }
void sampler_thread_offer(void) { thread_offers++; }
bool linkmap_object_at(const void *addr, char *path, size_t size, uint64_t *ret_offset) {
  (void)addr, (void)path, (void)size, (void)ret_offset;
  return false;
}
static char exports[64]; /* addresses that stand for libcuda's functions */
void *linkmap_symbol(const char *soname, const char *node, const char *symbol) {
  (void)soname, (void)node;
  if (!strcmp(symbol, "cuMemAlloc_v2")) return &exports[1];
  if (!strcmp(symbol, "cuMemcpyHtoD_v2")) return &exports[2];
  if (!strcmp(symbol, "cuMemcpyHtoD_v2_ptds")) return &exports[3];
  return NULL;
}
static int forgotten;
static int last_error(void) {
  forgotten++;
  return 2;
}
static bool has_last_error = true;
void *linkmap_beside(const void *addr, const char *symbol) {
  (void)addr;
  return has_last_error && !strcmp(symbol, "cudaGetLastError") ? (void *)(uintptr_t)last_error : NULL;
}
enum hook_lib hook_library(enum hook_id id) { return id == HOOK_ID_cudaMalloc ? HOOK_LIB_CUDART : HOOK_LIB_DRIVER; }
static enum hook_id handed_for;
void *hook_for(enum hook_id id, void *real) {
  (void)real;
  handed_for = id;
  return &exports[40];
}
const char *hook_name(enum hook_id id) {
  static const char *const names[] = {
    "",
#define HOOK(lib, name, ...) #name,
#include "hooks.def"
#undef HOOK
  };
  return names[id];
}

/* ---- a runtime that says what it is told ------------------------------------------------------------------------ */
static int answer, later_answer; /* of the first call, and of the second when it is made again */
static void *answer_ptr;
int hook_cudaMalloc__any(void **ptr, size_t size);
int hook_cudaFree__any(void *ptr);
int hook_cudaMemGetInfo__any(size_t *free_bytes, size_t *total_bytes);
static int real_malloc(void **ptr, size_t size) {
  int now = answer;
  (void)size;
  calls_real++;
  if (!now) *ptr = answer_ptr;
  answer = later_answer;
  return now;
}
static int real_free(void *ptr) {
  (void)ptr;
  return answer;
}
static size_t answer_free;
static int real_mem_get_info(size_t *free_bytes, size_t *total_bytes) {
  if (answer) return answer;
  *free_bytes = answer_free, *total_bytes = (size_t)1 << 37;
  return 0;
}
static int do_malloc(int result, uintptr_t ptr, size_t size) {
  void *out = NULL;
  answer = later_answer = result, answer_ptr = (void *)ptr;
  shim_thread.real = (void *)(uintptr_t)real_malloc;
  return hook_cudaMalloc__any(&out, size);
}
static int do_free(int result, uintptr_t ptr) {
  answer = result;
  shim_thread.real = (void *)(uintptr_t)real_free;
  return hook_cudaFree__any((void *)ptr);
}
static unsigned count(enum fact_kind kind) {
  unsigned n = 0;
  for (unsigned i = 0; i < made && i < sizeof facts / sizeof facts[0]; i++) n += facts[i].kind == kind;
  return n;
}

static void first_allocation_reads_memory_once(void **unused) {
  (void)unused;
  assert_int_equal(do_malloc(0, 0x1000, 512), 0);
  assert_int_equal(do_malloc(0, 0x2000, 512), 0);
  assert_int_equal(count(FACT_KIND_mem), 1);
  assert_int_equal(count(FACT_KIND_limit), 1);
  assert_int_equal(growth_step, facts[0].u.mem.mem.total / 64);
  assert_int_equal(live[ROUTE_DEVICE], 1024);
  assert_int_equal(slot.call, 0);
  assert_int_equal(slot.last_call, HOOK_ID_cudaMalloc);
  assert_int_equal(slot.worked, 2);
  assert_int_equal(shim_thread.depth, 0);
}

static void failed_free_keeps_what_is_held(void **unused) {
  (void)unused;
  uint32_t worked = slot.worked;
  assert_int_equal(do_free(1, 0x1000), 1);
  assert_int_equal(slot.worked, worked); /* a failed call is no work */
  assert_int_equal(live[ROUTE_DEVICE], 1024);
  assert_int_equal(count(FACT_KIND_call_failed), 1);
  assert_int_equal(do_free(1, 0x1000), 1);
  assert_int_equal(count(FACT_KIND_call_failed), 1); /* once per call and error */
  assert_int_equal(do_free(0, 0x1000), 0);
  assert_int_equal(do_free(0, 0x1000), 0); /* not held any more */
  assert_int_equal(live[ROUTE_DEVICE], 512);
  assert_int_equal(do_malloc(0, 0x2000, 4096), 0); /* its free went past us */
  assert_int_equal(live[ROUTE_DEVICE], 4096);
}

static void large_request_is_told_before_it_is_made(void **unused) {
  (void)unused;
  int before = calls_real;
  unsigned facts_before = made;
  assert_int_equal(do_malloc(0, 0x3000, (size_t)1 << 45), 0);
  assert_int_equal(calls_real, before + 1);
  assert_int_equal(facts[facts_before].kind, FACT_KIND_alloc_large);
  assert_int_equal(facts[facts_before].u.alloc_large.size, (uint64_t)1 << 45);
  assert_int_equal(facts[facts_before + 1].kind, FACT_KIND_sample);
  assert_string_equal(facts[facts_before + 1].u.sample.why, "large");
  do_malloc(0, 0x3000, (size_t)1 << 45);
  assert_int_equal(made, facts_before + 2); /* the same again at once is no news */
  do_free(0, 0x3000);
}

/* Beside a refusal the machine is looked at, before that is judged; not beside each of many. */
static void refusals_come_with_samples(void **unused) {
  struct timespec while_ago = {.tv_nsec = 60 * 1000000};
  (void)unused;
  unsigned before = count(FACT_KIND_sample);
  nanosleep(&while_ago, NULL);
  for (int i = 0; i < 5; i++) do_malloc(2, 0, 1 << 22);
  assert_int_equal(count(FACT_KIND_sample), before + 1);
  unsigned at = made;
  while (facts[at - 1].kind != FACT_KIND_sample) at--;
  assert_string_equal(facts[at - 1].u.sample.why, "refused");
  assert_true(facts[at - 1].u.sample.job_anon == FACT_NO_U64);
  while (facts[at].kind != FACT_KIND_alloc_failed) at++;
  assert_true(at < made);
  do_malloc(0, 0x8000, 1 << 22); /* settled */
  do_free(0, 0x8000);
}

static void refusal_and_recovery(void **unused) {
  (void)unused;
  assert_int_equal(do_malloc(2, 0, 1 << 20), 2);
  assert_int_equal(facts[made - 1].kind, FACT_KIND_alloc_failed);
  assert_int_equal(facts[made - 1].u.alloc_failed.size, 1 << 20);
  assert_int_equal(facts[made - 1].u.alloc_failed.result, 2);
  assert_int_equal(facts[made - 1].u.alloc_failed.repeat, 1);
  assert_true(facts[made - 1].u.alloc_failed.last == FACT_NO_U64);
  assert_int_equal(facts[made - 2].kind, FACT_KIND_holding); /* what was held comes first: judging needs it */
  assert_string_equal(facts[made - 2].u.holding.why, "refused");
  unsigned before = made;
  do_malloc(0, 0x5000, 1 << 19); /* smaller: settles nothing */
  assert_int_equal(made, before);
  do_malloc(0, 0x6000, 1 << 20);
  assert_int_equal(facts[made - 1].kind, FACT_KIND_alloc_recovered);
  before = made;
  do_malloc(0, 0x7000, 1 << 20);
  assert_int_equal(made, before);
}

static void growth_is_told_once(void **unused) {
  (void)unused;
  unsigned before = made;
  live[ROUTE_PINNED] = 7;
  slot.launches = 3, slot.rounds = 2, slot.copied = 5;
  do_malloc(0, 0x8000, 1 << 20);
  assert_int_equal(made, before);
  ring_grown = 1;
  do_malloc(0, 0x8800, 1 << 20);
  assert_int_equal(made, before + 1);
  assert_int_equal(ring_grown, 0);
  const struct fact_holding *f = &facts[before].u.holding;
  assert_int_equal(facts[before].kind, FACT_KIND_holding);
  assert_string_equal(f->why, "growth");
  assert_int_equal(f->size, 1 << 20);
  assert_int_equal(f->device, (uint64_t)live[ROUTE_DEVICE]);
  assert_int_equal(f->pinned, 7);
  assert_int_equal(f->device_grants, ROUTE_COUNT - 1); /* the stand-in says 1 for each route */
  assert_int_equal(f->pinned_grants, 1);
  assert_true(f->launches == 3 && f->rounds == 2 && f->copied == 5);
  do_malloc(0, 0x8900, 1 << 20);
  assert_int_equal(made, before + 1);
  live[ROUTE_PINNED] = 0;
}

/* Copy, launch, wait make a round; nothing else does. */
static void rounds_of_work(void **unused) {
  (void)unused;
  struct call c = {.slot = &slot};
  slot.launches = slot.rounds = slot.copied = 0;
  slot.round = ROUND_NONE;
  for (int i = 0; i < 100; i++) call_copied(&c, 10, true, false), call_waited(&c); /* loading */
  assert_true(slot.rounds == 0 && slot.copied == 1000);
  for (int i = 0; i < 100; i++) call_launched(&c), call_copied(&c, 10, false, false); /* one long pass */
  assert_int_equal(slot.rounds, 0);
  call_waited(&c);
  assert_int_equal(slot.rounds, 1);                                 /* of the copy before it */
  for (int i = 0; i < 100; i++) call_launched(&c), call_waited(&c); /* launches without new data */
  assert_int_equal(slot.rounds, 1);
  for (int i = 0; i < 100; i++) call_copied(&c, 1, true, false), call_launched(&c), call_copied(&c, 1, false, true);
  assert_true(slot.rounds == 101 && slot.copied == 1100 && slot.launches == 300);
}

/* The wrapper hands over what it was given. */
static int real_memcpy(void *dst, const void *src, size_t count, int kind) {
  (void)dst, (void)src, (void)count, (void)kind;
  return answer;
}
int hook_cudaMemcpy__any(void *dst, const void *src, size_t count, int kind);
static void copies_by_their_direction(void **unused) {
  (void)unused;
  enum { TO_HOST = 2, DEFAULT = 4 };
  static const uint64_t counted[] = {0, 64, 0, 0, 64};
  for (int kind = 0; kind <= DEFAULT; kind++) {
    slot.copied = slot.rounds = 0;
    slot.round = ROUND_LAUNCHED;
    answer = 0;
    shim_thread.real = (void *)(uintptr_t)real_memcpy;
    assert_int_equal(hook_cudaMemcpy__any(NULL, NULL, 64, kind), 0);
    assert_int_equal(slot.copied, counted[kind]);
    assert_int_equal(slot.rounds, kind == TO_HOST);
    answer = 1; /* a copy that failed moved nothing */
    hook_cudaMemcpy__any(NULL, NULL, 64, kind);
    assert_int_equal(slot.copied, counted[kind]);
  }
}

static void memory_at_failures_is_bounded(void **unused) {
  (void)unused;
  unsigned before = count(FACT_KIND_mem), limits = count(FACT_KIND_limit);
  for (int i = 0; i < 1000; i++) call_memory("comm_failed");
  unsigned readings = count(FACT_KIND_mem) - before;
  assert_true(readings >= 1 && readings <= 32);
  assert_int_equal(count(FACT_KIND_limit), limits); /* it is the same one */
}

/* A loop of refusals ends in a bounded number of records, and the last state is told at the end. */
static void refusals_do_not_flood(void **unused) {
  (void)unused;
  unsigned before = count(FACT_KIND_alloc_failed);
  for (unsigned i = 0; i < 10000; i++) do_malloc(2, 0, 3 << 20);
  unsigned recorded = count(FACT_KIND_alloc_failed) - before;
  assert_true(recorded >= 1 && recorded < 100);
  uint64_t told = 0;
  calls_final();
  for (unsigned i = 0; i < made; i++)
    if (facts[i].kind == FACT_KIND_alloc_failed && facts[i].u.alloc_failed.size == 3 << 20)
      told += facts[i].u.alloc_failed.repeat;
  assert_int_equal(told, 10000);
  assert_true(count(FACT_KIND_alloc_stats) >= 1);
}

static void queries_are_told_when_they_are_news(void **unused) {
  (void)unused;
  size_t f, t;
  shim_thread.real = (void *)(uintptr_t)real_mem_get_info;
  answer = 0, answer_free = (size_t)1 << 36;
  for (unsigned i = 0; i < 1000; i++) assert_int_equal(hook_cudaMemGetInfo__any(&f, &t), 0);
  unsigned calm = count(FACT_KIND_mem_query);
  assert_true(calm >= 1 && calm < 20);
  answer_free = (size_t)1 << 33;
  hook_cudaMemGetInfo__any(&f, &t);
  assert_int_equal(count(FACT_KIND_mem_query), calm + 1);
  answer = 2;
  assert_int_equal(hook_cudaMemGetInfo__any(NULL, NULL), 2);
  assert_int_equal(count(FACT_KIND_mem_query), calm + 2);
  assert_true(facts[made - 1].u.mem_query.free == FACT_NO_U64);
}

static void inner_calls_do_not_count(void **unused) {
  (void)unused;
  int64_t before = live[ROUTE_DEVICE];
  uint64_t calls = slot.calls;
  shim_thread.depth = 1, shim_thread.frame = UINTPTR_MAX;
  do_malloc(0, 0x9000, 4096);
  assert_int_equal(live[ROUTE_DEVICE], before);
  assert_int_equal(slot.calls, calls);
  shim_thread.frame = 1; /* the outer call's frame lies below ours: it was left by a longjmp */
  do_malloc(0, 0x9000, 4096);
  assert_int_equal(live[ROUTE_DEVICE], before + 4096);
  assert_int_equal(shim_thread.depth, 0);
}

static enum hook_id looked_up(const char *symbol, int least, int most, uint64_t flags, void *real) {
  void *pfn = real;
  struct lookup asked = {HOOK_ID_cuGetProcAddress_v2, symbol, least, most, flags, false};
  handed_for = HOOK_NONE;
  lookup_answered(&asked, 0, &pfn);
  assert_true(handed_for ? pfn == &exports[40] : pfn == real);
  return handed_for;
}

static void right_variant_of_a_looked_up_name(void **unused) {
  (void)unused;
  void *other = &exports[9]; /* no export of libcuda */
  assert_int_equal(looked_up("cuMemAlloc", 2000, 2000, 0, &exports[1]),
                   HOOK_ID_cuMemAlloc_v2); /* the pointer decides */
  assert_int_equal(looked_up("cuMemAlloc", 12000, 12000, 0, other), HOOK_ID_cuMemAlloc_v2);
  assert_int_equal(looked_up("cuMemAlloc", 3010, 3010, 0, other), HOOK_NONE); /* 32-bit sizes */
  assert_int_equal(looked_up("cuCtxCreate", 11030, 11030, 0, other), HOOK_ID_cuCtxCreate_v2);
  assert_int_equal(looked_up("cuCtxCreate", 12040, 12040, 0, other), HOOK_ID_cuCtxCreate_v3);
  assert_int_equal(looked_up("cuCtxCreate", 12050, 12050, 0, other), HOOK_ID_cuCtxCreate_v4);
  assert_int_equal(looked_up("cuCtxCreate", 12000, 13000, 0, other), HOOK_NONE); /* which one, nobody knows */
  assert_int_equal(looked_up("cuMemcpyHtoD", 12000, 12000, 0, other), HOOK_ID_cuMemcpyHtoD_v2);
  assert_int_equal(looked_up("cuMemcpyHtoD", 12000, 12000, 2, other), HOOK_ID_cuMemcpyHtoD_v2_ptds);
  assert_int_equal(looked_up("cuMemcpyHtoD", 12000, 12000, 0, &exports[3]), HOOK_ID_cuMemcpyHtoD_v2_ptds);
  assert_int_equal(looked_up("cuMemCreate", 12000, 12000, 2, other), HOOK_ID_cuMemCreate);
  assert_int_equal(looked_up("cuMemAlloc", 99000, 99000, 0, other), HOOK_NONE); /* newer than the table */
  assert_int_equal(looked_up("cuDeviceGetAttribute", 12000, 12000, 0, other), HOOK_NONE);
}

/* ---- SPARKSHIM_RELIEF=cache ---------------------------------------------------------------------------------------- */
static int data_file = -1; /* a sparse file: its holes are cached like anything else */

static void fill_cache(void) {
  static char block[1 << 20];
  struct pagecache now;
  lseek(data_file, 0, SEEK_SET);
  while (read(data_file, block, sizeof block) > 0) continue;
  if (pagecache_read(data_file, &now) || !now.cached) skip(); /* tmpfs, or a kernel without cachestat(2) */
}

/* Asks for 64 GiB, is refused, and is answered `later` if it is asked again. Returns how often the real function ran. */
static int ask_twice(int first, int later, int *ret_result) {
  void *out = NULL;
  int before = calls_real;
  fill_cache();
  answer = first, later_answer = later, answer_ptr = (void *)0x9000;
  shim_thread.real = (void *)(uintptr_t)real_malloc;
  *ret_result = hook_cudaMalloc__any(&out, (size_t)64 << 30);
  assert_true(out == (*ret_result ? NULL : (void *)0x9000));
  if (!*ret_result) do_free(0, 0x9000);
  return calls_real - before;
}

/* The machine as the library is to see it, GiB. */
static void machine(unsigned free_gib, unsigned available, unsigned cached) {
  char path[256];
  snprintf(path, sizeof path, "%s/proc/meminfo", shim_settings.root);
  FILE *file = fopen(path, "we");
  assert_non_null(file);
  fprintf(file, "MemTotal: %u kB\nMemFree: %u kB\nMemAvailable: %u kB\nCached: %u kB\n", 122U << 20, free_gib << 20,
          available << 20, cached << 20);
  fclose(file);
}

static char root[] = "/tmp/sparkshim-unit-XXXXXX";

static int relief_setup(void **unused) {
  char path[64];
  (void)unused;
  assert_non_null(mkdtemp(root));
  snprintf(path, sizeof path, "%s/proc", root);
  assert_int_equal(mkdir(path, 0700), 0);
  shim_settings.root = root;
  clock_init(NULL);
  machine(2, 112, 110);
  snprintf(path, sizeof path, "%s/data", root);
  int made_file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  assert_int_equal(ftruncate(made_file, 64 << 20), 0);
  close(made_file);
  data_file = open(path, O_RDONLY | O_CLOEXEC);
  assert_true(data_file >= 0);
  return 0;
}

static int relief_teardown(void **unused) {
  char path[64];
  (void)unused;
  snprintf(path, sizeof path, "%s/data", root);
  unlink(path);
  close(data_file);
  snprintf(path, sizeof path, "%s/proc/meminfo", root);
  unlink(path);
  snprintf(path, sizeof path, "%s/proc", root);
  rmdir(path);
  rmdir(root);
  shim_settings.root = NULL;
  shim_settings.relief = false;
  return 0;
}

static void relief_is_off_unless_asked_for(void **unused) {
  (void)unused;
  int result;
  assert_int_equal(ask_twice(2, 0, &result), 1);
  assert_int_equal(result, 2);
  assert_int_equal(count(FACT_KIND_relief), 0);
}

static void relief_makes_the_call_again(void **unused) {
  (void)unused;
  int result, forgotten_before = forgotten;
  unsigned refused = count(FACT_KIND_alloc_failed);
  shim_settings.relief = true;
  assert_int_equal(ask_twice(2, 0, &result), 2);
  assert_int_equal(result, 0);
  assert_int_equal(forgotten, forgotten_before + 1); /* the runtime's next check sees no error */
  assert_int_equal(count(FACT_KIND_alloc_failed), refused);
  const struct fact *told = NULL;
  for (unsigned i = 0; i < made; i++)
    if (facts[i].kind == FACT_KIND_relief) told = &facts[i];
  assert_non_null(told);
  assert_int_equal(told->u.relief.result, 0);
  assert_int_equal(told->u.relief.size, (uint64_t)64 << 30);
  assert_int_equal(told->u.relief.mem.free, (uint64_t)2 << 30);
  assert_int_equal(slot.call, 0);
  assert_int_equal(shim_thread.depth, 0);
}

static void relief_only_where_cache_is_in_the_way(void **unused) {
  (void)unused;
  static const struct {
    int first;
    unsigned free_gib, available, cached;
  } no[] = {{1, 2, 112, 110}, /* an error that is not about memory */
            {700, 2, 112, 110},
            {2, 80, 112, 32}, /* free already */
            {2, 2, 40, 38},   /* not enough cache */
            {2, 2, 112, 20}}; /* what could be had is not page cache */
  int result;
  for (unsigned i = 0; i < sizeof no / sizeof no[0]; i++) {
    machine(no[i].free_gib, no[i].available, no[i].cached);
    assert_int_equal(ask_twice(no[i].first, 0, &result), 1);
    assert_int_equal(result, no[i].first);
  }
  machine(2, 112, 110);
  has_last_error = false; /* the first answer could not be forgotten */
  assert_int_equal(ask_twice(2, 0, &result), 1);
  has_last_error = true;
  assert_int_equal(ask_twice(2, 0, &result), 2);
}

static void second_refusal_is_passed_on(void **unused) {
  (void)unused;
  int result, forgotten_before = forgotten;
  unsigned relieved = count(FACT_KIND_relief);
  assert_int_equal(ask_twice(2, 701, &result), 2);
  assert_int_equal(result, 701); /* the answer of the second call, whatever it is */
  assert_int_equal(forgotten, forgotten_before);
  assert_int_equal(count(FACT_KIND_relief), relieved + 1);
  assert_int_equal(ask_twice(2, 0, &result), 1); /* it did not help: not at every refusal from now on */
  assert_int_equal(result, 2);
  assert_int_equal(slot.call, 0);
}

static void registered_memory_is_found(void **unused) {
  (void)unused;
  struct live_entry old, entry = {1 << 20, ROUTE_PINNED};
  uint64_t at = 0x7f0000000000;
  live_insert(live_key(LIVE_REGISTERED, at), entry, &old);
  live_insert(live_key(LIVE_ADDRESS, 0x7e0000000000), entry, &old);
  assert_true(live_overlaps(LIVE_REGISTERED, at, at + 1));
  assert_true(live_overlaps(LIVE_REGISTERED, at + (1 << 20) - 1, at + (1 << 21)));
  assert_true(live_overlaps(LIVE_REGISTERED, at - 10, at + (1 << 21)));
  assert_false(live_overlaps(LIVE_REGISTERED, at - 10, at));
  assert_false(live_overlaps(LIVE_REGISTERED, at + (1 << 20), at + (1 << 21)));
  assert_false(live_overlaps(LIVE_REGISTERED, 0x7e0000000000, 0x7e0000000001)); /* of another space */
  live_remove(live_key(LIVE_REGISTERED, at), &old);
  assert_false(live_overlaps(LIVE_REGISTERED, at, at + 1));
}

static int relief_tests(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(relief_is_off_unless_asked_for), cmocka_unit_test(relief_makes_the_call_again),
      cmocka_unit_test(relief_only_where_cache_is_in_the_way), cmocka_unit_test(second_refusal_is_passed_on),
      cmocka_unit_test(registered_memory_is_found)};
  return cmocka_run_group_tests(tests, relief_setup, relief_teardown);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(first_allocation_reads_memory_once),
                                     cmocka_unit_test(failed_free_keeps_what_is_held),
                                     cmocka_unit_test(large_request_is_told_before_it_is_made),
                                     cmocka_unit_test(refusal_and_recovery),
                                     cmocka_unit_test(growth_is_told_once),
                                     cmocka_unit_test(rounds_of_work),
                                     cmocka_unit_test(copies_by_their_direction),
                                     cmocka_unit_test(memory_at_failures_is_bounded),
                                     cmocka_unit_test(refusals_do_not_flood),
                                     cmocka_unit_test(refusals_come_with_samples),
                                     cmocka_unit_test(queries_are_told_when_they_are_news),
                                     cmocka_unit_test(inner_calls_do_not_count),
                                     cmocka_unit_test(right_variant_of_a_looked_up_name)};
  return cmocka_run_group_tests(tests, NULL, NULL) + relief_tests();
}
