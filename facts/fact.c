/* fact.c - see fact.h. Made from facts.def; no libc, no state. */
#include "fact.h"

#define UNKNOWN_u64 FACT_NO_U64
#define UNKNOWN_hex FACT_NO_U64
#define UNKNOWN_i64 FACT_NO_I64
#define UNKNOWN_str ((const char *)0)
#define UNKNOWN_flag false

static void forget_memory(struct fact_memory *m) {
#define MEM(name, key, doc) m->name = FACT_NO_U64;
#include "memory_fields.def"
#undef MEM
}

void fact_init(struct fact *f, enum fact_kind kind) {
  f->kind = kind;
  f->t = 0;
  f->tid = 0;
  switch (kind) {
#define FACT(name, doc) case FACT_KIND_##name:
#define FIELD(name, type, field, unit, doc) f->u.name.field = UNKNOWN_##type;
#define FACT_MEMORY(name) forget_memory(&f->u.name.mem);
#define FACT_END(name) break;
#include "facts.def"
  default: break;
  }
}
