/* vmstat, pressure, buddyinfo, swaps, and the fact that is made of them: the kernel's texts, and anything else. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "sample.h"

static const char vmstat[] =
    "nr_free_pages 3000000\noom_kill 2\noom_kill_disable 7\npswpin 11\npswpout 12\npgmajfault 13\n"
    "workingset_refault_anon 1\nworkingset_refault_file 14\nallocstall_dma32 1\n"
    "allocstall_normal 20\nallocstall_movable 300\ncompact_stall 2700000\ncompact_fail 1350000\n";

static struct fact_sample none(void) {
  struct fact fact;
  fact_init(&fact, FACT_KIND_sample);
  return fact.u.sample;
}

static void vmstat_gives_the_counters(void **state) {
  (void)state;
  struct fact_sample s = none();
  sample_parse_vmstat(vmstat, strlen(vmstat), &s);
  assert_int_equal(s.oom_kill, 2);
  assert_int_equal(s.pswpin, 11);
  assert_int_equal(s.pswpout, 12);
  assert_int_equal(s.pgmajfault, 13);
  assert_int_equal(s.refault, 14);
  assert_int_equal(s.allocstall, 321);
  assert_int_equal(s.compact_stall, 2700000);
  assert_int_equal(s.compact_fail, 1350000);
}

static void odd_vmstat_is_not_known(void **state) {
  (void)state;
  static const char *const odd[] = {"",
                                    "oom_kill",
                                    "oom_kill \n",
                                    "oom_kill -1\n",
                                    "oom_kil 3\n",
                                    " oom_kill 3\n",
                                    "OOM_KILL 3\n",
                                    "oom_kill 99999999999999999999999\n"};
  for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
    struct fact_sample s = none();
    sample_parse_vmstat(odd[i], strlen(odd[i]), &s);
    assert_true(s.oom_kill == FACT_NO_U64 && s.allocstall == FACT_NO_U64);
  }
}

static void pressure_in_hundredths(void **state) {
  (void)state;
  static const char text[] =
      "some avg10=41.20 avg60=12.30 avg300=4.05 total=123456\nfull avg10=7.80 avg60=2.1 avg300=0 "
      "total=98\n";
  struct sample_pressure p;
  sample_parse_pressure(text, strlen(text), &p);
  assert_int_equal(p.some_avg10, 4120);
  assert_int_equal(p.some_avg60, 1230);
  assert_int_equal(p.some_total, 123456);
  assert_int_equal(p.full_avg10, 780);
  assert_int_equal(p.full_avg60, 210);
  assert_int_equal(p.full_total, 98);
  sample_parse_pressure("some avg10= total=x\nfull", 24, &p);
  assert_true(p.some_avg10 == FACT_NO_U64 && p.some_total == FACT_NO_U64 && p.full_avg10 == FACT_NO_U64);
}

static struct fact_sample blocks(const char *text, uint64_t page_size) {
  struct fact_sample s = none();
  s.page_size = page_size;
  sample_parse_buddyinfo(text, strlen(text), &s);
  return s;
}

static void blocks_by_page_size(void **state) {
  (void)state;
  static const char fresh[] = "Node 0, zone      DMA      1      0      0      0      0      0      0      0      0    "
                              "  0      0      0      0      0\n"
                              "Node 0, zone   Normal   2400   1800   1500   1300   1200   1100   1000    950    900    "
                              "870    850    900   1417    782\n";
  static const char aged[] =
      "Node 0, zone   Normal   2400   1800   1500   1300   1200   1100   1000    950    900    870    "
      "850    900     27      0\n";
  static const char large_pages[] = "Node 0, zone   Normal  5 4 3 2 1 0 0 0 0 7 1 0 0 2\n"; /* 64 KiB << 9 is 32 MiB */
  struct fact_sample s = blocks(fresh, 4096);
  assert_int_equal(s.block_max, 32 << 20);
  assert_int_equal(s.blocks_large, 782);
  s = blocks(aged, 4096);
  assert_int_equal(s.block_max, 16 << 20);
  assert_int_equal(s.blocks_large, 0);
  s = blocks(large_pages, 65536);
  assert_int_equal(s.block_max, UINT64_C(512) << 20);
  assert_int_equal(s.blocks_large, 10);
  s = blocks("Node 0, zone   Normal 9 9 9 9 9 9 9 9 9 9 9\n", 4096); /* orders up to 4 MiB only */
  assert_int_equal(s.block_max, 4 << 20);
  assert_true(s.blocks_large == FACT_NO_U64);
  s = blocks("Node 0, zone Normal 0 0 0\n", 4096);
  assert_int_equal(s.block_max, 0);
  s = blocks("Node 0, zone\nzone 1 2 3\nNode\n\n", 4096);
  assert_true(s.block_max == FACT_NO_U64);
  s = blocks(fresh, FACT_NO_U64);
  assert_true(s.block_max == FACT_NO_U64);
}

static void swap_areas_add_up(void **state) {
  (void)state;
  static const char text[] = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
                             "/swap.img                               file\t\t16777212\t1000\t\t-2\n"
                             "/dev/zram0 partition 1024 24 100\n/swap\\040two file x y\n";
  struct sample_swaps s;
  sample_parse_swaps(text, strlen(text), &s);
  assert_int_equal(s.areas, 2);
  assert_int_equal(s.total, (UINT64_C(16777212) + 1024) * 1024);
  assert_int_equal(s.used, 1024 * 1024);
}

/* A heap copy of just that size: a byte read beyond it is found by the sanitizer build. */
static void mutated_text_is_survived(void **state) {
  (void)state;
  srand(11);
  for (int round = 0; round < 20000; round++) {
    size_t size = (size_t)rand() % sizeof vmstat;
    char *text = malloc(size ? size : 1);
    struct fact_sample s = none();
    struct sample_pressure p;
    struct sample_swaps w;
    memcpy(text, vmstat, size);
    for (int i = rand() % 8; i > 0 && size; i--) text[(size_t)rand() % size] = (char)rand();
    s.page_size = 4096;
    sample_parse_vmstat(text, size, &s);
    sample_parse_buddyinfo(text, size, &s);
    sample_parse_pressure(text, size, &p);
    sample_parse_swaps(text, size, &w);
    free(text);
  }
}

static char root[64];

static void write_below(const char *name, const void *text, size_t size) {
  char path[256];
  snprintf(path, sizeof path, "%s%s", root, name);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fwrite(text, 1, size, f);
  fclose(f);
}

static void put(const char *name, const char *text) { write_below(name, text, strlen(text)); }

static void make_root(void) {
  static const char *const folders[] = {"/proc", "/proc/pressure", "/proc/self"};
  char path[256];
  strcpy(root, "/tmp/sample.XXXXXX");
  assert_non_null(mkdtemp(root));
  for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
    snprintf(path, sizeof path, "%s%s", root, folders[i]);
    assert_int_equal(mkdir(path, 0700), 0);
  }
}

static void remove_root(void) {
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", root);
  assert_int_equal(system(command), 0);
}

static struct fact sample_of(unsigned parts) {
  const int self = getpid();
  struct sample_from from = {
      .root = root, .pid = &self, .pids = 1, .parts = parts, .job_device = 5, .job_pinned = FACT_NO_U64};
  struct fact fact;
  sample_read(&from, "tick", &fact);
  return fact;
}

static void a_machine_below_a_root(void **state) {
  (void)state;
  const uint64_t auxv[] = {3, 7, 6, 65536, 0, 0};
  make_root();
  put("/proc/meminfo", "MemTotal: 127535084 kB\nMemFree: 1000 kB\n");
  put("/proc/vmstat", vmstat);
  put("/proc/pressure/memory", "some avg10=1.00 avg60=0.50 avg300=0.00 total=7\n");
  put("/proc/buddyinfo", "Node 0, zone Normal 0 1\n");
  put("/proc/swaps", "Filename Type Size Used Priority\n/swap file 4096 1024 -2\n");
  write_below("/proc/self/auxv", auxv, sizeof auxv);
  struct fact fact = sample_of(SAMPLE_MACHINE);
  const struct fact_sample *s = &fact.u.sample;
  assert_int_equal(fact.kind, FACT_KIND_sample);
  assert_true(fact.t > UINT64_C(1600000000000000));
  assert_string_equal(s->why, "tick");
  assert_int_equal(s->mem.free, 1000 * 1024);
  assert_int_equal(s->mem.swap_total, 4096 * 1024); /* meminfo does not tell: swaps does */
  assert_int_equal(s->mem.swap_free, 3072 * 1024);
  assert_int_equal(s->oom_kill, 2);
  assert_int_equal(s->some_avg10, 100);
  assert_true(s->full_avg10 == FACT_NO_U64);
  assert_int_equal(s->page_size, 65536);
  assert_int_equal(s->block_max, 131072);
  assert_int_equal(s->job_device, 5);
  assert_true(s->job_pinned == FACT_NO_U64 && s->job_processes == FACT_NO_U64 && s->cgroup_current == FACT_NO_U64);
  remove_root();
}

static void empty_files_tell_nothing(void **state) {
  (void)state;
  static const char *const files[] = {"/proc/meminfo",   "/proc/vmstat",    "/proc/pressure/memory",
                                      "/proc/buddyinfo", "/proc/self/auxv", "/proc/swaps"};
  make_root();
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) put(files[i], "");
  struct fact fact = sample_of(SAMPLE_MACHINE);
  const struct fact_sample *s = &fact.u.sample;
  assert_true(s->mem.total == FACT_NO_U64 && s->oom_kill == FACT_NO_U64 && s->some_avg10 == FACT_NO_U64);
  assert_true(s->block_max == FACT_NO_U64);
  assert_int_equal(s->page_size, (uint64_t)sysconf(_SC_PAGESIZE)); /* the other kernel's is not told: this one's */
  remove_root();
}

static void a_huge_file_is_not_read_to_its_end(void **state) {
  (void)state;
  const size_t size = 8 << 20;
  char *text = malloc(size);
  assert_non_null(text);
  memset(text, 'x', size);
  memcpy(text, "oom_kill 4\n", 11);
  memcpy(text + 6000, "\npswpin 9\n", 10); /* behind a line that is longer than any buffer */
  memcpy(text + (4 << 20), "\npswpout 9\n", 11);
  make_root();
  write_below("/proc/vmstat", text, size);
  struct fact fact = sample_of(SAMPLE_MACHINE);
  assert_int_equal(fact.u.sample.oom_kill, 4);
  assert_int_equal(fact.u.sample.pswpin, 9);
  assert_true(fact.u.sample.pswpout == FACT_NO_U64); /* beyond LINES_BYTES */
  remove_root();
  free(text);
}

static void a_pipe_does_not_hold_up(void **state) {
  (void)state;
  char path[128];
  make_root();
  snprintf(path, sizeof path, "%s/proc/vmstat", root);
  assert_int_equal(mkfifo(path, 0600), 0);
  struct fact fact = sample_of(SAMPLE_MACHINE);
  assert_true(fact.u.sample.oom_kill == FACT_NO_U64);
  remove_root();
}

static void the_job_is_this_process(void **state) {
  (void)state;
#ifdef UNDER_EMULATOR
  skip();
#endif
  const size_t size = 64 << 20;
  char *memory = malloc(size);
  assert_non_null(memory);
  struct fact before = sample_of(SAMPLE_JOB);
  memset(memory, 1, size);
  struct fact after = sample_of(SAMPLE_JOB);
  assert_int_equal(after.u.sample.job_processes, 1);
  assert_int_equal(after.u.sample.job_threads, 1);
  assert_in_range(after.u.sample.job_anon - before.u.sample.job_anon, size - (1 << 20), size + (8 << 20));
  assert_true(after.u.sample.mem.total == FACT_NO_U64);
  free(memory);
}

static void anonymous_memory(uint64_t bytes) {
  char text[128];
  snprintf(text, sizeof text, "MemTotal: 127535084 kB\nMemFree: 1000 kB\nAnonPages: %llu kB\n",
           (unsigned long long)bytes / 1024);
  put("/proc/meminfo", text);
}

/* A forked process counts the pages that it shares with its parent as its own. */
static void shared_pages_count_once(void **state) {
  (void)state;
  const size_t size = 64 << 20;
  char *memory = malloc(size);
  int pipes[2], pid[2] = {getpid(), 0};
  char c;
  assert_non_null(memory);
  memset(memory, 1, size);
  assert_int_equal(pipe(pipes), 0);
  pid[1] = fork();
  if (!pid[1]) {
    close(pipes[1]);
    _exit(read(pipes[0], &c, 1) != 0);
  }
  struct sample_from from = {.root = root, .pid = pid, .pids = 2, .parts = SAMPLE_MACHINE | SAMPLE_JOB};
  struct fact fact;
  make_root();
  anonymous_memory(UINT64_C(1) << 40);
  sample_read(&from, "tick", &fact);
  const uint64_t sum = fact.u.sample.job_anon;
  assert_in_range(sum, 2 * size, 20 * size);
  anonymous_memory(sum / 4 * 3); /* the sum cannot be right */
  from.parts |= SAMPLE_SHARES;
  sample_read(&from, "tick", &fact);
  assert_in_range(fact.u.sample.job_anon, size, sum / 4 * 3);
  anonymous_memory(sum + (64 << 20)); /* it can be: nothing dear is read */
  sample_read(&from, "tick", &fact);
  assert_in_range(fact.u.sample.job_anon, sum, sum + (32 << 20));
  remove_root();
  close(pipes[1]);
  waitpid(pid[1], NULL, 0);
  close(pipes[0]);
  free(memory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(vmstat_gives_the_counters),
      cmocka_unit_test(odd_vmstat_is_not_known),
      cmocka_unit_test(pressure_in_hundredths),
      cmocka_unit_test(blocks_by_page_size),
      cmocka_unit_test(swap_areas_add_up),
      cmocka_unit_test(mutated_text_is_survived),
      cmocka_unit_test(a_machine_below_a_root),
      cmocka_unit_test(empty_files_tell_nothing),
      cmocka_unit_test(a_huge_file_is_not_read_to_its_end),
      cmocka_unit_test(a_pipe_does_not_hold_up),
      cmocka_unit_test(the_job_is_this_process),
      cmocka_unit_test(shared_pages_count_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
