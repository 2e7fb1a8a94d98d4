/* observe(): what goes to the log, what to stderr, and how often. The sinks and the detectors are stand-ins. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "detector.h"
#include "sinks.h"

struct shim_settings shim_settings;

const char *shim_env(const char *name) { return getenv(name); }

/* ---- stand-ins --------------------------------------------------------------------------------------------------- */
enum { RECORDS = 4096 };
static char records[RECORDS][1024];
static unsigned n_records, n_lines, n_left, notes_overflow;
static uint64_t dropped;
static char last_line[512];
static uint64_t judged_t;
static struct finding said; /* what the detector says to every fact but the header */
static bool speaks, stderr_taken;

int log_open(const char *run, uint64_t start) {
  (void)run, (void)start;
  return -1;
}
const char *log_stem(void) { return ""; }
void log_write(const char *record, size_t size, bool essential) {
  unsigned n = __atomic_fetch_add(&n_records, 1, __ATOMIC_RELAXED);
  (void)essential;
  if (n < RECORDS)
    snprintf(records[n], sizeof records[n], "%.*s", (int)size, record);
  else
    notes_overflow++;
}
uint64_t log_take_dropped(void) {
  uint64_t n = dropped;
  dropped = 0;
  return n;
}
void ring_open(int dir, const char *stem, const char **ret_name) {
  (void)dir, (void)stem;
  *ret_name = NULL;
}
void ring_renew_pair(uint64_t us) { (void)us; }
bool ring_take_lost(void) { return false; }
void ring_leave(void) { n_left++; }
void line_open(void) {}
const char *line_write(const struct finding *f) {
  if (!stderr_taken) return NULL;
  n_lines++;
  finding_line(f, false, last_line, sizeof last_line);
  return "5:77";
}
size_t det_state_size(void) { return 64; }
void det_observe(void *state, uint32_t mask, const struct fact *fact, struct det_out *out) {
  (void)mask;
  assert_true(fact->t >= judged_t); /* what detectors are promised */
  judged_t = fact->t;
  if (fact->kind == FACT_KIND_header) {
    assert_int_equal(*(uint64_t *)state, 0);
    return;
  }
  ++*(uint64_t *)state;
  said.t = fact->t;
  if (speaks) out->emit(out, &said);
}

/* ---- helpers ------------------------------------------------------------------------------------------------------ */
static int begin(void **state) {
  (void)state;
  n_records = n_lines = n_left = 0;
  dropped = judged_t = 0;
  memset(records, 0, sizeof records);
  said = (struct finding){.g = 3, .verdict = VERDICT_WARN, .cause = "oversize_request", .object = "a", .text = "said"};
  speaks = stderr_taken = true;
  sinks_open();
  n_records = 0;
  return 0;
}

/* In the year 2096, behind the header's own time. 0: now. */
#define LATER UINT64_C(4000000000000000)

static void fact_at(enum fact_kind kind, uint64_t t) {
  struct fact fact = {.kind = kind, .t = t ? LATER + t : 0};
  observe(&fact);
}

static unsigned findings(void) {
  unsigned n = 0;
  for (unsigned i = 0; i < n_records; i++) n += strstr(records[i], "\"k\":\"finding\"") != NULL;
  return n;
}

static const char *last_record(void) { return records[n_records - 1]; }

/* ---- tests --------------------------------------------------------------------------------------------------------- */
static void the_fact_comes_before_its_finding(void **state) {
  (void)state;
  fact_at(FACT_KIND_device, 100);
  assert_int_equal(n_records, 2);
  assert_non_null(strstr(records[0], "\"k\":\"device\""));
  assert_non_null(strstr(records[1], "\"k\":\"finding\""));
  assert_string_equal(last_line, "G3 WARN: said");
}

static void once_on_stderr_and_counted_in_the_log(void **state) {
  (void)state;
  for (uint64_t i = 1; i <= 10; i++) fact_at(FACT_KIND_device, i);
  assert_int_equal(n_lines, 1);
  assert_int_equal(findings(), 4); /* 1, 2, 4, 8 */
  assert_non_null(strstr(records[1], "\"count\":1,\"last\":4000000000000001,\"shown\""));
  speaks = false;
  fact_at(FACT_KIND_exit, 50);
  assert_int_equal(findings(), 5);
  assert_non_null(strstr(last_record(), "\"t\":4000000000000001,"));
  assert_non_null(strstr(last_record(), "\"count\":10,\"last\":4000000000000010}"));
  assert_int_equal(n_lines, 1);
  assert_int_equal(n_left, 1);
}

/* The launcher leaves out what stands there already: a record may say so only of the line that was put with it. */
static void only_a_line_that_was_put_is_shown(void **state) {
  (void)state;
  fact_at(FACT_KIND_device, 1);
  assert_non_null(strstr(last_record(), "\"verdict\":\"WARN\""));
  assert_non_null(strstr(last_record(), "\"shown\":\"5:77\"}"));
  fact_at(FACT_KIND_device, 2);
  assert_null(strstr(last_record(), "shown"));
  said.verdict = VERDICT_INFO;
  fact_at(FACT_KIND_device, 3);
  assert_null(strstr(last_record(), "shown"));
  said.verdict = VERDICT_FAIL;
  stderr_taken = false;
  fact_at(FACT_KIND_exit, 4);
  assert_non_null(strstr(last_record(), "\"verdict\":\"FAIL\""));
  assert_null(strstr(last_record(), "shown"));
}

static void another_object_is_another_finding(void **state) {
  (void)state;
  fact_at(FACT_KIND_device, 1);
  strcpy(said.object, "b");
  fact_at(FACT_KIND_device, 2);
  said.cause = "alloc_refused_exhausted";
  fact_at(FACT_KIND_device, 3);
  said.g = 6;
  fact_at(FACT_KIND_device, 4);
  assert_int_equal(n_lines, 4);
  assert_int_equal(findings(), 4);
}

static void worse_is_printed_better_is_only_logged(void **state) {
  (void)state;
  fact_at(FACT_KIND_device, 1);
  said.verdict = VERDICT_INFO;
  fact_at(FACT_KIND_device, 2);
  assert_int_equal(n_lines, 1);
  assert_int_equal(findings(), 2);
  assert_non_null(strstr(last_record(), "\"verdict\":\"INFO\""));
  said.verdict = VERDICT_WARN; /* as bad as it was: stderr has it */
  fact_at(FACT_KIND_device, 3);
  assert_int_equal(n_lines, 1);
  said.verdict = VERDICT_FAIL;
  fact_at(FACT_KIND_exit, 4);
  assert_int_equal(n_lines, 2);
  assert_string_equal(last_line, "G3 FAIL: said");
  assert_int_equal(findings(), 4);
}

static void end_with(int64_t status) {
  struct fact fact = {.kind = FACT_KIND_exit, .t = LATER + 9};
  fact.u.exit.status = status;
  observe(&fact);
}

/* A warning that was taken back still stands on stderr. */
static void a_process_that_ends_well_answers_its_warnings(void **state) {
  for (int64_t status = 0; status < 2; status++) {
    begin(state);
    fact_at(FACT_KIND_device, 1);
    strcpy(said.object, "b"); /* this one is not taken back */
    fact_at(FACT_KIND_device, 2);
    strcpy(said.object, "c"); /* this one never was a warning */
    said.verdict = VERDICT_INFO;
    fact_at(FACT_KIND_device, 3);
    strcpy(said.object, "a");
    fact_at(FACT_KIND_device, 4);
    speaks = false;
    end_with(status);
    assert_int_equal(n_lines, status ? 3 : 4);
    assert_string_equal(last_line, "G3 INFO: said");
  }
}

static void what_is_printed(void **state) {
  (void)state;
  static const struct {
    enum verdict verdict;
    unsigned lines;
  } table[] = {{VERDICT_PASS, 0}, {VERDICT_SKIP, 0}, {VERDICT_INFO, 1}, {VERDICT_WARN, 1}, {VERDICT_FAIL, 1}};
  for (size_t i = 0; i < 5; i++) {
    begin(state);
    said.verdict = table[i].verdict;
    fact_at(FACT_KIND_device, 1);
    assert_int_equal(n_lines, table[i].lines);
    assert_int_equal(findings(), 1);
  }
}

static void more_findings_than_are_told_apart(void **state) {
  (void)state;
  for (unsigned i = 0; i < 200; i++) {
    snprintf(said.object, sizeof said.object, "%u", i);
    fact_at(FACT_KIND_device, i + 1);
  }
  assert_int_equal(findings(), 200);
  assert_true(n_lines < 200);
}

static void times_do_not_run_back(void **state) {
  (void)state;
  fact_at(FACT_KIND_device, 100);
  fact_at(FACT_KIND_device, 50); /* checked in det_observe */
  assert_int_equal(judged_t, LATER + 100);
  assert_non_null(strstr(records[2], "\"t\":4000000000000050,")); /* the log has its own time */
}

static void what_was_lost_is_said_at_the_end(void **state) {
  (void)state;
  speaks = false;
  dropped = 17;
  fact_at(FACT_KIND_exit, 1);
  assert_non_null(strstr(last_record(), "17 records are missing"));
}

static void a_forked_child_begins_anew(void **state) {
  (void)state;
  fact_at(FACT_KIND_device, 1);
  judged_t = 0;
  sinks_open(); /* det_observe checks that the state is fresh */
  fact_at(FACT_KIND_device, 2);
  assert_int_equal(n_lines, 2);
}

static void *observer(void *arg) {
  (void)arg;
  for (int i = 0; i < 200; i++) fact_at(FACT_KIND_device, 0);
  return NULL;
}

static void many_threads_lose_nothing(void **state) {
  (void)state;
  enum { THREADS = 8 };
  pthread_t threads[THREADS];
  for (unsigned i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, observer, NULL), 0);
  for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  assert_int_equal(notes_overflow, 0);
  assert_int_equal(n_records - findings(), THREADS * 200);
  assert_int_equal(n_lines, 1);
  for (unsigned i = 0; i < n_records; i++) assert_int_equal(records[i][strlen(records[i]) - 1], '\n');
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(the_fact_comes_before_its_finding, begin),
      cmocka_unit_test_setup(once_on_stderr_and_counted_in_the_log, begin),
      cmocka_unit_test_setup(only_a_line_that_was_put_is_shown, begin),
      cmocka_unit_test_setup(another_object_is_another_finding, begin),
      cmocka_unit_test_setup(worse_is_printed_better_is_only_logged, begin),
      cmocka_unit_test_setup(a_process_that_ends_well_answers_its_warnings, begin),
      cmocka_unit_test_setup(what_is_printed, begin),
      cmocka_unit_test_setup(more_findings_than_are_told_apart, begin),
      cmocka_unit_test_setup(times_do_not_run_back, begin),
      cmocka_unit_test_setup(what_was_lost_is_said_at_the_end, begin),
      cmocka_unit_test_setup(a_forked_child_begins_anew, begin),
      cmocka_unit_test_setup(many_threads_lose_nothing, begin),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
