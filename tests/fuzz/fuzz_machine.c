/* fuzz_machine.c - hostile files of a machine against every reader that takes a root folder.
 *
 * Below a root in memory or /tmp each file is missing, empty, the kernel's text, the kernel's text with bytes changed, cut
 * or doubled, random bytes, a folder, or long beyond every buffer. The whole sample, the cgroup and all collectors are
 * taken from it: nothing may crash, hang or give a fact that is no record. Built with the sanitizers.
 *
 *   fuzz_machine SECONDS [SEED]   from a fixed seed
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "collect.h"
#include "fact_json.h"
#include "sample.h"

#define FILE_TEXT(path, text) \
  { path, text, sizeof(text) - 1 }
static const struct {
  const char *path, *text;
  size_t size; /* some hold NULs */
} files[] = {
    FILE_TEXT("/proc/meminfo",
              "MemTotal: 127535084 kB\nMemFree: 100 kB\nMemAvailable: 200 kB\nCmaTotal: 0 kB\nHugePages_Total: 1\n"),
    FILE_TEXT("/proc/vmstat", "nr_free_pages 3\noom_kill 2\npswpin 1\nallocstall_normal 7\ncompact_stall 9\n"),
    FILE_TEXT("/proc/pressure/memory",
              "some avg10=41.20 avg60=12.30 avg300=0.00 total=1\nfull avg10=7.80 avg60=2.10 total=2\n"),
    FILE_TEXT("/proc/buddyinfo", "Node 0, zone   Normal   2400   1800   1500   1300   1200 1 1 1 1 1 1 1 1 2\n"),
    FILE_TEXT("/proc/swaps", "Filename Type Size Used Priority\n/swap.img file 16777212 0 -2\n"),
    FILE_TEXT("/proc/stat", "cpu 1 2 3\nbtime 1700000000\n"),
    FILE_TEXT("/dev/kmsg", "3,1002,90000001,-;Out of memory: Killed process 4711 (python3) total-vm:155kB\n"),
    FILE_TEXT("/proc/self/limits", "Max locked memory         8388608              unlimited            bytes     \n"),
    FILE_TEXT("/proc/self/cgroup", "4:memory:/a/b\n0::/user.slice/session-3.scope\n"),
    FILE_TEXT("/proc/self/mountinfo", "31 22 0:27 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\n"
                                      "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"),
    FILE_TEXT("/proc/self/auxv", "\6\0\0\0\0\0\0\0\0\20\0\0\0\0\0\0"),
    FILE_TEXT("/sys/fs/cgroup/user.slice/session-3.scope/memory.max", "107374182400\n"),
    FILE_TEXT("/sys/fs/cgroup/user.slice/session-3.scope/memory.events", "oom 1\noom_kill 1\n"),
    FILE_TEXT("/sys/fs/cgroup/user.slice/session-3.scope/memory.current", "5\n"),
    FILE_TEXT("/sys/fs/cgroup/memory/a/b/memory.stat", "hierarchical_memory_limit 9\n"),
    FILE_TEXT("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n"),
    FILE_TEXT("/proc/4242/stat", "4242 (a) (b) S 1 4242 4000 0 -1 0 0 0 0 0 5 0 0 0 20 0 1 0 1000 0\n"),
    FILE_TEXT("/proc/4242/status", "Name:\tearlyoom\nUid:\t1000\t0\t0\t0\nRssAnon:\t 4 kB\n"),
    FILE_TEXT("/proc/4242/cmdline", "earlyoom\0-m\0005,2\0-s\000100\0--token\0abc"),
    FILE_TEXT("/proc/4242/cgroup", "0::/system.slice/ollama.service\n"),
    FILE_TEXT("/proc/4000/stat", "4000 (raylet) S 1 4000 4000 0 -1 0 0 0 0 0 5 0 0 0 20 0 1 0 1000 0\n"),
    FILE_TEXT("/proc/4000/cmdline", "/opt/raylet"),
    FILE_TEXT("/proc/4000/environ", "RAY_memory_usage_threshold=0.9"),
};
enum { FILES = sizeof files / sizeof files[0], LONG = 5 << 18 };

static char root[64];
static unsigned long facts;

static void must(bool good, const char *what) {
  if (good) return;
  fprintf(stderr, "fuzz_machine: %s (below %s)\n", what, root);
  abort();
}

static void path_of(char out[256], const char *name) { snprintf(out, 256, "%s%s", root, name); }

static void write_text(const char *name, const char *text, size_t n) {
  char path[256];
  path_of(path, name);
  rmdir(path);
  for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')); p++) {
    *p = '\0';
    mkdir(path, 0700);
    *p = '/';
  }
  FILE *f = fopen(path, "w");
  must(f && fwrite(text, 1, n, f) == n, "cannot write");
  fclose(f);
}

static void write_changed(int i) {
  static char text[8192];
  size_t n = files[i].size;
  memcpy(text, files[i].text, n);
  for (int k = rand() % 6; k > 0 && n; k--) {
    size_t at = (size_t)rand() % n;
    switch (rand() % 3) {
    case 0: text[at] = (char)rand(); break;
    case 1: n = at; break;
    default: /* a piece of it once more */
      if (n + n - at <= sizeof text) memcpy(text + n, text + at, n - at), n += n - at;
    }
  }
  write_text(files[i].path, text, n);
}

static void write_file(int i) {
  static char text[LONG];
  char path[256];
  path_of(path, files[i].path);
  switch (rand() % 24) {
  case 0: unlink(path); break;
  case 1: write_text(files[i].path, "", 0); break;
  case 2:
    unlink(path);
    mkdir(path, 0700);
    break;
  case 3:
    memset(text, rand(), sizeof text);
    write_text(files[i].path, text, rand() % 8 ? 9000 : sizeof text);
    break;
  case 4:
    for (size_t k = 0; k < 600; k++) text[k] = (char)rand();
    write_text(files[i].path, text, (size_t)rand() % 600);
    break;
  case 5:
  case 6: write_text(files[i].path, files[i].text, files[i].size); break;
  default: write_changed(i);
  }
}

static void emit(const struct fact *f, void *arg) {
  static char record[FACT_JSON_MAX];
  (void)arg;
  size_t n = fact_json(f, record, sizeof record);
  must(n > 0 && record[n - 1] == '\n', "no record");
  facts++;
}

static void read_all(void) {
  static struct holder_looks holders;
  static struct nvml_answer answer = {.n = 3, .process = {{.pid = 4242, .bytes = 1}, {.pid = 4000}, {.pid = 77777777}}};
  const int more[] = {4711};
  const struct collect_job job = {.pid = getpid(), .more = more, .n = 1};
  struct cgroup_place place;
  struct fact fact;
  cgroup_find(root, rand() % 2 ? 4242 : 0, &place);
  must(strlen(place.folder) < sizeof place.folder && place.top <= strlen(place.folder), "an odd place");
  sample_read(&(struct sample_from){.root = root, .place = &place, .pid = more, .pids = 1, .parts = SAMPLE_ALL}, "tick",
              &fact);
  emit(&fact, NULL);
  collect_holders(&holders, &answer, 0, root, &job, emit, NULL);
  collect_killers(root, &job, emit, NULL);
  collect_victims(root, 0, &job, emit, NULL);
  collect_limits(root, 0, &place, emit, NULL);
}

int main(int argc, char **argv) {
  char command[128];
  unsigned long rounds = 0;
  if (argc < 2) {
    fprintf(stderr, "usage: fuzz_machine SECONDS [SEED]\n");
    return 2;
  }
  const time_t end = time(NULL) + atoi(argv[1]);
  srand(argc > 2 ? (unsigned)atoi(argv[2]) : 1);
  snprintf(root, sizeof root, "%s/fuzz_machine.XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
  must(mkdtemp(root), "no folder");
  for (int i = 0; i < FILES; i++) write_text(files[i].path, files[i].text, files[i].size);
  for (; time(NULL) < end; rounds++) {
    for (int k = 0; k < 6; k++) write_file(rand() % FILES);
    read_all();
  }
  snprintf(command, sizeof command, "rm -r %s", root);
  must(system(command) == 0, "cannot remove the folder");
  printf("%lu machines, %lu facts\n", rounds, facts);
  return rounds && facts > 5 * rounds ? 0 : 1;
}
