/* thread_job.c - a CUDA program with threads, which does what its words say with everything that a further thread in its process
 * could disturb. It prints what happens, without ids, so that two runs can be compared.
 *
 *   cuda            a context and an allocation       meminfo         asks for free memory
 *   thread          starts a thread that waits for the end
 *   pass:S          S seconds of simulated time       wait:MS         real time
 *   destructors     a thread comes and goes that has thread-specific data and a thread-local object with destructors
 *   atexit          something to say at the end
 *   sigwait         a signal to the process, blocked in all threads, is waited for
 *   handler         a signal to the process is handled
 *   setuid          changes to the user that it has, in all threads
 *   fork, vfork     a child that does something and ends; `fork` uses CUDA in it
 *   exec            becomes `true`
 *   nproc           no further process or thread can be had
 *   close           closes its standard files        closeerr        puts another file in the place of standard error
 *   mark:NAME       passes a mark of the scenario
 *   exit:N, _exit:N, kill:N
 *   leave           the main thread leaves; the waiting thread ends a while later
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cuda_runtime_api.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int leaving;
static pthread_key_t key;

static void pause_ms(long ms) {
  struct timespec ts = {ms / 1000, ms % 1000 * 1000000};
  while (nanosleep(&ts, &ts)) {
  }
}

static void pass(double seconds) {
  void (*advance)(unsigned long long) = (void (*)(unsigned long long))dlsym(RTLD_DEFAULT, "gb10sim_advance");
  if (advance) advance((unsigned long long)(seconds * 1e6));
}

static void use_cuda(void) {
  void *p = NULL;
  printf("cudaMalloc -> %d\n", (int)cudaMalloc(&p, 64 << 20));
  printf("cudaFree -> %d\n", (int)cudaFree(p));
}

static void ask(void) {
  size_t free_bytes, total;
  printf("cudaMemGetInfo -> %d\n", (int)cudaMemGetInfo(&free_bytes, &total));
}

static void *wait_for_end(void *unused) {
  pthread_mutex_lock(&lock);
  while (!leaving) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
  pause_ms(50);
  printf("the other thread ends\n");
  return unused;
}

static void start_thread(void) {
  pthread_t thread;
  printf("pthread_create -> %d\n", pthread_create(&thread, NULL, wait_for_end, NULL));
  pthread_detach(thread);
}

static void say_value(void *value) { printf("destructor of %s\n", (const char *)value); }

static void *come_and_go(void *value) {
  pthread_setspecific(key, value);
  ask();
  return value;
}

static void destructors(void) {
  static char word[] = "a thread's data";
  pthread_t thread;
  void *result;
  pthread_key_create(&key, say_value);
  int rc = pthread_create(&thread, NULL, come_and_go, word);
  pthread_join(thread, &result);
  printf("pthread_create -> %d, joined: %s\n", rc, (const char *)result);
}

static void at_end(void) { printf("at exit\n"); }

static void on_signal(int signal) { (void)signal; }

static void wait_for_signal(void) {
  sigset_t set;
  int got = 0;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  kill(getpid(), SIGUSR1);
  pause_ms(20);
  sigwait(&set, &got);
  printf("got signal %d\n", got);
}

static void handle_signal(void) {
  struct sigaction act = {.sa_handler = on_signal};
  struct timespec second = {1, 0};
  sigaction(SIGUSR2, &act, NULL);
  kill(getpid(), SIGUSR2);
  printf("interrupted: %d\n", nanosleep(&second, NULL) == 0);
}

static void change_user(void) { printf("setresuid -> %d\n", setresuid(getuid(), getuid(), getuid())); }

static void run_child(int plain) {
  int status = 0;
  fflush(stdout);
  pid_t pid = plain ? fork() : vfork();
  if (pid == 0) {
    if (!plain) {
      execl("/bin/false", "false", (char *)NULL);
      _exit(9);
    }
    use_cuda();
    ask();
    pass(3);
    exit(7);
  }
  waitpid(pid, &status, 0);
  printf("child: %d\n", status);
}

static void leave(void) {
  pthread_mutex_lock(&lock);
  leaving = 1;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&lock);
  pthread_exit(NULL);
}

static void become_true(void) {
  fflush(stdout);
  execl("/bin/true", "true", (char *)NULL);
}

static void start_no_more(void) {
  const struct rlimit none = {1, 1};
  pthread_t thread;
  setrlimit(RLIMIT_NPROC, &none);
  printf("pthread_create fails: %d\n", pthread_create(&thread, NULL, wait_for_end, NULL) != 0);
}

static void close_all(void) {
  fflush(stdout);
  for (int fd = 0; fd <= 2; fd++) close(fd);
}

static void replace_stderr(void) {
  close(2);
  if (open("/dev/null", O_WRONLY) != 2) exit(9);
}

static void pass_mark(const char *name) {
  void (*mark)(const char *) = (void (*)(const char *))dlsym(RTLD_DEFAULT, "gb10sim_mark");
  if (mark) mark(name);
}

static void do_word(const char *word) {
  const char *colon = strchr(word, ':');
  int n = colon ? atoi(colon + 1) : 0;
  if (!strcmp(word, "cuda")) use_cuda();
  if (!strcmp(word, "meminfo")) ask();
  if (!strcmp(word, "thread")) start_thread();
  if (!strncmp(word, "pass:", 5)) pass(n);
  if (!strncmp(word, "wait:", 5)) pause_ms(n);
  if (!strcmp(word, "destructors")) destructors();
  if (!strcmp(word, "atexit")) atexit(at_end);
  if (!strcmp(word, "sigwait")) wait_for_signal();
  if (!strcmp(word, "handler")) handle_signal();
  if (!strcmp(word, "setuid")) change_user();
  if (!strcmp(word, "fork")) run_child(1);
  if (!strcmp(word, "vfork")) run_child(0);
  if (!strcmp(word, "exec")) become_true();
  if (!strcmp(word, "nproc")) start_no_more();
  if (!strcmp(word, "close")) close_all();
  if (!strcmp(word, "closeerr")) replace_stderr();
  if (!strncmp(word, "mark:", 5)) pass_mark(colon + 1);
  if (!strncmp(word, "exit:", 5)) exit(n);
  if (!strncmp(word, "_exit:", 6)) fflush(stdout), _exit(n);
  if (!strncmp(word, "kill:", 5)) fflush(stdout), kill(getpid(), n), pause();
  if (!strcmp(word, "leave")) leave();
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) do_word(argv[i]);
  return 0;
}
