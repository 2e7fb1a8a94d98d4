/* log_job.c - a job that does to its process, and to our files, what real jobs do.
 *
 *   log_job STEP...     the steps are done in order; what each prints must be the same whatever becomes of the log
 *
 * wake            open log and ring
 * bare            from here on, steps that would use log and ring do not, also behind exec: the control
 * alloc=N         N allocations noted, by one thread
 * threads=T,N     T threads, N allocations and N frees each, one record each
 * records=N       N records to the log
 * failed=BYTES    a refused allocation, as the hooks record it
 * closeall        closes every descriptor but 0, 1, 2
 * steal           closes every descriptor but 0, 1, 2 and opens a data file of its own until 64 are open
 * takeall         opens /dev/null until no descriptor is left
 * giveone         closes the last of them
 * list            says which descriptors are open
 * reader          says how many bytes the stolen files hold
 * cutring=GLOB    cuts every file that matches to 0 bytes
 * fork            the child does the rest of the steps, the parent waits and exits as it did
 * exec=PROGRAM    executes PROGRAM with the rest of the steps
 * edquot          from here on fallocate, and write to all but 0, 1, 2, answer as under a used-up quota
 * setsid          a session of its own
 * fill=FILE       writes until the disk takes no more
 * chdir=DIR  fsize=BYTES (RLIMIT_FSIZE)  nofile=N (RLIMIT_NOFILE)  closeerr (descriptor 2)  stealerr=FILE
 * say=TEXT        prints TEXT
 * sh=COMMAND      has a shell execute it
 * sigbus          maps an empty file and touches it: SIGBUS of the job's own making
 * catchbus        installs a handler for SIGBUS that says so and exits 7
 * chainbus        installs a handler for SIGBUS that puts the earlier one back and raises the signal again
 * ignorebus       SIGBUS is ignored
 * kill=SIGNAL     raises it
 * exit=STATUS     exit record, then exits
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "meminfo.h"
#include "sinks_host.h"

static bool bare;
static long threads_records;
static struct sigaction earlier;

static void note(const char *text) {
  struct fact fact = {.kind = FACT_KIND_note};
  fact.u.note.text = text;
  if (!bare) observe(&fact);
}

static void step_alloc(long n) {
  for (long i = 0; i < n; i++) {
    uint64_t ptr = 0x700000000000U + (uint64_t)i * 4096;
    if (!bare) ring_alloc_note(HOOK_ID_cudaMalloc, ROUTE_DEVICE, ptr, 1024 + (uint64_t)i, 0, clock_ticks());
  }
  printf("%ld allocations\n", n);
}

static void *thread_main(void *arg) {
  long n = *(long *)arg;
  for (long i = 0; i < n && !bare; i++) {
    ring_alloc_note(HOOK_ID_cudaMallocHost, ROUTE_PINNED, 4096, 512, 0, clock_ticks());
    ring_free_note(HOOK_ID_cudaFreeHost, ROUTE_PINNED, 4096, 512, clock_ticks());
  }
  note("a thread is done");
  return NULL;
}

static void step_threads(const char *arg) {
  char *rest;
  long count = strtol(arg, &rest, 10), done = 0;
  threads_records = strtol(rest + 1, NULL, 10);
  while (done < count) { /* at most 64 at a time */
    pthread_t threads[64];
    long now = count - done < 64 ? count - done : 64;
    for (long i = 0; i < now; i++)
      if (pthread_create(&threads[i], NULL, thread_main, &threads_records)) exit(90);
    for (long i = 0; i < now; i++) pthread_join(threads[i], NULL);
    done += now;
  }
  printf("%ld threads\n", count);
}

static void step_records(long n) {
  char text[64];
  for (long i = 0; i < n; i++) {
    struct fact fact = {.kind = FACT_KIND_lookup};
    snprintf(text, sizeof text, "record %ld of %ld", i, n);
    fact.u.lookup = (struct fact_lookup){.name = text, .via = "dlsym", .version = FACT_NO_I64, .result = FACT_NO_I64};
    if (!bare) observe(&fact);
  }
  printf("%ld records\n", n);
}

static void step_failed(long size) {
  struct fact fact = {.kind = FACT_KIND_alloc_failed};
  struct fact_alloc_failed *f = &fact.u.alloc_failed;
  f->call = "cudaMalloc";
  f->route = "device";
  f->size = (uint64_t)size;
  f->result = 2;
  f->repeat = 1;
  f->live_device = f->live_pinned = 0;
  meminfo_read(shim_settings.root, &f->mem);
  if (!bare) observe(&fact);
  printf("refused %ld\n", size);
}

static void close_all(void) {
  for (int fd = 3; fd < 1024; fd++) close(fd);
}

static void step_steal(void) {
  close_all();
  for (int i = 3; i < 64; i++) {
    char name[32];
    snprintf(name, sizeof name, "stolen.%d", i);
    if (open(name, O_RDWR | O_CREAT | O_TRUNC, 0600) < 0) exit(91);
  }
  printf("descriptors taken\n");
}

static int last_taken = -1;

static void step_takeall(void) {
  for (int fd; (fd = open("/dev/null", O_RDWR | O_CLOEXEC)) >= 0;) last_taken = fd;
  printf("none left behind %d\n", last_taken);
}

static void step_list(void) {
  for (int fd = 0; fd < 1024; fd++)
    if (fcntl(fd, F_GETFD) >= 0) printf("%d ", fd);
  printf("are open\n");
}

static void step_reader(void) {
  long bytes = 0;
  for (int i = 3; i < 64; i++) bytes += (long)lseek(i, 0, SEEK_END);
  printf("%ld bytes in files of the job\n", bytes);
}

static void step_cut(const char *pattern) {
  glob_t found = {0};
  if (glob(pattern, 0, NULL, &found)) return;
  for (size_t i = 0; i < found.gl_pathc; i++)
    if (truncate(found.gl_pathv[i], 0)) exit(92);
  globfree(&found);
}

static void step_fork(void) {
  int status = 0;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    if (!bare) host_in_child();
    return;
  }
  if (child < 0 || waitpid(child, &status, 0) != child) exit(93);
  exit(WIFEXITED(status) ? WEXITSTATUS(status) : 94);
}

static void limit(int which, long value) {
  struct rlimit r = {(rlim_t)value, (rlim_t)value};
  if (setrlimit((__rlimit_resource_t)which, &r)) exit(95);
}

static void step_sigbus(void) {
  FILE *empty = tmpfile();
  volatile char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(empty), 0);
  fflush(stdout);
  map[0] = 1;
}

static void say_and_leave(int signal) {
  static const char text[] = "SIGBUS caught\n";
  (void)signal;
  if (write(1, text, sizeof text - 1) < 0) _exit(96);
  _exit(7);
}

static void put_back_and_raise(int signal) {
  sigaction(signal, &earlier, NULL);
  raise(signal);
}

static void step_exit(long status) {
  struct fact fact = {.kind = FACT_KIND_exit};
  fact.u.exit.status = status;
  fact.u.exit.signal = FACT_NO_I64;
  fact.u.exit.last_activity = FACT_NO_U64;
  meminfo_read(shim_settings.root, &fact.u.exit.mem);
  if (!bare) observe(&fact);
  exit((int)status);
}

/* A filter of our own: not every kernel has quotas, and not every user may set one. */
static void step_edquot(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fallocate, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 3, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EDQUOT),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof code / sizeof code[0], code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) exit(77);
}

static void step_fill(const char *path) {
  static char block[4096];
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  for (size_t size = sizeof block; size; size /= 2)
    while (fd >= 0 && write(fd, block, size) == (ssize_t)size) {
    }
  if (fd >= 0) close(fd);
}

static void descriptor_step(const char *name, const char *arg) {
  if (!strcmp(name, "closeall"))
    close_all();
  else if (!strcmp(name, "steal"))
    step_steal();
  else if (!strcmp(name, "takeall"))
    step_takeall();
  else if (!strcmp(name, "giveone"))
    close(last_taken);
  else if (!strcmp(name, "list"))
    step_list();
  else if (!strcmp(name, "reader"))
    step_reader();
  else if (!strcmp(name, "closeerr"))
    close(2);
  else if (!strcmp(name, "fill"))
    step_fill(arg);
  else if (!strcmp(name, "edquot"))
    step_edquot();
  else if (!strcmp(name, "setsid"))
    setsid();
  else if (!strcmp(name, "stealerr")) {
    close(2);
    if (open(arg, O_RDWR | O_CREAT | O_TRUNC, 0600) != 2) exit(97);
  } else {
    fprintf(stderr, "log_job: unknown step %s\n", name);
    exit(99);
  }
}

static void signal_step(const char *name, const char *arg) {
  struct sigaction handler = {.sa_flags = SA_NODEFER};
  if (!strcmp(name, "sigbus"))
    step_sigbus();
  else if (!strcmp(name, "kill"))
    raise(atoi(arg));
  else if (!strcmp(name, "ignorebus"))
    signal(SIGBUS, SIG_IGN);
  else if (!strcmp(name, "catchbus") || !strcmp(name, "chainbus")) {
    handler.sa_handler = name[1] == 'a' ? say_and_leave : put_back_and_raise;
    sigaction(SIGBUS, &handler, &earlier);
  } else
    descriptor_step(name, arg);
}

static void step(const char *name, const char *arg, char **rest) {
  if (!strcmp(name, "wake")) {
    if (!bare) host_wake();
  } else if (!strcmp(name, "bare"))
    bare = !setenv("LOG_JOB_BARE", "1", 1);
  else if (!strcmp(name, "alloc"))
    step_alloc(atol(arg));
  else if (!strcmp(name, "threads"))
    step_threads(arg);
  else if (!strcmp(name, "records"))
    step_records(atol(arg));
  else if (!strcmp(name, "failed"))
    step_failed(atol(arg));
  else if (!strcmp(name, "cutring"))
    step_cut(arg);
  else if (!strcmp(name, "fork"))
    step_fork();
  else if (!strcmp(name, "chdir")) {
    if (chdir(arg)) exit(98);
  } else if (!strcmp(name, "fsize"))
    limit(RLIMIT_FSIZE, atol(arg));
  else if (!strcmp(name, "nofile"))
    limit(RLIMIT_NOFILE, atol(arg));
  else if (!strcmp(name, "say"))
    puts(arg);
  else if (!strcmp(name, "sh"))
    printf("shell: %d\n", system(arg));
  else if (!strcmp(name, "exit"))
    step_exit(atol(arg));
  else if (!strcmp(name, "exec")) {
    fflush(stdout);
    rest[-1] = (char *)(uintptr_t)arg;
    execv(arg, rest - 1);
    exit(100);
  } else
    signal_step(name, arg);
}

int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  bare = getenv("LOG_JOB_BARE") != NULL;
  for (int i = 1; i < argc; i++) {
    char *arg = strchr(argv[i], '=');
    char name[32];
    snprintf(name, sizeof name, "%.*s", arg ? (int)(arg - argv[i]) : (int)strlen(argv[i]), argv[i]);
    step(name, arg ? arg + 1 : "", argv + i + 1);
  }
  return 0;
}
