/* fact_list.h - facts that are kept, with copies of their strings: what a launcher saw, for the processes of its job.
 * Command line only: allocates.
 */
#ifndef SPARKSHIM_FACT_LIST_H
#define SPARKSHIM_FACT_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include "fact.h"

/* All zero: empty. */
struct fact_list {
  struct fact *fact; /* in the order in which they came */
  size_t n;
};

/* False when there is no memory: the list is as before. */
bool fact_list_add(struct fact_list *list, const struct fact *fact);
void fact_list_free(struct fact_list *list);

/* Whether a process with that pid is concerned by a fact of its launcher: what is said of the machine or of the job as a
 * whole, and of the process itself. */
bool fact_concerns(const struct fact *fact, uint64_t pid);

#endif
