/* finding.h - what a detector says.
 *
 * One struct with room for everything, no pointers but to constant text, so that it can be filled without
 * allocating and copied. The line that people and tools read is made from it in one place, finding_line().
 */
#ifndef SPARKSHIM_FINDING_H
#define SPARKSHIM_FINDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ordered by weight: a report's exit status is made from the greatest. */
enum verdict { VERDICT_PASS, VERDICT_SKIP, VERDICT_INFO, VERDICT_WARN, VERDICT_FAIL };
enum confidence { CONFIDENCE_LOW, CONFIDENCE_MEDIUM, CONFIDENCE_HIGH };
enum retry { RETRY_UNKNOWN, RETRY_USELESS, RETRY_MAY_HELP };

enum { FINDING_TEXT = 288, FINDING_ITEM = 192, FINDING_ITEMS = 6, FINDING_OBJECT = 64 };

struct finding_list {
  unsigned n;
  char item[FINDING_ITEMS][FINDING_ITEM];
};

struct finding {
  unsigned g; /* 1..10 */
  enum verdict verdict;
  const char *cause; /* a word of causes.def */
  enum confidence confidence;
  enum retry retry;
  uint64_t t;                    /* Unix time in microseconds of the deciding fact */
  char object[FINDING_OBJECT];   /* what it is about (a call, a path): a later finding with the same g, cause
                                   and object from the same process replaces this one */
  char text[FINDING_TEXT];       /* one sentence: what, where, how much; no full stop, no newline */
  struct finding_list evidence;  /* readings, strongest first */
  struct finding_list fixes;     /* in order of use; the first goes on the line */
  struct finding_list ruled_out; /* "look-alike: the reading that excludes it" */
};

/* Upper-case word of a verdict ("FAIL"), lower-case word of a confidence ("high"), of retry. */
const char *verdict_word(enum verdict v);
const char *confidence_word(enum confidence c);
const char *retry_word(enum retry r);

/* Writes "G3 FAIL: text; fix: first fix" and, when `simulated`, " (simulated)", then NUL, into out[size];
 * what a terminal would not just show becomes '?' (plain.h). A text too long for size loses its tail, never the mark. Returns the length
 * without the NUL. No newline. Async-signal-safe. */
size_t finding_line(const struct finding *f, bool simulated, char *out, size_t size);

#endif
