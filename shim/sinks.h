/* sinks.h - what observe.c, log.c, ring.c and line.c share: where facts and findings go. Only for these, and for inject.c.
 *
 * Everything is opened by sinks_open(), in one thread, at wake-up or in a forked child. A sink that cannot be
 * opened, or fails later, is done without; none ever makes the job fail.
 */
#ifndef SPARKSHIM_SINKS_H
#define SPARKSHIM_SINKS_H

#include "finding.h"
#include "rundir.h"
#include "shim.h"

enum { SINK_STEM = RUN_HOST + 64 };

/* ---- log.c ------------------------------------------------------------------------------------------------ */

/* Makes the run's folder and this process's log in it. Returns a descriptor of the folder (the caller closes it)
 * or negative errno when there is nowhere to write. `start`: procstat's start of this process. */
int log_open(const char *run, uint64_t start);
/* Path without ".ndjson" of the log's file name; "" while there is none. */
const char *log_stem(void);
/* One record. `essential` records may use the room kept at the end of a full log. Any thread, no lock. */
void log_write(const char *record, size_t size, bool essential);
/* Records that were not written since the last call: too many, or the disk took none. */
uint64_t log_take_dropped(void);

/* ---- ring.c, ring_guard.c ----------------------------------------------------------------------------------- */

/* Maps the ring: beside the log, else in $XDG_RUNTIME_DIR or /dev/shm, else anonymous. *ret_name: file name in the
 * run's folder, absolute path elsewhere, NULL for anonymous memory; valid until the next ring_open.
 * dir < 0: there is no folder. */
void ring_open(int dir, const char *stem, const char **ret_name);
/* Renews the header's second pair of ticks and time. Any thread. */
void ring_renew_pair(uint64_t us);
/* True once, after the file under the mapping was cut and the ring went on in anonymous memory. */
bool ring_take_lost(void);
/* The process ends in good order: a ring outside of the run's folder is removed, for nobody would. */
void ring_leave(void);

/* Makes [start, start + size) outlive a truncation of the file mapped there. False when it cannot: the job has
 * set SIGBUS to be ignored. */
bool ring_guard(void *start, size_t size);
void ring_unguard(void);
bool ring_guard_take_lost(void);

/* ---- line.c -------------------------------------------------------------------------------------------------- */
void line_open(void);
/* The file that it was put on, "dev:ino"; NULL where it was not: switched off, not the file of the start, not ready. */
const char *line_write(const struct finding *f);

#endif
