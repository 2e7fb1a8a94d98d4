/* process.c - child processes, as far as the failure of a child `ptxas` needs them.
 *
 * Triton and nvcc run ptxas, and its refusal of a target is the evidence for a finding; its message goes to a pipe,
 * but its name, arguments and status pass through here. The child may share its parent's memory until it execs
 * (vfork): what runs there writes one preallocated place of the parent's ring and nothing else, not even a cached
 * pointer. Asleep, every function here is a look-up and a jump.
 */
#include "process.h"

#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>

#include "fork.h"
#include "linkmap.h"
#include "shim.h"
#include "sys.h"

#include "poison.h"

typedef int execve_fn(const char *, char *const[], char *const[]);
typedef int execv_fn(const char *, char *const[]);
typedef int spawn_fn(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                     char *const[], char *const[]);
typedef pid_t waitpid_fn(pid_t, int *, int);
typedef pid_t wait4_fn(pid_t, int *, int, struct rusage *);
typedef int waitid_fn(idtype_t, id_t, siginfo_t *, int);

/* Filled while waking; before, and for programs that never wake, looked up call by call. */
enum process_call {
  CALL_execve,
  CALL_execv,
  CALL_execvp,
  CALL_execvpe,
  CALL_posix_spawn,
  CALL_posix_spawnp,
  CALL_waitpid,
  CALL_wait4,
  CALL_waitid,
  CALLS
};
static void *next_calls[CALLS];
static struct ring_child *word_place;

#define NEXT(name) (next_calls[CALL_##name] ? next_calls[CALL_##name] : linkmap_next(#name))

void process_init(void) {
  next_calls[CALL_execve] = linkmap_next("execve");
  next_calls[CALL_execv] = linkmap_next("execv");
  next_calls[CALL_execvp] = linkmap_next("execvp");
  next_calls[CALL_execvpe] = linkmap_next("execvpe");
  next_calls[CALL_posix_spawn] = linkmap_next("posix_spawn");
  next_calls[CALL_posix_spawnp] = linkmap_next("posix_spawnp");
  next_calls[CALL_waitpid] = linkmap_next("waitpid");
  next_calls[CALL_wait4] = linkmap_next("wait4");
  next_calls[CALL_waitid] = linkmap_next("waitid");
  word_place = ring_child();
}

static bool is_awake(void) { return __atomic_load_n(&shim_life, __ATOMIC_ACQUIRE) == 2; }

/* ---- the child's side --------------------------------------------------------------------------------------- */

static void leave_word(uint32_t pid, const char *program, char *const argv[]) {
  struct ring_child *word = word_place;
  size_t used = 0;
  if (!word) return;
  __atomic_store_n(&word->pid, 0, __ATOMIC_RELAXED);
  str_copy(word->program, sizeof word->program, program);
  word->argv[0] = '\0';
  for (unsigned i = 0; argv && argv[i] && used + 2 < sizeof word->argv; i++) {
    if (used) word->argv[used++] = ' ';
    used += str_copy(word->argv + used, sizeof word->argv - used, argv[i]);
  }
  __atomic_store_n(&word->pid, pid, __ATOMIC_RELEASE);
}

static bool is_ptxas(const char *program) { return program && str_equal(str_base(program), "ptxas"); }

static void about_to_exec(const char *program, char *const argv[]) {
  if (is_awake() && is_ptxas(program)) leave_word((uint32_t)sys_getpid(), program, argv);
}

/* ---- the parent's side ---------------------------------------------------------------------------------------- */

static void child_ended(pid_t pid, int status) {
  struct ring_child *word = word_place;
  struct fact fact = {.kind = FACT_KIND_child};
  if (pid <= 0 || !is_awake() || !word || shim_thread.busy) return;
  if (__atomic_load_n(&word->pid, __ATOMIC_ACQUIRE) != (uint32_t)pid) return;
  if (!WIFEXITED(status) && !WIFSIGNALED(status)) return; /* stopped or continued */
  if (status && fork_is_owner()) {
    fact.u.child.pid = (uint64_t)pid;
    word->program[sizeof word->program - 1] = word->argv[sizeof word->argv - 1] = '\0'; /* the file may be garbage */
    fact.u.child.program = word->program;
    fact.u.child.argv = word->argv;
    fact.u.child.status = status;
    shim_thread.busy++;
    observe(&fact);
    shim_thread.busy--;
  }
  __atomic_store_n(&word->pid, 0, __ATOMIC_RELEASE);
}

/* ---- exports --------------------------------------------------------------------------------------------------- */

SHIM_EXPORT execve_fn hook_execve __asm__("execve");
SHIM_EXPORT execv_fn hook_execv __asm__("execv");
SHIM_EXPORT execv_fn hook_execvp __asm__("execvp");
SHIM_EXPORT execve_fn hook_execvpe __asm__("execvpe");
SHIM_EXPORT spawn_fn hook_posix_spawn __asm__("posix_spawn");
SHIM_EXPORT spawn_fn hook_posix_spawnp __asm__("posix_spawnp");
SHIM_EXPORT waitpid_fn hook_waitpid __asm__("waitpid");
SHIM_EXPORT wait4_fn hook_wait4 __asm__("wait4");
SHIM_EXPORT waitid_fn hook_waitid __asm__("waitid");

int hook_execve(const char *path, char *const argv[], char *const envp[]) {
  about_to_exec(path, argv);
  return ((execve_fn *)(uintptr_t)NEXT(execve))(path, argv, envp);
}

int hook_execv(const char *path, char *const argv[]) {
  about_to_exec(path, argv);
  return ((execv_fn *)(uintptr_t)NEXT(execv))(path, argv);
}

int hook_execvp(const char *file, char *const argv[]) {
  about_to_exec(file, argv);
  return ((execv_fn *)(uintptr_t)NEXT(execvp))(file, argv);
}

int hook_execvpe(const char *file, char *const argv[], char *const envp[]) {
  about_to_exec(file, argv);
  return ((execve_fn *)(uintptr_t)NEXT(execvpe))(file, argv, envp);
}

/* libc's own posix_spawn execs past the hooks above: the parent leaves the word, before it can wait for the child. */
static void spawned(int result, const pid_t *pid, const char *program, char *const argv[]) {
  if (result == 0 && pid && is_awake() && is_ptxas(program)) leave_word((uint32_t)*pid, program, argv);
}

int hook_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                     const posix_spawnattr_t *attr, char *const argv[], char *const envp[]) {
  int result = ((spawn_fn *)(uintptr_t)NEXT(posix_spawn))(pid, path, actions, attr, argv, envp);
  spawned(result, pid, path, argv);
  return result;
}

int hook_posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                      const posix_spawnattr_t *attr, char *const argv[], char *const envp[]) {
  int result = ((spawn_fn *)(uintptr_t)NEXT(posix_spawnp))(pid, file, actions, attr, argv, envp);
  spawned(result, pid, file, argv);
  return result;
}

pid_t hook_waitpid(pid_t pid, int *status, int options) {
  int own_status = 0;
  int *where = status ? status : &own_status;
  pid_t ended = ((waitpid_fn *)(uintptr_t)NEXT(waitpid))(pid, where, options);
  if (ended > 0) child_ended(ended, *where);
  return ended;
}

pid_t hook_wait4(pid_t pid, int *status, int options, struct rusage *usage) {
  int own_status = 0;
  int *where = status ? status : &own_status;
  pid_t ended = ((wait4_fn *)(uintptr_t)NEXT(wait4))(pid, where, options, usage);
  if (ended > 0) child_ended(ended, *where);
  return ended;
}

int hook_waitid(idtype_t type, id_t id, siginfo_t *info, int options) {
  int result = ((waitid_fn *)(uintptr_t)NEXT(waitid))(type, id, info, options);
  if (result == 0 && info && info->si_pid > 0) {
    if (info->si_code == CLD_EXITED) child_ended(info->si_pid, (info->si_status & 0xff) << 8);
    if (info->si_code == CLD_KILLED || info->si_code == CLD_DUMPED) child_ended(info->si_pid, info->si_status & 0x7f);
  }
  return result;
}
