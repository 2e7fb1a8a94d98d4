/* gpu_model.c - reads /proc/driver/nvidia/gpus/<bus address>/information (facts/memory.md: "Model: NVIDIA GB10").
 *
 * Runs in the preloaded library while it wakes up, and in the program. Raw system calls only.
 */
#include "gpu_model.h"

#include <fcntl.h>

#include "sys.h"

enum { PATH_SIZE = 4096, NOT_FOUND = -2 };

/* What getdents64(2) returns. */
struct entry {
  uint64_t ino;
  int64_t off;
  uint16_t length;
  uint8_t type;
  char name[];
};

int gpu_model_parse(const char *text, char *out, size_t size) {
  static const char key[] = "Model:";
  const char *line = text;
  while (line && !str_starts(line, key)) {
    line = str_find(line, "\n");
    if (line) line++;
  }
  if (!line || !size) return NOT_FOUND;
  line += sizeof(key) - 1;
  while (*line == ' ' || *line == '\t') line++;
  size_t n = 0;
  while (line[n] && line[n] != '\n' && n + 1 < size) out[n] = line[n], n++;
  while (n && (out[n - 1] == ' ' || out[n - 1] == '\t' || out[n - 1] == '\r')) n--;
  out[n] = '\0';
  return 0;
}

/* The name of the first entry of the open folder that is not hidden, or NULL. */
static const char *first_name(int dir, char *buffer, size_t size) {
  for (;;) {
    long n = sys_call6(SYS_getdents64, dir, (long)buffer, (long)size, 0, 0, 0);
    if (n <= 0) return NULL;
    for (long at = 0; at < n;) {
      const struct entry *e = (const struct entry *)(const void *)(buffer + at);
      if (e->name[0] != '.') return e->name;
      at += e->length;
    }
  }
}

static int read_information(const char *folder, char *out, size_t size) {
  _Alignas(8) char entries[1024];
  char text[1024];
  int dir = sys_open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (dir < 0) return dir;
  const char *name = first_name(dir, entries, sizeof(entries));
  int gpu = name ? sys_openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0) : NOT_FOUND;
  sys_close(dir);
  if (gpu < 0) return gpu;
  int file = sys_openat(gpu, "information", O_RDONLY | O_CLOEXEC | O_NOCTTY, 0);
  sys_close(gpu);
  if (file < 0) return file;
  long n = sys_read(file, text, sizeof(text) - 1);
  sys_close(file);
  if (n < 0) return (int)n;
  text[n] = '\0';
  return gpu_model_parse(text, out, size);
}

int gpu_model_read(const char *root, char *out, size_t size) {
  static const char gpus[] = "/proc/driver/nvidia/gpus";
  char path[PATH_SIZE];
  if (root && *root) {
    size_t n = str_copy(path, sizeof(path), root);
    str_copy(path + n, sizeof(path) - n, gpus);
    int error = read_information(path, out, size);
    if (error != NOT_FOUND) return error;
  }
  return read_information(gpus, out, size);
}
