/* How a run's logs are put together: which state of the detectors sees which facts, and in which order. The detectors are
 * stand-ins of the test: they write down what they are given, and find something where they see certain facts. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "detector.h"
#include "fact_json.h"
#include "runlog.h"

/* ---- detectors --------------------------------------------------------------------------------------------------- */
enum { STATES = 16 };
static char trail[STATES][1024]; /* of each state, in the order of their first facts: "kind@t ..." */
static unsigned states;

struct state {
  unsigned number; /* 1 + index in trail */
};

size_t det_state_size(void) { return sizeof(struct state); }
uint32_t det_mask(const char *text) { return text ? 2 : 1; }

static void find(struct det_out *out, const struct fact *fact, const char *cause, enum verdict verdict) {
  out->f = (struct finding){.g = 3, .verdict = verdict, .cause = cause, .t = fact->t};
  out->emit(out, &out->f);
}

void det_observe(void *at, uint32_t mask, const struct fact *fact, struct det_out *out) {
  struct state *state = at;
  if (!state->number) state->number = ++states;
  assert_true(states <= STATES);
  char *text = trail[state->number - 1];
  snprintf(text + strlen(text), sizeof trail[0] - strlen(text), "%s%s@%d", *text ? " " : "", fact_kind_word(fact->kind),
           (int)fact->t);
  if (mask != 1) return;
  if (fact->kind == FACT_KIND_alloc_failed) find(out, fact, "pinned_host", VERDICT_WARN);
  if (fact->kind == FACT_KIND_killer) find(out, fact, "collapse", VERDICT_WARN);
  if (fact->kind == FACT_KIND_exit && fact->u.exit.signal == 9) find(out, fact, "collapse", VERDICT_FAIL);
}

/* ---- logs -------------------------------------------------------------------------------------------------------- */
static char folder[] = "/tmp/runlog.XXXXXX";
static char files[16][64];
static unsigned file_count;

static void begin(void) {
  memset(trail, 0, sizeof trail);
  states = 0;
  while (file_count) unlink(files[--file_count]);
}

/* Records: "kind t [fields]" each. */
static void write_log(const char *name, const char *const *records) {
  snprintf(files[file_count], sizeof files[0], "%s/%s.ndjson", folder, name);
  FILE *f = fopen(files[file_count++], "w");
  assert_non_null(f);
  for (; *records; records++) {
    char kind[32], fields[256] = "";
    int t;
    assert_true(sscanf(*records, "%31s %d %255[^\n]", kind, &t, fields) >= 2);
    fprintf(f, "{\"v\":1,\"t\":%d,\"k\":\"%s\"%s%s}\n", t, kind, *fields ? "," : "", fields);
  }
  fclose(f);
}
#define LOG(name, ...) write_log(name, (const char *const[]){__VA_ARGS__, NULL})

#define LAUNCHER(t, pid) "header " #t " \"writer\":\"launcher\",\"host\":\"spark\",\"pid\":" #pid
#define SHIM(t, pid, ppid) "header " #t " \"writer\":\"shim\",\"host\":\"spark\",\"pid\":" #pid ",\"ppid\":" #ppid
#define JOB_START(t, pid) "job_start " #t " \"pid\":" #pid
#define JOB_KILLED(t, pid) "job_end " #t " \"signal\":9,\"pid\":" #pid

static struct runlog run;
static void judge(void) {
  memset(&run, 0, sizeof run);
  assert_int_equal(runlog_read(&run, folder), 0);
  runlog_finish(&run);
}

static const struct process *process(uint64_t pid) {
  for (size_t i = 0; i < run.processes; i++)
    if (run.process[i].pid == pid) return &run.process[i];
  fail_msg("no process %d", (int)pid);
  return NULL;
}

/* Whether some state saw exactly this. */
static void assert_seen(const char *expected) {
  for (unsigned i = 0; i < states; i++)
    if (!strcmp(trail[i], expected)) return;
  for (unsigned i = 0; i < states; i++) print_message("  %s\n", trail[i]);
  fail_msg("no state saw: %s", expected);
}

static size_t findings_shown(enum verdict least) {
  struct finding_ref *refs;
  size_t n = runlog_findings(&run, least, &refs);
  free(refs);
  return n;
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */
static void the_launchers_facts_are_merged_by_time(void **unused) {
  (void)unused;
  begin();
  LOG("a", SHIM(20, 100, 7), "mem 25", "mem 30", "exit 40 \"status\":0");
  LOG("z", LAUNCHER(5, 9), "sample 10", JOB_START(15, 100), "sample 24", "sample 30", "sample 5000000",
      "job_end 5000001");
  judge();
  assert_seen("header@5 sample@10 job_start@15 sample@24 sample@30 sample@5000000 job_end@5000001");
  assert_seen("header@20 mem@25 mem@30 exit@40");
  assert_seen("sample@10 header@20 sample@24 mem@25 sample@30 mem@30 exit@40");
  runlog_free(&run);
}

static void an_exit_waits_for_the_next_look(void **unused) {
  (void)unused;
  begin();
  LOG("a", SHIM(20, 100, 7), "exit 40 \"status\":1", "note 41");
  LOG("l", LAUNCHER(5, 9), "sample 10", JOB_START(15, 100), "sample 900000", "oom_victim 900001", "sample 1000000");
  judge();
  assert_seen("sample@10 header@20 sample@900000 oom_victim@900001 exit@900001 note@900001");
  assert_seen("header@20 exit@40 note@41");
  runlog_free(&run);
}

static void an_end_made_up_comes_last(void **unused) {
  (void)unused;
  begin();
  LOG("a", SHIM(20, 100, 7), "mem 30");
  LOG("l", LAUNCHER(5, 9), JOB_START(15, 100), "sample 60", "oom_victim 61", JOB_KILLED(50, 100));
  judge();
  assert_seen("header@20 mem@30 sample@60 oom_victim@61 exit@61");
  assert_int_equal(process(100)->end, END_JOB);
  runlog_free(&run);
}

static void times_do_not_run_back(void **unused) {
  (void)unused;
  begin();
  LOG("a", SHIM(20, 100, 7), "mem 30", "mem 28", "exit 40");
  LOG("l", LAUNCHER(5, 9), JOB_START(15, 100), "sample 29", "sample 27");
  judge();
  assert_seen("header@20 sample@29 sample@29 mem@30 mem@30 exit@40");
  assert_seen("header@20 mem@30 mem@30 exit@40");
  runlog_free(&run);
}

static void a_stall_concerns_its_process(void **unused) {
  (void)unused;
  begin();
  LOG("a", SHIM(20, 100, 7), "exit 40");
  LOG("b", SHIM(20, 101, 100), "exit 41");
  LOG("l", LAUNCHER(5, 9), JOB_START(15, 100), "stall 30 \"pid\":101", "stall 31 \"pid\":100", "limit 32");
  judge();
  assert_seen("header@20 stall@31 limit@32 exit@40");
  assert_seen("header@20 stall@30 limit@32 exit@41");
  runlog_free(&run);
}

static void another_hosts_launcher_says_nothing(void **unused) {
  (void)unused;
  begin();
  LOG("a", SHIM(20, 100, 7), "exit 40");
  LOG("l", "header 5 \"writer\":\"launcher\",\"host\":\"other\"", JOB_START(15, 100), "sample 30");
  judge();
  assert_int_equal(states, 2); /* the process's and the launcher's */
  assert_seen("header@20 exit@40");
  runlog_free(&run);
}

static void one_launcher_of_several(void **unused) {
  (void)unused;
  begin();
  LOG("a", SHIM(20, 100, 7), "exit 40");
  LOG("b", SHIM(20, 201, 200), "exit 40");
  LOG("c", SHIM(6000020, 100, 8), "exit 6000040");
  LOG("l1", LAUNCHER(5, 9), JOB_START(15, 100), "sample 21", "sample 41", "job_end 42 \"pid\":100");
  LOG("l2", LAUNCHER(6, 10), JOB_START(15, 200), "sample 22", "sample 42", "job_end 43 \"pid\":200");
  LOG("l3", LAUNCHER(6000000, 11), JOB_START(6000010, 300), "sample 6000025");
  judge();
  assert_seen("header@20 sample@21 sample@41 exit@41");
  assert_seen("header@20 sample@22 sample@42 exit@42");
  assert_seen("header@6000020 sample@6000025 exit@6000040");
  runlog_free(&run);
}

static void each_program_of_a_process_begins_anew(void **unused) {
  (void)unused;
  begin();
  LOG("a", SHIM(20, 100, 7), SHIM(50, 100, 7), "exit 60");
  LOG("l", LAUNCHER(5, 9), JOB_START(15, 100), "sample 30", "sample 55");
  judge();
  assert_seen("header@20 sample@30");
  assert_seen("sample@30 header@50 sample@55 exit@60");
  runlog_free(&run);
}

/* What only the launcher saw is no difference to what the library said. */
static void launchers_facts_make_no_difference(void **unused) {
  static const char logged[] = "finding 30 \"g\":3,\"verdict\":\"WARN\",\"cause\":\"pinned_host\",\"object\":\"\"";
  (void)unused;
  begin();
  LOG("a", SHIM(20, 100, 7), "alloc_failed 30", logged, "exit 40");
  LOG("l", LAUNCHER(5, 9), JOB_START(15, 100), "killer 25");
  judge();
  assert_int_equal(process(100)->findings, 2);
  assert_int_equal(process(100)->differences, 0);
  runlog_free(&run);
  begin();
  LOG("a", SHIM(20, 100, 7), "alloc_failed 30", "exit 40");
  LOG("l", LAUNCHER(5, 9), JOB_START(15, 100), "killer 25");
  judge();
  assert_int_equal(process(100)->differences, 1);
  assert_string_equal(process(100)->difference[0].cause, "pinned_host");
  runlog_free(&run);
}

static void what_all_tell_stands_once(void **unused) {
  struct finding_ref *refs;
  (void)unused;
  begin();
  LOG("a", SHIM(20, 100, 7), "alloc_failed 30", "exit 40");
  LOG("b", SHIM(20, 101, 100), "alloc_failed 30", "exit 41");
  LOG("l", LAUNCHER(5, 9), JOB_START(15, 100), "killer 25");
  judge();
  assert_int_equal(findings_shown(VERDICT_WARN), 3); /* each its refusal, and one collapse */
  runlog_free(&run);
  LOG("c", SHIM(20, 102, 100), "mem 30");
  LOG("l", LAUNCHER(5, 9), JOB_START(15, 102), "killer 25", JOB_KILLED(50, 102));
  memset(trail, 0, sizeof trail);
  states = 0;
  judge();
  assert_int_equal(runlog_findings(&run, VERDICT_FAIL, &refs), 1); /* of the process that was killed */
  assert_int_equal(refs[0].process->pid, 102);
  free(refs);
  assert_int_equal(findings_shown(VERDICT_WARN), 3);
  runlog_free(&run);
}

static void a_run_without_a_process_has_the_launchers_word(void **unused) {
  struct finding_ref *refs;
  (void)unused;
  begin();
  LOG("l", LAUNCHER(5, 9), JOB_START(15, 100), "killer 25", JOB_KILLED(50, 100));
  judge();
  assert_int_equal(runlog_findings(&run, VERDICT_WARN, &refs), 1);
  assert_true(refs[0].process->launcher);
  assert_int_equal(refs[0].process->job_pid, 100);
  assert_int_equal(refs[0].finding->f.verdict, VERDICT_WARN);
  free(refs);
  runlog_free(&run);
}

static void strings_are_kept(void **unused) {
  struct fact fact = {.kind = FACT_KIND_holder, .t = 1};
  struct fact_list list = {NULL, 0};
  char name[] = "engine";
  (void)unused;
  fact.u.holder.name = name;
  for (int i = 0; i < 100; i++) assert_true(fact_list_add(&list, &fact));
  strcpy(name, "------");
  assert_int_equal(list.n, 100);
  for (int i = 0; i < 100; i++) assert_string_equal(list.fact[i].u.holder.name, "engine");
  assert_null(list.fact[0].u.holder.argv);
  fact_list_free(&list);
  assert_int_equal(list.n, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_launchers_facts_are_merged_by_time),
      cmocka_unit_test(an_exit_waits_for_the_next_look),
      cmocka_unit_test(an_end_made_up_comes_last),
      cmocka_unit_test(times_do_not_run_back),
      cmocka_unit_test(a_stall_concerns_its_process),
      cmocka_unit_test(another_hosts_launcher_says_nothing),
      cmocka_unit_test(one_launcher_of_several),
      cmocka_unit_test(each_program_of_a_process_begins_anew),
      cmocka_unit_test(launchers_facts_make_no_difference),
      cmocka_unit_test(what_all_tell_stands_once),
      cmocka_unit_test(a_run_without_a_process_has_the_launchers_word),
      cmocka_unit_test(strings_are_kept),
  };
  if (!mkdtemp(folder)) return 1;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  begin();
  rmdir(folder);
  return failed;
}
