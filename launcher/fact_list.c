/* fact_list.c - see fact_list.h. Which fields of a kind are strings, facts.def tells. */
#include "fact_list.h"

#include <stdlib.h>
#include <string.h>

/* Shows `each` the place of every string in the fact. */
static void each_string(struct fact *f, void (*each)(fact_str *place, void *arg), void *arg) {
#define STRING_u64(kind_, field)
#define STRING_i64(kind_, field)
#define STRING_hex(kind_, field)
#define STRING_flag(kind_, field)
#define STRING_str(kind_, field) each(&f->u.kind_.field, arg);
#define FACT(name, doc) if (f->kind == FACT_KIND_##name) {
#define FIELD(kind_, type, field, unit_, doc) STRING_##type(kind_, field)
#define FACT_END(kind) }
#include "facts.def"
}

static void free_string(fact_str *place, void *unused) {
  (void)unused;
  free((void *)(uintptr_t)*place);
}

/* Replaces a borrowed string by a copy. */
static void own_string(fact_str *place, void *good) {
  if (!*place) return;
  *place = strdup(*place);
  if (!*place) *(bool *)good = false;
}

bool fact_list_add(struct fact_list *list, const struct fact *fact) {
  struct fact own = *fact;
  bool good = true;
  if (!(list->n & (list->n - 1))) { /* grown at each power of two */
    struct fact *bigger = realloc(list->fact, (list->n ? 2 * list->n : 1) * sizeof *bigger);
    if (!bigger) return false;
    list->fact = bigger;
  }
  each_string(&own, own_string, &good);
  if (!good) {
    each_string(&own, free_string, NULL);
    return false;
  }
  list->fact[list->n++] = own;
  return true;
}

void fact_list_free(struct fact_list *list) {
  for (size_t i = 0; i < list->n; i++) each_string(&list->fact[i], free_string, NULL);
  free(list->fact);
  *list = (struct fact_list){NULL, 0};
}

bool fact_concerns(const struct fact *fact, uint64_t pid) {
  switch (fact->kind) {
  case FACT_KIND_sample:
  case FACT_KIND_holder:
  case FACT_KIND_nvml:
  case FACT_KIND_split:
  case FACT_KIND_killer:
  case FACT_KIND_oom_victim:
  case FACT_KIND_limit: return true;
  case FACT_KIND_stall: return fact->u.stall.pid == pid;
  default: return false;
  }
}
