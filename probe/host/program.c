/* program.c - see program.h. Command line only. */
#include "program.h"
#include "elf_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { SCRIPT_DEPTH = 5 }; /* the kernel follows at most four interpreters (fs/exec.c) */

static bool on_path(const char *command, char *out) {
  const char *path = getenv("PATH");
  if (!path) path = "/bin:/usr/bin"; /* execvp's own default, confstr(_CS_PATH) */
  for (;; path++) {
    size_t n = strcspn(path, ":");
    struct stat st;
    int len = snprintf(out, PATH_MAX, "%.*s/%s", n ? (int)n : 1, n ? path : ".", command);
    if (len > 0 && len < PATH_MAX && !stat(out, &st) && S_ISREG(st.st_mode) && !access(out, X_OK)) return true;
    path += n;
    if (!*path) return false;
  }
}

static bool find_file(const char *command, char *out) {
  if (strchr(command, '/')) return snprintf(out, PATH_MAX, "%s", command) < PATH_MAX;
  return *command && on_path(command, out);
}

/* The command that a script's "#!" line starts: the interpreter, or what env(1) would start. */
static bool script_command(const char *path, char *out, size_t size) {
  char line[512], *save = NULL;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return false;
  ssize_t n = read(fd, line, sizeof line - 1);
  close(fd);
  if (n < 3 || line[0] != '#' || line[1] != '!') return false;
  line[n] = '\0';
  line[strcspn(line, "\n")] = '\0';
  char *word = strtok_r(line + 2, " \t", &save);
  if (!word) return false;
  const char *base = strrchr(word, '/') ? strrchr(word, '/') + 1 : word;
  if (!strcmp(base, "env")) do
      word = strtok_r(NULL, " \t", &save);
    while (word && (word[0] == '-' || strchr(word, '=')));
  return word && snprintf(out, size, "%s", word) < (int)size;
}

/* True when exec changes the user, the group or the capabilities: AT_SECURE is set then. */
static bool is_secure(const char *path) {
  struct stat st;
  if (stat(path, &st) < 0) return false;
  if ((st.st_mode & S_ISUID) && st.st_uid != getuid()) return true;
  if ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getgid()) return true;
  return getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0;
}

static void judge_elf(const struct elf_file *elf, struct program *ret) {
  const char *needed;
  if (!elf->native) {
    ret->kind = PROGRAM_FOREIGN;
  } else if (!elf->interp) {
    ret->kind = PROGRAM_STATIC;
  } else if (strstr(elf->interp, "ld-musl-")) {
    ret->kind = PROGRAM_MUSL;
  } else {
    ret->kind = is_secure(ret->path) ? PROGRAM_SECURE : PROGRAM_GLIBC;
  }
  for (size_t i = 0; (needed = elf_needed(elf, i)); i++)
    if (!strncmp(needed, "libasan.so", 10)) ret->needs_libasan = true;
}

void program_inspect(const char *command, struct program *ret) {
  char word[PATH_MAX];
  struct elf_file elf;
  memset(ret, 0, sizeof *ret);
  if (snprintf(word, sizeof word, "%s", command) >= (int)sizeof word) return;
  for (int depth = 0; depth < SCRIPT_DEPTH; depth++) {
    if (!find_file(word, ret->path)) return;
    if (!elf_open(ret->path, &elf)) {
      judge_elf(&elf, ret);
      elf_close(&elf);
      return;
    }
    if (!script_command(ret->path, word, sizeof word)) return;
  }
}
