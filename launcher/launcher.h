/* launcher.h - what the files of the `sparkshim` program share.
 *
 * One file per verb. A verb gets its own argv (argv[0] is the verb) and returns the exit status of the
 * program. The program runs outside the watched job: it may allocate, use stdio and jansson. It never links
 * CUDA, NVML or the preloaded library.
 */
#ifndef SPARKSHIM_LAUNCHER_H
#define SPARKSHIM_LAUNCHER_H

#include <stdbool.h>
#include "finding.h"

/* Statuses of `run` itself, as env(1), timeout(1) and nohup(1) have them. */
enum { STATUS_LAUNCHER_FAILED = 125, STATUS_CANNOT_RUN = 126, STATUS_NOT_FOUND = 127 };

int verb_run(int argc, char **argv);
int verb_report(int argc, char **argv);
int verb_preflight(int argc, char **argv);
int verb_explain(int argc, char **argv);
int verb_doctor(int argc, char **argv);
int verb_evict(int argc, char **argv);

/* The program called as `sparkrun`: argv[0] is that name. */
int sparkrun_main(int argc, char **argv);

/* Writes the line and a newline to stderr by one write(2), unless stderr is a pipe that stays full. */
void put_line(const char *line);
/* A finding's line while the job runs: nobody waits for it. False when it could not be put, or after say_nothing(). */
bool say_finding(const struct finding *f, bool simulated);
/* The file on stderr, "dev:ino", as finding records name it; NULL: none. Valid until the next call. */
const char *stderr_file(void);
/* One line "sparkshim: ..." on stderr by one write(2), at most 1024 bytes; nothing after say_nothing(). */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_nothing(void);
/* The same, also after say_nothing(): why there is no job at all. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool is_silent(void);

/* `text`, which somebody else has made (a name, a path, a command line), as one line that a terminal only shows:
 * plain.h. Valid until the eighth call after; longer than a path can be, it is cut. */
const char *shown(const char *text);

#endif
