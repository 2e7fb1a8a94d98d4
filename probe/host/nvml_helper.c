/* nvml_helper.c - the process that loads NVML and calls it (nvml_client.h). Nothing else runs here, so that a call which
 * hangs, crashes or is killed costs nobody anything.
 *
 * Answers each byte on stdin with the first bytes of a struct nvml_answer on stdout; ends when stdin does. Structures and
 * numbers: NVIDIA's nvml.h, which is not needed to build this.
 */
#include "nvml_client.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef int nvml_return;
typedef void *nvml_device;
struct process_info { /* nvmlProcessInfo_v2_t, which _v2 and _v3 of the calls fill */
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
};
struct process_info_1 { /* of the calls without a suffix */
  unsigned pid;
  unsigned long long bytes;
};
enum { OK = 0, INSUFFICIENT_SIZE = 7, LISTED = 1024, NO_CALL = -1 };
/* NVML_VALUE_NOT_AVAILABLE is -1 in whatever width: it reads as UINT64_MAX, as the answer has it. */

typedef nvml_return (*list_fn)(nvml_device, unsigned *, void *);

static struct {
  void *library;
  bool started;
  nvml_return (*init)(void);
  nvml_return (*shutdown)(void);
  nvml_return (*count)(unsigned *);
  nvml_return (*handle)(unsigned, nvml_device *);
  nvml_return (*name)(unsigned, char *, unsigned);
  const char *(*error)(nvml_return);
} nvml;

static void *find(const char *name) { return nvml.library ? dlsym(nvml.library, name) : NULL; }

/* dlsym's void * as a function, which ISO C does not let one cast. */
#define FIND(field, name)                    \
  do {                                       \
    void *found = find(name);                \
    memcpy(&(field), &found, sizeof(found)); \
  } while (0)

static bool load(struct nvml_answer *a) {
  if (nvml.library) return true;
  nvml.library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!nvml.library) {
    const char *why = dlerror();
    snprintf(a->error, sizeof a->error, "library not found: %s", why ? why : "libnvidia-ml.so.1");
    return false;
  }
  FIND(nvml.init, "nvmlInit_v2");
  FIND(nvml.shutdown, "nvmlShutdown");
  FIND(nvml.count, "nvmlDeviceGetCount_v2");
  FIND(nvml.handle, "nvmlDeviceGetHandleByIndex_v2");
  FIND(nvml.name, "nvmlSystemGetProcessName");
  FIND(nvml.error, "nvmlErrorString");
  return true;
}

static bool failed(struct nvml_answer *a, const char *call, nvml_return result) {
  if (result == OK) return false;
  a->result = result;
  snprintf(a->error, sizeof a->error, "%s: %s", call, nvml.error ? nvml.error(result) : "failed");
  return true;
}

static bool start(struct nvml_answer *a) {
  if (nvml.started) return true;
  if (!nvml.init || !nvml.count || !nvml.handle) {
    snprintf(a->error, sizeof a->error, "the library lacks calls of its version 2");
    return false;
  }
  if (failed(a, "nvmlInit", nvml.init())) return false;
  nvml.started = true;
  return true;
}

/* After an error the next question begins anew: the driver may have been loaded, or the GPU be back. */
static void stop(void) {
  if (nvml.started && nvml.shutdown) nvml.shutdown();
  nvml.started = false;
}

static struct nvml_process *place_of(struct nvml_answer *a, unsigned pid) {
  for (unsigned i = 0; i < a->n; i++)
    if (a->process[i].pid == pid) return &a->process[i];
  if (a->n == NVML_PROCESSES) return NULL;
  struct nvml_process *p = &a->process[a->n++];
  *p = (struct nvml_process){.pid = pid, .graphics = 1};
  if (nvml.name && nvml.name(pid, p->name, sizeof p->name) != OK) p->name[0] = '\0';
  p->name[sizeof p->name - 1] = '\0';
  return p;
}

/* A process that stands in both lists holds the same memory in each; on several devices it holds the sum. */
static void add(struct nvml_answer *a, unsigned pid, uint64_t bytes, bool graphics, uint64_t before[NVML_PROCESSES]) {
  struct nvml_process *p = place_of(a, pid);
  if (!p) return;
  uint64_t on_others = before[p - a->process];
  if (!graphics) p->graphics = 0;
  if (bytes == UINT64_MAX || p->bytes == UINT64_MAX)
    p->bytes = UINT64_MAX;
  else if (on_others + bytes > p->bytes)
    p->bytes = on_others + bytes;
}

/* The list by the newest of its calls that there is. False: no such call, or it failed. */
static bool list(struct nvml_answer *a, nvml_device device, bool graphics, uint64_t before[NVML_PROCESSES]) {
  static const char *const suffixes[] = {"_v3", "_v2", ""};
  static struct process_info now[LISTED];
  static struct process_info_1 then[LISTED];
  nvml_return result = NO_CALL;
  for (int i = 0; i < 3; i++) {
    char name[64];
    unsigned n = LISTED;
    list_fn call = NULL;
    snprintf(name, sizeof name, "nvmlDeviceGet%sRunningProcesses%s", graphics ? "Graphics" : "Compute", suffixes[i]);
    FIND(call, name);
    if (!call) continue;
    bool first = !suffixes[i][0];
    result = call(device, &n, first ? (void *)then : (void *)now);
    if (result != OK && result != INSUFFICIENT_SIZE) continue;
    if (n > LISTED) n = LISTED;
    for (unsigned k = 0; k < n; k++)
      add(a, first ? then[k].pid : now[k].pid, first ? then[k].bytes : now[k].bytes, graphics, before);
    return true;
  }
  if (!graphics) failed(a, "nvmlDeviceGetComputeRunningProcesses", result ? result : NO_CALL);
  return false;
}

static void look(struct nvml_answer *a) {
  static uint64_t before[NVML_PROCESSES];
  unsigned devices = 0;
  *a = (struct nvml_answer){.result = NO_CALL};
  if (!load(a) || !start(a)) return;
  a->result = OK;
  bool good = !failed(a, "nvmlDeviceGetCount", nvml.count(&devices));
  memset(before, 0, sizeof before);
  for (unsigned i = 0; i < devices && good; i++) {
    nvml_device device;
    good = !failed(a, "nvmlDeviceGetHandleByIndex", nvml.handle(i, &device)) && list(a, device, false, before);
    if (good) list(a, device, true, before);
    for (unsigned k = 0; k < a->n; k++) before[k] = a->process[k].bytes;
  }
  for (unsigned k = 0; k < a->n; k++) ++*(a->process[k].graphics ? &a->graphics : &a->compute);
  if (!good) {
    a->n = 0;
    stop();
  }
}

static bool write_all(const void *data, size_t n) {
  const char *at = data;
  while (n) {
    ssize_t put = write(STDOUT_FILENO, at, n);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    at += put;
    n -= (size_t)put;
  }
  return true;
}

/* The job's pipes must not stay open here. */
static void close_inherited(void) {
  if (!syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0)) return;
  DIR *dir = opendir("/proc/self/fd");
  const struct dirent *entry;
  while (dir && (entry = readdir(dir))) {
    int fd = atoi(entry->d_name);
    if (fd > STDERR_FILENO && fd != dirfd(dir)) close(fd);
  }
  if (dir) closedir(dir);
}

int nvml_helper_main(int argc, char **argv) {
  static struct nvml_answer answer;
  char question;
  close_inherited();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (argc < 2 || getppid() != atoi(argv[1])) return 1; /* it died before it was asked to tell */
  while (read(STDIN_FILENO, &question, 1) == 1) {
    look(&answer);
    if (!write_all(&answer, offsetof(struct nvml_answer, process) + answer.n * sizeof answer.process[0])) return 1;
  }
  return 0;
}
