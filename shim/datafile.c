/* datafile.c - see datafile.h. Runs in the application's threads: at a refusal, before a large request, at the exit. */
#include "datafile.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include "calls.h"
#include "procstat.h"
#include "sys.h"

#include "poison.h"

enum { RECORDS = 256, LOOK_US = 1000 * 1000 };

/* ---- one file ------------------------------------------------------------------------------------------------------ */
static bool is_large_regular(const struct stat *st) { return S_ISREG(st->st_mode) && st->st_size >= DATAFILE_LEAST; }

/* There the page is the file: nothing could be dropped. */
static bool lies_in_memory(int fd) {
  struct statfs fs;
  if (sys_call6(SYS_fstatfs, fd, (long)&fs, 0, 0, 0, 0) < 0) return true;
  return fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC || fs.f_type == HUGETLBFS_MAGIC;
}

static bool is_elf(int fd) {
  char magic[4] = {0};
  long n = sys_call6(SYS_pread64, fd, (long)magic, sizeof(magic), 0, 0, 0);
  return n != sizeof(magic) || (magic[0] == 0x7f && magic[1] == 'E' && magic[2] == 'L' && magic[3] == 'F');
}

int datafile_open(const char *path, uint64_t *ret_size) {
  struct stat st;
  /* Looked at before it is opened: /dev/nvidia0 is mapped too. */
  if (path[0] != '/' || sys_call6(SYS_newfstatat, SYS_AT_FDCWD, (long)path, (long)&st, 0, 0, 0) < 0) return -1;
  if (!is_large_regular(&st)) return -1;
  int fd = sys_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
  if (fd < 0) return fd;
  if (sys_fstat(fd, &st) == 0 && is_large_regular(&st) && !lies_in_memory(fd) && !is_elf(fd)) {
    *ret_size = (uint64_t)st.st_size;
    return fd;
  }
  sys_close(fd);
  return -1;
}

bool datafile_is_mapping(const struct mapping *m) {
  return m->path[0] == '/' && m->ino && !m->executable && m->end - m->start >= DATAFILE_MAPPING;
}

/* ---- open files ---------------------------------------------------------------------------------------------------- */
/* As the kernel hands them out, getdents64(2). */
struct entry {
  uint64_t ino;
  int64_t next;
  uint16_t size;
  uint8_t type;
  char name[];
};

static int number_of(const char *name) {
  int n = 0;
  if (!*name) return -1;
  for (; *name; name++) {
    if (*name < '0' || *name > '9' || n > 100000000) return -1;
    n = n * 10 + (*name - '0');
  }
  return n;
}

/* The descriptor is the application's, and may be another file's by now: it is only looked at. */
static bool see_open(int folder, const struct entry *e, bool (*see)(const char *, void *), void *arg) {
  char path[DATAFILE_PATH];
  struct stat st;
  int fd = number_of(e->name);
  if (fd < 0 || fd == folder || sys_fstat(fd, &st) < 0 || !is_large_regular(&st)) return false;
  int flags = sys_fcntl(fd, F_GETFL, 0);
  if (flags < 0 || (flags & O_ACCMODE) != O_RDONLY) return false;
  long n = sys_readlinkat(folder, e->name, path, sizeof(path));
  if (n <= 0 || n == sizeof(path)) return false;
  path[n] = '\0';
  return see(path, arg);
}

void datafile_each_open(bool (*see)(const char *path, void *arg), void *arg) {
  uint64_t block[128];
  long n;
  int folder = sys_open("/proc/thread-self/fd", O_RDONLY | O_CLOEXEC | O_DIRECTORY, 0);
  if (folder < 0) return;
  while ((n = sys_call6(SYS_getdents64, folder, (long)block, sizeof(block), 0, 0, 0)) > 0)
    for (long at = 0; at < n;) {
      const struct entry *e = (const struct entry *)(const void *)((const char *)block + at);
      at += e->size;
      if (see_open(folder, e, see, arg)) n = 0;
    }
  sys_close(folder);
}

/* ---- records -------------------------------------------------------------------------------------------------------- */
static uint32_t records;

static void record(const char *path, const char *how) {
  struct fact fact = {.kind = FACT_KIND_data_file};
  uint64_t size;
  if (!call_first(HOOK_NONE, call_hash(path, str_length(path)))) return;
  int fd = datafile_open(path, &size);
  if (fd < 0) return;
  sys_close(fd);
  if (__atomic_fetch_add(&records, 1, __ATOMIC_RELAXED) >= RECORDS) return;
  fact.u.data_file.path = path;
  fact.u.data_file.size = size;
  fact.u.data_file.how = how;
  call_observe(&fact);
}

static bool see_mapping(const struct mapping *m, void *unused) {
  (void)unused;
  if (datafile_is_mapping(m)) record(m->path, "mapped");
  return false;
}

static bool see_path(const char *path, void *unused) {
  (void)unused;
  record(path, "open");
  return false;
}

void datafile_look(void) {
  static uint64_t last_us;
  uint64_t now = clock_us();
  if (now - __atomic_load_n(&last_us, __ATOMIC_RELAXED) < LOOK_US) return;
  __atomic_store_n(&last_us, now, __ATOMIC_RELAXED);
  mappings_read("maps", see_mapping, NULL);
  datafile_each_open(see_path, NULL);
}
