/* fact_json.h - a fact or a finding as one line of the log (docs/log-format.md).
 *
 * Freestanding: no allocation, no libc, no state. Thread-safe, async-signal-safe, keeps errno.
 */
#ifndef SPARKSHIM_FACT_JSON_H
#define SPARKSHIM_FACT_JSON_H

#include <stddef.h>

#include "fact.h"
#include "finding.h"

enum {
  FACT_JSON_STRING = 2048, /* most bytes of a string between its quotes, escapes included */
  FACT_JSON_MAX = 32768,   /* longest record, newline and NUL included; fact_json.c checks it against facts.def */
};

/* Writes `f` as one JSON object, newline and NUL into buffer[size]. size >= FACT_JSON_MAX always suffices. Returns
 * the length without the NUL; 0, and an empty string, when it does not fit or the kind is unknown. Fields that
 * are not known (FACT_NO_U64, FACT_NO_I64, NULL, false) are left out. Numbers above 2^63-1 are written as that:
 * many JSON readers refuse more. Strings are UTF-8; a byte that is not part of a valid character, and each byte
 * of a character in U+F700..U+F7FF, is written as the character U+F700 + byte. A string too long is cut between two characters and
 * ends in U+F700 and the number of bytes left out, in decimal. */
size_t fact_json(const struct fact *f, char *buffer, size_t size);

/* How a finding was told so far. */
struct finding_telling {
  uint32_t tid;      /* thread that saw it; 0: none */
  uint64_t count;    /* how often it was emitted */
  uint64_t last;     /* when it was last, microseconds; the finding's own t is the first time */
  const char *shown; /* file, "dev:ino", on which the line with this verdict was put just now; NULL: on none */
  uint64_t pid;      /* of the process that it is about, where the launcher tells it of one of its job; else 0 */
};

/* The record of a finding. Same rules as fact_json. */
size_t finding_json(const struct finding *f, const struct finding_telling *how, char *buffer, size_t size);

/* Undoes in place what the writer did to bytes that are not UTF-8, in a string that a JSON reader gave. The mark
 * of a cut becomes "...". Returns false when the string was cut. */
bool fact_string_decode(char *s);

/* "load", "alloc_failed", ... ; NULL for an unknown kind. */
const char *fact_kind_word(enum fact_kind kind);

#endif
