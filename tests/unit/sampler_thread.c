/* The library's own thread: when it is made, what it writes, and that it is still when the process ends. The rest of the
 * library is stand-ins. Worth running under ThreadSanitizer. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "linkmap.h"
#include "sampler_thread.h"
#include "shim.h"

/* ---- stand-ins --------------------------------------------------------------------------------------------------------- */
__thread struct shim_thread shim_thread;
struct shim_settings shim_settings;
static unsigned observed, slow_ms;
static bool no_create;

const char *shim_env(const char *name) { return getenv(name); }
void ring_counters(enum alloc_route route, struct ring_counters *out) {
  *out = (struct ring_counters){.live = route == ROUTE_PINNED ? 1000 : 1};
}

static void pause_ms(long ms) {
  struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
  nanosleep(&ts, NULL);
}

void observe(struct fact *fact) {
  const struct fact_sample *s = &fact->u.sample;
  assert_int_equal(fact->kind, FACT_KIND_sample);
  assert_true(sampler_thread_is_this());
  assert_int_equal(shim_thread.busy, 1);
  if (s->job_processes != FACT_NO_U64) { /* not one that was held */
    assert_int_equal(s->job_device, ROUTE_COUNT - 1);
    assert_int_equal(s->job_pinned, 1000);
  }
  pause_ms(slow_ms);
  __atomic_add_fetch(&observed, 1, __ATOMIC_RELEASE);
}

static int refuse(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg) {
  (void)thread, (void)attributes, (void)run, (void)arg;
  return 11; /* EAGAIN */
}

void *linkmap_libc(const char *symbol) {
  int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = refuse;
  if (no_create && !strcmp(symbol, "pthread_create")) return *(void **)&create;
  return dlsym(RTLD_DEFAULT, symbol);
}
void *linkmap_symbol(const char *soname, const char *node, const char *symbol) {
  (void)soname, (void)node, (void)symbol;
  return NULL;
}

/* ---- helpers ----------------------------------------------------------------------------------------------------------- */
static sem_t end;

static void *wait_for_end(void *unused) {
  sem_wait(&end);
  return unused;
}

static unsigned seen(void) { return __atomic_load_n(&observed, __ATOMIC_ACQUIRE); }

static bool appears(unsigned n) {
  for (int ms = 0; ms < 10000 && seen() < n; ms += 10) pause_ms(10);
  return seen() >= n;
}

/* Each test in a process of its own: the thread is there once for a process. */
static void in_child(void (*test)(void)) {
  int status;
  pid_t pid = fork();
  if (pid == 0) {
    alarm(60);
    test();
    _exit(0);
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
}

static void must(bool what, int line) {
  if (!what) _exit(line % 250 + 1);
}
#define MUST(what) must(what, __LINE__)

static void with_another_thread(void) {
  pthread_t other;
  sem_init(&end, 0, 0);
  MUST(!pthread_create(&other, NULL, wait_for_end, NULL));
  shim_settings.thread_on = true;
}

/* ---- tests ------------------------------------------------------------------------------------------------------------- */
static void writes_until_the_end(void) {
  with_another_thread();
  slow_ms = 5;
  sampler_thread_offer();
  pause_ms(50);
  MUST(!seen()); /* nobody has wanted it yet */
  sampler_thread_want();
  sampler_thread_want();
  sampler_thread_offer();
  sampler_thread_offer();
  MUST(appears(2)); /* the first look, and one a second later */
  MUST(!sampler_thread_is_this());
  sampler_thread_rest();
  unsigned before = seen();
  pause_ms(2200);
  MUST(seen() == before);
}

/* While it is in the middle of a look. */
static void rests_during_a_look(void) {
  with_another_thread();
  slow_ms = 3;
  sampler_thread_want();
  sampler_thread_offer();
  sampler_thread_rest();
  unsigned before = seen();
  pause_ms(1500);
  MUST(seen() == before);
}

static void not_where_it_is_off(void) {
  with_another_thread();
  shim_settings.thread_on = false;
  sampler_thread_want();
  sampler_thread_offer();
  shim_settings.thread_on = true;
  setenv("SPARKSHIM_LAUNCHER", "1", 1);
  sampler_thread_want();
  sampler_thread_offer();
  pause_ms(100);
  MUST(!seen());
}

static void not_where_none_can_be_had(void) {
  with_another_thread();
  no_create = true;
  sampler_thread_want();
  sampler_thread_offer();
  no_create = false;
  sampler_thread_offer();
  pause_ms(1200);
  sampler_thread_offer();
  pause_ms(100);
  MUST(!seen());
  sampler_thread_rest();
}

/* Under ThreadSanitizer no process has one thread, and a child of several may start none. */
#ifndef __SANITIZE_THREAD__
static void not_in_a_process_of_one_thread(void) {
  shim_settings.thread_on = true;
  sampler_thread_want();
  sampler_thread_offer();
  pause_ms(100);
  MUST(!seen());
  with_another_thread();
  pause_ms(1000); /* it is not looked for more often */
  sampler_thread_offer();
  MUST(appears(1));
}

static void a_child_has_none_and_may_have_one(void) {
  int status;
  with_another_thread();
  sampler_thread_want();
  sampler_thread_offer();
  MUST(appears(1));
  pid_t pid = fork();
  if (pid == 0) {
    __atomic_store_n(&observed, 0, __ATOMIC_RELEASE);
    sampler_thread_forget();
    pause_ms(1200);
    MUST(!seen());
    with_another_thread();
    sampler_thread_want();
    sampler_thread_offer();
    MUST(appears(1));
    _exit(0);
  }
  waitpid(pid, &status, 0);
  MUST(!status);
}
#endif

#define TEST(name)                         \
  static void test_##name(void **unused) { \
    (void)unused;                          \
    in_child(name);                        \
  }
TEST(writes_until_the_end)
TEST(rests_during_a_look)
TEST(not_where_it_is_off)
TEST(not_where_none_can_be_had)
#ifndef __SANITIZE_THREAD__
TEST(not_in_a_process_of_one_thread)
TEST(a_child_has_none_and_may_have_one)
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_writes_until_the_end),
      cmocka_unit_test(test_rests_during_a_look),
      cmocka_unit_test(test_not_where_it_is_off),
      cmocka_unit_test(test_not_where_none_can_be_had),
#ifndef __SANITIZE_THREAD__
      cmocka_unit_test(test_not_in_a_process_of_one_thread),
      cmocka_unit_test(test_a_child_has_none_and_may_have_one),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
