/* The memory cgroup: versions 1 and 2, both, a container's view, limits above, and what names a service or container. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "cgroup.h"
#include "fact.h"

#include "machine_root.h"

static const char v2_mounts[] =
    "22 28 0:20 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n"
    "31 22 0:27 / /sys/fs/cgroup rw,nosuid,nodev shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
static const char scope[] = "/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope";

static void put_in(const char *folder, const char *file, const char *text) {
  char name[256];
  snprintf(name, sizeof name, "%s/%s", folder, file);
  put(name, text);
}

static struct cgroup_memory read_place(const struct cgroup_place *p, int error) {
  struct cgroup_memory m;
  assert_int_equal(cgroup_read(p, &m), error);
  return m;
}

static void version_2(void **state) {
  (void)state;
  struct cgroup_place p;
  put("/proc/self/cgroup", "0::/user.slice/user-1000.slice/session-3.scope\n");
  put("/proc/self/mountinfo", v2_mounts);
  put_in(scope, "memory.current", "36399742976\n");
  put_in(scope, "memory.max", "max\n");
  put_in(scope, "memory.events", "low 0\nhigh 0\nmax 9\noom 2\noom_kill 1\noom_group_kill 0\n");
  put("/sys/fs/cgroup/user.slice/user-1000.slice/memory.max", "107374182400\n");
  put("/sys/fs/cgroup/user.slice/memory.max", "207374182400\n");
  assert_int_equal(cgroup_find(root, 4711, &p), 0);
  assert_int_equal(p.version, 2);
  assert_string_equal(p.folder + strlen(root), scope);
  assert_string_equal(p.pressure, p.folder);
  struct cgroup_memory m = read_place(&p, 0);
  assert_int_equal(m.current, UINT64_C(36399742976));
  assert_int_equal(m.max, UINT64_C(107374182400));
  assert_string_equal(p.folder + m.max_at, "/session-3.scope"); /* the slice above has it */
  assert_int_equal(m.oom, 2);
  assert_int_equal(m.oom_kill, 1);
}

static void version_1_beside_an_empty_version_2(void **state) {
  (void)state;
  static const char folder[] = "/sys/fs/cgroup/memory/job";
  struct cgroup_place p;
  put("/proc/self/cgroup", "12:cpu,cpuacct:/\n4:memory:/job\n1:name=systemd:/\n0::/\n");
  put("/proc/self/mountinfo", "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                              "36 31 0:33 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
                              "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  put_in(folder, "memory.usage_in_bytes", "1048576\n");
  put_in(folder, "memory.limit_in_bytes", "9223372036854771712\n");
  put_in(folder, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
  put_in(folder, "memory.stat", "cache 0\nrss 4096\nhierarchical_memory_limit 268435456\n");
  assert_int_equal(cgroup_find(root, 4711, &p), 0);
  assert_int_equal(p.version, 1);
  assert_string_equal(p.pressure + strlen(root), "/sys/fs/cgroup/unified");
  struct cgroup_memory m = read_place(&p, 0);
  assert_int_equal(m.current, 1048576);
  assert_int_equal(m.max, 268435456); /* of a group that cannot be seen from here */
  assert_true(m.oom == FACT_NO_U64);
  assert_int_equal(m.oom_kill, 3);
}

static void a_container_s_view(void **state) {
  (void)state;
  struct cgroup_place p;
  put("/proc/self/cgroup", "4:memory:/docker/0123\n");
  put("/proc/self/mountinfo", "35 31 0:32 /docker/0123 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
  assert_int_equal(cgroup_find(root, 0, &p), 0);
  assert_string_equal(p.folder + strlen(root), "/sys/fs/cgroup/memory");
  assert_int_equal(read_place(&p, -2).max, 1073741824); /* -ENOENT: no file tells the use */
}

static void a_mount_with_a_blank(void **state) {
  (void)state;
  struct cgroup_place p;
  put("/proc/self/cgroup", "0::/\n");
  put("/proc/self/mountinfo", "31 22 0:27 / /my\\040groups rw - cgroup2 cgroup2 rw\n");
  assert_int_equal(cgroup_find(root, 0, &p), 0);
  assert_string_equal(p.folder + strlen(root), "/my groups");
}

static void nothing_to_be_found(void **state) {
  (void)state;
  static const char *const cgroups[] = {
      "", "\n", "0:", "0::", "0::relative\n", "4:memory", "x:y:z\n", "0::/../elsewhere\n"};
  struct cgroup_place p;
  put("/proc/self/mountinfo", v2_mounts);
  for (size_t i = 0; i < sizeof cgroups / sizeof cgroups[0]; i++) {
    put("/proc/self/cgroup", cgroups[i]);
    assert_int_equal(cgroup_find(root, 0, &p), -2);
    assert_int_equal(p.version, 0);
    assert_true(read_place(&p, -2).max == FACT_NO_U64);
  }
  put("/proc/self/cgroup", "0::/\n");
  put("/proc/self/mountinfo", "31 22 0:27 / relative rw - cgroup2 cgroup2 rw\n31\n - cgroup2\n");
  assert_int_equal(cgroup_find(root, 0, &p), -2);
}

static void a_path_too_long(void **state) {
  (void)state;
  struct cgroup_place p;
  char text[3000] = "0::/";
  memset(text + 4, 'a', sizeof text - 5);
  put("/proc/self/cgroup", text);
  put("/proc/self/mountinfo", v2_mounts);
  assert_int_equal(cgroup_find(root, 0, &p), -2);
}

static void the_group_is_gone(void **state) {
  (void)state;
  struct cgroup_place p;
  put("/proc/self/cgroup", "0::/gone.scope\n");
  put("/proc/self/mountinfo", v2_mounts);
  assert_int_equal(cgroup_find(root, 0, &p), 0);
  assert_true(read_place(&p, -2).current == FACT_NO_U64);
}

static void managers(void **state) {
  (void)state;
#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
  static const struct {
    const char *path, *managed, *name;
  } row[] = {
      {"/system.slice/ollama.service", "service", "ollama.service"},
      {"/user.slice/user-1000.slice/user@1000.service/app.slice/vllm.service", "user-service", "vllm.service"},
      {"/system.slice/docker-" ID ".scope", "container", "0123456789ab"},
      {"/docker/" ID, "container", "0123456789ab"},
      {"/kubepods.slice/kubepods-pod12.slice/cri-containerd-" ID ".scope", "container", "0123456789ab"},
      {"/machine.slice/libpod-" ID ".scope/container", "container", "0123456789ab"},
      {"/lxc.payload.spark/system.slice/ollama.service", "container", "spark"},
      {"/user.slice/user-1000.slice/session-3.scope", NULL, ""},
      {"/user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome-terminal.scope", NULL, ""},
      {"/system.slice/ssh.service", NULL, ""},
      {"/system.slice/cron.service", NULL, ""},
      {"/init.scope", NULL, ""},
      {"/", NULL, ""},
      {"", NULL, ""},
      {"/.service", NULL, ""},
      {"/a" ID "/x", NULL, ""}, /* 65 digits are no id */
  };
  for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
    char name[64];
    const char *managed = cgroup_manager(row[i].path, strlen(row[i].path), name, sizeof name);
    if (row[i].managed)
      assert_string_equal(managed, row[i].managed);
    else
      assert_null(managed);
    assert_string_equal(name, row[i].name);
  }
}

static void manager_of_a_process(void **state) {
  (void)state;
  char name[8];
  put("/proc/4242/cgroup", "0::/system.slice/ollama.service\n");
  assert_string_equal(cgroup_manager_of(root, 4242, name, sizeof name), "service");
  assert_string_equal(name, "ollama."); /* cut to fit */
  assert_null(cgroup_manager_of(root, 2147483647, name, sizeof name));
}

int main(void) {
#define WITH_ROOT(f) cmocka_unit_test_setup_teardown(f, begin, end)
  const struct CMUnitTest tests[] = {
      WITH_ROOT(version_2),
      WITH_ROOT(version_1_beside_an_empty_version_2),
      WITH_ROOT(a_container_s_view),
      WITH_ROOT(a_mount_with_a_blank),
      WITH_ROOT(nothing_to_be_found),
      WITH_ROOT(a_path_too_long),
      WITH_ROOT(the_group_is_gone),
      cmocka_unit_test(managers),
      WITH_ROOT(manager_of_a_process),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
