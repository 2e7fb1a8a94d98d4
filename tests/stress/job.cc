/* job.cc - what programs do around, and in the middle of, calls that are hooked: one scene per run.
 *
 *   stress_job SCENE [ARGUMENT...]      what it prints and how it ends must be the same with and without the library
 *
 * C++ for the scene that throws. The runtime is stub.c's, loaded the way frameworks do, or linked.
 */
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <initializer_list>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <link.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

extern "C" {
#include "stub.h"
}

extern char **environ;

static const char *runtime; /* path of the stub */
static char **words;        /* arguments of the scene */
static decltype(&cudaMalloc) take;
static decltype(&cudaFree) give;
static decltype(&cudaDeviceSynchronize) synchronize;
static void (**during)();

static void load() {
  void *handle = dlopen(runtime, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    printf("%s\n", dlerror());
    exit(90);
  }
  take = reinterpret_cast<decltype(take)>(dlsym(handle, "cudaMalloc"));
  give = reinterpret_cast<decltype(give)>(dlsym(handle, "cudaFree"));
  synchronize = reinterpret_cast<decltype(synchronize)>(dlsym(handle, "cudaDeviceSynchronize"));
  during = reinterpret_cast<decltype(during)>(dlsym(handle, "stub_during"));
  if (!take || !give || !synchronize || !during) exit(91);
}

static int pairs(int n) {
  void *ptr;
  for (int i = 0; i < n; i++)
    if (take(&ptr, 4096) || give(ptr)) return 1;
  return 0;
}

static void must(bool good, const char *what) {
  if (good) return;
  printf("%s: %s\n", what, strerror(errno));
  exit(92);
}

/* ---- threads ---------------------------------------------------------------------------------------------------- */
static void *some_pairs(void *) {
  if (pairs(20)) abort();
  return nullptr;
}

/* argument: number of threads, a hundred at once */
static int threads() {
  enum { AT_ONCE = 100 };
  pthread_t thread[AT_ONCE];
  int n = atoi(words[0]);
  load();
  for (int done = 0; done < n; done += AT_ONCE) {
    for (auto &t : thread) must(!pthread_create(&t, nullptr, some_pairs, nullptr), "thread");
    for (auto &t : thread) pthread_join(t, nullptr);
  }
  printf("%d threads\n", n);
  return 0;
}

static void wait_here() {
  for (;;) pause();
}

static void clean_up(void *) { pairs(3); }

static void *cancelled(void *go) {
  pthread_cleanup_push(clean_up, nullptr);
  __atomic_store_n(static_cast<int *>(go), 1, __ATOMIC_RELEASE);
  synchronize();
  pthread_cleanup_pop(0);
  return nullptr;
}

/* A thread is cancelled in the middle of a call; its clean-up makes calls. */
static int cancel() {
  load();
  *during = wait_here;
  for (int i = 0; i < 100; i++) {
    pthread_t thread;
    void *result;
    int go = 0;
    must(!pthread_create(&thread, nullptr, cancelled, &go), "thread");
    while (!__atomic_load_n(&go, __ATOMIC_ACQUIRE)) sched_yield();
    pthread_cancel(thread);
    pthread_join(thread, &result);
    if (result != PTHREAD_CANCELED || pairs(1)) return 1;
  }
  puts("100 cancelled");
  return 0;
}

/* ---- leaving a call in the middle --------------------------------------------------------------------------------- */
static sigjmp_buf behind;
static void jump() { siglongjmp(behind, 1); }
struct thrown {
  int value;
};
static void throw_it() { throw thrown{7}; }
static int __attribute__((noinline)) deep(int n) {
  volatile char room[512];
  room[0] = static_cast<char>(n);
  return n ? deep(n - 1) + room[0] * 0 : pairs(2);
}

static int leave() {
  volatile int left = 0;
  load();
  for (int i = 0; i < 100; i++) {
    *during = jump;
    if (sigsetjmp(behind, 0) == 0)
      synchronize();
    else
      left = left + 1;
    *during = throw_it;
    try {
      synchronize();
    } catch (const thrown &t) {
      left = left + t.value;
    }
    if (deep(i % 10)) return 1;
  }
  printf("left %d\n", static_cast<int>(left));
  return 0;
}

static ucontext_t home, first, second;
static int turns;
static void yield_first() { swapcontext(&first, &second); }
static void first_main() {
  for (int i = 0; i < 100; i++) {
    *during = yield_first;
    if (synchronize() || pairs(1)) abort();
  }
  turns += 100;
}
static void second_main() {
  for (;;) {
    if (pairs(2)) abort();
    turns++;
    swapcontext(&second, &first);
  }
}

/* Two coroutines: one goes to sleep in the middle of each of its calls. argument: KiB of their stacks */
static int coroutines() {
  size_t size = static_cast<size_t>(atoi(words[0])) * 1024;
  load();
  for (ucontext_t *c : {&first, &second}) {
    getcontext(c);
    char *stack = static_cast<char *>(
        mmap(nullptr, size + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(stack, 4096, PROT_NONE);
    c->uc_stack.ss_sp = stack + 4096;
    c->uc_stack.ss_size = size;
    c->uc_link = &home;
  }
  makecontext(&first, first_main, 0);
  makecontext(&second, second_main, 0);
  swapcontext(&home, &first);
  printf("%d turns\n", turns);
  return 0;
}

/* ---- signals -------------------------------------------------------------------------------------------------------- */
static volatile sig_atomic_t alarms;
static void on_alarm(int) {
  int kept = errno;
  void *ptr;
  if (take(&ptr, 512) || give(ptr) || take(&ptr, STUB_LIMIT + 1) != STUB_REFUSED) abort();
  alarms = alarms + 1;
  errno = kept;
}

/* A timer of 500 us whose handler makes calls, while the program does as well. arguments: flags of "restart,stack" */
static int alarms_scene() {
  struct sigaction action = {};
  stack_t stack = {};
  load();
  action.sa_handler = on_alarm;
  if (strstr(words[0], "restart")) action.sa_flags |= SA_RESTART;
  if (strstr(words[0], "stack")) {
    action.sa_flags |= SA_ONSTACK;
    stack.ss_size = 65536;
    stack.ss_sp = malloc(stack.ss_size);
    sigaltstack(&stack, nullptr);
  }
  sigaction(SIGALRM, &action, nullptr);
  itimerval every = {{0, 500}, {0, 500}}, never = {};
  setitimer(ITIMER_REAL, &every, nullptr);
  while (alarms < 400) {
    void *ptr;
    if (pairs(100) || take(&ptr, STUB_LIMIT + 5) != STUB_REFUSED) return 1;
    if (!dlsym(RTLD_DEFAULT, "printf")) return 2;
  }
  setitimer(ITIMER_REAL, &never, nullptr);
  puts("400 alarms");
  return 0;
}

/* ---- processes ------------------------------------------------------------------------------------------------------- */
static int stop_all;
static void *busy(void *) {
  while (!__atomic_load_n(&stop_all, __ATOMIC_RELAXED)) {
    void *ptr, *handle = dlopen(runtime, RTLD_NOW | RTLD_LOCAL);
    if (pairs(50) || take(&ptr, STUB_LIMIT + 1) != STUB_REFUSED) abort();
    dlsym(handle, "cudaMallocAsync");
    dlerror();
    dlclose(handle);
  }
  return nullptr;
}

static int ended(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return status;
}

static pid_t start_child(int i) {
  static char program[] = "/bin/true", *argv[] = {program, nullptr};
  pid_t child = -1;
  switch (i % 5) {
  case 0:
    if ((child = vfork()) == 0) {
      execv(program, argv);
      _exit(9);
    }
    break;
  case 1: must(!posix_spawn(&child, program, nullptr, nullptr, argv, environ), "spawn"); break;
  case 2:
    if ((child = fork()) == 0) {
      execvp(program, argv);
      _exit(9);
    }
    break;
  case 3:
    if ((child = fork()) == 0) {
      alarm(20); /* a lock that nobody holds any more would keep it */
      void *handle = dlopen(runtime, RTLD_NOW | RTLD_LOCAL), *ptr;
      if (pairs(10) || take(&ptr, STUB_LIMIT + 1) != STUB_REFUSED || !dlsym(handle, "cudaFree")) _exit(8);
      exit(0);
    }
    break;
  default:
    if ((child = fork()) == 0) _exit(0);
  }
  return child;
}

/* argument: number of children, while eight threads make calls */
static int children() {
  pthread_t thread[8];
  int bad = 0, n = atoi(words[0]);
  load();
  for (auto &t : thread) must(!pthread_create(&t, nullptr, busy, nullptr), "thread");
  for (int i = 0; i < n; i++) {
    int status = ended(start_child(i));
    if (status) printf("child %d of kind %d: status %x\n", i, i % 5, status);
    bad += status != 0;
  }
  __atomic_store_n(&stop_all, 1, __ATOMIC_RELAXED);
  for (auto &t : thread) pthread_join(t, nullptr);
  printf("%d children, %d bad\n", n, bad);
  return bad != 0;
}

static int walking;
static int hold(dl_phdr_info *, size_t, void *) {
  __atomic_store_n(&walking, 1, __ATOMIC_RELEASE);
  while (!__atomic_load_n(&stop_all, __ATOMIC_ACQUIRE)) usleep(1000);
  return 1;
}
static void *walk(void *) {
  dl_iterate_phdr(hold, nullptr);
  return nullptr;
}

/* A child is forked while another thread holds the loader's lock, as a C++ exception may. It can do all but load. */
static int held() {
  pthread_t thread;
  load();
  must(!pthread_create(&thread, nullptr, walk, nullptr), "thread");
  while (!__atomic_load_n(&walking, __ATOMIC_ACQUIRE)) sched_yield();
  pid_t child = fork();
  if (child == 0) {
    alarm(20);
    void *handle = dlopen(runtime, RTLD_NOW | RTLD_LOCAL), *ptr;
    if (!handle || dlsym(handle, "cudaMalloc") != reinterpret_cast<void *>(take) || dlclose(handle)) exit(1);
    if (pairs(10) || take(&ptr, STUB_LIMIT + 1) != STUB_REFUSED) exit(2);
    pid_t grandchild = fork();
    if (grandchild == 0) exit(pairs(1));
    exit(ended(grandchild));
  }
  int status = ended(child);
  __atomic_store_n(&stop_all, 1, __ATOMIC_RELEASE);
  pthread_join(thread, nullptr);
  printf("status %x\n", status);
  return status != 0 || pairs(1);
}

/* Executes itself again and again. argument: how often */
static int again() {
  int n = atoi(words[0]);
  char count[16];
  load();
  if (pairs(3)) return 1;
  if (!n) {
    puts("the last");
    return 5;
  }
  snprintf(count, sizeof count, "%d", n - 1);
  char *argv[] = {const_cast<char *>("stress_job"), const_cast<char *>(runtime), const_cast<char *>("again"), count,
                  nullptr};
  execv("/proc/self/exe", argv);
  return 2;
}

/* Goes elsewhere, and has a child there that is forked and one that is another program. argument: where */
static int elsewhere() {
  char zero[] = "0", *argv[] = {const_cast<char *>("stress_job"), const_cast<char *>(runtime),
                                const_cast<char *>("again"), zero, nullptr};
  pid_t child;
  load();
  if (pairs(3)) return 1;
  must(!chdir(words[0]), "chdir");
  if ((child = fork()) == 0) exit(pairs(3));
  if (ended(child)) return 2;
  must(!posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, argv, environ), "spawn");
  return ended(child) == 5 << 8 ? 0 : 3;
}

/* A daemon: two forks, a session of its own, all descriptors closed, and then it makes calls. It says so in a file. */
static int daemon_scene() {
  load();
  if (pairs(5)) return 1;
  pid_t child = fork();
  if (child == 0) {
    setsid();
    if (fork()) _exit(0);
    if (chdir("/")) _exit(1);
    for (int fd = 0; fd < 256; fd++) close(fd);
    if (pairs(1000)) _exit(1);
    int fd = open(words[0], O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (write(fd, "done\n", 5) != 5) _exit(1);
    exit(0);
  }
  return ended(child) != 0;
}

/* argument: how many. One after the other, ten at once */
static int processes() {
  int n = atoi(words[0]), bad = 0;
  load();
  for (int done = 0; done < n; done += 10) {
    pid_t child[10];
    for (auto &c : child)
      if ((c = fork()) == 0) exit(pairs(5));
    for (auto &c : child) bad += ended(c) != 0;
  }
  printf("%d processes, %d bad\n", n, bad);
  return 0;
}

/* ---- loading ----------------------------------------------------------------------------------------------------------- */
static int load_loop() {
  int n = atoi(words[0]);
  void *seen = nullptr, *old = nullptr;
  for (int i = 0; i < n; i++) {
    void *handle = dlopen(runtime, RTLD_NOW | RTLD_LOCAL), *ptr;
    if (!handle) return 1;
    *reinterpret_cast<void **>(&take) = dlsym(handle, "cudaMalloc");
    if (take(&ptr, 512)) return 2;
    if (!i) seen = reinterpret_cast<void *>(take);
    old = reinterpret_cast<void *>(take);
    if (dlclose(handle)) return 3;
    if (dlopen(runtime, RTLD_NOW | RTLD_NOLOAD)) return 4;
  }
  printf("%d loads, same address %d\n", n, seen == old);
  return 0;
}

/* Makes calls, and records of failed loads, until a file is there or a minute has passed. arguments: that file, a file that
 * is made at the beginning */
static int work() {
  load();
  if (pairs(10)) return 1;
  dlopen("libcudnn.so.99", RTLD_NOW);
  dlerror();
  close(open(words[1], O_WRONLY | O_CREAT, 0600));
  for (int i = 0; i < 30000 && access(words[0], F_OK); i++) {
    if (pairs(10)) return 2;
    dlopen("libcudnn.so.99", RTLD_NOW);
    dlerror();
    usleep(2000);
  }
  for (int i = 0; i < 20; i++) {
    dlopen("libnccl.so.99", RTLD_NOW);
    dlerror();
  }
  puts("worked");
  return pairs(1000) ? 3 : 4;
}

/* Threads load and unload objects whose constructors load others. arguments: the objects */
static void *loads(void *object) {
  for (int i = 0; i < 300; i++) {
    void *handle = dlopen(static_cast<char *>(object), RTLD_NOW | RTLD_LOCAL);
    if (!handle) abort();
    void *name = dlsym(handle, "cudaMalloc");
    dlsym(handle, "no such name");
    if (!dlerror()) abort();
    (void)name;
    dlclose(handle);
  }
  return nullptr;
}

static int load_threads() {
  pthread_t thread[16];
  int n = 0;
  for (char **word = words; *word && n < 16; word++)
    must(!pthread_create(&thread[n++], nullptr, loads, *word), "thread");
  for (int i = 0; i < n; i++) pthread_join(thread[i], nullptr);
  printf("%d threads loaded\n", n);
  return 0;
}

/* ---- limits --------------------------------------------------------------------------------------------------------------- */
static void limit(decltype(RLIMIT_AS) what, rlim_t value) {
  rlimit r = {value, value};
  must(!setrlimit(what, &r), "setrlimit");
}

static void refuse(int number, int error) {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program = {sizeof code / sizeof *code, code};
  must(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "seccomp");
}

static size_t address_space() {
  unsigned long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  must(file && fscanf(file, "%lu", &pages) == 1, "statm");
  fclose(file);
  return pages * 4096;
}

/* Calls that the library makes on its own account. What libc or the program needs itself cannot be refused. */
static int number_of(const char *word) {
  static const struct {
    const char *name;
    int number;
  } calls[] = {
#define CALL(name) {#name, SYS_##name}
      CALL(clock_gettime),  CALL(faccessat),     CALL(fallocate),       CALL(fcntl),        CALL(fstat),
      CALL(fstatfs),        CALL(getcwd),        CALL(geteuid),         CALL(getpid),       CALL(gettid),
      CALL(ioctl),          CALL(madvise),       CALL(mkdirat),         CALL(munmap),       CALL(nanosleep),
      CALL(openat),         CALL(ppoll),         CALL(readlinkat),      CALL(rt_sigaction), CALL(tgkill),
      CALL(rt_sigprocmask), CALL(rt_sigpending), CALL(rt_sigtimedwait), CALL(uname),        CALL(unlinkat)};
#undef CALL
  for (const auto &call : calls)
    if (!strncmp(word, call.name, strlen(call.name)) && word[strlen(call.name)] == ',') return call.number;
  must(false, word);
  return -1;
}

/* arguments: what is limited, and "early", before the library wakes, or "late" */
static void restrict_process(const char *what) {
  if (!strncmp(what, "nofile", 6)) limit(RLIMIT_NOFILE, 3);
  if (!strncmp(what, "fsize", 5)) limit(RLIMIT_FSIZE, 0);
  if (!strncmp(what, "as", 2)) limit(RLIMIT_AS, address_space() + (static_cast<rlim_t>(atoi(what + 2)) << 10));
  if (!strncmp(what, "nproc", 5)) limit(RLIMIT_NPROC, 0);
  if (!strncmp(what, "core", 4)) limit(RLIMIT_CORE, 0);
  if (!strncmp(what, "user", 4)) must(!setresgid(65534, 65534, 65534) && !setresuid(65534, 65534, 65534), "setresuid");
  if (!strncmp(what, "root=", 5)) must(!chroot(what + 5) && !chdir("/"), "chroot");
  if (!strncmp(what, "refuse=", 7)) refuse(number_of(what + 7), atoi(strchr(what, ',') + 1));
}

static int limited() {
  void *ptr, *handle = dlopen(runtime, RTLD_LAZY | RTLD_LOCAL), *other = nullptr;
  bool early = !strcmp(words[1], "early");
  if (!handle) return 1;
  *reinterpret_cast<void **>(&take) = nullptr;
  if (!early) load();
  restrict_process(words[0]);
  if (early) load();
  if (pairs(100)) return 2;
  for (int i = 0; i < 3; i++)
    if (take(&ptr, STUB_LIMIT + 1) != STUB_REFUSED) return 3;
  if (pthread_t t; !pthread_create(&t, nullptr, some_pairs, nullptr)) pthread_join(t, nullptr);
  other = dlopen("libcudnn.so.99", RTLD_NOW);
  printf("%s; errno %d\n", other ? "?" : dlerror(), errno);
  fflush(stdout);
  return 6;
}

/* Crashes, stops or ends in ways of its own. argument: how */
static int ends() {
  void *ptr;
  load();
  if (pairs(10) || take(&ptr, STUB_LIMIT + 1) != STUB_REFUSED) return 1;
  printf("ends by %s\n", words[0]);
  fflush(stdout);
  if (!strcmp(words[0], "abort")) abort();
  if (!strcmp(words[0], "_exit")) _exit(4);
  if (!strcmp(words[0], "quick_exit")) quick_exit(5);
  if (!strcmp(words[0], "segv")) *reinterpret_cast<volatile int *>(strlen(words[0])) = 1; // no address of anything
  if (!strcmp(words[0], "term")) raise(SIGTERM);
  if (!strcmp(words[0], "thread_exit")) {
    pthread_t t;
    pthread_create(
        &t, nullptr, [](void *) -> void * { exit(7); }, nullptr);
    for (;;) pause();
  }
  if (!strcmp(words[0], "main_exits")) {
    pthread_t t;
    pthread_create(
        &t, nullptr, [](void *) -> void * { return some_pairs(nullptr); }, nullptr);
    pthread_exit(nullptr);
  }
  return 8;
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    int (*play)();
  } scenes[] = {{"threads", threads},
                {"cancel", cancel},
                {"leave", leave},
                {"coroutines", coroutines},
                {"alarms", alarms_scene},
                {"children", children},
                {"again", again},
                {"daemon", daemon_scene},
                {"processes", processes},
                {"load_loop", load_loop},
                {"load_threads", load_threads},
                {"limited", limited},
                {"ends", ends},
                {"work", work},
                {"elsewhere", elsewhere},
                {"held", held}};
  if (argc < 3) return 99;
  runtime = argv[1];
  words = argv + 3;
  for (const auto &scene : scenes)
    if (!strcmp(argv[2], scene.name)) return scene.play();
  return 99;
}
