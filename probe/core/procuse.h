/* procuse.h - what a process uses, as /proc/<pid>/{status,stat,io,smaps_rollup} tell it. Freestanding.
 *
 * `root` as in lines_of_file() (NULL for the job's own processes, which are real under the simulator too).
 */
#ifndef SPARKSHIM_PROCUSE_H
#define SPARKSHIM_PROCUSE_H

#include <stddef.h>
#include <stdint.h>

struct procuse {     /* FACT_NO_U64 where not known; sizes in bytes */
  char state;        /* R, S, D, Z, ...; '?' */
  int ppid, session; /* as in procstat.h; -1: not known */
  uint64_t start;    /* clock ticks after boot */
  uint64_t cpu;      /* us of processor time, user and system; in steps of 10 ms */
  uint64_t threads;
  uint64_t uid;   /* real user */
  uint64_t anon;  /* RssAnon */
  uint64_t file;  /* RssFile */
  uint64_t shmem; /* RssShmem */
  uint64_t swap;  /* VmSwap */
  uint64_t read;  /* read_bytes of io: from disk, not from the page cache */
  char name[16];  /* of status: cut at 15; empty: not known */
};

/* Everything unknown. */
void procuse_clear(struct procuse *u);

/* Texts of the files: any bytes. They set what they find. stat: 0, or -EINVAL with `u` untouched. */
void procuse_parse_status(const char *text, size_t size, struct procuse *u);
int procuse_parse_stat(const char *text, size_t size, struct procuse *u);
void procuse_parse_io(const char *text, size_t size, struct procuse *u);

/* pid 0: the caller. 0, or negative errno when neither status nor stat could be read (the process is gone). `io` needs
 * the same user and a dumpable process. Three files, about 60 us. */
int procuse_read(const char *root, int pid, struct procuse *u);
/* stat of one thread: state, cpu, start, name. 0 or negative errno. */
int procuse_thread(const char *root, int pid, int tid, struct procuse *u);

/* smaps_rollup: the process's share of anonymous and shared memory, pages that several map divided among them. The kernel
 * walks the page table for it, 0.1 s and more for 100 GiB of small pages, with the memory map locked for reading: never at
 * a fast beat. 0 or negative errno. */
int procuse_share(const char *root, int pid, uint64_t *ret_anon, uint64_t *ret_shmem);
void procuse_parse_share(const char *text, size_t size, uint64_t *ret_anon, uint64_t *ret_shmem);

/* The command line, words separated by NULs, at most size bytes. Length or negative errno. */
long procuse_command(const char *root, int pid, char *out, size_t size);

#endif
