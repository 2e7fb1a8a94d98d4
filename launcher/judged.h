/* judged.h - one state of the detectors, and what they have found with it. `report` has them for every process of a
 * run, and the launcher for the processes of its job while they live. Command line only: allocates.
 */
#ifndef SPARKSHIM_JUDGED_H
#define SPARKSHIM_JUDGED_H

#include <stdbool.h>
#include <stddef.h>
#include "fact.h"
#include "finding.h"
#include "splits.h"

enum { FINDING_SHOWN = 44 };

struct process_finding {
  struct finding f;
  unsigned long count;       /* how often it was emitted */
  struct split_at memory;    /* G3 and G6: where memory was before it; memory.t 0: not known */
  enum verdict before;       /* its verdict before the present one; VERDICT_PASS: there was none */
  char shown[FINDING_SHOWN]; /* file, "dev:ino", on which its process put it with this verdict; "": on none */
  bool shown_at_exit;        /* it did so at its exit */
};

/* All zero but for `detectors`, and perhaps `heard`: nothing was seen yet. */
struct judged {
  uint32_t detectors; /* det_mask() */
  /* Called for every finding that is new or has another verdict than before; NULL: nobody listens. */
  void (*heard)(struct judged *j, const struct finding *f);
  struct process_finding *finding;
  size_t findings;
  struct splits memory; /* where memory was, by the facts so far */
  void *state;          /* private */
  uint64_t last_t;      /* private */
};

/* Hands the fact to the detectors; its time counts as that of the fact before it where it lies before that. False when
 * there is no memory: the fact, or a finding, is lost. */
bool judged_observe(struct judged *j, const struct fact *fact);

/* Of g, cause and object, or NULL. */
const struct process_finding *judged_find(const struct judged *j, const struct finding *f);

/* The state is needed no longer; the findings stay. */
void judged_close(struct judged *j);
void judged_free(struct judged *j);

#endif
