/* fact_read.h - one line of a log back into a fact or a finding (docs/log-format.md). The counterpart of
 * facts/fact_json.h, for the command line.
 *
 * A log is the only witness of a job that died, so nothing in it is trusted: torn, foreign and hostile lines are
 * told apart and skipped, never half believed. It is also long: a line is parsed in place, without
 * allocation, which a library that builds a tree for each record cannot do.
 */
#ifndef SPARKSHIM_FACT_READ_H
#define SPARKSHIM_FACT_READ_H

#include <stddef.h>
#include "fact.h"
#include "finding.h"

enum record_kind {
  RECORD_BAD,     /* no JSON object, or without version, time or kind */
  RECORD_FOREIGN, /* a kind or a version that this program does not know */
  RECORD_FACT,
  RECORD_FINDING,
};

/* What a finding record says that a report compares; the rest is derived again from the facts. */
struct logged_finding {
  unsigned g;
  enum verdict verdict;
  const char *cause;
  const char *object;
  const char *shown; /* as in struct finding_telling */
};

struct record {
  enum record_kind kind;
  struct fact fact;              /* RECORD_FACT */
  struct logged_finding finding; /* RECORD_FINDING */
};

/* line[0..size) is one line without its newline; line[size] may be overwritten. Strings in `out` point into it.
 * Fields that are missing or of another type than facts.def says are "not known". */
void record_read(char *line, size_t size, struct record *out);

#endif
