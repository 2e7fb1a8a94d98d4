/* cgroup.h - the memory cgroup of a process: version 2, version 1, and both beside each other. Freestanding.
 *
 * What stands above the mount (a container's own view) cannot be seen: a limit of the host is then read from the mount's
 * root, where the kernel shows the container's own group.
 */
#ifndef SPARKSHIM_CGROUP_H
#define SPARKSHIM_CGROUP_H

#include <stddef.h>
#include <stdint.h>

enum { CGROUP_PATH = 1024 };

struct cgroup_place {
  int version;                /* 1 or 2; 0: no memory cgroup was found, everything else is then empty */
  size_t top;                 /* folder[0..top) is the mount: the walk upwards ends there */
  char folder[CGROUP_PATH];   /* can be opened as it stands: below the root where the cgroup was found there */
  char pressure[CGROUP_PATH]; /* folder of version 2 with memory.pressure; empty: none */
};

struct cgroup_memory { /* FACT_NO_U64 where not known */
  uint64_t current;    /* bytes in use */
  uint64_t max;        /* least limit of the group and those above it, bytes; unknown also where there is none */
  size_t max_at;       /* folder[0..max_at) is the group that has it */
  uint64_t oom;        /* times that the group could not reclaim at its limit; version 2 only */
  uint64_t oom_kill;   /* victims of an OOM killer in the group and those below */
};

/* Where the memory cgroup of `pid` (0: the caller) is: /proc/<pid>/cgroup and the caller's own mounts. `root` as in
 * lines_of_file(); below it <root>/proc/<pid>/cgroup is taken, else <root>/proc/self/cgroup, which stands for the whole
 * job. 0 or negative errno, *out is set in any case. Some 50 us: keep the place, a process seldom changes its group. */
int cgroup_find(const char *root, int pid, struct cgroup_place *out);

/* Reads the place's files. 0, or negative errno when none could be read (the group is gone). */
int cgroup_read(const struct cgroup_place *p, struct cgroup_memory *m);

/* The unit or container that a path of /proc/<pid>/cgroup names: the last "<name>.service" in it, or the id of a container
 * of Docker, Podman, containerd, CRI-O or LXC. Writes the unit's name, or the first twelve characters of the id, to
 * name[size] and returns the word of fact holder's `managed`: "service", "user-service", "container"; NULL: none. */
const char *cgroup_manager(const char *path, size_t length, char *name, size_t size);
/* The same for a process. */
const char *cgroup_manager_of(const char *root, int pid, char *name, size_t size);

#endif
