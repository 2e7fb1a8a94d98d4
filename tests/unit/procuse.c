/* /proc/<pid>/status, stat, io, smaps_rollup: the kernel's texts, odd names, and anything else. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "fact.h"
#include "procuse.h"

static const char status[] =
    "Name:\tVLLM::EngineCor\nState:\tS (sleeping)\nPid:\t4242\nPPid:\t1\nUid:\t1000\t0\t1000\t1000\n"
    "VmRSS:\t  900 kB\nRssAnon:\t  400 kB\nRssFile:\t  300 kB\nRssShmem:\t  200 kB\nVmSwap:\t    50 kB\n"
    "Threads:\t17\n";
static const char stat[] = "4242 (a) (b 1) S 7 4242 4241 0 -1 4194304 1 2 3 4 150 50 9 9 20 0 17 0 8800 1 2 3\n";

static void status_is_read(void **state) {
  (void)state;
  struct procuse u;
  procuse_clear(&u);
  procuse_parse_status(status, strlen(status), &u);
  assert_string_equal(u.name, "VLLM::EngineCor");
  assert_int_equal(u.uid, 1000);
  assert_int_equal(u.anon, 400 * 1024);
  assert_int_equal(u.file, 300 * 1024);
  assert_int_equal(u.shmem, 200 * 1024);
  assert_int_equal(u.swap, 50 * 1024);
  assert_int_equal(u.threads, 17);
}

static void stat_is_read(void **state) {
  (void)state;
  struct procuse u;
  procuse_clear(&u);
  assert_int_equal(procuse_parse_stat(stat, strlen(stat), &u), 0);
  assert_string_equal(u.name, "a) (b 1");
  assert_int_equal(u.state, 'S');
  assert_int_equal(u.ppid, 7);
  assert_int_equal(u.session, 4241);
  assert_int_equal(u.cpu, 2000000);
  assert_int_equal(u.threads, 17);
  assert_int_equal(u.start, 8800);
}

static void odd_stat_is_refused(void **state) {
  (void)state;
  static const char *const odd[] = {
      "",       "1",       "1 (",           "1 (a",          "1 (a)",
      "1 (a) ", "1 (a) S", "1 (a) S 1 2 3", "1 )a( S 1 2 3", "1 (a) S x 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19"};
  for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
    struct procuse u;
    procuse_clear(&u);
    assert_int_equal(procuse_parse_stat(odd[i], strlen(odd[i]), &u), -22);
    assert_true(u.state == '?' && u.cpu == FACT_NO_U64 && !u.name[0]);
  }
}

static void odd_status_is_not_known(void **state) {
  (void)state;
  static const char *const odd[] = {"RssAnon:\n",
                                    "RssAnon:\tx kB\n",
                                    "RssAnon: 12\n",
                                    "RssAnon: 12 MB\n",
                                    "rssanon: 12 kB\n",
                                    "RssAnon: 99999999999999999999 kB",
                                    "Name:"};
  for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
    struct procuse u;
    procuse_clear(&u);
    procuse_parse_status(odd[i], strlen(odd[i]), &u);
    assert_true(u.anon == FACT_NO_U64 && !u.name[0]);
  }
}

static void io_and_shares(void **state) {
  (void)state;
  static const char io[] = "rchar: 9\nwchar: 8\nsyscr: 7\nread_bytes: 4096\nwrite_bytes: 1\n";
  static const char rollup[] =
      "5581-7ffc ---p 00000000 00:00 0    [rollup]\nRss:  10 kB\nPss:  9 kB\nPss_Anon:   6 kB\n"
      "Pss_File:  1 kB\nPss_Shmem:  2 kB\n";
  struct procuse u;
  uint64_t anon, shmem;
  procuse_clear(&u);
  procuse_parse_io(io, strlen(io), &u);
  assert_int_equal(u.read, 4096);
  procuse_parse_share(rollup, strlen(rollup), &anon, &shmem);
  assert_int_equal(anon, 6 * 1024);
  assert_int_equal(shmem, 2 * 1024);
}

static void this_process(void **state) {
  (void)state;
#ifdef UNDER_EMULATOR
  skip();
#endif
  struct procuse u, thread;
  uint64_t anon, shmem;
  char command[256];
  assert_int_equal(procuse_read(NULL, getpid(), &u), 0);
  assert_int_equal(u.ppid, getppid());
  assert_int_equal(u.session, getsid(0));
  assert_int_equal(u.uid, getuid());
  assert_int_equal(u.threads, 1);
  assert_string_equal(u.name, "unit_procuse");
  assert_int_equal(procuse_thread(NULL, getpid(), getpid(), &thread), 0);
  assert_int_equal(thread.start, u.start);
  assert_int_equal(thread.state, 'R');
  assert_int_equal(procuse_share(NULL, 0, &anon, &shmem), 0);
  assert_in_range(anon, 1, u.anon + (1 << 20));
  assert_in_range(procuse_command(NULL, 0, command, sizeof command), 1, sizeof command);
  assert_non_null(strstr(command, "unit_procuse"));
}

static void nobody(void **state) {
  (void)state;
  struct procuse u;
  assert_true(procuse_read(NULL, 2147483647, &u) < 0);
  assert_true(procuse_thread(NULL, getpid(), -1, &u) < 0);
  assert_true(procuse_thread(NULL, getpid(), 2147483647, &u) < 0);
  assert_true(u.anon == FACT_NO_U64 && u.ppid == -1);
}

static void mutated_text_is_survived(void **state) {
  (void)state;
  srand(3);
  for (int round = 0; round < 20000; round++) {
    const char *from = round & 1 ? status : stat;
    size_t size = (size_t)rand() % strlen(from);
    char *text = malloc(size ? size : 1);
    struct procuse u;
    uint64_t anon, shmem;
    memcpy(text, from, size);
    for (int i = rand() % 8; i > 0 && size; i--) text[(size_t)rand() % size] = (char)rand();
    procuse_clear(&u);
    procuse_parse_status(text, size, &u);
    procuse_parse_stat(text, size, &u);
    procuse_parse_io(text, size, &u);
    procuse_parse_share(text, size, &anon, &shmem);
    assert_true(strlen(u.name) < sizeof u.name);
    free(text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(status_is_read),
      cmocka_unit_test(stat_is_read),
      cmocka_unit_test(odd_stat_is_refused),
      cmocka_unit_test(odd_status_is_not_known),
      cmocka_unit_test(io_and_shares),
      cmocka_unit_test(this_process),
      cmocka_unit_test(nobody),
      cmocka_unit_test(mutated_text_is_survived),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
