/* rlimits.h - resource limits of the calling process, from /proc/self/limits. Freestanding: raw system calls, errno kept.
 *
 * The file, not prlimit(2): what a simulated machine allows its jobs stands below SPARKSHIM_ROOT, for limits cannot be
 * raised for real without privilege.
 */
#ifndef SPARKSHIM_RLIMITS_H
#define SPARKSHIM_RLIMITS_H

#include <stdint.h>

/* The kernel's name of the row (fs/proc/base.c), for RLIMIT_MEMLOCK: bytes. */
#define LIMIT_MEMLOCK "Max locked memory"

/* Finds the row in the text of a limits file. FACT_NO_U64 (UINT64_MAX) is unlimited. 0, or -EINVAL (-22) with the out
 * parameters untouched when there is no such row or it is not one of numbers. */
int limit_parse(const char *text, const char *row, uint64_t *ret_soft, uint64_t *ret_hard);

/* Reads <root>/proc/self/limits when root is not NULL and has it, else /proc/self/limits. 0 or negative errno. */
int limit_read(const char *root, const char *row, uint64_t *ret_soft, uint64_t *ret_hard);

#endif
