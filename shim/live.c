/* live.c - the table of live allocations (live.h).
 *
 * Lines of 64 bytes hold three entries each. A key has one line in the near table and three in the far one, and
 * stands in the first of these four that had room. `away` of a line counts the keys that would have stood in it but
 * went further: while it is 0, a key that is not in the line is nowhere. So nothing is left behind by a removal
 * (there are no tombstones), and the table stays as fast as it was on the first day.
 *
 * An entry's key goes 0 -> BUSY by compare and exchange, then to the key; on the way out it becomes 0 by a plain store.
 * The value is written by the thread that made the entry BUSY. `away` is raised before the key can be seen.
 */
#include "live.h"

#include <stddef.h>
#include <sys/mman.h>

#include "sys.h"

#include "poison.h"

enum { FREE = 0, BUSY = 1, ROUTE_SHIFT = 56, SPACE_SHIFT = 60 };

struct live_slot {
  uint64_t key;
  uint64_t value; /* size | route << ROUTE_SHIFT */
};
struct live_line {
  struct live_slot entry[LIVE_LINE_ENTRIES];
  uint64_t away;
  uint64_t unused;
};
_Static_assert(sizeof(struct live_line) == 64, "a line of the table is a line of the cache");

static struct live_line near_lines[LIVE_NEAR_LINES] __attribute__((aligned(64)));
static struct live_line *far_lines; /* NULL: not needed yet; FAR_REFUSED: no address space for it */
#define FAR_REFUSED ((struct live_line *)1)

struct live_home {
  struct live_line *near;
  uint64_t hash;
};

static uint64_t mix(uint64_t x) {
  x = (x ^ x >> 32) * 0x9E3779B97F4A7C15U; /* 2^64 / golden ratio: spreads runs of equal steps evenly */
  return x ^ x >> 29;
}

/* Neighbours in memory are made and freed together, so their lines are neighbours too: two blocks of 512 bytes
 * (cudaMalloc's alignment) to a line. Every 2 MiB (the driver's granule, and a step of PyTorch's segments) the order
 * starts at another place, or such blocks would all meet in one line. */
static uint32_t near_index(uint64_t key) {
  return (uint32_t)((key >> 10) + (key >> 21) * 0x9E3779B1U) & (LIVE_NEAR_LINES - 1);
}

/* As near_index(), with a longer run: every 512 MiB the order starts at another place, or blocks of 2 MiB would
 * all meet in the same 256 lines. */
static uint32_t far_first(uint64_t key) {
  return (uint32_t)((key >> 10) + (key >> 29) * 0x9E3779B1U) & (LIVE_FAR_LINES - 1);
}
static uint32_t far_other(uint32_t first, uint64_t hash, unsigned which) {
  uint32_t step = (uint32_t)(hash >> (which ? 20 : 0)) & (LIVE_FAR_LINES - 1);
  return first ^ (step ? step : 1);
}

static struct live_line *far_table(void) {
  struct live_line *table = __atomic_load_n(&far_lines, __ATOMIC_ACQUIRE);
  return table > FAR_REFUSED ? table : NULL;
}

/* Both lines are asked for at once: where the first is full, the second comes from far away. */
static struct live_home home_of(uint64_t key) {
  const struct live_line *far = far_table();
  if (far) __builtin_prefetch(&far[far_first(key)], 1);
  return (struct live_home){&near_lines[near_index(key)], mix(key)};
}

/* Reserves the far table; a thread that loses the race gives its own back. */
static struct live_line *far_table_make(void) {
  const size_t size = (size_t)LIVE_FAR_LINES * sizeof(struct live_line);
  struct live_line *table = __atomic_load_n(&far_lines, __ATOMIC_ACQUIRE), *none = NULL;
  if (table) return far_table();
  table = sys_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (sys_is_error(table)) table = FAR_REFUSED;
  /* Every look-up goes somewhere else: with small pages each would miss the TLB too, four times the cost. */
  else
    sys_call6(SYS_madvise, (long)table, (long)size, MADV_HUGEPAGE, 0, 0, 0);
  if (!__atomic_compare_exchange_n(&far_lines, &none, table, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) &&
      table != FAR_REFUSED)
    sys_munmap(table, size);
  return far_table();
}

/* Which entries hold `key`, as bits. Without a branch: which one it is cannot be predicted. */
static inline unsigned line_match(const struct live_line *line, uint64_t key) {
  unsigned first = __atomic_load_n(&line->entry[0].key, __ATOMIC_RELAXED) == key;
  unsigned second = __atomic_load_n(&line->entry[1].key, __ATOMIC_RELAXED) == key;
  unsigned third = __atomic_load_n(&line->entry[2].key, __ATOMIC_RELAXED) == key;
  return first | second << 1 | third << 2;
}
_Static_assert(LIVE_LINE_ENTRIES == 3, "line_match() reads three");

static inline bool line_put(struct live_line *line, uint64_t key, uint64_t value) {
  unsigned mask;
  while ((mask = line_match(line, FREE)) != 0) {
    struct live_slot *entry = &line->entry[__builtin_ctz(mask)];
    uint64_t found = FREE;
    if (!__atomic_compare_exchange_n(&entry->key, &found, BUSY, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) continue;
    __atomic_store_n(&entry->value, value, __ATOMIC_RELAXED);
    __atomic_store_n(&entry->key, key, __ATOMIC_RELEASE);
    return true;
  }
  return false;
}

/* Plain stores: nobody else may take or enter this key now, and an entry that holds it is nobody else's. */
static inline bool line_take(struct live_line *line, uint64_t key, uint64_t *ret_value) {
  unsigned mask = line_match(line, key);
  if (!mask) return false;
  struct live_slot *entry = &line->entry[__builtin_ctz(mask)];
  *ret_value = __atomic_load_n(&entry->value, __ATOMIC_RELAXED);
  __atomic_store_n(&entry->key, FREE, __ATOMIC_RELEASE);
  return true;
}

static bool line_empty_behind(const struct live_line *line) { return !__atomic_load_n(&line->away, __ATOMIC_ACQUIRE); }
static void away_add(struct live_line *line, uint64_t n) { __atomic_fetch_add(&line->away, n, __ATOMIC_ACQ_REL); }

static bool take_far(const struct live_home *home, uint64_t key, uint64_t *ret_value) {
  struct live_line *far = far_table();
  if (!far) return false;
  uint32_t first = far_first(key);
  if (line_take(&far[first], key, ret_value)) return true;
  if (line_empty_behind(&far[first])) return false;
  if (!line_take(&far[far_other(first, home->hash, 0)], key, ret_value) &&
      !line_take(&far[far_other(first, home->hash, 1)], key, ret_value))
    return false;
  away_add(&far[first], (uint64_t)-1);
  return true;
}

static bool take(const struct live_home *home, uint64_t key, uint64_t *ret_value) {
  if (line_take(home->near, key, ret_value)) return true;
  if (line_empty_behind(home->near) || !take_far(home, key, ret_value)) return false;
  away_add(home->near, (uint64_t)-1);
  return true;
}

static bool put_far(const struct live_home *home, uint64_t key, uint64_t value) {
  struct live_line *far = far_table_make();
  if (!far) return false;
  uint32_t first = far_first(key);
  if (line_put(&far[first], key, value)) return true;
  away_add(&far[first], 1);
  if (line_put(&far[far_other(first, home->hash, 0)], key, value) ||
      line_put(&far[far_other(first, home->hash, 1)], key, value))
    return true;
  away_add(&far[first], (uint64_t)-1);
  return false;
}

static bool put(const struct live_home *home, uint64_t key, uint64_t value) {
  if (line_put(home->near, key, value)) return true;
  away_add(home->near, 1);
  if (put_far(home, key, value)) return true;
  away_add(home->near, (uint64_t)-1);
  return false;
}

static struct live_entry unpack(uint64_t value) {
  return (struct live_entry){value & (((uint64_t)1 << ROUTE_SHIFT) - 1), (unsigned)(value >> ROUTE_SHIFT)};
}

enum live_result live_insert(uint64_t key, struct live_entry entry, struct live_entry *ret_old) {
  const uint64_t size_max = ((uint64_t)1 << ROUTE_SHIFT) - 1;
  struct live_home home = home_of(key);
  uint64_t value = (entry.size < size_max ? entry.size : size_max) | (uint64_t)entry.route << ROUTE_SHIFT;
  uint64_t old;
  bool replaced = take(&home, key, &old);
  if (replaced) *ret_old = unpack(old);
  if (!put(&home, key, value)) return LIVE_UNTRACKED;
  return replaced ? LIVE_REPLACED : LIVE_NEW;
}

bool live_remove(uint64_t key, struct live_entry *ret_entry) {
  struct live_home home = home_of(key);
  uint64_t value;
  if (!take(&home, key, &value)) return false;
  *ret_entry = unpack(value);
  return true;
}

static bool line_overlaps(const struct live_line *line, enum live_space space, uint64_t start, uint64_t end) {
  for (unsigned i = 0; i < LIVE_LINE_ENTRIES; i++) {
    uint64_t key = __atomic_load_n(&line->entry[i].key, __ATOMIC_ACQUIRE);
    uint64_t from = key ^ live_key(space, 0);
    if (from >> SPACE_SHIFT) continue; /* of another space, or free */
    if (from < end && from + unpack(__atomic_load_n(&line->entry[i].value, __ATOMIC_RELAXED)).size > start) return true;
  }
  return false;
}

bool live_overlaps(enum live_space space, uint64_t start, uint64_t end) {
  const struct live_line *far = far_table();
  for (uint32_t i = 0; i < LIVE_NEAR_LINES; i++)
    if (line_overlaps(&near_lines[i], space, start, end)) return true;
  for (uint32_t i = 0; far && i < LIVE_FAR_LINES; i++)
    if (line_overlaps(&far[i], space, start, end)) return true;
  return false;
}
