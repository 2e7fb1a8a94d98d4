/* hooks.h - what hooks.c and bind.c know of a row of hooks.def, beyond what shim.h declares. */
#ifndef SPARKSHIM_HOOKS_H
#define SPARKSHIM_HOOKS_H

#include "shim.h"
#include "thunk.h"

enum hook_lib { HOOK_LIB_NONE, HOOK_LIB_LIBC, HOOK_LIB_CUDART, HOOK_LIB_DRIVER, HOOK_LIB_NCCL };
enum hook_place { HOOK_PLACE_ANY, HOOK_PLACE_FIRST, HOOK_PLACE_SECOND, HOOK_PLACES };

enum hook_lib hook_library(enum hook_id id);
/* The hook at one of the places that hook_table.S lists, or NULL where the row has none. */
void *hook_at(enum hook_id id, enum hook_place place);

/* bind.c: shared with thunk.S, which knows layout and size: 32 bytes a slot. */
struct bind_slot {
  uint64_t key; /* real pointer and hook id; 0 = free. Taken by compare and exchange, never given back */
  void *real;
  void *target;
  void *unused;
};
extern struct bind_slot bind_slots[BIND_SLOTS];

#endif
