/* fact.h - the vocabulary that every part of sparkshim shares.
 *
 * A fact is one thing that was seen: a failed allocation, a reading of /proc/meminfo, a library that was
 * mapped. Collectors (shim/, probe/, launcher/) make facts; the log is a list of facts; detectors judge
 * facts and nothing else. The kinds and their fields stand in facts.def, once; this header turns that
 * table into C types. Strings are borrowed: a fact's pointers are valid only during the call that is
 * handed the fact, and whoever keeps one copies it. Nothing here does I/O or needs libc.
 */
#ifndef SPARKSHIM_FACT_H
#define SPARKSHIM_FACT_H

#include <stdbool.h>
#include <stdint.h>

/* "Not known": the field is left out of the log record, and a record without it reads back as this. */
#define FACT_NO_U64 UINT64_MAX
#define FACT_NO_I64 INT64_MIN

typedef uint64_t fact_u64;    /* JSON number */
typedef int64_t fact_i64;     /* JSON number */
typedef uint64_t fact_hex;    /* address or 64-bit id: JSON string "0x..." */
typedef const char *fact_str; /* JSON string; NULL is left out */
typedef bool fact_flag;       /* JSON true; false is left out */

/* One reading of the machine's memory, all in bytes, FACT_NO_U64 where the kernel does not give it. */
struct fact_memory {
#define MEM(name, key, doc) fact_u64 name;
#include "memory_fields.def"
#undef MEM
};

enum fact_kind {
  FACT_NONE = 0,
#define FACT(kind, doc) FACT_KIND_##kind,
#include "facts.def"
  FACT_KIND_COUNT
};

#define FACT(kind, doc) struct fact_##kind {
#define FIELD(kind, type, name, unit, doc) fact_##type name;
#define FACT_MEMORY(kind) struct fact_memory mem;
#define FACT_END(kind) \
  }                    \
  ;
#include "facts.def"

struct fact {
  enum fact_kind kind;
  uint64_t t;   /* Unix time in microseconds, from probe/core/clock.h */
  uint32_t tid; /* thread that saw it; 0 = the process as a whole */
  union {
#define FACT(kind, doc) struct fact_##kind kind;
#include "facts.def"
  } u;
};

/* A fact of this kind of which nothing is known: numbers FACT_NO_U64 and FACT_NO_I64, strings NULL, flags false, t and tid
 * 0. Async-signal-safe. */
void fact_init(struct fact *f, enum fact_kind kind);

#endif
