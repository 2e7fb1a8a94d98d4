/* meminfo.h - readers of the machine's memory. Freestanding: raw system calls, no allocation, errno kept. */
#ifndef SPARKSHIM_MEMINFO_H
#define SPARKSHIM_MEMINFO_H

#include <stddef.h>
#include "fact.h"

/* Parses the text of /proc/meminfo (any length, any garbage) into `out`: kB figures become bytes, HugePages_*
 * pages are multiplied by Hugepagesize, missing or unreadable keys become FACT_NO_U64. Returns the number of
 * fields found. */
int meminfo_parse(const char *text, size_t size, struct fact_memory *out);

/* Reads <root>/proc/meminfo when root is not NULL and has it, else /proc/meminfo. 0 or negative errno; on
 * failure every field is FACT_NO_U64. One open, read, close: about 10 us. */
int meminfo_read(const char *root, struct fact_memory *out);

#endif
