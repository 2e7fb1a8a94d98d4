/* preload.c - see preload.h. Everything here fails open: a job that cannot be watched is run as it is. */
#include "preload.h"
#include "launcher.h"
#include "elf_file.h"
#include "program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define LIBRARY "libsparkshim.so"

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static bool find_beside_program(char path[PATH_MAX]) {
  static const char *const places[] = {"", "../lib/", "../" SPARKSHIM_LIBDIR "/", "../lib/sparkshim/"};
  char self[PATH_MAX], candidate[PATH_MAX + 64];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n <= 0) return false;
  self[n] = '\0';
  *strrchr(self, '/') = '\0';
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    snprintf(candidate, sizeof candidate, "%s/%s%s", self, places[i], LIBRARY);
    if (realpath(candidate, path)) return true;
  }
  return false;
}

/* The loader splits LD_PRELOAD at spaces and colons, without any quoting, and expands "$". */
static bool can_stand_in_preload(const char *path) { return !strpbrk(path, " :$\t\n"); }

static int link_in_private_folder(char path[PATH_MAX]) {
  char folder[64], link[128], now[PATH_MAX];
  struct stat st;
  snprintf(folder, sizeof folder, "/tmp/sparkshim-%u", (unsigned)getuid());
  snprintf(link, sizeof link, "%s/%s", folder, LIBRARY);
  if (mkdir(folder, 0700) < 0 && errno != EEXIST) return -errno;
  if (lstat(folder, &st) < 0) return -errno;
  if (!S_ISDIR(st.st_mode) || st.st_uid != getuid() || (st.st_mode & 022)) return -EPERM;
  ssize_t n = readlink(link, now, sizeof now - 1);
  if (n < 0 || (size_t)n != strlen(path) || memcmp(now, path, (size_t)n)) {
    char fresh[160];
    snprintf(fresh, sizeof fresh, "%s.%d", link, (int)getpid());
    unlink(fresh);
    if (symlink(path, fresh) < 0 || rename(fresh, link) < 0) return -errno;
  }
  snprintf(path, PATH_MAX, "%s", link);
  return 0;
}

int preload_find(char ret_path[PATH_MAX]) {
  char path[PATH_MAX];
  const char *set = getenv("SPARKSHIM_LIB");
  if (set && *set ? !realpath(set, path) : !find_beside_program(path)) return -ENOENT;
  if (!can_stand_in_preload(path)) {
    int error = link_in_private_folder(path);
    if (error) return error;
  }
  snprintf(ret_path, PATH_MAX, "%s", path);
  return 0;
}

static bool is_sanitizer(const char *entry) {
  static const char *const names[] = {"libasan.so",  "libtsan.so",   "liblsan.so",
                                      "libubsan.so", "libhwasan.so", "libclang_rt."};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (!strncmp(base_name(entry), names[i], strlen(names[i]))) return true;
  return false;
}

/* Appends `entry` to the colon-separated list in `out`. */
static bool append(char *out, size_t size, const char *entry) {
  size_t at = strlen(out);
  int n = snprintf(out + at, size - at, "%s%s", at ? ":" : "", entry);
  return n >= 0 && (size_t)n < size - at;
}

bool preload_join(const char *library, const char *old, char *out, size_t size) {
  char copy[PRELOAD_VALUE], *save = NULL;
  bool fits = true, placed = false;
  *out = '\0';
  if (snprintf(copy, sizeof copy, "%s", old ? old : "") >= (int)sizeof copy) return false;
  for (char *entry = strtok_r(copy, " :", &save); entry; entry = strtok_r(NULL, " :", &save)) {
    if (!strcmp(base_name(entry), LIBRARY)) continue;
    if (!placed && !is_sanitizer(entry)) {
      fits = fits && append(out, size, library);
      placed = true;
    }
    fits = fits && append(out, size, entry);
  }
  return fits && (placed || append(out, size, library));
}

static const char *why_not(enum program_kind kind) {
  switch (kind) {
  case PROGRAM_MUSL: return "it is built for musl, and the library for glibc";
  case PROGRAM_FOREIGN: return "it is built for another kind of processor";
  case PROGRAM_SECURE: return "it is set-user-id or has capabilities, and the loader takes no preload for such";
  default: return NULL;
  }
}

/* gcc's shared AddressSanitizer ends a program in whose link map it is not the first library. Loading it first
 * by LD_PRELOAD would put it into every child as well, so the check is turned off instead. */
static void allow_preload_before_asan(void) {
  char options[4096];
  const char *old = getenv("ASAN_OPTIONS");
  int n = snprintf(options, sizeof options, "%s%sverify_asan_link_order=0", old ? old : "", old && *old ? ":" : "");
  if (n > 0 && n < (int)sizeof options) setenv("ASAN_OPTIONS", options, 1);
}

static bool usable(const char *library) {
  struct statvfs fs;
  if (access(library, R_OK) < 0) {
    say("%s cannot be read (%s): the job runs unwatched", library, strerror(errno));
    return false;
  }
  if (!statvfs(library, &fs) && (fs.f_flag & ST_NOEXEC)) {
    say("%s lies on a file system mounted noexec: the job runs unwatched", library);
    return false;
  }
  return true;
}

/* One line for the first entry of the user's own that the loader will not find: it prints an error of its own
 * on every start, and the job's trouble may well be there. */
static void warn_of_missing_entries(const char *old) {
  char copy[PRELOAD_VALUE], *save = NULL;
  if (!old || snprintf(copy, sizeof copy, "%s", old) >= (int)sizeof copy) return;
  for (char *entry = strtok_r(copy, " :", &save); entry; entry = strtok_r(NULL, " :", &save)) {
    if (!strchr(entry, '/') || strchr(entry, '$') || !access(entry, F_OK)) continue;
    say("LD_PRELOAD names %s, which is not there", entry);
    return;
  }
}

bool preload_apply(const char *command) {
  struct program program;
  char library[PATH_MAX], value[PRELOAD_VALUE];
  const char *old = getenv("LD_PRELOAD");
  program_inspect(command, &program);
  if (why_not(program.kind)) {
    say("%s runs unwatched: %s", command, why_not(program.kind));
    return false;
  }
  if (program.kind == PROGRAM_STATIC)
    say("%s is linked statically and cannot be watched; programs that it starts are", command);
  int error = preload_find(library);
  if (error) {
    say("%s not found beside this program or in ../lib (%s): the job runs unwatched", LIBRARY, strerror(-error));
    return false;
  }
  if (!usable(library)) return false;
  warn_of_missing_entries(old);
  if (!preload_join(library, old, value, sizeof value) || setenv("LD_PRELOAD", value, 1) < 0) {
    say("LD_PRELOAD is too long to add to: the job runs unwatched");
    return false;
  }
  if (program.needs_libasan) allow_preload_before_asan();
  return true;
}
