/* What the launcher finds while a job runs: the test is the job. It writes its own log and the launcher's records, brings its
 * own detectors, and looks at what is told and recorded. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "detector.h"
#include "fact_json.h"
#include "joblog.h"
#include "launcher.h"
#include "live.h"
#include "procstat.h"
#include "rundir.h"

/* ---- stand-ins --------------------------------------------------------------------------------------------------------- */
size_t det_state_size(void) { return sizeof(unsigned); }
uint32_t det_mask(const char *text) { return text ? 2 : 1; }

static void find(struct det_out *out, const struct fact *fact, const char *cause, enum verdict verdict) {
  out->f = (struct finding){.g = 3, .verdict = verdict, .cause = cause, .t = fact->t};
  out->emit(out, &out->f);
}

/* pinned_host: a refusal. collapse: two samples. fragmentation: a killer, worse with a refusal behind it, which needs
 * both sides, and well again with a grant. livelock: at
 * the end, when one more sample was seen before it. */
void det_observe(void *at, uint32_t mask, const struct fact *fact, struct det_out *out) {
  unsigned *state = at;
  if (mask != 1) return;
  if (fact->kind == FACT_KIND_sample) ++*state;
  if (fact->kind == FACT_KIND_killer) *state |= 256, find(out, fact, "fragmentation", VERDICT_INFO);
  if (fact->kind == FACT_KIND_sample && (*state & 255) == 2) find(out, fact, "collapse", VERDICT_WARN);
  if (fact->kind == FACT_KIND_alloc_failed) find(out, fact, "pinned_host", VERDICT_WARN);
  if (fact->kind == FACT_KIND_alloc_failed && *state & 256) find(out, fact, "fragmentation", VERDICT_WARN);
  if (fact->kind == FACT_KIND_alloc_recovered && *state & 256) find(out, fact, "fragmentation", VERDICT_INFO);
  if (fact->kind == FACT_KIND_exit && (*state & 255) == 4) find(out, fact, "livelock", VERDICT_FAIL);
}

static void (*listener)(const struct fact *fact);
void joblog_listen(void (*listen)(const struct fact *fact)) { listener = listen; }

static char recorded[1024], told[1024]; /* "VERDICT cause pid;" */
size_t joblog_finding(int file, const struct finding *f, const struct finding_telling *how) {
  size_t at = strlen(recorded);
  assert_int_equal(file, 7);
  assert_true(how->count == 1 && how->last == f->t);
  return (size_t)snprintf(recorded + at, sizeof recorded - at, "%s %s %d%s;", verdict_word(f->verdict), f->cause,
                          how->pid == (uint64_t)getpid() ? 1 : (int)how->pid, how->shown ? " shown" : "");
}

bool say_finding(const struct finding *f, bool simulated) {
  size_t at = strlen(told);
  assert_true(simulated);
  snprintf(told + at, sizeof told - at, "%s %s;", verdict_word(f->verdict), f->cause);
  return true;
}
const char *stderr_file(void) { return "1:2"; }

/* ---- the job ----------------------------------------------------------------------------------------------------------- */
static char folder[] = "/tmp/live.XXXXXX", log_path[256];
static struct jobtree tree;

static void launcher_saw(enum fact_kind kind, uint64_t t) {
  struct fact fact = {.kind = kind, .t = t};
  listener(&fact);
}

static void job_writes(const char *text) {
  FILE *f = fopen(log_path, "a");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}

static void name_log(int pid, const char *more, char *out, size_t size) {
  char host[RUN_HOST];
  struct procstat stat;
  rundir_host(host);
  assert_int_equal(procstat_read(pid, &stat), 0);
  snprintf(out, size, "%s/%s-%d-%llu%s.ndjson", folder, host, pid, (unsigned long long)stat.start, more);
}

/* What was told and recorded since the last time. */
static void assert_said(const char *lines, const char *records) {
  assert_string_equal(told, lines);
  assert_string_equal(recorded, records);
  told[0] = recorded[0] = '\0';
}

#define HEADER "{\"v\":1,\"t\":1,\"k\":\"header\",\"ring\":\"x.ring\"}\n"
#define REFUSAL "{\"v\":1,\"t\":20,\"k\":\"alloc_failed\"}\n"
#define GRANT "{\"v\":1,\"t\":21,\"k\":\"alloc_recovered\"}\n"
#define EXIT "{\"v\":1,\"t\":50,\"k\":\"exit\",\"status\":1,\"last_call\":\"cudaMalloc\"}\n"

/* One job from begin to end: each step builds on the one before. */
static void a_job(void **unused) {
  (void)unused;
  tree.job = getpid();
  assert_true(jobtree_update(&tree));
  live_begin(folder, true);
  live_log(7);
  assert_false(live_read(&tree));
  launcher_saw(FACT_KIND_header, 1);
  launcher_saw(FACT_KIND_sample, 2);
  launcher_saw(FACT_KIND_killer, 3);
  assert_said("", "INFO fragmentation 0;");

  /* Logs that are not ours: another host's, one that began at another time, a ring. */
  name_log(getpid(), "", log_path, sizeof log_path);
  char other[300];
  snprintf(other, sizeof other, "%s/otherhost-%d-1.ndjson", folder, getpid());
  fclose(fopen(other, "w"));
  assert_false(live_read(&tree));
  assert_null(live_process(0));
  unlink(other);

  job_writes(HEADER);
  job_writes("{\"v\":1,\"t\":20,\"k\":\"alloc_fa");
  assert_false(live_read(&tree));
  assert_non_null(live_process(0));
  assert_int_equal(live_process(0)->pid, getpid());
  assert_true(strstr(live_process(0)->ring, "/x.ring") != NULL);
  assert_null(live_process(1));
  assert_said("", "");

  /* The refusal is the library's to say; what it means beside a killer, seen before the log was there, is ours. */
  job_writes("iled\"}\n");
  assert_false(live_read(&tree));
  assert_said("WARN fragmentation;", "WARN fragmentation 1 shown;");

  /* The same again is no news; bad lines do no harm. */
  job_writes("garbage\n\n" REFUSAL);
  assert_false(live_read(&tree));
  assert_said("", "");

  /* Taken back, also where the launcher's own eyes have said no more all the time: what stands on stderr is answered, once. */
  job_writes(GRANT);
  assert_false(live_read(&tree));
  assert_said("INFO fragmentation;", "INFO fragmentation 1 shown;");
  job_writes(GRANT);
  assert_false(live_read(&tree));
  assert_said("", "");

  /* What the machine shows alone is said once, and for the job. */
  launcher_saw(FACT_KIND_sample, 30);
  assert_said("WARN collapse;", "WARN collapse 0 shown;");

  /* The exit is judged behind the next sample. */
  launcher_saw(FACT_KIND_sample, 40);
  job_writes(EXIT);
  assert_true(live_read(&tree));
  assert_said("", "");
  launcher_saw(FACT_KIND_sample, 51);
  live_end(&tree, 0);
  live_exits();
  assert_said("", "FAIL livelock 1;"); /* at the end: recorded, not told */

  live_stop();
  launcher_saw(FACT_KIND_killer, 60);
  job_writes(REFUSAL);
  assert_false(live_read(&tree));
  assert_said("", "");
}

static char *taken;
static void take(struct followed *one, const struct record *record) {
  (void)one;
  size_t at = strlen(taken);
  snprintf(taken + at, 64, "%d ", record->kind == RECORD_FACT ? (int)record->fact.t : -1);
}
static void ignore(struct followed *one) { (void)one; }

/* A child's log, found though the tree is older than the child, and dropped when it is gone. */
static void a_log_is_followed(void **unused) {
  char path[256], text[4096] = "";
  static struct follows f;
  (void)unused;
  pid_t child = fork();
  if (!child) {
    pause();
    _exit(0);
  }
  f.dir = folder;
  taken = text;
  name_log(child, "-2", path, sizeof path);
  strcpy(log_path, path);
  job_writes("{\"v\":1,\"t\":1,\"k\":\"note\"}\n");
  assert_true(follow_find(&f, &tree, false, ignore)); /* of this host, and not known */
  assert_true(jobtree_is_stale(&tree));
  assert_true(jobtree_update(&tree));
  assert_false(follow_find(&f, &tree, false, ignore)); /* nothing has changed there */
  follow_find(&f, &tree, true, ignore);
  follow_find(&f, &tree, true, ignore);
  size_t places = 0;
  struct followed *one = NULL;
  for (size_t i = 0; i < FOLLOW_MAX; i++)
    if (f.one[i].log && f.one[i].pid == child) places++, one = &f.one[i];
  assert_int_equal(places, 1);
  for (size_t i = 0; i < FOLLOW_MAX; i++)
    if (f.one[i].log && &f.one[i] != one) follow_drop(&f.one[i]);
  follow_read(&f, take);
  follow_read(&f, take);
  assert_string_equal(text, "1 ");
  for (int t = 2; t < 100; t++) {
    char record[64];
    snprintf(record, sizeof record, "{\"v\":1,\"t\":%d,\"k\":\"note\"}\n", t);
    job_writes(record);
  }
  job_writes("{}\n{\"v\":1");
  follow_read(&f, take);
  assert_true(strstr(text, "1 2 3 ") == text && strstr(text, " 98 99 -1 "));
  assert_true(follow_lives(one));
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  assert_false(follow_lives(one));
  follow_drop(one);
  assert_null(one->log);
  assert_true(jobtree_update(&tree));
  assert_int_equal(tree.n, 1);
}

static void a_line_without_end(void **unused) {
  char text[256] = "";
  static struct follows f;
  (void)unused;
  f.dir = folder;
  taken = text;
  name_log(getpid(), "-3", log_path, sizeof log_path);
  char *x = malloc(600000);
  memset(x, 'x', 599999);
  x[599999] = '\0';
  job_writes(x);
  job_writes("\n{\"v\":1,\"t\":5,\"k\":\"note\"}\n");
  free(x);
  follow_find(&f, &tree, true, ignore);
  for (size_t i = 0; i < FOLLOW_MAX; i++)
    if (f.one[i].log && strcmp(f.one[i].log, log_path)) follow_drop(&f.one[i]);
  for (int i = 0; i < 5; i++) follow_read(&f, take);
  assert_string_equal(text, "-1 5 ");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_job),
      cmocka_unit_test(a_log_is_followed),
      cmocka_unit_test(a_line_without_end),
  };
  char command[64];
  if (!mkdtemp(folder)) return 1;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command) || failed;
}
