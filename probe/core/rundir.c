/* rundir.c - the folder of a run and the run's id (rundir.h).
 *
 * Runs in the preloaded library while it wakes up, so everything here is bounded: a handful of mkdirat and openat,
 * and at most 32 ancestors looked at. A shared temporary directory is hostile ground: nothing in it is used
 * that is a symbolic link or belongs to somebody else.
 */
#include "rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/utsname.h>

#include "procstat.h"
#include "sys.h"

/* ---- words -------------------------------------------------------------------------------------------- */
static bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

static uint32_t fnv1a(const char *s) {
  uint32_t hash = 2166136261U;
  for (; *s; s++) hash = (hash ^ (unsigned char)*s) * 16777619U;
  return hash;
}

void rundir_sanitise(const char *text, char *out, size_t size) {
  enum { HASH = 9 }; /* '-' and eight digits */
  bool changed = false;
  size_t at = 0;
  for (; text[at] && at + HASH + 1 < size; at++) {
    out[at] = is_plain(text[at]) && (at || text[at] != '.') ? text[at] : '_';
    changed |= out[at] != text[at];
  }
  changed |= text[at] != '\0';
  if (changed) {
    uint32_t hash = fnv1a(text);
    out[at++] = '-';
    for (int shift = 28; shift >= 0; shift -= 4) out[at++] = "0123456789abcdef"[hash >> shift & 15];
  }
  out[at] = '\0';
}

void rundir_host(char out[RUN_HOST]) {
  struct utsname name;
  if (sys_call6(SYS_uname, (long)&name, 0, 0, 0, 0, 0) < 0 || !name.nodename[0])
    str_copy(out, RUN_HOST, "localhost");
  else
    rundir_sanitise(name.nodename, out, RUN_HOST);
}

static const char *set(rundir_env env, const char *name) {
  const char *value = env(name);
  return value && *value ? value : NULL;
}

/* "a-b-c" of those that are not NULL. */
static void join(char *out, size_t size, const char *const *words, unsigned n) {
  size_t at = 0;
  for (unsigned i = 0; i < n; i++) {
    if (!words[i]) continue;
    if (at) at += str_copy(out + at, size - at, "-");
    at += str_copy(out + at, size - at, words[i]);
  }
}

/* ---- run id -------------------------------------------------------------------------------------------- */

/* Ids that an outer system gives, in the order of preference: the first variable decides. */
static const struct {
  const char *from, *prefix;
  const char *names[3];
} given[] = {
    {"SPARKSHIM_RUN", NULL, {"SPARKSHIM_RUN", NULL, NULL}},
    {"torchelastic", "torchelastic", {"TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"}},
    {"slurm", "slurm", {"SLURM_JOB_ID", "SLURM_STEP_ID", NULL}},
    {"pmix", "pmix", {"PMIX_NAMESPACE", NULL, NULL}},
    {"openmpi", "openmpi", {"OMPI_MCA_ess_base_jobid", NULL, NULL}},
    {"ray", "ray", {"RAY_JOB_ID", NULL, NULL}},
};

static bool id_given(rundir_env env, char id[RUN_ID], const char **ret_from) {
  for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
    const char *words[4] = {given[i].prefix, NULL, NULL, NULL};
    char text[1024];
    if (!set(env, given[i].names[0])) continue;
    for (unsigned w = 0; w < 3; w++)
      if (given[i].names[w]) words[w + 1] = set(env, given[i].names[w]);
    join(text, sizeof(text), words, 4);
    rundir_sanitise(text, id, RUN_ID);
    *ret_from = given[i].from;
    return true;
  }
  return false;
}

/* A process maps its own log, which therefore stands among its mapped files. */
struct sought {
  char stem[RUN_HOST + 24]; /* "<host>-<pid>-" */
  char *id;                 /* char[RUN_ID] */
  char *base;               /* what stands before "/runs/"; NULL: not asked for */
  size_t base_size;
};

/* ".../runs/<id>/<host>-<pid>-...". Only names that the writer could have made. */
static bool is_own_log(const char *path, void *arg) {
  const struct sought *sought = arg;
  const char *base = str_base(path), *folder;
  if (!str_starts(base, sought->stem) || base - path < 2) return false;
  for (folder = base - 1; folder > path && folder[-1] != '/'; folder--) {
  }
  size_t length = (size_t)(base - 1 - folder);
  if (!length || length >= RUN_ID || folder - path < 6 || !str_starts(folder - 6, "/runs/")) return false;
  for (size_t i = 0; i < length; i++)
    if (!is_plain(folder[i])) return false;
  if (folder[0] == '.') return false;
  size_t base_length = (size_t)(folder - 6 - path);
  if (sought->base && base_length >= sought->base_size) return false;
  str_copy(sought->id, length + 1, folder);
  if (sought->base) str_copy(sought->base, base_length + 1, path);
  return true;
}

static bool run_of_process(int pid, const char *host, char id[RUN_ID], char *base, size_t base_size) {
  struct sought sought = {.id = id, .base = base, .base_size = base_size};
  size_t at = str_copy(sought.stem, sizeof(sought.stem), host);
  at += str_copy(sought.stem + at, sizeof(sought.stem) - at, "-");
  at = proc_put_number(sought.stem, sizeof(sought.stem), at, (uint64_t)pid);
  str_copy(sought.stem + at, sizeof(sought.stem) - at, "-");
  return proc_mapped(pid, is_own_log, &sought);
}

static void id_of_session(const char *root, int leader, uint64_t start, char id[RUN_ID]) {
  char boot[64];
  size_t at = str_copy(id, RUN_ID, "session-");
  at = proc_put_number(id, RUN_ID, at, (uint64_t)leader);
  at += str_copy(id + at, RUN_ID - at, "-");
  at = proc_put_number(id, RUN_ID, at, start);
  if (proc_text_read(root, "/proc/sys/kernel/random/boot_id", boot, sizeof(boot)) < 8) return;
  boot[8] = '\0';
  at += str_copy(id + at, RUN_ID - at, "-");
  rundir_sanitise(boot, id + at, RUN_ID - at);
}

enum { ANCESTORS = 32 };

bool rundir_of_ancestor(char *base, size_t size) {
  struct procstat st;
  char host[RUN_HOST], id[RUN_ID];
  rundir_host(host);
  for (int pid = 0, depth = 0; depth < ANCESTORS && procstat_read(pid, &st) == 0 && st.ppid > 0; depth++) {
    pid = st.ppid;
    if (run_of_process(pid, host, id, base, size)) return true;
  }
  return false;
}

void rundir_id(rundir_env env, const char *root, char id[RUN_ID], const char **ret_from) {
  struct procstat own = {0, 0, 0}, st;
  char host[RUN_HOST];
  int pid = sys_getpid(), top = pid, leader;
  uint64_t top_start;
  if (id_given(env, id, ret_from)) return;
  procstat_read(0, &own);
  top_start = own.start;
  leader = own.session;
  rundir_host(host);
  *ret_from = "parent";
  for (int parent = own.ppid, depth = 0; parent > 0 && depth < ANCESTORS; depth++) {
    if (run_of_process(parent, host, id, NULL, 0)) return;
    if (procstat_read(parent, &st) < 0) break;
    top = parent;
    top_start = st.start;
    parent = st.ppid;
  }
  /* getsid is 0 where the leader is outside of the PID namespace: the eldest ancestor inside stands for it. */
  *ret_from = "session";
  if (leader <= 0 || procstat_read(leader, &st) < 0)
    id_of_session(root, top, top_start, id);
  else
    id_of_session(root, leader, st.start, id);
}

/* ---- folders ------------------------------------------------------------------------------------------------ */
static int add(char *path, size_t size, size_t *at, const char *text) {
  size_t n = str_copy(path + *at, size - *at, text);
  *at += n;
  return text[n] ? -ENAMETOOLONG : 0;
}

/* A relative path is taken from where the process stands now, for it may change its directory. */
static int start_absolute(const char *value, char *path, size_t size, size_t *at) {
  if (value[0] != '/') {
    long n = sys_call6(SYS_getcwd, (long)path, (long)size, 0, 0, 0, 0);
    if (n < 2 || path[0] != '/') return -ENOENT;
    *at = (size_t)n - 1;
    if (*at > 1 && add(path, size, at, "/") < 0) return -ENAMETOOLONG;
  }
  return add(path, size, at, value);
}

int rundir_base(rundir_env env, enum rundir_place place, char *path, size_t size) {
  const char *value;
  size_t at = 0;
  int error = 0;
  if (place == RUNDIR_TEMPORARY) {
    value = set(env, "TMPDIR");
    if ((error = start_absolute(value ? value : "/tmp", path, size, &at)) < 0) return error;
    if ((error = add(path, size, &at, "/sparkshim-")) < 0) return error;
    proc_put_number(path, size, at, (uint64_t)sys_call6(SYS_geteuid, 0, 0, 0, 0, 0, 0));
    return 0;
  }
  if ((value = set(env, "SPARKSHIM_DIR"))) return start_absolute(value, path, size, &at);
  if ((value = set(env, "XDG_STATE_HOME")) && value[0] == '/') {
    if ((error = add(path, size, &at, value)) < 0) return error;
    return add(path, size, &at, "/sparkshim");
  }
  value = set(env, "HOME");
  if (!value || value[0] != '/') return -ENOENT;
  if ((error = add(path, size, &at, value)) < 0) return error;
  return add(path, size, &at, "/.local/state/sparkshim");
}

/* mkdir -p, each new folder 0700. An error shows when the folder is opened. */
static void make_path(char *path) {
  for (char *p = path + 1; *p; p++) {
    if (*p != '/') continue;
    *p = '\0';
    sys_mkdirat(SYS_AT_FDCWD, path, 0700);
    *p = '/';
  }
  sys_mkdirat(SYS_AT_FDCWD, path, 0700);
}

/* 0 when the open folder is the caller's own and nobody else may write into it. */
static int check_own(int fd) {
  struct stat st;
  int error = sys_fstat(fd, &st);
  if (error < 0) return error;
  if (st.st_uid != (uid_t)sys_call6(SYS_geteuid, 0, 0, 0, 0, 0, 0)) return -EPERM;
  return st.st_mode & (S_IWGRP | S_IWOTH) ? -EPERM : 0;
}

/* Makes and opens `name` below `parent`, which is closed. */
static int step_into(int parent, const char *name) {
  sys_mkdirat(parent, name, 0700);
  int fd = sys_openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
  sys_close(parent);
  return fd;
}

int rundir_open(rundir_env env, enum rundir_place place, const char *id, char *path, size_t size) {
  int error = rundir_base(env, place, path, size);
  if (error < 0) return error;
  const bool temporary = place == RUNDIR_TEMPORARY;
  if (temporary)
    sys_mkdirat(SYS_AT_FDCWD, path, 0700);
  else
    make_path(path);
  int fd = sys_open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (temporary ? O_NOFOLLOW : 0), 0);
  if (fd < 0) return fd;
  if (temporary && (error = check_own(fd)) < 0) goto fail;
  if ((fd = step_into(fd, "runs")) < 0 || (fd = step_into(fd, id)) < 0) return fd;
  if ((error = check_own(fd)) < 0) goto fail;
  size_t at = str_length(path);
  if ((error = add(path, size, &at, "/runs/")) < 0 || (error = add(path, size, &at, id)) < 0) goto fail;
  return fd;
fail:
  sys_close(fd);
  return error;
}
