/* alloc.c - allocations, frees and memory queries as facts (alloc.h).
 *
 * Runs in the application's threads. alloc_granted() and alloc_freed() are the hot path. The rest reads
 * /proc/meminfo (one open, read, close) and hands a fact to observe(): at the first allocation, before a large
 * request, at a refusal, at a memory query, when what is held has grown by a 64th of the machine, each bounded by time,
 * by size class or by number. Nothing here is exact under
 * races that change only how often a record is written: that is what relaxed atomics are for.
 */
#include "alloc.h"

#include "datafile.h"
#include "meminfo.h"
#include "rlimits.h"
#include "sample.h"
#include "sampler_thread.h"

#include "poison.h"

enum {
  LARGE_SHARE = 16,         /* large: a sixteenth of the machine */
  GROWTH_SHARE = 64,        /* growth of what is held that makes a record */
  FAILURES = 16,            /* readings of memory at failures of other calls */
  REFUSALS = 64,            /* pairs of call and size class whose refusals are counted apart */
  FREELY = 32,              /* refusals and recoveries that are recorded one by one; later ones are thinned */
  QUERY_US = 100 * 1000,    /* between two records of memory queries, of large requests */
  REFUSAL_US = 1000 * 1000, /* between two thinned records */
  SAMPLE_US = 50 * 1000,    /* between two samples beside refusals and large requests */
  QUERY_EXTRAS = 20,        /* queries recorded within QUERY_US of the last, in a second */
};

uint64_t alloc_large_at;

/* Refusals of one call and size class. */
static struct refusals {
  uint64_t key;     /* 1 + hook id * RING_SIZE_CLASSES + class; 0 = unused */
  uint64_t count;   /* since the last record */
  uint64_t last_us; /* when that was written */
  uint64_t latest_us;
  uint64_t size; /* of the latest; `result` and `route` too */
  int64_t result;
  enum alloc_route route;
  bool open; /* nothing of that size was granted since */
} refusals[REFUSALS];

/* Sizes that were refused and not granted since. */
static struct pending {
  uint64_t least; /* UINT64_MAX: none */
  uint64_t most;
  bool recorded; /* the log knows of one */
} pending[ROUTE_COUNT] = {[0 ... ROUTE_COUNT - 1] = {UINT64_MAX, 0, false}};
static uint32_t recorded; /* refusals and recoveries so far */

#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define STORE(x, value) __atomic_store_n(&(x), value, __ATOMIC_RELAXED)

/* ---- the machine's memory ------------------------------------------------------------------------------------ */
static void read_memory(struct fact_memory *out) {
  meminfo_read(shim_settings.root, out);
  if (out->total == FACT_NO_U64 || LOAD(alloc_large_at)) return;
  STORE(alloc_large_at, out->total / LARGE_SHARE);
  ring_growth_step(out->total / GROWTH_SHARE);
}

static void record_memory(const char *why) {
  struct fact fact = {.kind = FACT_KIND_mem};
  fact.u.mem.why = why;
  read_memory(&fact.u.mem.mem);
  if (!LOAD(alloc_large_at)) STORE(alloc_large_at, UINT64_MAX); /* no MemTotal: nothing is known to be large */
  call_observe(&fact);
}

/* A process may raise its limit at any time: recorded again when it has another one. */
static void record_memlock(void) {
  static uint64_t last = 1; /* no limit that a kernel has: they are whole pages */
  struct fact fact = {.kind = FACT_KIND_limit};
  struct fact_limit *f = &fact.u.limit;
  f->name = "memlock";
  if (limit_read(shim_settings.root, LIMIT_MEMLOCK, &f->soft, &f->hard) < 0 || LOAD(last) == f->soft) return;
  STORE(last, f->soft);
  call_observe(&fact);
}

/* What /proc/meminfo does not tell (free blocks, pressure, swapping, who was killed), beside a request that matters: 150 us, and
 * so at most once in SAMPLE_US. The job's part is left to who sees all of its processes. */
static void record_sample(const char *why) {
  static uint64_t last_us;
  struct fact fact;
  const struct sample_from machine = {
      .root = shim_settings.root, .parts = SAMPLE_MACHINE, .job_device = FACT_NO_U64, .job_pinned = FACT_NO_U64};
  uint64_t now = clock_us();
  if (now - LOAD(last_us) < SAMPLE_US) return;
  STORE(last_us, now);
  sample_read(&machine, why, &fact);
  call_observe(&fact);
}

void call_context(void) {
  static uint32_t said;
  if (__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED)) return;
  sampler_thread_want();
  record_memory("first_context");
  record_memlock();
}

void call_memory(const char *why) {
  static uint32_t readings;
  if (LOAD(readings) >= FAILURES) return;
  __atomic_fetch_add(&readings, 1, __ATOMIC_RELAXED);
  record_memory(why);
  record_memlock();
}

/* ---- before a large request ------------------------------------------------------------------------------------ */
void alloc_large(enum hook_id id, enum alloc_route route, uint64_t size) {
  static struct { uint64_t last_us, size; } last[ROUTE_COUNT];
  if (!LOAD(alloc_large_at)) call_context();
  if (size < LOAD(alloc_large_at)) return;
  uint64_t now = clock_us(), before = LOAD(last[route].size);
  if (now - LOAD(last[route].last_us) < QUERY_US && size <= before + before / LARGE_SHARE) return;
  STORE(last[route].last_us, now);
  STORE(last[route].size, size);
  struct fact fact = {.kind = FACT_KIND_alloc_large};
  fact.u.alloc_large.call = hook_name(id);
  fact.u.alloc_large.route = route_word(route);
  fact.u.alloc_large.size = size;
  read_memory(&fact.u.alloc_large.mem);
  call_observe(&fact);
  record_sample("large");
  datafile_look(false);
}

/* ---- refusals, and what is granted after them ---------------------------------------------------------------------- */
static uint64_t live_bytes(enum alloc_route route) {
  struct ring_counters sum;
  ring_counters(route, &sum);
  return sum.live;
}

/* What is held on the device's side, whatever the way it was got by. */
static uint64_t device_bytes(void) {
  uint64_t sum = 0;
  for (unsigned route = 0; route < ROUTE_COUNT; route++)
    if (route != ROUTE_PINNED) sum += live_bytes((enum alloc_route)route);
  return sum;
}

static void record_holding(const char *why, uint64_t size) {
  struct ring_work work;
  struct fact fact = {.kind = FACT_KIND_holding};
  struct fact_holding *f = &fact.u.holding;
  ring_work(&work);
  *f = (struct fact_holding){
      .why = why, .size = size, .launches = work.launches, .rounds = work.rounds, .copied = work.copied};
  for (unsigned route = 0; route < ROUTE_COUNT; route++) {
    struct ring_counters sum;
    ring_counters((enum alloc_route)route, &sum);
    bool pinned = route == ROUTE_PINNED;
    *(pinned ? &f->pinned : &f->device) += sum.live;
    *(pinned ? &f->pinned_grants : &f->device_grants) += sum.count;
    *(pinned ? &f->pinned_frees : &f->device_frees) += sum.frees;
  }
  read_memory(&f->mem);
  call_observe(&fact);
}

static void record_growth(uint64_t size) {
  if (!__atomic_exchange_n(&ring_grown, 0, __ATOMIC_RELAXED)) return;
  record_holding("growth", size);
  datafile_look(false);
}

static void record_refusal(enum hook_id id, enum alloc_route route, uint64_t size, int64_t result, uint64_t repeat,
                           uint64_t held_back_since) {
  struct fact fact = {.kind = FACT_KIND_alloc_failed};
  struct fact_alloc_failed *f = &fact.u.alloc_failed;
  f->call = hook_name(id);
  f->route = route_word(route);
  f->size = size;
  f->result = result;
  f->repeat = repeat;
  f->last = held_back_since;
  f->live_device = device_bytes();
  f->live_pinned = live_bytes(ROUTE_PINNED);
  read_memory(&f->mem);
  record_sample("refused");
  __atomic_fetch_add(&recorded, 1, __ATOMIC_RELAXED);
  call_observe(&fact);
  datafile_look(false);
}

/* The counter of this call and size class; when all are taken, the last one is shared. */
static struct refusals *refusals_of(enum hook_id id, uint64_t size) {
  uint64_t key = 1 + (uint64_t)id * RING_SIZE_CLASSES + route_size_class(size);
  struct refusals *r = refusals;
  for (; r < refusals + REFUSALS - 1; r++) {
    uint64_t found = LOAD(r->key);
    if (!found && __atomic_compare_exchange_n(&r->key, &found, key, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) break;
    if (found == key) break;
  }
  return r;
}

static void pending_add(enum alloc_route route, uint64_t size) {
  if (size < LOAD(pending[route].least)) STORE(pending[route].least, size);
  if (size > LOAD(pending[route].most)) STORE(pending[route].most, size);
}

void alloc_refused(const struct call *c, enum alloc_route route, uint64_t size, int64_t result) {
  uint64_t known_size = size == FACT_NO_U64 ? 0 : size;
  ring_alloc_note(c->id, route, 0, known_size, (uint32_t)result, c->ticks);
  struct refusals *r = refusals_of(c->id, known_size);
  uint64_t count = __atomic_add_fetch(&r->count, 1, __ATOMIC_RELAXED), now = clock_us();
  STORE(r->latest_us, now);
  STORE(r->size, size);
  STORE(r->result, result);
  STORE(r->route, route);
  STORE(r->open, true);
  pending_add(route, known_size);
  /* Held back: a loop of refusals, or of refusals and retries, that goes on and on. */
  bool often = LOAD(recorded) >= FREELY && now - LOAD(r->last_us) < REFUSAL_US;
  if (!often) {
    __atomic_fetch_sub(&r->count, count, __ATOMIC_RELAXED);
    STORE(r->last_us, now);
    STORE(pending[route].recorded, true);
    record_holding("refused", size);
    if (route == ROUTE_PINNED) record_memlock();
    record_refusal(c->id, route, size, result, count, FACT_NO_U64);
  }
  call_leave(c);
}

static void refusals_settle(enum alloc_route route, uint64_t size) {
  for (struct refusals *r = refusals; r < refusals + REFUSALS; r++)
    if (LOAD(r->key) && LOAD(r->route) == route && LOAD(r->size) <= size) STORE(r->open, false);
}

/* A grant of at least the least size that was refused. Silent when the log knows of no refusal since the last. */
static void alloc_recovered(enum hook_id id, enum alloc_route route, uint64_t size) {
  bool all = size >= LOAD(pending[route].most);
  STORE(pending[route].least, all ? UINT64_MAX : size + 1);
  if (all) STORE(pending[route].most, 0);
  refusals_settle(route, size);
  if (!LOAD(pending[route].recorded)) return;
  if (all) STORE(pending[route].recorded, false);
  struct fact fact = {.kind = FACT_KIND_alloc_recovered};
  fact.u.alloc_recovered.call = hook_name(id);
  fact.u.alloc_recovered.route = route_word(route);
  fact.u.alloc_recovered.size = size;
  __atomic_fetch_add(&recorded, 1, __ATOMIC_RELAXED);
  call_observe(&fact);
}

/* ---- grants and frees: the hot path ---------------------------------------------------------------------------- */
/* Enters what was granted; a key that was there belongs to a free that went past us. */
static void enter_live(enum hook_id id, uint64_t key, uint64_t value, struct live_entry entry, uint64_t ticks) {
  struct live_entry old;
  switch (live_insert(key, entry, &old)) {
  case LIVE_NEW: return;
  case LIVE_REPLACED: ring_free_note(id, (enum alloc_route)old.route, value, old.size, ticks); return;
  case LIVE_UNTRACKED: ring_untracked_note((enum alloc_route)entry.route); return;
  }
}

void alloc_granted(const struct call *c, enum alloc_route route, enum live_space space, uint64_t value, uint64_t size) {
  if (likely(value)) {
    enter_live(c->id, live_key(space, value), value, (struct live_entry){size, (unsigned)route}, c->ticks);
    ring_alloc_note(c->id, route, value, size, 0, c->ticks);
  }
  call_worked(c, c->ticks);
  if (unlikely(LOAD(ring_grown))) record_growth(size);
  if (unlikely(size >= LOAD(pending[route].least))) alloc_recovered(c->id, route, size);
  call_leave(c);
}

void alloc_freed(const struct call *c, uint64_t key, uint64_t value, bool held, struct live_entry entry,
                 int64_t result) {
  if (likely(held && !result)) ring_free_note(c->id, (enum alloc_route)entry.route, value, entry.size, c->ticks);
  if (unlikely(held && result)) enter_live(c->id, key, value, entry, c->ticks);
  call_leave(c);
  if (unlikely(result)) call_failed(c->id, result, FACT_NO_U64);
}

/* ---- how much is free? ------------------------------------------------------------------------------------------ */
/* Once per QUERY_US; at once when the answer moved by a sixteenth of the machine or turned from figure to error or
 * back, but not for ever: a job that asks between allocations in a loop does that every time. */
static bool query_is_news(uint64_t now, uint64_t free_bytes, uint64_t total_bytes) {
  static uint64_t last_us, last_free, extras, extras_since;
  uint64_t before = LOAD(last_free);
  uint64_t moved = before > free_bytes ? before - free_bytes : free_bytes - before;
  bool turned = (before == FACT_NO_U64) != (free_bytes == FACT_NO_U64);
  if (now - LOAD(last_us) < QUERY_US) {
    if (!turned && (free_bytes == FACT_NO_U64 || moved <= total_bytes / LARGE_SHARE)) return false;
    if (now - LOAD(extras_since) >= 1000 * 1000) STORE(extras_since, now), STORE(extras, 0);
    if (__atomic_fetch_add(&extras, 1, __ATOMIC_RELAXED) >= QUERY_EXTRAS) return false;
  }
  STORE(last_us, now);
  STORE(last_free, free_bytes);
  return true;
}

void alloc_mem_query(const struct call *c, int64_t result, uint64_t free_bytes, uint64_t total_bytes) {
  call_leave(c);
  if (!query_is_news(clock_us(), free_bytes, total_bytes)) return;
  struct fact fact = {.kind = FACT_KIND_mem_query};
  fact.u.mem_query.call = hook_name(c->id);
  fact.u.mem_query.result = result;
  fact.u.mem_query.free = free_bytes;
  fact.u.mem_query.total = total_bytes;
  read_memory(&fact.u.mem_query.mem);
  call_observe(&fact);
}

/* ---- the end ------------------------------------------------------------------------------------------------------ */
static void record_stats(enum alloc_route route) {
  struct ring_counters sum;
  struct fact fact = {.kind = FACT_KIND_alloc_stats};
  ring_counters(route, &sum);
  if (!sum.count && !sum.failed) return;
  fact.u.alloc_stats = (struct fact_alloc_stats){.route = route_word(route),
                                                 .count = sum.count,
                                                 .frees = sum.frees,
                                                 .failed = sum.failed,
                                                 .bytes = sum.bytes,
                                                 .live = sum.live,
                                                 .peak = sum.peak,
                                                 .untracked = sum.untracked};
  call_observe(&fact);
}

void alloc_at_exit(void) {
  datafile_look(true);
  for (struct refusals *r = refusals; r < refusals + REFUSALS; r++)
    if (LOAD(r->key) && LOAD(r->open) && LOAD(r->count))
      record_refusal((enum hook_id)((r->key - 1) / RING_SIZE_CLASSES), r->route, r->size, r->result, LOAD(r->count),
                     LOAD(r->latest_us));
  for (unsigned route = 0; route < ROUTE_COUNT; route++) record_stats((enum alloc_route)route);
}
