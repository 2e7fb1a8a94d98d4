/* hooks.c - the table of hooked names: id to name, name to id, id to hook.
 *
 * hook_by_name() runs in every dlsym of the process, may run before any constructor and before libc is relocated:
 * no libc function, no lock. All but a few names are turned away by their first letters; the others are hashed into
 * a table that the first of them fills.
 */
#include "hooks.h"

#include "sys.h"

#include "poison.h"

/* One block of text and offsets into it: an array of pointers would be a relocation per row at each program start. */
#define HOOK(lib, name, ...) char name_##name[sizeof #name];
static const struct hook_names {
  char name_none[1];
#include "hooks.def"
#undef HOOK
} hook_names = {
    "",
#define HOOK(lib, name, ...) #name,
#include "hooks.def"
#undef HOOK
};

static const uint16_t hook_name_at[HOOK_ID_COUNT] = {
    0,
#define HOOK(lib, name, ...) offsetof(struct hook_names, name_##name),
#include "hooks.def"
#undef HOOK
};

static const uint8_t hook_libraries[HOOK_ID_COUNT] = {
    HOOK_LIB_NONE,
#define HOOK(lib, name, ...) HOOK_LIB_##lib,
#include "hooks.def"
#undef HOOK
};

extern const int32_t hook_places[HOOK_ID_COUNT * HOOK_PLACES] __attribute__((visibility("hidden"))); /* hook_table.S */

enum { NAME_TABLE = 2048 };
_Static_assert(HOOK_ID_COUNT * 2 <= NAME_TABLE, "the table of names must stay at most half full");

enum { NAMES_UNUSED, NAMES_FILLING, NAMES_READY };
static uint32_t names_state;
static uint16_t names[NAME_TABLE]; /* hook ids, open addressing */

const char *hook_name(enum hook_id id) {
  return (const char *)&hook_names + hook_name_at[(unsigned)id < HOOK_ID_COUNT ? id : HOOK_NONE];
}

enum hook_lib hook_library(enum hook_id id) { return (enum hook_lib)hook_libraries[id]; }

void *hook_at(enum hook_id id, enum hook_place place) {
  int32_t offset = hook_places[(unsigned)id * HOOK_PLACES + place];
  return offset ? (char *)(uintptr_t)hook_places + offset : NULL;
}

static uint32_t name_hash(const char *name) {
  uint32_t hash = 2166136261u;
  for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 16777619u;
  return hash ^ hash >> 16;
}

/* cu..., nccl..., __cuda...: a unit test holds every row against hook_by_name(). */
static bool name_may_be_hooked(const char *name) {
  return (name[0] == 'c' && name[1] == 'u') || (name[0] == 'n' && name[1] == 'c') || (name[0] == '_' && name[1] == '_');
}

static void fill_names(void) {
  for (unsigned id = 1; id < HOOK_ID_COUNT; id++) {
    uint32_t at = name_hash(hook_name((enum hook_id)id)) % NAME_TABLE;
    if (hook_libraries[id] == HOOK_LIB_LIBC) continue; /* never exchanged: a look-up of dlopen gets libc's */
    while (names[at]) at = (at + 1) % NAME_TABLE;
    names[at] = (uint16_t)id;
  }
}

static enum hook_id search_all(const char *name) {
  for (unsigned id = 1; id < HOOK_ID_COUNT; id++)
    if (hook_libraries[id] != HOOK_LIB_LIBC && str_equal(hook_name((enum hook_id)id), name)) return (enum hook_id)id;
  return HOOK_NONE;
}

enum hook_id hook_by_name(const char *name) {
  if (likely(!name_may_be_hooked(name))) return HOOK_NONE;
  if (unlikely(__atomic_load_n(&names_state, __ATOMIC_ACQUIRE) != NAMES_READY)) {
    uint32_t unused = NAMES_UNUSED;
    if (!__atomic_compare_exchange_n(&names_state, &unused, NAMES_FILLING, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
      return search_all(name); /* another thread is filling the table */
    fill_names();
    __atomic_store_n(&names_state, NAMES_READY, __ATOMIC_RELEASE);
  }
  for (uint32_t at = name_hash(name) % NAME_TABLE; names[at]; at = (at + 1) % NAME_TABLE)
    if (str_equal(hook_name((enum hook_id)names[at]), name)) return (enum hook_id)names[at];
  return HOOK_NONE;
}
