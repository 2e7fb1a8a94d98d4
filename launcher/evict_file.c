/* evict_file.c - one file's page cache: what there is, what goes, what keeps the rest. See evict.h. */
#include "evict.h"
#include "fact.h"
#include "meminfo.h"
#include "pagecache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

static uint64_t all_cached(void) {
  struct fact_memory m;
  return meminfo_read(NULL, &m) ? FACT_NO_U64 : m.cached;
}

/* There a file is its pages, or the kernel's answers: no disk stands behind it. */
static bool has_no_disk(const char *path) {
  static const unsigned long types[] = {TMPFS_MAGIC,   RAMFS_MAGIC,        HUGETLBFS_MAGIC,     PROC_SUPER_MAGIC,
                                        SYSFS_MAGIC,   CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC,
                                        TRACEFS_MAGIC, SECURITYFS_MAGIC,   BPF_FS_MAGIC,        PSTOREFS_MAGIC,
                                        EFIVARFS_MAGIC};
  struct statfs fs;
  if (statfs(path, &fs) < 0) return false;
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
    if ((unsigned long)fs.f_type == types[i]) return true;
  return false;
}

static uint64_t less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

static void drop(int fd, const struct evict_how *how) {
  if (how->sync) fsync(fd);
  pagecache_drop(fd);
}

static void drop_counted(struct evict_file *file, int fd, const struct pagecache *before, const struct evict_how *how) {
  struct pagecache after = *before;
  file->cached = before->cached;
  if (!how->dry_run && before->cached) {
    drop(fd, how);
    if (pagecache_read(fd, &after)) after = *before;
  }
  file->left = after.cached;
  file->dropped = less(file->cached, file->left);
  if (!file->left || how->dry_run)
    file->why = EVICT_FINE;
  else
    file->why = after.dirty ? EVICT_DIRTY : EVICT_LEFT;
}

/* The kernel does not tell this user what is cached of the file. The fall of Cached is the measure, and others move it
 * too; MemFree would lag, for freed pages wait in lists of their processors. */
static void drop_blindly(struct evict_file *file, int fd, const struct evict_how *how) {
  file->cached = file->left = FACT_NO_U64;
  file->estimated = true;
  file->why = EVICT_UNKNOWN;
  if (how->dry_run) return;
  uint64_t before = all_cached();
  drop(fd, how);
  uint64_t after = all_cached();
  file->dropped = before == FACT_NO_U64 || after == FACT_NO_U64 ? FACT_NO_U64 : less(before, after);
  if (file->dropped != FACT_NO_U64 && file->dropped > file->size) file->dropped = file->size;
}

static void look_at(struct evict_file *file, int fd, const struct evict_how *how) {
  struct pagecache before;
  if (pagecache_read(fd, &before) == 0)
    drop_counted(file, fd, &before, how);
  else
    drop_blindly(file, fd, how);
}

void evict_file(struct evict_file *file, const struct evict_how *how) {
  struct stat st;
  file->why = EVICT_UNREADABLE;
  /* Looked at before it is opened: to open a device can move something, to open a FIFO wakes who waits there. */
  if (stat(file->path, &st) < 0) {
    file->error = errno;
    return;
  }
  file->dev = st.st_dev;
  file->ino = st.st_ino;
  if (!S_ISREG(st.st_mode)) {
    file->why = EVICT_NOT_FILE;
    return;
  }
  if (has_no_disk(file->path)) {
    file->why = EVICT_NO_CACHE;
    return;
  }
  int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) {
    file->error = errno;
    return;
  }
  if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
    file->why = EVICT_NOT_FILE;
  } else {
    file->size = (uint64_t)st.st_size;
    look_at(file, fd, how);
  }
  close(fd);
}

/* ---- who maps them ------------------------------------------------------------------------------------------------- */
static void add_mapper(struct evict_file *file, int pid) {
  unsigned n = file->mappers;
  if (file->last_mapper == pid) return; /* a file may have several mappings */
  file->last_mapper = pid;
  if (n < EVICT_MAPPERS) {
    char path[64];
    file->mapper[n].pid = pid;
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    FILE *comm = fopen(path, "re");
    if (comm && fgets(file->mapper[n].name, sizeof file->mapper[n].name, comm))
      file->mapper[n].name[strcspn(file->mapper[n].name, "\n")] = '\0';
    if (comm) fclose(comm);
  }
  file->mappers = n + 1;
}

/* Device and inode as stat has them; on file systems that number their parts anew (btrfs, overlay) the path. */
static bool is_mapping_of(const struct evict_file *file, dev_t dev, uint64_t ino, const char *path) {
  return (file->ino == ino && file->dev == dev) || !strcmp(file->real ? file->real : file->path, path);
}

static void see_mapping(const char *line, int pid, struct evict_file *const *files, unsigned n) {
  unsigned major, minor;
  unsigned long long ino;
  int at = 0;
  if (sscanf(line, "%*x-%*x %*s %*x %x:%x %llu %n", &major, &minor, &ino, &at) != 3 || !ino) return;
  for (unsigned i = 0; i < n; i++)
    if (is_mapping_of(files[i], makedev(major, minor), ino, line + at)) add_mapper(files[i], pid);
}

static bool see_process(int pid, struct evict_file *const *files, unsigned n) {
  char path[64], *line = NULL;
  size_t room = 0;
  ssize_t length;
  snprintf(path, sizeof path, "/proc/%d/maps", pid);
  FILE *maps = fopen(path, "re");
  if (!maps) return errno == ENOENT || errno == ESRCH; /* it has ended */
  errno = 0;
  while ((length = getline(&line, &room, maps)) > 0) {
    if (line[length - 1] == '\n') line[length - 1] = '\0';
    see_mapping(line, pid, files, n);
  }
  bool read = errno != EACCES && errno != EPERM;
  free(line);
  fclose(maps);
  return read;
}

unsigned evict_mappers(struct evict_file *const *files, unsigned n) {
  unsigned unseen = 0;
  DIR *proc = n ? opendir("/proc") : NULL;
  const struct dirent *entry;
  for (unsigned i = 0; i < n; i++) files[i]->real = realpath(files[i]->path, NULL);
  while (proc && (entry = readdir(proc))) {
    int pid = atoi(entry->d_name);
    if (pid > 0 && !see_process(pid, files, n)) unseen++;
  }
  if (proc) closedir(proc);
  for (unsigned i = 0; i < n; i++) {
    if (files[i]->mappers) files[i]->why = EVICT_MAPPED;
    free(files[i]->real);
    files[i]->real = NULL;
  }
  return unseen;
}
