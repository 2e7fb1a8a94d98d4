/* ledger.h - which objects of families.def are mapped; names and families. */
#ifndef SPARKSHIM_LEDGER_H
#define SPARKSHIM_LEDGER_H

#include <stdbool.h>
#include <stddef.h>

/* Family word of a base name or SONAME ("libcuda.so.1": "cuda"), or NULL. No libc. */
const char *family_of(const char *base_name);
/* Family of the first name of a family in free text, such as the loader's error text, or NULL. No libc. */
const char *family_in_text(const char *text);

/* Has the list of objects changed since the last call (of any thread) with the same `seen`? Starts at 0. One short
 * walk under the loader's lock. */
bool ledger_changed(unsigned long long *seen);
/* Is an object of families.def mapped at all? */
bool ledger_any_family(void);
/* Is an object mapped that a request for this name may have led to: one with that base name or SONAME, whatever the
 * version behind it? */
bool ledger_mapped(const char *base_name);
/* Records (fact `load`) every mapped object of families.def that was not recorded yet. `how` as in facts.def. Only
 * when awake. Keeps errno. */
void ledger_update(const char *how);
/* A forked child's log starts with what is mapped: forgets what was recorded. */
void ledger_forget(void);

#endif
