/* preflight_memory.h - what `preflight` looks at for G3 and G6: the machine's memory, who holds GPU memory, what kills and
 * what bounds, as facts for the detectors that judge a job.
 */
#ifndef SPARKSHIM_PREFLIGHT_MEMORY_H
#define SPARKSHIM_PREFLIGHT_MEMORY_H

#include <jansson.h>
#include <stdio.h>

#include "collect.h"
#include "judged.h"
#include "split.h"

enum { HOLDER_TEXT = 96, PREFLIGHT_HOLDERS = 32 };

struct preflight_holder {
  uint64_t pid, bytes; /* bytes FACT_NO_U64: NVML does not tell */
  bool graphics;
  char name[HOLDER_TEXT], unit[HOLDER_TEXT]; /* unit: service or container; empty: neither */
};

struct preflight_memory {
  struct judged judged; /* the findings of G3 and G6 */
  struct fact_memory mem;
  int error; /* of reading it: 0 or negative errno */
  struct fact_split split;
  bool has_split;
  bool asked, answered; /* NVML was asked; it has answered */
  char nvml_error[NVML_ERROR];
  uint64_t waited;                                   /* us */
  struct preflight_holder holder[PREFLIGHT_HOLDERS]; /* of the latest look, as NVML lists them */
  size_t holders;
  uint64_t compute, graphics; /* how many it lists in all */
  /* private */
  struct split_follow follow;
  bool ownerless; /* somebody in the latest look may be gone in a moment */
};

/* Looks once; where memory seems to belong to nobody, for the 10 s that it may take to come back after a crash. `root`:
 * SPARKSHIM_ROOT or NULL. Zeroed memory before. */
void preflight_memory_look(struct preflight_memory *m, const char *root);
void preflight_memory_free(struct preflight_memory *m);

/* For people: the split as a line and as a table, then who holds GPU memory. Nothing where memory could not be read. */
void preflight_memory_print(const struct preflight_memory *m, bool simulated, FILE *to);
/* A new object {line, total, free, ..., rest, driver, holders[]}; NULL where memory could not be read. */
json_t *preflight_memory_json(const struct preflight_memory *m);

#endif
