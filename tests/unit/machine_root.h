/* machine_root.h - for tests of readers: a folder that stands for the machine's root, with the files that a test puts there.
 * begin() and end() are a group's set-up and tear-down. To be included once, behind cmocka.h. */
#ifndef TESTS_MACHINE_ROOT_H
#define TESTS_MACHINE_ROOT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char root[64];

/* `name` begins with a slash; folders on the way are made. */
static inline void put_bytes(const char *name, const void *text, size_t size) {
  char path[512];
  int n = snprintf(path, sizeof path, "%s%s", root, name);
  assert_in_range(n, 1, sizeof path - 1);
  for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')); p++) {
    *p = '\0';
    mkdir(path, 0700);
    *p = '/';
  }
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fwrite(text, 1, size, f);
  fclose(f);
}

static inline void put(const char *name, const char *text) { put_bytes(name, text, strlen(text)); }

static int begin(void **state) {
  (void)state;
  strcpy(root, "/tmp/machine.XXXXXX");
  return mkdtemp(root) ? 0 : -1;
}

static int end(void **state) {
  char command[128];
  (void)state;
  snprintf(command, sizeof command, "rm -r %s", root);
  return system(command);
}

#endif
