/* procstat.h - a process as /proc/<pid>/stat tells it. Freestanding: raw system calls, no allocation, errno kept. */
#ifndef SPARKSHIM_PROCSTAT_H
#define SPARKSHIM_PROCSTAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct procstat {
  int ppid;       /* 0: outside of this PID namespace */
  int session;    /* 0: its leader is outside of this PID namespace */
  uint64_t start; /* clock ticks (1/100 s) after boot; with the pid it names a process for good */
};

/* Parses the text of a stat file. 0, or -EINVAL (-22) with `out` untouched. */
int procstat_parse(const char *text, struct procstat *out);

/* Reads /proc/<pid>/stat, pid 0 meaning the caller. 0 or negative errno. */
int procstat_read(int pid, struct procstat *out);

/* Reads a file of at most size - 1 bytes whole, NUL-ended, without a trailing newline. `root`, when not NULL, is
 * looked below first (SPARKSHIM_ROOT). Returns the length or negative errno. */
long proc_text_read(const char *root, const char *path, char *out, size_t size);

/* Shows `see` the path of every mapped file of a process (pid 0: the caller), as /proc/<pid>/maps has it: a newline
 * reads \\012, a removed file ends in " (deleted)". Stops, and returns true, when `see` says true. A path of more than
 * 2 KiB is left out. Some 0.1 us a mapping, and the process's memory map is locked for as long as a page of text takes. */
bool proc_mapped(int pid, bool (*see)(const char *path, void *arg), void *arg);

/* The kernel's page size in bytes, from the auxiliary vector in /proc/self/auxv; FACT_NO_U64 when that cannot be read. */
uint64_t proc_page_size(void);

/* "/proc/<pid>/<name>" into out[size], "/proc/self/<name>" for pid 0. Returns out. */
const char *proc_path(int pid, const char *name, char *out, size_t size);

/* Appends `n` in decimal at out[at] as far as it fits, NUL-ended. Returns the new end. */
size_t proc_put_number(char *out, size_t size, size_t at, uint64_t n);

#endif
