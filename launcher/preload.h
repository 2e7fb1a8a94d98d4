/* preload.h - puts libsparkshim.so into the environment of a job. */
#ifndef SPARKSHIM_PRELOAD_H
#define SPARKSHIM_PRELOAD_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum { PRELOAD_VALUE = 32768 }; /* longest LD_PRELOAD that is put together */

/* Absolute path of libsparkshim.so: $SPARKSHIM_LIB, else beside this program, ../lib, or the library folder it was
 * installed to. Where the path has a character that LD_PRELOAD cannot hold (space, colon, '$'), the path of a
 * symbolic link to it in a private folder. 0, or negative errno. */
int preload_find(char ret_path[PATH_MAX]);

/* The new LD_PRELOAD: `library`, then the entries of `old` in their order. Entries that are another
 * libsparkshim.so are left out, and a sanitizer's runtime stays in front: it refuses to start elsewhere.
 * `old` may be NULL. False when it does not fit. */
bool preload_join(const char *library, const char *old, char *out, size_t size);

/* Sets LD_PRELOAD and what else `command` needs to start with it. Says one line, and leaves the environment
 * alone, where that cannot be: the job then runs unwatched. Returns whether the preload was set. */
bool preload_apply(const char *command);

#endif
