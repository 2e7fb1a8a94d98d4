/* gb10sim.c - runs a command on a simulated Spark.
 *
 *   gb10sim [--keep DIR] [--emulator "CMD..."] SCENARIO... -- CMD...
 *   gb10sim --keep DIR --env SCENARIO...
 *
 * Makes the world folder, reads the scenarios into it, runs the command with the stand-in libraries behind
 * whatever LD_PRELOAD already names, moves the timeline while the command runs, and ends as the command ended.
 * Nothing outside the world folder is written.
 */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "scenario.h"
#include "world.h"

enum { EXIT_OWN_FAILURE = 125, EXIT_NOT_RUN = 126, EXIT_NOT_FOUND = 127, TICK_US = 4000 };

struct options {
  const char *keep, *emulator;
  bool env;
  char **scenario;
  int n_scenarios;
  char **command;
};

static volatile sig_atomic_t child_pid;

static int usage(void) {
  fputs("usage: gb10sim [--keep DIR] [--emulator \"CMD...\"] SCENARIO... -- CMD...\n"
        "       gb10sim --keep DIR --env SCENARIO...\n"
        "Runs CMD on a simulated DGX Spark. SCENARIO: a file as docs/gb10sim.md describes it, or a base world (idle, "
        "loaded, ...).\n",
        stderr);
  return EXIT_OWN_FAILURE;
}

static int parse_options(int argc, char **argv, struct options *o) {
  int i = 1;
  for (; i < argc && !strncmp(argv[i], "--", 2) && argv[i][2]; i++) {
    if (!strcmp(argv[i], "--keep") && i + 1 < argc)
      o->keep = argv[++i];
    else if (!strcmp(argv[i], "--emulator") && i + 1 < argc)
      o->emulator = argv[++i];
    else if (!strcmp(argv[i], "--env"))
      o->env = true;
    else
      return -1;
  }
  o->scenario = argv + i;
  for (; i < argc && strcmp(argv[i], "--"); i++) o->n_scenarios++;
  if (i < argc) o->command = argv + i + 1;
  return o->env ? (o->keep ? 0 : -1) : o->command && o->command[0] ? 0 : -1;
}

static bool usable_folder(const char *dir) { return dir && dir[0] == '/' && !access(dir, W_OK); }

static int make_folder(const struct options *o, char *dir, size_t size) {
  const char *const tmp = getenv("TMPDIR");
  if (o->keep) {
    if (mkdir(o->keep, 0755) && errno != EEXIST) return -1;
    char *full = realpath(o->keep, NULL);
    if (!full || strlen(full) >= WORLD_PATH) return free(full), -1;
    snprintf(dir, size, "%s", full);
    free(full);
    return 0;
  }
  const char *const where = usable_folder("/dev/shm") ? "/dev/shm" : usable_folder(tmp) ? tmp : "/tmp";
  snprintf(dir, size, "%s/gb10sim.XXXXXX", where);
  return mkdtemp(dir) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw) {
  (void)st, (void)flag, (void)ftw;
  return remove(path);
}

/* Folder of the stand-ins: ../lib/gb10sim beside the folder of this program. */
static void standin_folder(char *out, size_t size) {
  char exe[WORLD_PATH] = "";
  ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
  if (n > 0) exe[n] = '\0';
  char *slash = strrchr(exe, '/');
  if (slash) *slash = '\0';
  snprintf(out, size, "%s/../lib/gb10sim", exe);
  char *full = realpath(out, NULL);
  if (full) snprintf(out, size, "%s", full);
  free(full);
}

static const char *standin_file(const char *word) {
  static const char *const table[][2] = {{"cuda", "libcuda.so.1"},        {"cudart13", "libcudart.so.13"},
                                         {"cudart12", "libcudart.so.12"}, {"nvml", "libnvidia-ml.so.1"},
                                         {"cublas", "libcublas.so.13"},   {"cublasLt", "libcublasLt.so.13"},
                                         {"nccl", "libnccl.so.2"}};
  for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++)
    if (!strcmp(table[i][0], word)) return table[i][1];
  return NULL;
}

/* The value of LD_PRELOAD: what was there, then the stand-ins that this build has. */
static void preload_value(const struct scenario *s, char *out, size_t size) {
  static const char *const standard[] = {"cuda", "cudart13", "nvml", "cublas", "cublasLt", "nccl"};
  char folder[WORLD_PATH + 32];
  const char *before = getenv("LD_PRELOAD");
  standin_folder(folder, sizeof folder);
  int n = s->n_standins < 0 ? (int)(sizeof standard / sizeof standard[0]) : s->n_standins;
  snprintf(out, size, "%s%s%s/libgb10sim.so", before ? before : "", before && *before ? ":" : "", folder);
  for (int i = 0; i < n; i++) {
    char file[WORLD_PATH + 96];
    snprintf(file, sizeof file, "%s/%s", folder, standin_file(s->n_standins < 0 ? standard[i] : s->standin[i]));
    size_t used = strlen(out);
    if (!access(file, R_OK)) snprintf(out + used, size - used, ":%s", file);
  }
}

static void pass_on(int number) {
  if (child_pid > 0) kill((pid_t)child_pid, number);
}

static void run_child(const struct options *o, const char *preload) {
  if (!o->emulator) {
    setenv("LD_PRELOAD", preload, 1);
    execvp(o->command[0], o->command);
  } else {
    struct words words;
    static char setting[8192 + 16];
    static char *argv[WORLD_WORDS + 256];
    int n = 0;
    if (words_split(&words, o->emulator) < 1) _exit(EXIT_OWN_FAILURE);
    unsetenv("LD_PRELOAD");
    snprintf(setting, sizeof setting, "LD_PRELOAD=%s", preload);
    for (int i = 0; i < words.n; i++) argv[n++] = words.w[i];
    argv[n++] = "-E";
    argv[n++] = setting;
    for (int i = 0; o->command[i] && i < 250; i++) argv[n++] = o->command[i];
    execvp(argv[0], argv);
  }
  int code = errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN;
  fprintf(stderr, "gb10sim: %s: %s\n", o->command[0], strerror(errno));
  _exit(code);
}

/* Moves the timeline until the command has ended; returns its wait status. */
static int watch(struct world *w, pid_t pid) {
  int status, rounds = 0;
  for (;;) {
    pid_t done = waitpid(pid, &status, WNOHANG);
    if (done == pid) return status;
    if (done < 0 && errno != EINTR) return EXIT_OWN_FAILURE << 8;
    uint64_t before = world_now(w);
    world_sleep_real(TICK_US);
    uint64_t jump = w->pace > 1 ? (uint64_t)((w->pace - 1) * TICK_US) : 0;
    if (jump && world_now(w) >= before) world_advance(w, jump);
    if (++rounds % 16 == 0) world_give_back_dead(w);
    world_refresh(w);
  }
}

static int end_as(int status) {
  if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
  struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  signal(WTERMSIG(status), SIG_DFL);
  raise(WTERMSIG(status));
  return 128 + WTERMSIG(status);
}

static int run(const struct options *o, const struct scenario *s, struct world *w) {
  static char preload[8192];
  preload_value(s, preload, sizeof preload);
  fflush(NULL);
  pid_t pid = fork();
  if (pid < 0) return EXIT_OWN_FAILURE << 8;
  if (!pid) run_child(o, preload);
  child_pid = pid;
  signal(SIGINT, SIG_IGN);
  signal(SIGQUIT, SIG_IGN);
  signal(SIGTERM, pass_on);
  signal(SIGHUP, pass_on);
  return watch(w, pid);
}

static struct world *build_world(const struct options *o, const char *dir, struct scenario *s) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  struct world *w = world_create(dir, (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000);
  if (!w) {
    fprintf(stderr, "gb10sim: %s: %s\n", dir, strerror(errno));
    return NULL;
  }
  for (int i = 0; i < o->n_scenarios; i++)
    if (scenario_read(o->scenario[i], w, s)) return NULL;
  world_set_start(w);
  world_refresh(w);
  if (world_render_locked(w)) {
    fprintf(stderr, "gb10sim: cannot write below %s\n", dir);
    return NULL;
  }
  return w;
}

static void print_environment(const struct scenario *s, const char *dir) {
  static char preload[8192];
  preload_value(s, preload, sizeof preload);
  printf("export GB10SIM_WORLD='%s'\nexport SPARKSHIM_ROOT='%s/root'\nexport LD_PRELOAD='%s'\n", dir, dir, preload);
}

int main(int argc, char **argv) {
  struct options o = {0};
  struct scenario s = {.n_standins = -1};
  char dir[WORLD_PATH + 32], root[WORLD_PATH + 64];
  if (parse_options(argc, argv, &o)) return usage();
  if (make_folder(&o, dir, sizeof dir)) {
    fprintf(stderr, "gb10sim: cannot make a folder for the world: %s\n", strerror(errno));
    return EXIT_OWN_FAILURE;
  }
  int status = EXIT_OWN_FAILURE << 8;
  struct world *w = build_world(&o, dir, &s);
  snprintf(root, sizeof root, "%s/root", dir);
  setenv("GB10SIM_WORLD", dir, 1);
  setenv("SPARKSHIM_ROOT", root, 1);
  if (w && o.env) {
    print_environment(&s, dir);
    status = 0;
  } else if (w) {
    status = run(&o, &s, w);
  }
  if (!o.keep) nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  return end_as(status);
}
