/* ring.c - the mapped ring (facts/ring_format.h): thread slots, allocation counters, the last allocations.
 *
 * The note functions run inside every hooked allocation: atomics and plain stores, a locked instruction
 * every RING_CHUNK events and when live memory has changed by a 64th, no system call. A thread's first event claims a slot (one gettid). Threads do not tell us when they end: when
 * all slots are taken, those of threads that are gone are found by asking the kernel, and handed on.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statfs.h>

#include "clock.h"
#include "procstat.h"
#include "quiet.h"
#include "sinks.h"
#include "sys.h"

#include "poison.h"

enum { OWN_SLOTS = RING_SLOTS - 1, SHARED_SLOT = RING_SLOTS - 1 };

static struct {
  struct ring_header *header; /* NULL: there is no ring */
  size_t size;
  struct ring_slot *slots;
  struct ring_alloc *allocs;
  uint64_t mask; /* entries - 1 */
  struct ring_tally *tallies;
  struct ring_route *routes;
  struct ring_child *child;
  uint32_t slots_used, tallies_used;
  bool outside; /* the file lies at `name`, not in the run's folder */
  char name[RUN_PATH];
} ring;

/* Live memory of a route at which it has grown enough to be looked at; INT64_MAX while no step is known. */
static int64_t growth_mark[ROUTE_COUNT] = {[0 ... ROUTE_COUNT - 1] = INT64_MAX};
static int64_t growth_step;
uint32_t ring_grown;

static struct ring_slot spare_slot; /* for everybody, where no memory could be had at all */

_Static_assert(sizeof(struct ring_slot) == 128 && sizeof(struct ring_route) == 64, "cache lines");

/* ---- layout ------------------------------------------------------------------------------------------------ */
static uint32_t place(uint32_t *at, size_t count, size_t size) {
  uint32_t here = (*at + 127U) & ~127U;
  *at = here + (uint32_t)(count * size);
  return here;
}

/* Offsets and numbers of a ring with `allocs` entries; returns its size, whole 64 KiB. */
static size_t lay_out(struct ring_header *h, uint32_t allocs) {
  uint32_t at = sizeof(*h);
  h->version = RING_VERSION;
  h->size = sizeof(*h);
  h->pid = (uint32_t)sys_getpid();
  h->slots = RING_SLOTS;
  h->allocs = allocs;
  h->names = HOOK_ID_COUNT;
  h->tallies = RING_TALLIES;
  h->routes = RING_ROUTES;
  h->route_at = place(&at, h->routes, sizeof(struct ring_route));
  h->slot_at = place(&at, h->slots, sizeof(struct ring_slot));
  h->tally_at = place(&at, h->tallies, sizeof(struct ring_tally));
  h->child_at = place(&at, 1, sizeof(struct ring_child));
  h->name_at = place(&at, h->names, RING_NAME);
  h->alloc_at = place(&at, h->allocs, sizeof(struct ring_alloc));
  return (at + 0xffffU) & ~(size_t)0xffff;
}

static void fill(char *map, const struct ring_header *layout) {
  struct ring_header *h = (struct ring_header *)(void *)map;
  for (uint32_t id = 1; id < HOOK_ID_COUNT; id++)
    str_copy(map + layout->name_at + (size_t)id * RING_NAME, RING_NAME, hook_name((enum hook_id)id));
  *h = *layout;
  h->tick0 = h->tick1 = clock_ticks();
  h->us0 = h->us1 = clock_us();
  for (unsigned i = 0; i < sizeof(h->magic); i++) h->magic[i] = RING_MAGIC[i];
}

static void attach(char *map, size_t size, const struct ring_header *layout) {
  ring.size = size;
  ring.slots = (struct ring_slot *)(void *)(map + layout->slot_at);
  ring.allocs = (struct ring_alloc *)(void *)(map + layout->alloc_at);
  ring.mask = layout->allocs - 1;
  ring.tallies = (struct ring_tally *)(void *)(map + layout->tally_at);
  ring.routes = (struct ring_route *)(void *)(map + layout->route_at);
  ring.child = (struct ring_child *)(void *)(map + layout->child_at);
  ring.slots_used = 0;
  ring.tallies_used = 1; /* 0 is the shared one */
  __atomic_store_n(&ring.header, (struct ring_header *)(void *)map, __ATOMIC_RELEASE);
}

/* ---- where it lies ------------------------------------------------------------------------------------------- */

/* File systems on which fallocate keeps its promise for a mapping. Others copy on write, or may stall or fail at any
 * time (network, FUSE). Numbers: linux/magic.h, statfs(2). */
static bool is_trusted(int fd) {
  enum { EXT = 0xef53, TMPFS = 0x01021994, XFS = 0x58465342, OVERLAY = 0x794c7630 };
  struct statfs fs;
  if (sys_call6(SYS_fstatfs, fd, (long)&fs, 0, 0, 0, 0) < 0) return false;
  return fs.f_type == EXT || fs.f_type == TMPFS || fs.f_type == XFS || fs.f_type == OVERLAY;
}

static long reserve(int fd, size_t size) {
  struct quiet q;
  quiet_begin(&q);
  long result = sys_fallocate(fd, (long)size);
  quiet_end(&q, result);
  return result;
}

/* NULL when this place will not do; nothing is left there then. */
static char *map_file(int dir, const char *path, size_t size) {
  char *map = NULL;
  int fd = sys_openat(dir, path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return NULL;
  if (is_trusted(fd) && reserve(fd, size) == 0) {
    void *got = sys_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (!sys_is_error(got) && ring_guard(got, size))
      map = got;
    else if (!sys_is_error(got))
      sys_munmap(got, size);
  }
  sys_close(fd);
  if (!map) sys_call6(SYS_unlinkat, dir, (long)path, 0, 0, 0, 0);
  return map;
}

static char *map_in(const char *folder, const char *stem, size_t size) {
  size_t at;
  if (!folder || folder[0] != '/') return NULL;
  at = str_copy(ring.name, sizeof(ring.name), folder);
  at += str_copy(ring.name + at, sizeof(ring.name) - at, "/sparkshim-");
  at += str_copy(ring.name + at, sizeof(ring.name) - at, stem);
  str_copy(ring.name + at, sizeof(ring.name) - at, ".ring");
  return map_file(SYS_AT_FDCWD, ring.name, size);
}

static char *map_beside_log(int dir, const char *stem, size_t size) {
  size_t at = str_copy(ring.name, sizeof(ring.name), stem);
  str_copy(ring.name + at, sizeof(ring.name) - at, ".ring");
  return map_file(dir, ring.name, size);
}

/* A ring that nobody can find is worth nothing: files only where there is a log. */
static char *map_somewhere(int dir, const char *stem, size_t size) {
  char *map = NULL;
  ring.outside = false;
  if (dir >= 0 && *stem) {
    if ((map = map_beside_log(dir, stem, size))) return map;
    ring.outside = true;
    if ((map = map_in(shim_env("XDG_RUNTIME_DIR"), stem, size))) return map;
    if ((map = map_in("/dev/shm", stem, size))) return map;
    ring.outside = false;
  }
  ring.name[0] = '\0';
  map = sys_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return sys_is_error(map) ? NULL : map;
}

void ring_open(int dir, const char *stem, const char **ret_name) {
  struct ring_header layout = {0};
  struct ring_header *inherited = ring.header;
  size_t size = lay_out(&layout, shim_settings.ring_allocs);
  ring_unguard();
  ring.header = NULL;
  if (inherited) sys_munmap(inherited, ring.size); /* a forked child leaves its parent's ring */
  char *map = map_somewhere(dir, stem, size);
  *ret_name = NULL;
  if (!map) return;
  fill(map, &layout);
  attach(map, size, &layout);
  if (growth_step) ring_growth_step((uint64_t)growth_step); /* a forked child holds nothing yet */
  if (ring.name[0]) *ret_name = ring.name;
}

void ring_renew_pair(uint64_t us) {
  struct ring_header *h = __atomic_load_n(&ring.header, __ATOMIC_ACQUIRE);
  uint32_t seq;
  if (!h) return;
  seq = __atomic_load_n(&h->pair_seq, __ATOMIC_RELAXED);
  if (seq & 1) return; /* another thread is at it */
  if (!__atomic_compare_exchange_n(&h->pair_seq, &seq, seq + 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return;
  h->tick1 = clock_ticks();
  h->us1 = us;
  __atomic_store_n(&h->pair_seq, seq + 2, __ATOMIC_RELEASE);
}

bool ring_take_lost(void) { return ring_guard_take_lost(); }

void ring_leave(void) {
  if (ring.outside) sys_call6(SYS_unlinkat, SYS_AT_FDCWD, (long)ring.name, 0, 0, 0, 0);
  ring.outside = false;
}

/* ---- slots ----------------------------------------------------------------------------------------------------- */
static struct ring_slot *own_slot(uint32_t tid, uint32_t used) {
  for (uint32_t i = 0; i < used; i++)
    if (__atomic_load_n(&ring.slots[i].tid, __ATOMIC_RELAXED) == tid) return &ring.slots[i];
  return NULL;
}

/* A slot whose thread is gone, now of `tid`. Its counters go on with it. */
static struct ring_slot *inherited_slot(uint32_t tid, int pid) {
  for (uint32_t i = 0; i < OWN_SLOTS; i++) {
    struct ring_slot *slot = &ring.slots[i];
    uint32_t old = __atomic_load_n(&slot->tid, __ATOMIC_RELAXED);
    if (old && sys_call6(SYS_tgkill, pid, (long)old, 0, 0, 0, 0) != -ESRCH) continue;
    if (__atomic_compare_exchange_n(&slot->tid, &old, tid, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) return slot;
  }
  return NULL;
}

static struct ring_slot *claim_slot(void) {
  const uint32_t tid = (uint32_t)sys_gettid();
  uint32_t used = __atomic_load_n(&ring.slots_used, __ATOMIC_ACQUIRE);
  struct ring_slot *slot = own_slot(tid, used < OWN_SLOTS ? used : OWN_SLOTS);
  if (!slot && used < OWN_SLOTS && (used = __atomic_fetch_add(&ring.slots_used, 1, __ATOMIC_ACQ_REL)) < OWN_SLOTS)
    slot = &ring.slots[used];
  if (!slot) slot = inherited_slot(tid, sys_getpid());
  if (!slot) return &ring.slots[SHARED_SLOT];
  slot->call = slot->depth = 0;
  __atomic_store_n(&slot->tid, tid, __ATOMIC_RELEASE);
  return slot;
}

struct ring_slot *ring_slot_get(void) {
  if (likely(shim_thread.slot != NULL)) return shim_thread.slot;
  if (!__atomic_load_n(&ring.header, __ATOMIC_ACQUIRE)) return &spare_slot;
  shim_thread.slot = claim_slot();
  return shim_thread.slot;
}

/* ---- allocations ------------------------------------------------------------------------------------------------ */

/* Tally 0 is everybody's and counted by locked instructions, any other has one writer. */
static inline void bump(uint64_t *counter, uint64_t by, bool shared) {
  if (unlikely(shared))
    __atomic_fetch_add(counter, by, __ATOMIC_RELAXED);
  else
    __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + by, __ATOMIC_RELAXED);
}

static void claim_tally(struct ring_slot *slot) {
  if (slot == &ring.slots[SHARED_SLOT] || __atomic_load_n(&ring.tallies_used, __ATOMIC_RELAXED) >= RING_TALLIES) return;
  uint32_t index = __atomic_fetch_add(&ring.tallies_used, 1, __ATOMIC_RELAXED);
  if (index < RING_TALLIES) slot->tally = (uint16_t)index;
}

static inline struct ring_tally_route *tally_of(struct ring_slot *slot, enum alloc_route route) {
  if (unlikely(!slot->tally)) claim_tally(slot);
  return &ring.tallies[slot->tally % RING_TALLIES].route[route]; /* the file may have been written by others */
}

/* Numbers for this thread. Leftovers of half a ring ago are given up: their places are being written again. */
static inline uint64_t take_number(struct ring_slot *slot) {
  uint64_t *next = &ring.header->alloc_next;
  if (unlikely(slot == &ring.slots[SHARED_SLOT])) return __atomic_fetch_add(next, 1, __ATOMIC_RELAXED);
  if (unlikely(slot->next == slot->limit ||
               __atomic_load_n(next, __ATOMIC_RELAXED) - slot->next > (ring.mask + 1) / 2)) {
    slot->next = __atomic_fetch_add(next, RING_CHUNK, __ATOMIC_RELAXED);
    slot->limit = slot->next + RING_CHUNK;
  }
  return slot->next++;
}

static inline void append(enum hook_id call, struct ring_slot *slot, uint64_t ptr, uint64_t size, uint32_t result,
                          uint64_t ticks) {
  uint64_t number = take_number(slot);
  struct ring_alloc *entry = &ring.allocs[number & ring.mask];
  __builtin_prefetch(&ring.allocs[(number + 2) & ring.mask], 1);
  /* Atomic, for a thread that sleeps here may be lapped: both then write, and seq tells the reader. */
  __atomic_store_n(&entry->ticks, ticks, __ATOMIC_RELAXED);
  __atomic_store_n(&entry->ptr, ptr, __ATOMIC_RELAXED);
  __atomic_store_n(&entry->size, size, __ATOMIC_RELAXED);
  __atomic_store_n(&entry->tid, slot->tid, __ATOMIC_RELAXED);
  __atomic_store_n(&entry->call, (uint16_t)call, __ATOMIC_RELAXED);
  __atomic_store_n(&entry->result, (uint16_t)result, __ATOMIC_RELAXED);
  __atomic_store_n(&entry->seq, number + 1, __ATOMIC_RELEASE);
}

static void raise_peak(struct ring_route *r, int64_t live) {
  uint64_t peak = __atomic_load_n(&r->peak, __ATOMIC_RELAXED);
  while (live > 0 && (uint64_t)live > peak)
    if (__atomic_compare_exchange_n(&r->peak, &peak, (uint64_t)live, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return;
}

static inline void tell(enum alloc_route route, int64_t change) {
  struct ring_route *r = &ring.routes[route];
  int64_t live = __atomic_add_fetch(&r->live, change, __ATOMIC_RELAXED);
  raise_peak(r, live);
  if (likely(live < __atomic_load_n(&growth_mark[route], __ATOMIC_RELAXED))) return;
  __atomic_store_n(&growth_mark[route], live + growth_step, __ATOMIC_RELAXED);
  __atomic_store_n(&ring_grown, 1, __ATOMIC_RELAXED);
}

void ring_growth_step(uint64_t bytes) {
  growth_step = (int64_t)bytes;
  for (unsigned i = 0; i < ROUTE_COUNT; i++) __atomic_store_n(&growth_mark[i], growth_step, __ATOMIC_RELAXED);
}

static inline void held(enum alloc_route route, struct ring_tally_route *t, int64_t change, bool shared) {
  if (unlikely(shared)) {
    tell(route, change);
    return;
  }
  int64_t enough = __atomic_load_n(&ring.routes[route].live, __ATOMIC_RELAXED) / 64;
  if (enough > RING_HELD_BACK) enough = RING_HELD_BACK;
  change += __atomic_load_n(&t->held_back, __ATOMIC_RELAXED);
  if (change > enough || -change > enough) {
    tell(route, change);
    change = 0;
  }
  __atomic_store_n(&t->held_back, change, __ATOMIC_RELAXED);
}

void ring_alloc_note(enum hook_id call, enum alloc_route route, uint64_t ptr, uint64_t size, uint32_t result,
                     uint64_t ticks) {
  struct ring_slot *slot = ring_slot_get();
  if (unlikely(slot == &spare_slot)) return;
  struct ring_tally_route *t = tally_of(slot, route);
  const bool shared = !slot->tally;
  if (unlikely(result)) {
    append(call, slot, ptr, size, result, ticks);
    bump(&t->failed, 1, shared);
    return;
  }
  held(route, t, (int64_t)size, shared);
  append(call, slot, ptr, size, result, ticks);
  bump(&t->count, 1, shared);
  bump(&t->bytes, size, shared);
  bump(&t->by_class[route_size_class(size)], 1, shared);
}

void ring_free_note(enum hook_id call, enum alloc_route route, uint64_t ptr, uint64_t size, uint64_t ticks) {
  struct ring_slot *slot = ring_slot_get();
  if (unlikely(slot == &spare_slot)) return;
  struct ring_tally_route *t = tally_of(slot, route);
  const bool shared = !slot->tally;
  held(route, t, -(int64_t)size, shared);
  append(call, slot, ptr, size, 0, ticks);
  bump(&t->frees, 1, shared);
  bump(&t->freed, size, shared);
}

void ring_untracked_note(enum alloc_route route) {
  if (__atomic_load_n(&ring.header, __ATOMIC_ACQUIRE))
    __atomic_fetch_add(&ring.routes[route].untracked, 1, __ATOMIC_RELAXED);
}

void ring_counters(enum alloc_route route, struct ring_counters *out) {
  *out = (struct ring_counters){0};
  if (__atomic_load_n(&ring.header, __ATOMIC_ACQUIRE)) ring_sum(ring.tallies, RING_TALLIES, ring.routes, route, out);
}

void ring_work(struct ring_work *out) {
  *out = (struct ring_work){0, 0, 0};
  if (!__atomic_load_n(&ring.header, __ATOMIC_ACQUIRE)) return;
  for (uint32_t i = 0; i < RING_SLOTS; i++) {
    out->launches += ring.slots[i].launches;
    out->rounds += ring.slots[i].rounds;
    out->copied += ring.slots[i].copied;
  }
}

uint64_t ring_last_activity(const char **ret_call) {
  const struct ring_header *h = __atomic_load_n(&ring.header, __ATOMIC_ACQUIRE);
  const struct ring_slot *last = NULL;
  *ret_call = NULL;
  if (!h) return FACT_NO_U64;
  for (uint32_t i = 0; i < RING_SLOTS; i++)
    if (ring.slots[i].last_activity > (last ? last->last_activity : 0)) last = &ring.slots[i];
  if (!last) return FACT_NO_U64;
  *ret_call = hook_name((enum hook_id)last->last_call);
  return clock_ticks_to_us(last->last_activity, h->tick0, h->us0, h->tick1, h->us1);
}

struct ring_child *ring_child(void) {
  return __atomic_load_n(&ring.header, __ATOMIC_ACQUIRE) ? ring.child : NULL;
}
