/* carriers.c - see carriers.h. A process that we may not look into is not ours. */
#include "carriers.h"
#include "procstat.h"
#include "rundir.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether /proc/<pid>/environ holds the word `entry`. */
static bool carries(pid_t pid, const char *entry) {
  enum { ENVIRONMENT = 1 << 17 }; /* Linux gives arguments and environment 128 KiB a string; more is not looked at */
  static char environment[ENVIRONMENT];
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  size_t have = 0, length = strlen(entry) + 1;
  ssize_t n;
  while (have < sizeof environment - 1 && (n = read(file, environment + have, sizeof environment - 1 - have)) > 0)
    have += (size_t)n;
  close(file);
  environment[have] = '\0';
  for (size_t at = 0; at + length <= have + 1; at += strlen(environment + at) + 1)
    if (!strcmp(environment + at, entry)) return true;
  return false;
}

/* Whether the path, as /proc/<pid>/maps has it, lies in the folder `arg`. */
static bool is_in_folder(const char *path, void *arg) {
  const char *dir = arg;
  size_t length = strlen(dir);
  return !strncmp(path, dir, length) && path[length] == '/';
}

/* Whether it maps a file of the folder: the library keeps its log and its ring mapped. */
static bool has_file_in(pid_t pid, const char *dir) { return proc_mapped(pid, is_in_folder, (void *)(uintptr_t)dir); }

/* Whether a process has kept a log in the folder: the launcher's own is not one. */
static bool holds_logs(const char *dir) {
  DIR *folder = opendir(dir);
  const struct dirent *entry;
  bool any = false;
  while (folder && !any && (entry = readdir(folder)))
    any = entry->d_name[0] != '.' && strncmp(entry->d_name, "launcher-", 9) != 0;
  if (folder) closedir(folder);
  return any;
}

static bool is_zombie(pid_t pid) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  if (proc_text_read(NULL, path, text, sizeof text) < 0) return true;
  const char *behind_name = strrchr(text, ')');
  return !behind_name || behind_name[1] != ' ' || behind_name[2] == 'Z' || behind_name[2] == 'X';
}

static void name_of(pid_t pid, char *out, size_t size) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
  if (proc_text_read(NULL, path, out, size) < 0) snprintf(out, size, "?");
}

size_t carriers_find(const char *id, const char *dir, struct carrier found[CARRIERS]) {
  char entry[RUN_ID + 32];
  size_t n = 0;
  bool logs = holds_logs(dir); /* reading maps is dear, and most runs can do without */
  DIR *proc = opendir("/proc");
  const struct dirent *e;
  snprintf(entry, sizeof entry, "SPARKSHIM_RUN=%s", id);
  while (proc && n < CARRIERS && (e = readdir(proc))) {
    pid_t pid = (pid_t)atoi(e->d_name);
    if (pid <= 0 || pid == getpid()) continue;
    bool log = logs && has_file_in(pid, dir);
    if ((!log && !carries(pid, entry)) || is_zombie(pid)) continue;
    found[n].pid = pid;
    found[n].has_log = log;
    name_of(pid, found[n].name, sizeof found[n].name);
    n++;
  }
  if (proc) closedir(proc);
  return n;
}

size_t carriers_with_log(const struct carrier *found, size_t n) {
  size_t with = 0;
  for (size_t i = 0; i < n; i++) with += found[i].has_log;
  return with;
}
