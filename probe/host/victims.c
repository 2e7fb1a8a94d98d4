/* victims.c - facts oom_victim (collect.h): whom the kernel log names.
 *
 * /dev/kmsg gives one record a read(2), "priority,sequence,microseconds,flags;text" (Documentation/ABI/testing/dev-kmsg);
 * the time is that of the monotonic clock. Below a root it is a plain file of such lines, with times since the boot that
 * <root>/proc/stat names. Lines since Linux 4.20: "Out of memory: Killed process 1234 (name) total-vm:...", "Memory cgroup
 * out of memory: Killed process ...".
 */
#include "collect.h"
#include "clock.h"
#include "job_of.h"
#include "lines.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct search {
  struct job_view view;
  uint64_t since, boot; /* Unix us */
  collect_emit emit;
  void *arg;
};

/* The first place of `text` behind which its end lies, 0 when it is not there. */
static size_t behind(const char *line, size_t size, size_t from, const char *text) {
  for (size_t i = from; i < size; i++) {
    size_t at = line_word(line, size, i, text);
    if (at) return at;
  }
  return 0;
}

/* "1234 (a name) total-vm": the name ends at the last parenthesis before the figures. */
static bool take_victim(const char *line, size_t size, size_t at, struct fact_oom_victim *v, char name[16]) {
  size_t n = 0;
  v->pid = line_number(line, size, &at);
  if (v->pid == FACT_NO_U64 || v->pid > INT_MAX || !(at = line_word(line, size, at, " ("))) return false;
  size_t end = behind(line, size, at, ") total-vm"),
         close = end ? end - strlen(") total-vm") : behind(line, size, at, ")");
  if (!close) return false;
  if (!end) close--;
  for (; at < close && n < 15; at++) name[n++] = line[at];
  name[n] = '\0';
  v->name = name;
  return true;
}

static bool log_line(const char *line, size_t size, void *arg) {
  const struct search *s = arg;
  struct fact fact;
  char name[16];
  size_t at = 0;
  fact_init(&fact, FACT_KIND_oom_victim);
  for (int field = 0; field < 2; field++) {
    if (line_number(line, size, &at) == FACT_NO_U64 || at >= size || line[at++] != ',') return false;
  }
  uint64_t us = line_number(line, size, &at);
  if (us == FACT_NO_U64 || (fact.t = known_plus(s->boot, us)) < s->since || !(at = behind(line, size, at, ";")))
    return false;
  size_t killed = behind(line, size, at, "Killed process ");
  if (!killed || !behind(line, size, at, "ut of memory: Killed process ")) return false;
  if (!take_victim(line, size, killed, &fact.u.oom_victim, name)) return false;
  fact.u.oom_victim.cgroup = behind(line, size, at, "Memory cgroup out of memory: ") != 0;
  fact.u.oom_victim.ours = job_has(&s->view, (int)fact.u.oom_victim.pid);
  s->emit(&fact, s->arg);
  return false;
}

static bool boot_line(const char *line, size_t size, void *arg) {
  size_t at = line_word(line, size, 0, "btime ");
  if (at) *(uint64_t *)arg = known_times(line_number(line, size, &at), 1000000);
  return at != 0;
}

/* True when there is a log below the root, readable or not: the real one is then another machine's. */
static bool simulated_log(struct search *s) {
  char path[PATH_MAX];
  if (!s->view.root || snprintf(path, sizeof path, "%s/dev/kmsg", s->view.root) >= (int)sizeof path) return false;
  bool below = false;
  s->boot = FACT_NO_U64;
  lines_of_file(s->view.root, "/proc/stat", boot_line, &s->boot, &below);
  if (below && s->boot != FACT_NO_U64) lines_of_file(NULL, path, log_line, s, NULL);
  return true;
}

static void real_log(struct search *s) {
  enum { RECORDS = 1 << 17, RECORD = 8192 };
  char record[RECORD];
  struct timespec up;
  ssize_t n;
  clock_gettime(CLOCK_MONOTONIC, &up);
  s->boot = clock_us() - ((uint64_t)up.tv_sec * 1000000 + (uint64_t)up.tv_nsec / 1000);
  int fd = open("/dev/kmsg", O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return;
  for (int i = 0; i < RECORDS; i++) {
    n = read(fd, record, sizeof record);
    if (n < 0 && (errno == EPIPE || errno == EINTR)) continue; /* overwritten while it was read */
    if (n <= 0) break;
    const char *end = memchr(record, '\n', (size_t)n);
    log_line(record, end ? (size_t)(end - record) : (size_t)n, s);
  }
  close(fd);
}

void collect_victims(const char *root, uint64_t since_us, const struct collect_job *job, collect_emit emit, void *arg) {
  struct search s = {.view = {root, job}, .since = since_us, .emit = emit, .arg = arg};
  if (!simulated_log(&s)) real_log(&s);
}
