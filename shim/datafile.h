/* datafile.h - the large files that this job reads: which are mapped or open now.
 *
 * Reading is not hooked: who wraps open and read is in every process's way. The files are looked for at moments when memory is
 * read anyway, so a file that was opened and closed in between is missed. Slow path only; no allocation, no lock.
 */
#ifndef SPARKSHIM_DATAFILE_H
#define SPARKSHIM_DATAFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "mappings.h"

enum {
  DATAFILE_LEAST = 64 << 20,   /* bytes: smaller files do not fill a Spark */
  DATAFILE_MAPPING = 16 << 20, /* bytes of one mapping */
  DATAFILE_PATH = 2048,
};

/* A descriptor of the file at `path`, for the caller to close, when it is a large regular file with a disk behind it and no ELF
 * object; else negative. Nothing but such a file is opened. May wait for a network. */
int datafile_open(const char *path);

/* May this mapping be one of a data file? Readable, not executable, large enough, with a path. */
bool datafile_is_mapping(const struct mapping *m);

/* Finds those that are mapped or open for reading now, and remembers and records what is new (facts data_file, at most
 * 256 in a process). `at_once` false: at most once a second. */
void datafile_look(bool at_once);

/* Shows `see` the path of each file that was found so far, earliest first; many will be closed by now. Stops when it says
 * true. */
void datafile_each(bool (*see)(const char *path, void *arg), void *arg);

#endif
