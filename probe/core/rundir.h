/* rundir.h - where a run's files are, and what a run is called. Shared by the library and the program, so that
 * both find the same place. Freestanding: raw system calls, no allocation, errno kept. Not for signal handlers.
 *
 *   <base>/runs/<id>/<host>-<pid>-<start>.ndjson, .ring
 *
 * base: SPARKSHIM_DIR, else $XDG_STATE_HOME/sparkshim, else $HOME/.local/state/sparkshim; where that cannot be
 * written, ${TMPDIR:-/tmp}/sparkshim-<uid>.
 */
#ifndef SPARKSHIM_RUNDIR_H
#define SPARKSHIM_RUNDIR_H

#include <stdbool.h>
#include <stddef.h>

enum { RUN_ID = 160, RUN_PATH = 2048, RUN_HOST = 65 };

/* Reads one variable; NULL when it is not set. */
typedef const char *(*rundir_env)(const char *name);

enum rundir_place { RUNDIR_STATE, RUNDIR_TEMPORARY, RUNDIR_PLACES };

/* Absolute path of the base folder; nothing is made. 0, or -ENOENT (no HOME), -ENAMETOOLONG. */
int rundir_base(rundir_env env, enum rundir_place place, char *path, size_t size);

/* Makes <base>/runs/<id>, 0700 each, and opens it. Below the base no symbolic link is followed, the run's folder
 * must belong to the caller and be writable by nobody else; a temporary base too. Returns a descriptor
 * (O_CLOEXEC) and the path, or negative errno. */
int rundir_open(rundir_env env, enum rundir_place place, const char *id, char *path, size_t size);

/* The run's id: the first of SPARKSHIM_RUN; TORCHELASTIC_RUN_ID with MASTER_ADDR and MASTER_PORT; Slurm job and
 * step; PMIx or Open MPI job; Ray job; the run of the nearest ancestor that has its log mapped; the session leader's
 * pid, start and boot. Letters, digits, '.', '_', '-'; what had to be changed or cut gets a hash. *ret_from says
 * which it was, in the words of facts.def. Always gives one. */
void rundir_id(rundir_env env, const char *root, char id[RUN_ID], const char **ret_from);

/* The base folder of the nearest ancestor that has its log mapped, as far as /proc/<pid>/maps shows it: a newline in it reads
 * \\012. False: there is none, or it does not fit. */
bool rundir_of_ancestor(char *base, size_t size);

/* Replaces what is not a letter, digit, '.', '_' or '-', and cuts; either is marked by a hash of the whole. */
void rundir_sanitise(const char *text, char *out, size_t size);

/* Name of this machine (nodename), sanitised. */
void rundir_host(char out[RUN_HOST]);

#endif
