/* joblog.c - see joblog.h. */
#include "joblog.h"
#include "redact.h"
#include "procstat.h"
#include "quiet.h"
#include "rundir.h"
#include "clock.h"
#include "fact_json.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define KERNEL "/proc/sys/kernel/osrelease"

static void (*listener)(const struct fact *fact);

void joblog_listen(void (*listen)(const struct fact *fact)) { listener = listen; }

static size_t put(int file, const char *line, size_t n) {
  return file >= 0 && n && quiet_write(file, line, n) == (long)n ? n : 0;
}

size_t joblog_write(int file, const struct fact *fact) {
  char line[FACT_JSON_MAX];
  size_t n = put(file, line, fact_json(fact, line, sizeof line));
  if (listener) listener(fact);
  return n;
}

size_t joblog_finding(int file, const struct finding *finding, const struct finding_telling *how) {
  char line[FACT_JSON_MAX];
  return put(file, line, finding_json(finding, how, line, sizeof line));
}

static void append(int file, struct fact *fact) {
  fact->t = clock_us();
  /* The header needs no fsync of its own: that of job_start follows. */
  if (joblog_write(file, fact) && fact->kind != FACT_KIND_header) fsync(file);
}

static void append_header(int file, const char *run, const char *run_from, const char *host) {
  struct fact fact = {.kind = FACT_KIND_header};
  struct fact_header *h = &fact.u.header;
  char boot_id[64] = "", kernel[128] = "", exe[PATH_MAX] = "", cwd[PATH_MAX] = "";
  struct utsname uts;
  ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
  if (n > 0) exe[n] = '\0';
  h->writer = "launcher";
  h->version = SPARKSHIM_VERSION;
  h->run = run;
  h->run_from = run_from;
  h->host = host;
  h->boot_id = proc_text_read(getenv("SPARKSHIM_ROOT"), BOOT_ID, boot_id, sizeof boot_id) < 0 ? NULL : boot_id;
  h->pid = (uint64_t)getpid();
  h->ppid = (uint64_t)getppid();
  h->uid = (uint64_t)getuid();
  h->start = clock_us();
  h->exe = exe;
  h->cwd = getcwd(cwd, sizeof cwd);
  h->machine = uname(&uts) ? NULL : uts.machine;
  h->kernel = proc_text_read(getenv("SPARKSHIM_ROOT"), KERNEL, kernel, sizeof kernel) < 0 ? NULL : kernel;
  h->page_size = (uint64_t)sysconf(_SC_PAGESIZE);
  h->rank = h->local_rank = h->world_size = h->local_world_size = FACT_NO_I64;
  h->detectors_off = getenv("SPARKSHIM_DETECTORS");
  h->simulated = getenv("SPARKSHIM_ROOT") != NULL;
  append(file, &fact);
}

int joblog_open(int dir, const char *run, const char *run_from) {
  char name[RUN_HOST + 64], host[RUN_HOST];
  rundir_host(host);
  snprintf(name, sizeof name, "launcher-%s-%d.ndjson", host, (int)getpid());
  int file = openat(dir, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return -errno;
  append_header(file, run, run_from, host);
  return file;
}

/* The words of argv with NULs between, as /proc/<pid>/cmdline has them, then without their secrets. */
static void command_line(char **argv, char *out, size_t size) {
  char words[8192];
  size_t at = 0;
  for (; *argv && at + strlen(*argv) < sizeof words; argv++) {
    strcpy(words + at, *argv);
    at += strlen(*argv) + 1;
  }
  redact_words(words, at, out, size);
}

void joblog_start(int file, int pid, char **argv) {
  struct fact fact = {.kind = FACT_KIND_job_start};
  char line[2048], cwd[PATH_MAX];
  command_line(argv, line, sizeof line);
  fact.u.job_start.pid = (uint64_t)pid;
  fact.u.job_start.argv = line;
  fact.u.job_start.cwd = getcwd(cwd, sizeof cwd);
  append(file, &fact);
}

void joblog_end(int file, int pid, int status) {
  struct fact fact = {.kind = FACT_KIND_job_end};
  struct fact_job_end *end = &fact.u.job_end;
  end->pid = (uint64_t)pid;
  end->exit = WIFSIGNALED(status) ? FACT_NO_I64 : WEXITSTATUS(status);
  end->signal = WIFSIGNALED(status) ? WTERMSIG(status) : FACT_NO_I64;
  end->core = WIFSIGNALED(status) && WCOREDUMP(status);
  append(file, &fact);
}
