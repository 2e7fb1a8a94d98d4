/* bind.c - what an application gets instead of a function pointer it looked up.
 *
 * Nobody can tell from a pointer's name which library, version and stream variant it stands for, so the pointer
 * itself decides: each real pointer gets a thunk of its own (thunk.S), which leaves it in shim_thread.real and
 * jumps to hook_<name>__any. Where the pointer is the very function that an exported hook calls, the exported hook is
 * handed out, so that a pointer looked up equals the address that a linked reference gives.
 *
 * The slots are a lock-free hash table: key taken by compare and exchange, never given back (an application may keep
 * a pointer for ever), contents derived from the key alone, so that whoever finds a key may fill its slot.
 */
#include "hooks.h"
#include "linkmap.h"
#include "shim.h"
#include "sys.h"

#include "poison.h"

extern const char bind_thunks[] __attribute__((visibility("hidden"))); /* thunk.S: 16 bytes each */
struct bind_slot bind_slots[BIND_SLOTS];
static uint32_t bind_full_noted;

static void *bound_thunk(enum hook_id id, void *real) {
  uint64_t address = (uint64_t)(uintptr_t)real;
  uint64_t key = address | (uint64_t)id << 48;
  uint32_t at = (uint32_t)((address >> 4) * 2654435761u >> 8);
  if (address >> 48) return real; /* beyond what a key can hold */
  for (unsigned i = 0; i < BIND_SLOTS; i++) {
    struct bind_slot *slot = &bind_slots[(at + i) % BIND_SLOTS];
    uint64_t found = __atomic_load_n(&slot->key, __ATOMIC_ACQUIRE);
    if (!found && __atomic_compare_exchange_n(&slot->key, &found, key, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
      found = key;
    if (found != key) continue;
    __atomic_store_n(&slot->real, real, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->target, hook_at(id, HOOK_PLACE_ANY), __ATOMIC_RELEASE);
    return (char *)(uintptr_t)bind_thunks + 16 * (size_t)(slot - bind_slots);
  }
  if (!__atomic_exchange_n(&bind_full_noted, 1, __ATOMIC_RELAXED)) {
    struct fact fact = {.kind = FACT_KIND_note};
    fact.u.note.text =
        "all bound thunks are in use: calls through function pointers looked up from now on are not seen";
    observe(&fact);
  }
  return real;
}

static bool is_export_of(const char *soname, const char *node, enum hook_id id, const void *real) {
  return linkmap_symbol(soname, node, hook_name(id)) == real;
}

/* The exported hook that calls exactly `real`, or NULL. */
static void *exported_hook(enum hook_id id, const void *real) {
  void *first = hook_at(id, HOOK_PLACE_FIRST), *second = hook_at(id, HOOK_PLACE_SECOND);
  switch (hook_library(id)) {
  case HOOK_LIB_CUDART:
    if (first && is_export_of("libcudart.so.12", "libcudart.so.12", id, real)) return first;
    if (second && is_export_of("libcudart.so.13", "libcudart.so.13", id, real)) return second;
    return NULL;
  case HOOK_LIB_DRIVER: return is_export_of("libcuda.so.1", NULL, id, real) ? first : NULL;
  case HOOK_LIB_NCCL: return is_export_of("libnccl.so.2", NULL, id, real) ? first : NULL;
  default: return NULL;
  }
}

void *hook_for(enum hook_id id, void *real) {
  void *hook;
  if (!real || linkmap_is_ours(real) || !hook_at(id, HOOK_PLACE_ANY)) return real;
  hook = exported_hook(id, real);
  if (hook) return hook;
  return __atomic_load_n(&shim_life, __ATOMIC_ACQUIRE) == 2 ? bound_thunk(id, real) : real;
}
