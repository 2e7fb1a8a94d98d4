/* Run id and run folder; /proc/<pid>/stat. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "procstat.h"
#include "rundir.h"

static struct { const char *name, *value; } variables[8];

static const char *env(const char *name) {
  for (size_t i = 0; i < 8 && variables[i].name; i++)
    if (!strcmp(variables[i].name, name)) return variables[i].value;
  return NULL;
}

static void set(size_t i, const char *name, const char *value) {
  variables[i].name = name;
  variables[i].value = value;
}

static int no_variables(void **state) {
  (void)state;
  memset(variables, 0, sizeof variables);
  return 0;
}

static char id[RUN_ID];
static const char *from;

static const char *find_id(void) {
  rundir_id(env, NULL, id, &from);
  return id;
}

static void the_first_source_that_is_there(void **state) {
  (void)state;
  set(0, "RAY_JOB_ID", "01000000");
  assert_string_equal(find_id(), "ray-01000000");
  set(1, "OMPI_MCA_ess_base_jobid", "77");
  assert_string_equal(find_id(), "openmpi-77");
  set(2, "PMIX_NAMESPACE", "prterun.9");
  assert_string_equal(find_id(), "pmix-prterun.9");
  set(3, "SLURM_JOB_ID", "12");
  assert_string_equal(find_id(), "slurm-12");
  set(4, "SLURM_STEP_ID", "3");
  assert_string_equal(find_id(), "slurm-12-3");
  assert_string_equal(from, "slurm");
  set(5, "TORCHELASTIC_RUN_ID", "none");
  set(6, "MASTER_PORT", "29500");
  assert_string_equal(find_id(), "torchelastic-none-29500");
  set(7, "SPARKSHIM_RUN", "mine");
  assert_string_equal(find_id(), "mine");
  assert_string_equal(from, "SPARKSHIM_RUN");
  set(7, "SPARKSHIM_RUN", "");
  assert_string_equal(find_id(), "torchelastic-none-29500");
}

static void session_when_nothing_is_there(void **state) {
  (void)state;
  char again[RUN_ID];
  assert_non_null(strstr(find_id(), "session-"));
  assert_string_equal(from, "session");
  strcpy(again, id);
  pid_t child = fork();
  if (child == 0) _exit(strcmp(find_id(), again) != 0);
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0); /* the same session, the same run */
}

static void an_id_is_a_file_name(void **state) {
  (void)state;
  static const char *const hostile[] = {"../../etc", "/etc/passwd", ".",        "..",  ".hidden",
                                        "a b",       "a\nb",        "\xff\xfe", "a/b", "a%b"};
  char out[RUN_ID], other[RUN_ID], text[4096];
  for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
    rundir_sanitise(hostile[i], out, sizeof out);
    assert_null(strchr(out, '/'));
    assert_true(out[0] != '.');
    for (const char *p = out; *p; p++) assert_true(strchr("._-", *p) || (*p >= '0' && *p <= 'z'));
  }
  rundir_sanitise("a b", out, sizeof out);
  rundir_sanitise("a/b", other, sizeof other);
  assert_string_not_equal(out, other); /* told apart by their hash */
  memset(text, 'x', sizeof text);
  text[sizeof text - 1] = '\0';
  rundir_sanitise(text, out, sizeof out);
  assert_true(strlen(out) < sizeof out);
  text[4000] = 'y';
  rundir_sanitise(text, other, sizeof other);
  assert_string_not_equal(out, other);
  rundir_sanitise("plain-1.2_3", out, sizeof out);
  assert_string_equal(out, "plain-1.2_3");
}

static void bases(void **state) {
  (void)state;
  char path[RUN_PATH], uid[32], small[8];
  assert_int_equal(rundir_base(env, RUNDIR_STATE, path, sizeof path), -ENOENT);
  set(0, "HOME", "relative");
  assert_int_equal(rundir_base(env, RUNDIR_STATE, path, sizeof path), -ENOENT);
  set(0, "HOME", "/home/u");
  rundir_base(env, RUNDIR_STATE, path, sizeof path);
  assert_string_equal(path, "/home/u/.local/state/sparkshim");
  set(1, "XDG_STATE_HOME", "/state");
  rundir_base(env, RUNDIR_STATE, path, sizeof path);
  assert_string_equal(path, "/state/sparkshim");
  set(2, "SPARKSHIM_DIR", "/d");
  rundir_base(env, RUNDIR_STATE, path, sizeof path);
  assert_string_equal(path, "/d");
  set(2, "SPARKSHIM_DIR", "rel");
  assert_int_equal(rundir_base(env, RUNDIR_STATE, path, sizeof path), 0);
  assert_int_equal(path[0], '/');
  assert_string_equal(path + strlen(path) - 4, "/rel");
  assert_int_equal(rundir_base(env, RUNDIR_STATE, small, sizeof small) < 0, 1);
  rundir_base(env, RUNDIR_TEMPORARY, path, sizeof path);
  snprintf(uid, sizeof uid, "/tmp/sparkshim-%u", (unsigned)geteuid());
  assert_string_equal(path, uid);
}

static char place[64];

static int make_place(void **state) {
  no_variables(state);
  strcpy(place, "/tmp/rundir.XXXXXX");
  return !mkdtemp(place);
}

static int remove_place(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", place);
  return system(command);
}

static unsigned mode_of(const char *path) {
  struct stat st;
  assert_int_equal(stat(path, &st), 0);
  return st.st_mode & 07777;
}

static void a_folder_is_private(void **state) {
  (void)state;
  char base[128], path[RUN_PATH], wanted[256];
  snprintf(base, sizeof base, "%s/deep/er", place);
  set(0, "SPARKSHIM_DIR", base);
  umask(0);
  int fd = rundir_open(env, RUNDIR_STATE, "r1", path, sizeof path);
  assert_true(fd >= 0);
  snprintf(wanted, sizeof wanted, "%s/runs/r1", base);
  assert_string_equal(path, wanted);
  assert_int_equal(mode_of(path), 0700);
  assert_int_equal(mode_of(base), 0700);
  assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
  close(fd);
  fd = rundir_open(env, RUNDIR_STATE, "r1", path, sizeof path); /* again */
  assert_true(fd >= 0);
  close(fd);
  chmod(path, 0777);
  assert_int_equal(rundir_open(env, RUNDIR_STATE, "r1", path, sizeof path), -EPERM);
}

static void links_are_not_followed(void **state) {
  (void)state;
  char path[RUN_PATH], link[256], target[128];
  set(0, "SPARKSHIM_DIR", place);
  snprintf(target, sizeof target, "%s/elsewhere", place);
  mkdir(target, 0700);
  int fd = rundir_open(env, RUNDIR_STATE, "r1", path, sizeof path);
  close(fd);
  snprintf(link, sizeof link, "%s/runs/r2", place);
  assert_int_equal(symlink(target, link), 0);
  assert_true(rundir_open(env, RUNDIR_STATE, "r2", path, sizeof path) < 0);
  /* The temporary base: somebody else's link waits there. */
  set(1, "TMPDIR", place);
  snprintf(link, sizeof link, "%s/sparkshim-%u", place, (unsigned)geteuid());
  assert_int_equal(symlink(target, link), 0);
  assert_true(rundir_open(env, RUNDIR_TEMPORARY, "r1", path, sizeof path) < 0);
  unlink(link);
  fd = rundir_open(env, RUNDIR_TEMPORARY, "r1", path, sizeof path);
  assert_true(fd >= 0);
  close(fd);
}

static void somebody_elses_folder(void **state) {
  (void)state;
  char path[RUN_PATH], base[128];
  if (geteuid()) skip(); /* only root can make one */
  set(0, "TMPDIR", place);
  snprintf(base, sizeof base, "%s/sparkshim-0", place);
  mkdir(base, 0700);
  assert_int_equal(chown(base, 12345, 12345), 0);
  assert_int_equal(rundir_open(env, RUNDIR_TEMPORARY, "r1", path, sizeof path), -EPERM);
}

static void stat_lines(void **state) {
  (void)state;
  struct procstat st = {1, 2, 3};
  assert_int_equal(procstat_parse("17 (a) b (c)) S 5 17 6 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4242 99 1", &st), 0);
  assert_int_equal(st.ppid, 5);
  assert_int_equal(st.session, 6);
  assert_int_equal(st.start, 4242);
  static const char *const odd[] = {"",        "17",       "17 (a",      "17 (a)",
                                    "17 (a) ", "17 (a) S", "17 (a) S x", "17 (a) S 1 2 3 4 5"};
  for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) assert_int_equal(procstat_parse(odd[i], &st), -EINVAL);
  assert_int_equal(st.start, 4242); /* untouched */
  assert_int_equal(procstat_read(0, &st), 0);
  assert_int_equal(st.ppid, getppid());
  assert_int_equal(procstat_read(1 << 30, &st), -ENOENT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(the_first_source_that_is_there, no_variables),
      cmocka_unit_test_setup(session_when_nothing_is_there, no_variables),
      cmocka_unit_test(an_id_is_a_file_name),
      cmocka_unit_test_setup(bases, no_variables),
      cmocka_unit_test_setup_teardown(a_folder_is_private, make_place, remove_place),
      cmocka_unit_test_setup_teardown(links_are_not_followed, make_place, remove_place),
      cmocka_unit_test_setup_teardown(somebody_elses_folder, make_place, remove_place),
      cmocka_unit_test(stat_lines),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
