/* observe.c - what becomes of a fact: a record in the log, and perhaps findings.
 *
 * A slow path, in the job's threads. Records are written without a lock. Judging needs order, so it stands under a spin lock that
 * is only tried: a thread that does not get it within 10 ms leaves the judging to report, which reads the same
 * record. Nothing here allocates, calls libc or touches errno.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <time.h>

#include "clock.h"
#include "detector.h"
#include "fact_json.h"
#include "gpu_model.h"
#include "procstat.h"
#include "redact.h"
#include "sinks.h"
#include "sys.h"

#include "poison.h"

enum {
  SEEN = 64,   /* findings told apart; what comes beyond them is logged each time and never printed */
  BUFFERS = 4, /* records being written at the same time before more memory is asked for */
};

/* A finding is told by g, cause and object: logged and printed once, again when its verdict changes; of
 * repetitions a count goes to the log at each power of two and at the end. */
struct seen {
  struct finding f;
  uint64_t count, logged, last;
  enum verdict printed; /* greatest verdict that went to stderr; VERDICT_PASS: none */
};

/* One mapping, zero-filled: pages that are not used cost nothing. The detectors' state lies behind it. */
struct judge {
  uint64_t last_t;
  uint32_t seens;
  uint32_t tid; /* of the fact being judged */
  struct det_out out;
  struct seen seen[SEEN];
  char buffer[BUFFERS][FACT_JSON_MAX];
};

static struct {
  struct judge *judge; /* NULL: no memory; facts are logged from a mapping made for each */
  size_t size;
  void *state;
  uint32_t lock;
  uint32_t buffer_taken[BUFFERS];
} sink;

/* ---- records ---------------------------------------------------------------------------------------------------- */

struct buffer {
  char *text;
  unsigned index; /* BUFFERS: a mapping of its own */
};

static struct buffer buffer_take(void) {
  for (unsigned i = 0; sink.judge && i < BUFFERS; i++)
    if (!__atomic_exchange_n(&sink.buffer_taken[i], 1, __ATOMIC_ACQUIRE))
      return (struct buffer){sink.judge->buffer[i], i};
  void *map = sys_mmap(NULL, FACT_JSON_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return (struct buffer){sys_is_error(map) ? NULL : map, BUFFERS};
}

static void buffer_give(struct buffer b) {
  if (b.index < BUFFERS)
    __atomic_store_n(&sink.buffer_taken[b.index], 0, __ATOMIC_RELEASE);
  else if (b.text)
    sys_munmap(b.text, FACT_JSON_MAX);
}

static bool is_essential(enum fact_kind kind) {
  return kind == FACT_KIND_header || kind == FACT_KIND_exit || kind == FACT_KIND_note ||
         kind == FACT_KIND_alloc_stats || kind == FACT_KIND_coll_stats || kind == FACT_KIND_alloc_failed ||
         kind == FACT_KIND_alloc_recovered;
}

static void write_fact(const struct fact *fact) {
  struct buffer b = buffer_take();
  if (b.text) log_write(b.text, fact_json(fact, b.text, FACT_JSON_MAX), is_essential(fact->kind));
  buffer_give(b);
}

static void write_finding(const struct finding *f, const struct finding_telling *how) {
  struct buffer b = buffer_take();
  if (b.text) log_write(b.text, finding_json(f, how, b.text, FACT_JSON_MAX), true);
  buffer_give(b);
}

static void write_seen(struct seen *s, uint32_t tid, const char *shown) {
  write_finding(&s->f, &(struct finding_telling){.tid = tid, .count = s->count, .last = s->last, .shown = shown});
  s->logged = s->count;
}

static void write_note(const char *text) {
  struct fact note = {.kind = FACT_KIND_note, .t = clock_us()};
  note.u.note.text = text;
  write_fact(&note);
}

/* ---- findings ------------------------------------------------------------------------------------------------------ */
static bool is_same(const struct finding *a, const struct finding *b) {
  return a->g == b->g && str_equal(a->cause, b->cause) && str_equal(a->object, b->object);
}

static struct seen *seen_find(struct judge *j, const struct finding *f, bool *ret_new) {
  *ret_new = false;
  for (uint32_t i = 0; i < j->seens; i++)
    if (is_same(&j->seen[i].f, f)) return &j->seen[i];
  *ret_new = true;
  return j->seens < SEEN ? &j->seen[j->seens++] : NULL;
}

static const char *seen_print(struct seen *s) {
  if (s->f.verdict < VERDICT_INFO || s->f.verdict <= s->printed) return NULL;
  s->printed = s->f.verdict;
  return line_write(&s->f);
}

static void emit(struct det_out *out, const struct finding *f) {
  struct judge *j = sink.judge;
  bool is_new;
  struct seen *s = seen_find(j, f, &is_new);
  (void)out;
  if (!s) {
    write_finding(f, &(struct finding_telling){.tid = j->tid, .count = 1, .last = f->t});
    return;
  }
  s->count++;
  s->last = f->t;
  if (is_new || s->f.verdict != f->verdict) {
    s->f = *f;
    write_seen(s, j->tid, seen_print(s)); /* in this order: the record says whether the line could be put */
  } else if (!(s->count & (s->count - 1))) {
    write_seen(s, j->tid, NULL);
  }
}

/* The last chance: counts that the log does not have yet, and what it lost. A warning that still stands on stderr, although
 * it was taken back and the process ends well, is answered there. */
static void finish(struct judge *j, const struct fact_exit *end) {
  char text[160];
  size_t at;
  for (uint32_t i = 0; i < j->seens; i++) {
    struct seen *s = &j->seen[i];
    if (s->logged != s->count) write_seen(s, 0, NULL);
    if (end->status == 0 && s->printed >= VERDICT_WARN && s->f.verdict <= VERDICT_INFO) line_write(&s->f);
  }
  uint64_t dropped = log_take_dropped();
  if (!dropped) return;
  at = proc_put_number(text, sizeof(text), 0, dropped);
  str_copy(text + at, sizeof(text) - at, " records are missing: the log had its 16 MiB, or could not be written");
  write_note(text);
}

/* ---- judging ------------------------------------------------------------------------------------------------------ */
static bool judge_lock(void) {
  enum { TRIES = 100 };
  static const struct timespec pause = {0, 100000}; /* 100 us: 10 ms in all */
  for (int i = 0; i < TRIES; i++) {
    if (!__atomic_exchange_n(&sink.lock, 1, __ATOMIC_ACQUIRE)) return true;
    sys_call6(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
  }
  return false;
}

static void judge_unlock(void) { __atomic_store_n(&sink.lock, 0, __ATOMIC_RELEASE); }

/* Detectors are promised times that do not run back; of two threads the later may come first. */
static void judge(struct judge *j, const struct fact *fact) {
  struct fact ordered = *fact;
  if (ordered.t < j->last_t) ordered.t = j->last_t;
  j->last_t = ordered.t;
  j->tid = ordered.tid;
  j->out.emit = emit;
  det_observe(sink.state, shim_settings.detectors, &ordered, &j->out);
  if (fact->kind == FACT_KIND_exit) finish(j, &fact->u.exit);
}

void observe(struct fact *fact) {
  if (!fact->t) fact->t = clock_us();
  if (!fact->tid) fact->tid = (uint32_t)sys_gettid();
  write_fact(fact);
  ring_renew_pair(clock_us());
  if (ring_take_lost())
    write_note("the ring's file was cut while it was mapped: thread and allocation records end there");
  if (sink.judge && judge_lock()) {
    judge(sink.judge, fact);
    judge_unlock();
  }
  if (fact->kind == FACT_KIND_exit) ring_leave();
}

/* ---- the beginning -------------------------------------------------------------------------------------------------- */

/* A number from the first variable of the list that has one. */
static fact_i64 env_number(const char *const *names) {
  for (; *names; names++) {
    const char *text = shim_env(*names);
    fact_i64 v = 0;
    if (!text || !*text) continue;
    for (; *text >= '0' && *text <= '9' && v < INT32_MAX; text++) v = v * 10 + (*text - '0');
    if (!*text) return v;
  }
  return FACT_NO_I64;
}

static void ranks_into(struct fact_header *h) {
  static const char *const rank[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID", NULL};
  static const char *const local_rank[] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", NULL};
  static const char *const size[] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS", NULL};
  static const char *const local_size[] = {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", NULL};
  h->rank = env_number(rank);
  h->local_rank = env_number(local_rank);
  h->world_size = env_number(size);
  h->local_world_size = env_number(local_size);
}

/* Unix time at which a process with that start (1/100 s after boot) was started. */
static uint64_t start_us(uint64_t start) {
  struct timespec up = {0, 0};
  sys_call6(SYS_clock_gettime, CLOCK_BOOTTIME, (long)&up, 0, 0, 0, 0);
  uint64_t up_us = (uint64_t)up.tv_sec * 1000000 + (uint64_t)up.tv_nsec / 1000;
  return clock_us() - (up_us - start * 10000);
}

/* Everything that the header points to: too much for a foreign stack, and needed once. */
static struct {
  char run[RUN_ID], host[RUN_HOST], boot_id[64], kernel[128], gpu[64], exe[1024], cwd[1024], words[4096], argv[4096];
  struct utsname uts;
} about;

static const char *link_text(const char *path, char *out, size_t size) {
  long n = sys_readlinkat(SYS_AT_FDCWD, path, out, size - 1);
  if (n <= 0) return NULL;
  out[n] = '\0';
  return out;
}

static const char *command_line(void) {
  long n;
  int fd = sys_open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC | O_NOCTTY, 0);
  if (fd < 0) return NULL;
  n = sys_read(fd, about.words, sizeof(about.words));
  sys_close(fd);
  if (n <= 0) return NULL;
  redact_words(about.words, (size_t)n, about.argv, sizeof(about.argv));
  return about.argv;
}

static const char *gpu_model(void) {
  return gpu_model_read(shim_settings.root, about.gpu, sizeof(about.gpu)) == 0 ? about.gpu : NULL;
}

static const char *boot_id(void) {
  static const char path[] = "/proc/sys/kernel/random/boot_id";
  return proc_text_read(shim_settings.root, path, about.boot_id, sizeof(about.boot_id)) > 0 ? about.boot_id : NULL;
}

static const char *kernel_release(void) {
  static const char path[] = "/proc/sys/kernel/osrelease";
  return proc_text_read(shim_settings.root, path, about.kernel, sizeof(about.kernel)) > 0 ? about.kernel : NULL;
}

static void header_write(const char *run_from, const char *ring_name, const struct procstat *self) {
  struct fact fact = {.kind = FACT_KIND_header};
  struct fact_header *h = &fact.u.header;
  *h = (struct fact_header){.version = SPARKSHIM_VERSION, .run = about.run, .run_from = run_from};
  h->writer = shim_settings.injected ? "inject" : "shim";
  rundir_host(about.host);
  h->host = about.host;
  h->boot_id = boot_id();
  h->gpu = gpu_model();
  h->pid = (uint64_t)sys_getpid();
  h->ppid = self->start ? (uint64_t)self->ppid : FACT_NO_U64; /* 0: there is no /proc to be read */
  h->uid = (uint64_t)sys_call6(SYS_getuid, 0, 0, 0, 0, 0, 0);
  h->start = self->start ? start_us(self->start) : FACT_NO_U64;
  h->exe = link_text("/proc/self/exe", about.exe, sizeof(about.exe));
  h->argv = command_line();
  h->cwd = link_text("/proc/self/cwd", about.cwd, sizeof(about.cwd));
  h->machine = sys_call6(SYS_uname, (long)&about.uts, 0, 0, 0, 0, 0) < 0 ? NULL : about.uts.machine;
  h->ring = ring_name;
  h->kernel = kernel_release();
  h->page_size = proc_page_size();
  ranks_into(h);
  h->detectors_off = shim_env("SPARKSHIM_DETECTORS");
  h->simulated = shim_settings.root != NULL;
  observe(&fact);
}

static void judge_open(void) {
  const size_t head = (sizeof(struct judge) + 63U) & ~(size_t)63;
  if (sink.judge) sys_munmap(sink.judge, sink.size); /* a forked child begins anew */
  sink.judge = NULL;
  sink.lock = 0;
  for (unsigned i = 0; i < BUFFERS; i++) sink.buffer_taken[i] = 0;
  sink.size = head + det_state_size();
  void *map = sys_mmap(NULL, sink.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (sys_is_error(map)) return;
  sink.state = (char *)map + head;
  sink.judge = map;
}

void sinks_open(void) {
  struct procstat self = {0, 0, 0};
  const char *run_from = NULL, *ring_name = NULL;
  procstat_read(0, &self);
  judge_open();
  line_open();
  rundir_id(shim_env, shim_settings.root, about.run, &run_from);
  int dir = log_open(about.run, self.start);
  ring_open(dir, log_stem(), &ring_name);
  if (dir >= 0) sys_close(dir);
  header_write(run_from, ring_name, &self);
}
