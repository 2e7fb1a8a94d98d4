/* holders.c - facts holder and nvml (collect.h): NVML's answer, and what /proc tells of the processes in it. */
#include "collect.h"
#include "clock.h"
#include "procuse.h"
#include "redact.h"
#include "job_of.h"

#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
  COMMAND = 2048,
  UNIT = 128,
  USER = 64,
  STILL_PART = 50
}; /* still: less than 1/50 of one processor between two looks */

/* One holder, and room for the strings of its fact. */
struct holder {
  struct procuse use;
  char words[COMMAND], argv[COMMAND], name[COMMAND], unit[UNIT], user[USER];
};

/* The exe link where it tells more than the command line's first word: "/usr/bin/python3.12" for "python3". Processes
 * that set a title ("VLLM::EngineCore") keep it. */
static bool name_by_exe(int pid, const char *word, char *out, size_t size) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/exe", pid);
  ssize_t n = readlink(path, out, size - 1);
  if (n <= 0) return false;
  out[n] = '\0';
  const char *base = strrchr(out, '/');
  return base && *word && !strncmp(base + 1, word, strlen(word));
}

static void name_of(const struct nvml_process *p, const char *root, struct holder *h) {
  const char *word = h->words;
  if (word[0] != '/' && !root && name_by_exe((int)p->pid, word, h->name, sizeof h->name)) return;
  const char *best = word[0] ? word : p->name[0] ? p->name : h->use.name;
  snprintf(h->name, sizeof h->name, "%s", best);
}

/* The leader of the session has ended: nobody has its pid, or a younger process. A session whose leader is outside of
 * this PID namespace (0) tells nothing. */
static bool session_gone(const char *root, uint32_t pid, const struct procuse *use) {
  struct procuse leader;
  if (use->session <= 0 || (uint32_t)use->session == pid) return false;
  if (job_read_process(root, use->session, &leader) < 0) return true;
  return leader.session != use->session || leader.start > use->start;
}

static struct holder_seen *place_of(struct holder_looks *h, uint32_t pid, uint64_t start) {
  struct holder_seen *oldest = NULL;
  for (size_t i = 0; i < h->n; i++) {
    struct holder_seen *s = &h->seen[i];
    if (s->pid == pid && s->start == start) return s;
    if (!s->listed && (!oldest || s->looked < oldest->looked)) oldest = s;
  }
  struct holder_seen *s = h->n < NVML_PROCESSES ? &h->seen[h->n++] : oldest;
  if (s) *s = (struct holder_seen){.pid = pid, .start = start};
  return s;
}

/* Compares with the earlier looks; fills watched and idle. */
static void remember(struct holder_looks *h, const struct nvml_process *p, const struct procuse *use, uint64_t t,
                     struct fact_holder *fact) {
  struct holder_seen *s = place_of(h, p->pid, use->start);
  if (!s) return;
  if (!s->since) {
    s->since = t;
  } else {
    bool known = use->cpu != FACT_NO_U64 && s->cpu != FACT_NO_U64;
    uint64_t used = known && use->cpu > s->cpu ? use->cpu - s->cpu : 0, passed = t - s->looked;
    bool still = known && s->bytes == p->bytes && used <= passed / STILL_PART;
    s->still = !still ? t : s->still ? s->still : s->looked;
    if (known) fact->idle = t - s->still;
  }
  fact->watched = t - s->since;
  s->listed = true;
  s->bytes = p->bytes;
  s->cpu = use->cpu;
  s->looked = t;
}

/* A service manager of a user (systemd --user) takes in what its session's programs leave behind, as process 1 does. */
static bool adopts(const char *root, int pid) {
  struct procuse parent;
  return pid > 1 && job_read_process(root, pid, &parent) == 0 && !strcmp(parent.name, "systemd");
}

/* Of the machine's own users: asking a directory service could take for ever. */
static const char *user_name(const char *root, uint64_t uid, char *out, size_t size) {
  char path[PATH_MAX];
  const struct passwd *user = NULL;
  if (snprintf(path, sizeof path, "%s/etc/passwd", root ? root : "") >= (int)sizeof path) return NULL;
  FILE *file = fopen(path, "re");
  while (file && (user = fgetpwent(file)) && user->pw_uid != uid) {
  }
  if (user) snprintf(out, size, "%s", user->pw_name);
  if (file) fclose(file);
  return user ? out : NULL;
}

static void tell(struct holder_looks *h, const struct nvml_process *p, const struct job_view *view, uint64_t t,
                 collect_emit emit, void *arg) {
  static struct holder room;
  struct fact fact;
  struct fact_holder *f = &fact.u.holder;
  fact_init(&fact, FACT_KIND_holder);
  fact.t = t;
  const char *root = job_root_of(view, (int)p->pid);
  room.words[0] = room.name[0] = room.unit[0] = '\0';
  f->unseen = job_read_process(root, (int)p->pid, &room.use) < 0;
  long n = f->unseen ? -1 : procuse_command(root, (int)p->pid, room.words, sizeof room.words);
  if (n > 0) {
    redact_words(room.words, (size_t)n, room.argv, sizeof room.argv);
    f->argv = room.argv;
  }
  name_of(p, root, &room);
  f->pid = p->pid;
  f->name = room.name[0] ? room.name : NULL;
  f->kind = p->graphics ? "graphics" : "compute";
  f->bytes = p->bytes;
  remember(h, p, &room.use, t, f);
  if (!f->unseen) {
    f->ppid = room.use.ppid < 0 ? FACT_NO_U64 : adopts(root, room.use.ppid) ? 1 : (uint64_t)room.use.ppid;
    f->uid = room.use.uid;
    f->user = user_name(root, f->uid, room.user, sizeof room.user);
    f->ours = job_has(view, (int)p->pid);
    f->managed = cgroup_manager_of(root, (int)p->pid, room.unit, sizeof room.unit);
    f->unit = f->managed ? room.unit : NULL;
    f->session_gone = session_gone(root, p->pid, &room.use);
  }
  emit(&fact, arg);
}

static void count_gone(struct holder_looks *h) {
  size_t kept = 0;
  for (size_t i = 0; i < h->n; i++) {
    if (h->seen[i].listed)
      h->seen[kept++] = h->seen[i];
    else
      h->gone++;
  }
  h->n = kept;
}

void collect_holders(struct holder_looks *h, const struct nvml_answer *answer, uint64_t waited, const char *root,
                     const struct collect_job *job, collect_emit emit, void *arg) {
  const struct job_view view = {root, job};
  struct fact fact;
  uint64_t t = clock_us();
  const bool good = !answer->error[0];
  if (good) {
    for (size_t i = 0; i < h->n; i++) h->seen[i].listed = false;
    for (uint32_t i = 0; i < answer->n && i < NVML_PROCESSES; i++) tell(h, &answer->process[i], &view, t, emit, arg);
    count_gone(h);
  }
  fact_init(&fact, FACT_KIND_nvml);
  fact.t = t;
  fact.u.nvml.call = answer->result < 0 ? "load" : "processes";
  fact.u.nvml.answered = good;
  fact.u.nvml.waited = waited;
  if (answer->result >= 0) fact.u.nvml.result = answer->result;
  fact.u.nvml.error = good ? NULL : answer->error;
  if (good) {
    fact.u.nvml.compute = answer->compute;
    fact.u.nvml.graphics = answer->graphics;
    fact.u.nvml.gone = h->gone;
  }
  emit(&fact, arg);
}

void collect_nvml_waits(const struct nvml_client *c, collect_emit emit, void *arg) {
  struct fact fact;
  if (!c->asked) return;
  fact_init(&fact, FACT_KIND_nvml);
  fact.t = clock_us();
  fact.u.nvml.call = "processes";
  fact.u.nvml.waited = fact.t > c->asked ? fact.t - c->asked : 0;
  emit(&fact, arg);
}

bool collect_look(struct holder_looks *h, struct nvml_client *c, int real_ms, const char *root,
                  const struct collect_job *job, collect_emit emit, void *arg) {
  int error = nvml_ask(c);
  if (error) {
    static struct nvml_answer answer;
    answer.result = -1;
    snprintf(answer.error, sizeof answer.error, "no helper can be started: %s", strerror(-error));
    collect_holders(h, &answer, 0, root, job, emit, arg);
    return false;
  }
  uint64_t asked = c->asked;
  if (nvml_take(c, real_ms) != NVML_ANSWERED) {
    collect_nvml_waits(c, emit, arg);
    return false;
  }
  collect_holders(h, &c->answer, clock_us() - asked, root, job, emit, arg);
  return !c->answer.error[0];
}
