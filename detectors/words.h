/* words.h - sentences that several detectors need, so that the same thing is said in the same words. Freestanding. */
#ifndef SPARKSHIM_WORDS_H
#define SPARKSHIM_WORDS_H

#include "fact.h"
#include "finding.h"

/* Starts a finding: everything but confidence, t and text is set, the lists are empty, retry is unknown.
 * `cause`: constant text; `object` is copied. */
void words_begin(struct finding *f, unsigned g, enum verdict v, const char *cause, const char *object);

/* Evidence: "MemAvailable ..., MemFree ..., Cached ... of MemTotal ...", and swap where there is a figure. */
void words_memory(struct finding_list *list, const struct fact_memory *m);
/* Evidence: what this process holds through hooked calls; nothing when either is not known. */
void words_live(struct finding_list *list, uint64_t device, uint64_t pinned);

/* Evidence: "CmaTotal ..., CmaFree ...". */
void words_cma(struct finding_list *list, const struct fact_memory *m);

/* Fixes for a contiguous area that is too large. */
void words_fix_area(struct finding_list *list);
/* Fix: give page cache back. Only where the readings say that this helps. */
void words_fix_cache(struct finding_list *list);

#endif
