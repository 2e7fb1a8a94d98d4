/* pagecache.h - the cached pages of one file: counted, and given back. Freestanding: raw system calls, errno kept.
 *
 * What the two calls below return says little about their effect: measure it. Pages that somebody has mapped, has locked
 * or has changed without writing them back stay, and the kernel's answer is success all the same.
 */
#ifndef SPARKSHIM_PAGECACHE_H
#define SPARKSHIM_PAGECACHE_H

#include <stddef.h>
#include <stdint.h>

/* Bytes, whole pages. */
struct pagecache {
  uint64_t cached;
  uint64_t dirty; /* of these: changed, or being written just now */
};

/* cachestat(2). 0, or negative errno: -EPERM when the caller neither owns the file nor may write it (since Linux 6.13;
 * mincore(2) tells such a caller that everything is resident), -ENOSYS before Linux 6.5. */
int pagecache_read(int fd, struct pagecache *out);

/* posix_fadvise(POSIX_FADV_DONTNEED) of the whole file: takes its clean pages that nobody has mapped out of the cache, and
 * begins to write the dirty ones without waiting. Whoever can open the file may. 0 or negative errno. */
int pagecache_drop(int fd);

#endif
