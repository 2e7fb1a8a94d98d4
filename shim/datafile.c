/* datafile.c - see datafile.h. Runs in the application's threads: at a refusal, before a large request, at the exit.
 *
 * To look at what is mapped and open, nothing is opened and no path is followed: on a network file system whose server is
 * gone that would hang, at the exit of a job that has nothing to do with us. datafile_open(), for relief, does.
 */
#include "datafile.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include "calls.h"
#include "procstat.h"
#include "sys.h"

#include "poison.h"

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

int datafile_open(const char *path) {
  struct stat st;
  /* Looked at before it is opened: /dev/nvidia0 is mapped too. */
  if (path[0] != '/' || sys_call6(SYS_newfstatat, SYS_AT_FDCWD, (long)path, (long)&st, 0, 0, 0) < 0) return -1;
  if (!is_large_regular(&st)) return -1;
  int fd = sys_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
  if (fd < 0) return fd;
  if (sys_fstat(fd, &st) == 0 && is_large_regular(&st) && !lies_in_memory(fd) && !is_elf(fd)) return fd;
  sys_close(fd);
  return -1;
}

bool datafile_is_mapping(const struct mapping *m) {
  return m->path[0] == '/' && m->ino && m->readable && !m->executable && m->end - m->start >= DATAFILE_MAPPING;
}

/* ---- those that were found ---------------------------------------------------------------------------------------------- */
enum { RECORDS = 256, NAMES = 64 << 10, LOOK_US = 1000 * 1000 };

/* Paths, each with its NUL. A path's first byte is written last, so that who reads meanwhile stops in front of one that is
 * not whole. */
static char names[NAMES];
static uint32_t names_used, found;

static void remember(const char *path) {
  uint32_t size = (uint32_t)str_length(path) + 1, at = __atomic_load_n(&names_used, __ATOMIC_RELAXED);
  do
    if (NAMES - at < size) return;
  while (!__atomic_compare_exchange_n(&names_used, &at, at + size, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  for (uint32_t i = 1; i < size; i++) names[at + i] = path[i];
  __atomic_store_n(&names[at], path[0], __ATOMIC_RELEASE);
}

void datafile_each(bool (*see)(const char *path, void *arg), void *arg) {
  for (uint32_t at = 0; at < NAMES && __atomic_load_n(&names[at], __ATOMIC_ACQUIRE);) {
    if (see(names + at, arg)) return;
    at += (uint32_t)str_length(names + at) + 1;
  }
}

/* Device nodes, shared memory, and what has no name any more. */
static bool is_no_data(const char *path) {
  static const char deleted[] = " (deleted)";
  size_t n = str_length(path);
  if (path[0] != '/' || str_starts(path, "/dev/") || str_starts(path, "/memfd:")) return true;
  return n >= sizeof(deleted) && str_equal(path + n - (sizeof(deleted) - 1), deleted);
}

static void find(const char *path, uint64_t size, const char *how) {
  struct fact fact = {.kind = FACT_KIND_data_file};
  if (size < DATAFILE_LEAST || is_no_data(path)) return;
  if (!call_first(HOOK_NONE, call_hash(path, str_length(path)))) return;
  if (__atomic_fetch_add(&found, 1, __ATOMIC_RELAXED) >= RECORDS) return;
  remember(path);
  fact.u.data_file.path = path;
  fact.u.data_file.size = size;
  fact.u.data_file.how = how;
  call_observe(&fact);
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

/* 0: no regular file. Asks no server for it. */
static uint64_t size_of(int fd) {
  struct statx st;
  long result = sys_call6(SYS_statx, fd, (long)"", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_SIZE,
                          (long)&st, 0);
  return result == 0 && S_ISREG(st.stx_mode) ? st.stx_size : 0;
}

/* The descriptor is the application's, and may be another file's by now: it is only looked at. */
static void see_open(int folder, const struct entry *e) {
  char path[DATAFILE_PATH];
  int fd = number_of(e->name);
  uint64_t size = fd < 0 || fd == folder ? 0 : size_of(fd);
  if (size < DATAFILE_LEAST) return;
  int flags = sys_fcntl(fd, F_GETFL, 0);
  if (flags < 0 || (flags & O_ACCMODE) != O_RDONLY) return;
  long n = sys_readlinkat(folder, e->name, path, sizeof(path));
  if (n <= 0 || n == sizeof(path)) return;
  path[n] = '\0';
  find(path, size, "open");
}

static void look_at_open(void) {
  uint64_t block[128];
  long n;
  int folder = sys_open("/proc/thread-self/fd", O_RDONLY | O_CLOEXEC | O_DIRECTORY, 0);
  if (folder < 0) return;
  while ((n = sys_call6(SYS_getdents64, folder, (long)block, sizeof(block), 0, 0, 0)) > 0)
    for (long at = 0; at < n;) {
      const struct entry *e = (const struct entry *)(const void *)((const char *)block + at);
      at += e->size;
      see_open(folder, e);
    }
  sys_close(folder);
}

/* ---- mapped files ---------------------------------------------------------------------------------------------------- */
/* Mappings of one file with no other file's in between. The parts of an ELF object are such, and one is executable. */
struct group {
  uint64_t ino, size; /* size: as far as it is mapped */
  bool large, executable;
  char path[DATAFILE_PATH];
};

static void end_group(struct group *g) {
  if (g->ino && g->large && !g->executable) find(g->path, g->size, "mapped");
  g->ino = 0;
}

static bool see_mapping(const struct mapping *m, void *arg) {
  struct group *g = arg;
  if (!m->ino) return false; /* anonymous memory between the parts of an object is its bss */
  if (m->ino != g->ino || !str_equal(m->path, g->path)) {
    end_group(g);
    if (m->path[0] != '/' || str_length(m->path) >= sizeof(g->path)) return false;
    g->ino = m->ino;
    g->size = 0;
    g->large = g->executable = false;
    str_copy(g->path, sizeof(g->path), m->path);
  }
  uint64_t end = m->offset + (m->end - m->start);
  if (end > g->size) g->size = end;
  g->large |= datafile_is_mapping(m);
  g->executable |= m->executable;
  return false;
}

static void look_at_mapped(void) {
  struct group g;
  g.ino = 0;
  g.path[0] = '\0';
  mappings_read("maps", see_mapping, &g);
  end_group(&g);
}

/* ---- both ------------------------------------------------------------------------------------------------------------------ */
void datafile_look(bool at_once) {
  static uint64_t last_us;
  uint64_t now = clock_us();
  if (!at_once && now - __atomic_load_n(&last_us, __ATOMIC_RELAXED) < LOOK_US) return;
  __atomic_store_n(&last_us, now, __ATOMIC_RELAXED);
  look_at_mapped();
  look_at_open();
}
