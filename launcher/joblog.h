/* joblog.h - the launcher's own file in the run directory: header, job_start, job_end, and what the sampler sees. What
 * must survive a power-off stands there: each record is written by one write(2); the start and the end of the job are
 * fsynced at once, the rest every few seconds by the sampler.
 */
#ifndef SPARKSHIM_JOBLOG_H
#define SPARKSHIM_JOBLOG_H

#include <stddef.h>
#include "fact_json.h"

/* Opens launcher-<host>-<pid>.ndjson in the folder `dir` and writes its header. Returns the file, or negative
 * errno. */
int joblog_open(int dir, const char *run, const char *run_from);

/* Appends one record, t = now. A file below 0, and a full disk, cost the record alone. */
void joblog_start(int file, int pid, char **argv);
void joblog_end(int file, int pid, int status);

/* From here on `listen` is given every fact that is appended, in the thread that does it. */
void joblog_listen(void (*listen)(const struct fact *fact));

/* Appends a fact as it stands, without waiting for the disk. Returns its bytes in the file, 0 when it could not be
 * written. Any thread. */
size_t joblog_write(int file, const struct fact *fact);

/* Appends the record of a finding. Returns its bytes. Nobody is told of it. */
size_t joblog_finding(int file, const struct finding *finding, const struct finding_telling *how);

#endif
