/* doctor.c - `sparkshim doctor [-- CMD]`: is the library really mapped, and does it see calls, here?
 *
 * A wrong LD_PRELOAD costs one line on stderr and nothing else: a job that is believed to be watched may not be.
 * So nothing is taken for granted: a program is started the way `run` starts a job, and has to be found in a log.
 */
#include "launcher.h"
#include "clock.h"
#include "elf_file.h"
#include "fact_read.h"
#include "finding.h"
#include "preload.h"
#include "program.h"
#include "prune.h"
#include "rundir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STATUS_WARNINGS = 1, STATUS_BLOCKED = 2, STATUS_BLIND = 3 };
enum { NOT_MAPPED = 1, NOT_FAILED = 2 }; /* doctor_probe.c */

static enum verdict worst;

/* All lines of the doctor are G1's: whether libraries load as they should. */
static void line(enum verdict verdict, const char *text, const char *fix) {
  static struct finding f;
  char out[1024];
  f.g = 1;
  f.verdict = verdict;
  f.fixes.n = fix != NULL;
  snprintf(f.text, sizeof f.text, "%s", text);
  if (fix) snprintf(f.fixes.item[0], sizeof f.fixes.item[0], "%s", fix);
  finding_line(&f, getenv("SPARKSHIM_ROOT") != NULL, out, sizeof out);
  puts(out);
  if (verdict > worst) worst = verdict;
}

static bool library_is_sound(const char *library) {
  struct elf_file elf;
  struct statvfs fs;
  char text[FINDING_TEXT];
  int error = elf_open(library, &elf);
  if (error) {
    snprintf(text, sizeof text, "%.180s cannot be read as a library: %s", library, strerror(-error));
    line(VERDICT_FAIL, text, "build or install it again");
    return false;
  }
  bool native = elf.native;
  elf_close(&elf);
  if (!native) {
    snprintf(text, sizeof text, "%.180s is built for another kind of processor", library);
    line(VERDICT_FAIL, text, "install the build for this machine");
    return false;
  }
  if (!statvfs(library, &fs) && (fs.f_flag & ST_NOEXEC)) {
    snprintf(text, sizeof text, "%.180s lies on a file system mounted noexec", library);
    line(VERDICT_FAIL, text, "install it where programs may be executed");
    return false;
  }
  snprintf(text, sizeof text, "%.200s is a library for this machine", library);
  line(VERDICT_PASS, text, NULL);
  return true;
}

static bool check_library(void) {
  char library[PATH_MAX];
  int error = preload_find(library);
  if (!error) return library_is_sound(library);
  line(VERDICT_FAIL, "libsparkshim.so is neither beside this program nor in ../lib",
       "build or install sparkshim again");
  return false;
}

/* One entry of the user's own LD_PRELOAD. */
static void check_entry(const char *entry) {
  char text[FINDING_TEXT];
  struct elf_file elf;
  if (!strchr(entry, '/') || strchr(entry, '$')) return; /* found by the loader's own search */
  int error = elf_open(entry, &elf);
  if (error) {
    snprintf(text, sizeof text, "LD_PRELOAD names %.160s: %s", entry,
             error == -ENOEXEC ? "no library" : strerror(-error));
    line(VERDICT_WARN, text, "take it out of LD_PRELOAD");
    return;
  }
  if (!elf.native) {
    snprintf(text, sizeof text, "LD_PRELOAD names %.160s, which is built for another kind of processor", entry);
    line(VERDICT_WARN, text, "take it out of LD_PRELOAD");
  }
  elf_close(&elf);
}

static void check_other_preloads(void) {
  char copy[PRELOAD_VALUE], *save = NULL;
  const char *old = getenv("LD_PRELOAD");
  if (!old || snprintf(copy, sizeof copy, "%s", old) >= (int)sizeof copy) return;
  for (char *entry = strtok_r(copy, " :", &save); entry; entry = strtok_r(NULL, " :", &save)) check_entry(entry);
}

static void check_switches(void) {
  const char *off = getenv("SPARKSHIM"), *skip = getenv("SPARKSHIM_SKIP");
  if (off && !strcmp(off, "0")) line(VERDICT_WARN, "SPARKSHIM=0 is set: nothing is watched", "unset SPARKSHIM");
  if (skip && *skip) line(VERDICT_INFO, "SPARKSHIM_SKIP is set: programs of those names are not watched", NULL);
}

static void check_command(const char *command) {
  struct program program;
  char text[FINDING_TEXT];
  program_inspect(command, &program);
  switch (program.kind) {
  case PROGRAM_GLIBC: snprintf(text, sizeof text, "%.200s takes a preload", program.path); break;
  case PROGRAM_STATIC:
    snprintf(text, sizeof text, "%.160s is linked statically: it is not watched itself", program.path);
    break;
  case PROGRAM_MUSL: snprintf(text, sizeof text, "%.160s is built for musl: it cannot be watched", program.path); break;
  case PROGRAM_FOREIGN:
    snprintf(text, sizeof text, "%.160s is built for another kind of processor", program.path);
    break;
  case PROGRAM_SECURE:
    snprintf(text, sizeof text, "%.160s is set-user-id or has capabilities: it takes no preload", program.path);
    break;
  case PROGRAM_UNKNOWN: snprintf(text, sizeof text, "%.160s is not a program that can be read", command); break;
  }
  line(program.kind == PROGRAM_GLIBC ? VERDICT_PASS : VERDICT_WARN, text, NULL);
}

static bool find_probe(char path[PATH_MAX]) {
  static const char *const places[] = {"sparkshim-probe", "../libexec/sparkshim/sparkshim-probe"};
  char self[PATH_MAX], candidate[PATH_MAX + 64];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n <= 0) return false;
  self[n] = '\0';
  *strrchr(self, '/') = '\0';
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    snprintf(candidate, sizeof candidate, "%s/%s", self, places[i]);
    if (realpath(candidate, path) && !access(path, X_OK)) return true;
  }
  return false;
}

/* Runs the probe as `run` runs a job; its exit status, or negative errno. What it prints on stderr is the
 * loader's complaint about the preload: the user shall see it. */
static int run_probe(const char *probe, const char *id) {
  int status = 0;
  pid_t pid = fork();
  if (pid < 0) return -errno;
  if (pid == 0) {
    setenv("SPARKSHIM_RUN", id, 1);
    preload_apply(probe);
    execl(probe, probe, (char *)NULL);
    _exit(126);
  }
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Whether the log tells of the load that the probe made fail. */
static bool log_tells(const char *path) {
  static char text[1 << 20];
  struct record record;
  bool told = false;
  FILE *file = fopen(path, "r");
  while (file && !told && fgets(text, sizeof text - 1, file)) {
    record_read(text, strcspn(text, "\n"), &record);
    const char *name = record.kind == RECORD_FACT && record.fact.kind == FACT_KIND_load_failed
                           ? record.fact.u.load_failed.error ? record.fact.u.load_failed.error
                                                             : record.fact.u.load_failed.name
                           : NULL;
    told = name && strstr(name, "sparkshim-doctor/libcudart.so.13");
  }
  if (file) fclose(file);
  return told;
}

struct logs {
  unsigned found;
  bool told;
};

static const char *environment(const char *name) { return getenv(name); }

/* Looks through what the probe has left below both places, and takes it away again. */
static struct logs collect_logs(const char *id) {
  struct logs logs = {0, false};
  for (int place = 0; place < RUNDIR_PLACES; place++) {
    char base[RUN_PATH], runs[RUN_PATH + 8], folder[RUN_PATH + RUN_ID + 16], path[sizeof folder + NAME_MAX + 2];
    if (rundir_base(environment, (enum rundir_place)place, base, sizeof base) < 0) continue;
    snprintf(runs, sizeof runs, "%s/runs", base);
    snprintf(folder, sizeof folder, "%s/%s", runs, id);
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
      size_t n = strlen(entry->d_name);
      if (n < 7 || strcmp(entry->d_name + n - 7, ".ndjson")) continue;
      snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
      logs.found++;
      logs.told = logs.told || log_tells(path);
    }
    if (dir) closedir(dir);
    prune_remove(runs, id);
  }
  return logs;
}

static void say_log_folder(const char *id) {
  char path[RUN_PATH], text[FINDING_TEXT];
  int state = rundir_open(environment, RUNDIR_STATE, id, path, sizeof path);
  if (state >= 0) {
    close(state);
    return;
  }
  int temporary = rundir_open(environment, RUNDIR_TEMPORARY, id, path, sizeof path);
  snprintf(text, sizeof text, "the state folder cannot be written (%s): %s", strerror(-state),
           temporary < 0 ? "no log can be kept" : "logs go to the temporary folder");
  line(VERDICT_WARN, text, "set SPARKSHIM_DIR to a folder of your own");
  if (temporary >= 0) close(temporary);
}

static void judge_probe(int status, const struct logs *logs) {
  char text[FINDING_TEXT];
  if (status < 0 || status > (NOT_MAPPED | NOT_FAILED)) {
    snprintf(text, sizeof text, "the probe did not run to its end under the preload (status %d)", status);
    line(VERDICT_FAIL, text, "run it by hand: what the loader prints names the library at fault");
  } else if (status & NOT_MAPPED) {
    line(VERDICT_FAIL, "the library is not mapped in a program started with it", "see what the loader printed above");
  } else {
    line(VERDICT_PASS, "the library is mapped in a program started with it", NULL);
    if (!logs->found) {
      line(VERDICT_FAIL, "it is mapped, and no log was kept", "set SPARKSHIM_DIR to a folder that can be written");
    } else if (!logs->told) {
      line(VERDICT_FAIL, "it kept a log that does not tell of the load that failed", NULL);
    } else {
      line(VERDICT_PASS, "it saw a load fail, and wrote it to its log", NULL);
    }
  }
}

static int status_of_worst(void) {
  switch (worst) {
  case VERDICT_FAIL: return STATUS_BLOCKED;
  case VERDICT_WARN: return STATUS_WARNINGS;
  default: return 0;
  }
}

int verb_doctor(int argc, char **argv) {
  char probe[PATH_MAX], id[RUN_ID];
  if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
    puts("Usage: sparkshim doctor [-- CMD]\n\n"
         "Starts a small program as `sparkshim run` would, and proves that the library is mapped in it and sees what\n"
         "it does. With CMD, also tells whether that program takes a preload.\n\n"
         "Status: 0 it works, 1 it works with warnings, 2 it does not, 3 could not be tried.");
    return 0;
  }
  int command = argc > 1 && !strcmp(argv[1], "--") ? 2 : 1;
  clock_init(getenv("SPARKSHIM_ROOT"));
  check_switches();
  check_other_preloads();
  if (command < argc) check_command(argv[command]);
  if (!check_library()) return STATUS_BLOCKED;
  if (!find_probe(probe)) {
    line(VERDICT_SKIP, "sparkshim-probe is not installed beside this program: nothing was tried",
         "install sparkshim again");
    return STATUS_BLIND;
  }
  snprintf(id, sizeof id, "doctor-%d", (int)getpid());
  say_log_folder(id);
  fflush(stdout);
  int status = run_probe(probe, id);
  struct logs logs = collect_logs(id);
  judge_probe(status, &logs);
  return status_of_worst();
}
