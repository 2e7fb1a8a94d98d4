/* runlog.h - a run read back from its logs and judged again.
 *
 * Every process image that wrote a log has its own detector state, fed with its facts in the order of the log, by
 * the object code that judged live. What the launcher that ran it saw of the machine is merged in by time: the process
 * itself did not see that, so a second state with its own facts alone is what is compared with what it said live. The
 * launcher's log has a state as well: what it says stands where no process says it.
 * Processes that could not write how they ended get an exit fact made from what the launcher saw (job_end), else none: a
 * finding is then left as it stood.
 */
#ifndef SPARKSHIM_RUNLOG_H
#define SPARKSHIM_RUNLOG_H

#include <stddef.h>
#include "fact_list.h"
#include "judged.h"

enum { RUNLOG_ROUTES = 8 };

enum process_end {
  END_UNKNOWN, /* no record, and nobody saw it */
  END_EXIT,    /* it wrote its exit record */
  END_JOB,     /* taken from job_end: it is the job itself, or the one process that the job's status tells of */
  END_EXEC,    /* its process id went on with another program */
  END_RUNNING, /* no end yet: it is alive */
};

/* A finding whose verdict differs between the log and the facts; the verdict that is missing is negative. */
struct difference {
  unsigned g;
  char cause[64], object[FINDING_OBJECT];
  int logged, derived;
};

struct allocation_row {
  char route[16];
  uint64_t count, frees, failed, bytes, live, peak, untracked;
};

/* A large file that the process had mapped or open. */
struct data_file {
  char *path;
  uint64_t size;
};

struct process {
  char *path;    /* of its log */
  bool launcher; /* the file is the launcher's: job_start, job_end, what it saw of the machine */
  bool injected; /* the driver loaded the library: its calls were not seen */
  /* from the header; strings may be NULL */
  char *host, *boot_id, *exe, *argv, *cwd, *version;
  uint64_t pid, ppid, start; /* start: Unix us */
  uint64_t job_pid;          /* of a launcher's log: its job, FACT_NO_U64 before it has started */
  int64_t rank, world_size;
  bool simulated;
  /* from the records */
  uint64_t first, last; /* times of the first and the last record */
  unsigned long records, bad, foreign;
  enum process_end end;
  int64_t status, signal; /* of END_EXIT and END_JOB; FACT_NO_I64: not known */
  uint64_t end_t, last_activity;
  char last_call[64];
  struct allocation_row allocation[RUNLOG_ROUTES];
  size_t allocations;
  struct data_file *data_file;
  size_t data_files;
  struct process_finding *finding; /* judged with the launcher's facts; owned by `own` or `merged` */
  size_t findings;
  struct difference *difference;
  size_t differences;
  unsigned image, jobs; /* number in its file; jobs of a launcher's log */
  /* private to runlog.c, but for own.detectors */
  struct judged own, merged;  /* its own facts; these and its launcher's, where `has_launcher` */
  struct fact_list seen;      /* of a launcher's log: what concerns processes */
  bool has_launcher, is_over; /* is_over: its exit record was judged */
  size_t by;                  /* index of its launcher in the run */
  size_t seen_next;           /* first of its launcher's facts that was not merged in yet */
  struct logged *logged;
  size_t loggeds;
};

struct job_record {
  bool started, ended, core;
  char *host, *argv;
  uint64_t pid, start, end; /* Unix us */
  int64_t exit, signal;
};

struct runlog {
  char *id;   /* name of the run's folder, or of the file */
  char *path; /* what was read */
  struct process *process;
  size_t processes;
  struct job_record *job;
  size_t jobs;
  unsigned long files, unreadable; /* log files found, and those of them that could not be opened */
  unsigned long records, bad, foreign;
};

/* Reads all logs of the folder `path`, or the log `path` alone, and adds them. 0, or negative errno when it cannot
 * be read at all. Unreadable lines are counted, not an error. */
int runlog_read(struct runlog *run, const char *path);
/* After the last runlog_read: gives ends to the processes without one, and compares with what was logged. */
void runlog_finish(struct runlog *run);
void runlog_free(struct runlog *run);

/* All findings of at least `least`, lightest first, and among equals the latest first: the last is the root cause.
 * The caller frees the array. */
struct finding_ref {
  const struct process *process;
  const struct process_finding *finding;
};
size_t runlog_findings(const struct runlog *run, enum verdict least, struct finding_ref **ret);

#endif
