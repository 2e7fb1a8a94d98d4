/* check.h - the one assertion of the simulator's tests: names the line, counts, goes on. */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_failures;

#define EQUAL(actual, expected)                                                     \
  do {                                                                              \
    long long a_ = (long long)(actual), e_ = (long long)(expected);                 \
    if (a_ != e_) {                                                                 \
      printf("%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #actual, a_, e_); \
      check_failures++;                                                             \
    }                                                                               \
  } while (0)

/* A figure of the machine's meminfo in kB, read as any program reads it; -1 when it is not there. */
static inline long long meminfo(const char *key) {
  char path[512], line[256];
  long long value = -1;
  snprintf(path, sizeof path, "%s/proc/meminfo", getenv("SPARKSHIM_ROOT"));
  FILE *f = fopen(path, "re");
  while (f && fgets(line, sizeof line, f))
    if (!strncmp(line, key, strlen(key)) && line[strlen(key)] == ':') value = atoll(line + strlen(key) + 1);
  if (f) fclose(f);
  return value;
}

#endif
