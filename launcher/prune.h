/* prune.h - old runs go, so that the state folder stays bounded. */
#ifndef SPARKSHIM_PRUNE_H
#define SPARKSHIM_PRUNE_H

/* Removes the oldest ended runs below `runs` (a path ending in "/runs") beyond 50 runs or 1 GiB, as $SPARKSHIM_KEEP
 * has it: "<runs>", "<runs>:<MiB>", or "all". Never a run with a process that may be alive, nor `except`. Removes only
 * plain files and then empty folders; follows no symbolic link. Errors leave things as they are. */
void prune_runs(const char *runs, const char *except);

/* Removes one run's folder below `runs`, with the same care. */
void prune_remove(const char *runs, const char *name);

#endif
