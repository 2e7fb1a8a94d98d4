/* The client of the NVML helper, against helpers that answer, are slow, hang, die, are cut short or talk nonsense. This
 * program, started again by the client, is the helper: $FAKE says which one. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "clock.h"
#include "nvml_client.h"

static const size_t head = offsetof(struct nvml_answer, process);

static void put(const void *data, size_t n) {
  if (write(STDOUT_FILENO, data, n) != (ssize_t)n) _exit(1);
}

/* In the environment of the helper nothing of a run may stand. */
static bool fake_environment(void) {
  const char *off = getenv("SPARKSHIM");
  return !getenv("SPARKSHIM_RUN") && !getenv("SPARKSHIM_LAUNCHER") && off && !strcmp(off, "0");
}

static int fake_helper(void) {
  static struct nvml_answer a = {.n = 2, .compute = 1, .graphics = 1};
  const char *how = getenv("FAKE");
  char question;
  sigset_t mask;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (!strcmp(how, "stubborn")) signal(SIGTERM, SIG_IGN);
  a.process[0].pid = 4242;
  a.process[0].bytes = fake_environment();
  a.process[1].pid = 17;
  sigprocmask(SIG_SETMASK, NULL, &mask);
  a.process[1].bytes = (uint64_t)sigismember(&mask, SIGTERM);
  memset(a.process[1].name, 'x', NVML_NAME); /* without an end */
  while (read(STDIN_FILENO, &question, 1) == 1) {
    if (!strcmp(how, "dies")) return 3;
    if (!strcmp(how, "hangs") || !strcmp(how, "stubborn")) pause();
    if (!strcmp(how, "slow")) usleep(200000);
    if (!strcmp(how, "garbage")) memset(&a, 0xee, sizeof a);
    if (!strcmp(how, "short")) return put(&a, head + 10), 0;
    put(&a, 3); /* in two pieces */
    put((char *)&a + 3, head - 3 + 2 * sizeof a.process[0]);
  }
  return 0;
}

static struct nvml_client client(const char *how) {
  struct nvml_client c = NVML_CLIENT_NONE;
  setenv("FAKE", how, 1);
  setenv("SPARKSHIM_RUN", "r", 1);
  setenv("SPARKSHIM_LAUNCHER", "1", 1);
  return c;
}

static void answers(void **state) {
  (void)state;
  struct nvml_client c = client("answers");
  assert_int_equal(nvml_take(&c, 0), NVML_IDLE);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(nvml_ask(&c), 0);
    assert_true(c.asked != 0);
    assert_int_equal(nvml_take(&c, 5000), NVML_ANSWERED);
    assert_int_equal(c.answer.n, 2);
    assert_int_equal(c.answer.process[0].pid, 4242);
    assert_int_equal(c.answer.process[0].bytes, 1); /* its environment is clean */
    assert_int_equal(c.answer.process[1].bytes, 0); /* no signal is blocked in it */
    assert_int_equal(strlen(c.answer.process[1].name), NVML_NAME - 1);
    assert_string_equal(c.answer.error, "");
    assert_int_equal(nvml_take(&c, 0), NVML_IDLE);
  }
  pid_t helper = c.pid;
  nvml_end(&c);
  assert_int_equal(kill(helper, 0), -1);
}

static void slow_ones_are_waited_for(void **state) {
  (void)state;
  struct nvml_client c = client("slow");
  assert_int_equal(nvml_ask(&c), 0);
  pid_t helper = c.pid;
  assert_int_equal(nvml_take(&c, 0), NVML_WAITING);
  assert_int_equal(nvml_ask(&c), 0); /* asked already: nothing more is sent */
  assert_int_equal(nvml_take(&c, 5000), NVML_ANSWERED);
  assert_int_equal(c.pid, helper);
  nvml_end(&c);
}

static uint64_t seconds_of(void (*f)(struct nvml_client *c), struct nvml_client *c) {
  struct timespec from, to;
  clock_gettime(CLOCK_MONOTONIC, &from);
  f(c);
  clock_gettime(CLOCK_MONOTONIC, &to);
  return (uint64_t)(to.tv_sec - from.tv_sec);
}

static void hanging_ones_cost_no_time(void **state) {
  static const char *const how[] = {"hangs", "stubborn"};
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct nvml_client c = client(how[i]);
    assert_int_equal(nvml_ask(&c), 0);
    assert_int_equal(nvml_take(&c, 50), NVML_WAITING);
    assert_true(clock_us() >= c.asked);
    pid_t helper = c.pid;
    assert_in_range(seconds_of(nvml_end, &c), 0, 1);
    assert_int_equal(kill(helper, 0), -1);
    assert_int_equal(c.pid, 0);
    setenv("FAKE", "answers", 1);
    assert_int_equal(nvml_ask(&c), 0); /* as new */
    assert_int_equal(nvml_take(&c, 5000), NVML_ANSWERED);
    nvml_end(&c);
  }
}

static void what_is_no_answer(void **state) {
  static const char *const how[] = {"dies", "garbage", "short"};
  (void)state;
  for (int i = 0; i < 3; i++) {
    struct nvml_client c = client(how[i]);
    assert_int_equal(nvml_ask(&c), 0);
    assert_int_equal(nvml_take(&c, 5000), NVML_ANSWERED);
    assert_int_equal(c.answer.n, 0);
    assert_int_equal(c.answer.result, -1);
    assert_string_not_equal(c.answer.error, "");
    assert_int_equal(c.pid, 0);
    nvml_end(&c);
  }
}

/* By hand, as anybody could. A pid of 0 would be this test's whole process group, and who runs it. */
static void kill_helper(const struct nvml_client *c) {
  assert_true(c->pid > 1);
  kill(c->pid, SIGKILL);
}

/* The launcher's loop reaps whatever ends. */
static void somebody_else_reaps_it(void **state) {
  (void)state;
  struct nvml_client c = client("dies");
  int status;
  assert_int_equal(nvml_ask(&c), 0);
  assert_int_equal(waitpid(-1, &status, 0), c.pid);
  assert_int_equal(nvml_take(&c, 5000), NVML_ANSWERED);
  assert_string_not_equal(c.answer.error, "");
  assert_int_equal(nvml_ask(&c), 0);
  kill_helper(&c);
  assert_int_equal(waitpid(-1, &status, 0), c.pid);
  nvml_end(&c);
}

static void no_signal_for_a_question_to_the_dead(void **state) {
  (void)state;
  struct nvml_client c = client("answers");
  assert_int_equal(nvml_ask(&c), 0);
  assert_int_equal(nvml_take(&c, 5000), NVML_ANSWERED);
  kill_helper(&c);
  waitpid(c.pid, NULL, 0);
  assert_int_equal(nvml_ask(&c), 0); /* SIGPIPE would end this program */
  assert_int_equal(nvml_take(&c, 5000), NVML_ANSWERED);
  assert_string_not_equal(c.answer.error, "");
  nvml_end(&c);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(answers),
      cmocka_unit_test(slow_ones_are_waited_for),
      cmocka_unit_test(hanging_ones_cost_no_time),
      cmocka_unit_test(what_is_no_answer),
      cmocka_unit_test(somebody_else_reaps_it),
      cmocka_unit_test(no_signal_for_a_question_to_the_dead),
  };
  if (argc > 1 && !strcmp(argv[1], NVML_HELPER_VERB)) return fake_helper();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
