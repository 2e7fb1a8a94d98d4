/* run.c - `sparkshim run [options] -- CMD...`, and `sparkrun CMD...`.
 *
 * Whoever waits for us must not be able to tell us from CMD. Whatever goes wrong on our side costs the watching,
 * with one line, and never the job: only where CMD itself cannot be started do 126 and 127 come from here.
 */
#include "launcher.h"
#include "carriers.h"
#include "clock.h"
#include "job.h"
#include "joblog.h"
#include "live.h"
#include "preload.h"
#include "prune.h"
#include "report.h"
#include "rundir.h"
#include "sampler.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

struct run {
  char **argv;
  const char *id_from;   /* where the run id came from, as in the header record */
  bool own_id;           /* nobody else has this id: whatever carries it comes from our job */
  bool inner;            /* another launcher above us says what was found */
  const char *users_dir; /* SPARKSHIM_DIR before we set it, or NULL */
  char id[RUN_ID];
  char dir[RUN_PATH]; /* the run's folder; empty: no log can be kept */
  int log;            /* the launcher's own file, or negative */
};

static void usage(FILE *to) {
  fputs("Usage: sparkshim run [options] -- CMD [ARGUMENT...]\n\n"
        "Runs CMD with libsparkshim.so preloaded. Terminal, signals, stdin and exit status are CMD's own. Prints\n"
        "nothing when nothing was found, else the findings that do not stand there yet and the command that shows the\n"
        "report.\n\n"
        "  -d, --dir DIR     keep the log below DIR/runs (default: $SPARKSHIM_DIR, else the user's state folder)\n"
        "  -i, --run-id ID   name of the run (default: start time and a random number; several commands with one\n"
        "                    ID are one run)\n"
        "  -q, --quiet       no line of sparkshim's on stderr; the log is written all the same\n"
        "  -h, --help        this text\n\n"
        "Status: that of CMD; 126 CMD cannot be run, 127 CMD not found, 125 wrong use of these options.\n"
        "SPARKSHIM=0 in the environment runs CMD as if sparkshim was not there.\n",
        to);
}

/* 0 to go on, else 1 + the exit status. */
static int read_options(int argc, char **argv, struct run *run) {
  static const struct option options[] = {{"dir", required_argument, NULL, 'd'},
                                          {"run-id", required_argument, NULL, 'i'},
                                          {"quiet", no_argument, NULL, 'q'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  int option;
  optind = 1;
  while ((option = getopt_long(argc, argv, "+d:i:qh", options, NULL)) != -1) {
    switch (option) {
    case 'd': setenv("SPARKSHIM_DIR", optarg, 1); break;
    case 'q': setenv("SPARKSHIM_STDERR", "0", 1); break;
    case 'i':
      rundir_sanitise(optarg, run->id, sizeof run->id);
      if (!*optarg || strcmp(optarg, run->id)) {
        complain("a run id has letters, digits, '.', '_' and '-' only, no leading '.', and at most %d of them",
                 RUN_ID - 10);
        return 1 + STATUS_LAUNCHER_FAILED;
      }
      setenv("SPARKSHIM_RUN", optarg, 1);
      break;
    case 'h': usage(stdout); return 1;
    default: usage(stderr); return 1 + STATUS_LAUNCHER_FAILED;
    }
  }
  run->argv = argv + optind;
  if (*run->argv) return 0;
  usage(stderr);
  return 1 + STATUS_LAUNCHER_FAILED;
}

/* Descriptors 0 to 2 that are closed stay closed for the job (close-on-exec), but no file of ours may get
 * their numbers: a line for stderr would land in it. */
static void reserve_standard_files(void) {
  int fd;
  while ((fd = open("/dev/null", O_RDWR | O_CLOEXEC)) >= 0 && fd <= STDERR_FILENO) {
  }
  if (fd >= 0) close(fd);
}

static const char *environment(const char *name) { return getenv(name); }

/* Start time and 32 random bits: sorts by time. */
static void fresh_id(char id[RUN_ID]) {
  unsigned random = 0;
  time_t now = (time_t)(clock_us() / 1000000);
  struct tm tm;
  if (getrandom(&random, sizeof random, GRND_NONBLOCK) != (ssize_t)sizeof random)
    random = (unsigned)getpid() * 2654435761u;
  gmtime_r(&now, &tm);
  size_t n = strftime(id, RUN_ID, "%Y%m%d-%H%M%S-", &tm);
  snprintf(id + n, RUN_ID - n, "%08x", random);
}

/* What groups the ranks of a job, or the run we are in, is the run's name; else it gets a new one. */
static void choose_id(struct run *run) {
  rundir_id(environment, getenv("SPARKSHIM_ROOT"), run->id, &run->id_from);
  if (!strcmp(run->id_from, "session")) {
    fresh_id(run->id);
    run->id_from = "SPARKSHIM_RUN";
    run->own_id = true;
  }
  setenv("SPARKSHIM_RUN", run->id, 1);
}

/* A job may start its parts under launchers of their own. */
static void note_launcher(struct run *run) {
  const char *outer = getenv("SPARKSHIM_LAUNCHER");
  char pid[32];
  run->inner = outer && atoi(outer) > 0 && !kill(atoi(outer), 0);
  snprintf(pid, sizeof pid, "%d", (int)getpid());
  if (!run->inner) setenv("SPARKSHIM_LAUNCHER", pid, 1);
}

static int open_dir(struct run *run, enum rundir_place place) {
  char base[PATH_MAX];
  int dir = rundir_open(environment, place, run->id, run->dir, sizeof run->dir);
  if (dir < 0) return dir;
  run->log = joblog_open(dir, run->id, run->id_from);
  close(dir);
  /* The job may change its folder or its HOME, or be unable to write there: the same place for all. */
  if (run->log < 0 || rundir_base(environment, place, base, sizeof base)) return run->log;
  setenv("SPARKSHIM_DIR", base, 1);
  snprintf(base + strlen(base), sizeof base - strlen(base), "/runs");
  if (!run->inner) prune_runs(base, run->id);
  return run->log;
}

static void open_log(struct run *run) {
  int error = open_dir(run, RUNDIR_STATE);
  if (error < 0) error = open_dir(run, RUNDIR_TEMPORARY);
  if (error >= 0) return;
  say("no log is kept: %s", strerror(-error));
  run->dir[0] = '\0';
}

static int cannot_run(const char *command, int error) {
  complain("cannot run '%s': %s", command, strerror(error));
  return error == ENOENT ? STATUS_NOT_FOUND : STATUS_CANNOT_RUN;
}

static int exec_unwatched(char **argv) {
  execvp(argv[0], argv);
  return cannot_run(argv[0], errno);
}

/* The job's descendants that still carry this run. Those that still have a log get a moment to end. */
static void await_descendants(const struct run *run) {
  enum { MOMENT_MS = 2000, FIRST_LOOK_MS = 20 };
  struct carrier carrier[CARRIERS];
  size_t n = carriers_find(run->id, run->dir, carrier);
  for (int ms = 0, step = FIRST_LOOK_MS; ms < MOMENT_MS && carriers_with_log(carrier, n);
       ms += step, step += step / 2) {
    if (step > MOMENT_MS - ms) step = MOMENT_MS - ms;
    struct timespec pause = {.tv_nsec = step * 1000000L};
    nanosleep(&pause, NULL);
    n = carriers_find(run->id, run->dir, carrier);
  }
  for (size_t i = 0; i < n; i++) say("left running: %d, %s", (int)carrier[i].pid, carrier[i].name);
}

static void say_what_was_found(const struct run *run) {
  struct runlog log = {0};
  if (run->own_id) await_descendants(run);
  if (run->inner) return;
  if (runlog_read(&log, run->dir)) return;
  runlog_finish(&log);
  /* What the line at the end tells to call is called where the user stands, not where the job stood. */
  if (run->users_dir)
    setenv("SPARKSHIM_DIR", run->users_dir, 1);
  else
    unsetenv("SPARKSHIM_DIR");
  if (!is_silent()) report_summary(&log);
  runlog_free(&log);
}

/* A run that never was should not stand as the newest. */
static void forget(const struct run *run) {
  char runs[RUN_PATH];
  if (!run->own_id || !run->dir[0]) return;
  snprintf(runs, sizeof runs, "%s", run->dir);
  *strrchr(runs, '/') = '\0';
  prune_remove(runs, run->id);
}

static int watch(struct run *run) {
  struct job job;
  const char *phase;
  choose_id(run);
  note_launcher(run);
  if (!run->inner) live_begin(run->dir, getenv("SPARKSHIM_ROOT") != NULL);
  open_log(run);
  live_log(run->log);
  preload_apply(run->argv[0]);
  /* Of several launchers one above the other the first one looks: the machine is the same. */
  const struct sampler_of look = {.log = run->inner ? -1 : run->log, .dir = run->dir};
  sampler_before(&look);
  int error = job_start(&job, run->argv, &phase);
  if (error && !strcmp(phase, "fork")) {
    say("cannot start a process for the job (%s): it takes the place of the launcher", strerror(-error));
    job_undo(&job);
    return exec_unwatched(run->argv);
  }
  if (error) {
    forget(run);
    return cannot_run(run->argv[0], -error);
  }
  joblog_start(run->log, job.pid, run->argv);
  sampler_begin(&look, job.pid);
  int status = job_wait(&job);
  sampler_end(status != 0);
  joblog_end(run->log, job.pid, status);
  if (run->dir[0]) say_what_was_found(run);
  job_end_like(status);
}

int verb_run(int argc, char **argv) {
  const char *dir = getenv("SPARKSHIM_DIR");
  static struct run run = {.log = -1}; /* as long as the program: so is the copy in it */
  run.users_dir = dir ? strdup(dir) : NULL;
  int stop = read_options(argc, argv, &run);
  if (stop) return stop - 1;
  const char *off = getenv("SPARKSHIM");
  if (off && !strcmp(off, "0")) return exec_unwatched(run.argv);
  const char *line = getenv("SPARKSHIM_STDERR");
  if (line && !strcmp(line, "0")) say_nothing();
  reserve_standard_files();
  clock_init(getenv("SPARKSHIM_ROOT"));
  return watch(&run);
}
