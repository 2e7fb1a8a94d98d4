/* pagecache.c - see pagecache.h. Runs in the preloaded library and in the program. */
#include "pagecache.h"

#include <errno.h>
#include <fcntl.h>

#include "fact.h"
#include "procstat.h"
#include "sys.h"

#ifndef SYS_cachestat
#define SYS_cachestat 451 /* the same number on every machine; kernel headers have it since 6.5 */
#endif

int pagecache_read(int fd, struct pagecache *out) {
  struct {
    uint64_t from, length;
  } whole = {0, 0}; /* length 0: to the end */
  struct {
    uint64_t cache, dirty, writeback, evicted, recently_evicted;
  } counts = {0, 0, 0, 0, 0};
  long result = sys_call6(SYS_cachestat, fd, (long)&whole, (long)&counts, 0, 0, 0);
  if (result < 0) return (int)result;
  uint64_t page = proc_page_size();
  if (page == FACT_NO_U64) return -ENODATA;
  *out = (struct pagecache){counts.cache * page, (counts.dirty + counts.writeback) * page};
  return 0;
}

int pagecache_drop(int fd) { return (int)sys_call6(SYS_fadvise64, fd, 0, 0, POSIX_FADV_DONTNEED, 0, 0); }
