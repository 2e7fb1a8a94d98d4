/* preflight_memory.c - see preflight_memory.h. */
#include "preflight_memory.h"
#include "launcher.h"
#include "clock.h"
#include "detector.h"
#include "gpu_model.h"
#include "json_value.h"
#include "sample.h"
#include "split_json.h"

#include <string.h>
#include <unistd.h>

#define GIB ((uint64_t)1 << 30)

enum {
  ANSWER_MS = 5000,           /* for which NVML's answer is waited: its start takes up to some seconds */
  PATIENCE_US = 10 * 1000000, /* after a crash 92 GB came back within 2 to 5 s (facts/memory.md) */
  LOOK_EVERY_US = 2 * 1000000,
};

/* ---- facts ----------------------------------------------------------------------------------------------------------- */

/* May be gone in a moment, or is one that nobody uses: no service, no container, and whatever started it has ended. */
static bool is_ownerless(const struct fact_holder *h) {
  bool orphan = (h->ppid == 1 || h->ppid == FACT_NO_U64) && (h->session_gone || h->unseen);
  return !strcmp(h->kind, "compute") && !h->managed && orphan && h->bytes >= GIB;
}

static void keep_holder(struct preflight_memory *m, const struct fact_holder *h) {
  m->ownerless = m->ownerless || is_ownerless(h);
  if (m->holders == PREFLIGHT_HOLDERS) return;
  struct preflight_holder *k = &m->holder[m->holders++];
  *k = (struct preflight_holder){.pid = h->pid, .bytes = h->bytes, .graphics = !strcmp(h->kind, "graphics")};
  snprintf(k->name, sizeof k->name, "%s", h->name ? h->name : "?");
  snprintf(k->unit, sizeof k->unit, "%s", h->unit ? h->unit : "");
}

static void keep_nvml(struct preflight_memory *m, const struct fact_nvml *n) {
  m->asked = true;
  m->answered = n->answered;
  m->waited = n->waited;
  m->compute = n->compute;
  m->graphics = n->graphics;
  snprintf(m->nvml_error, sizeof m->nvml_error, "%s", n->error ? n->error : "");
}

static void take(const struct fact *fact, void *arg) {
  struct preflight_memory *m = arg;
  judged_observe(&m->judged, fact);
  split_follow(&m->follow, fact);
  if (fact->kind == FACT_KIND_holder) keep_holder(m, &fact->u.holder);
  if (fact->kind == FACT_KIND_nvml) keep_nvml(m, &fact->u.nvml);
}

/* The kind of GPU decides whether anything here applies, our user what is ours to end. */
static void take_header(struct preflight_memory *m, const char *root) {
  struct fact fact;
  char gpu[128];
  fact_init(&fact, FACT_KIND_header);
  fact.t = clock_us();
  fact.u.header.uid = (uint64_t)getuid();
  if (gpu_model_read(root, gpu, sizeof gpu) == 0) fact.u.header.gpu = gpu;
  take(&fact, m);
}

/* What a program that asks cudaMemGetInfo would be told now: on GB10 that is MemFree. */
static void take_query(struct preflight_memory *m) {
  struct fact fact;
  fact_init(&fact, FACT_KIND_mem_query);
  fact.t = clock_us();
  fact.u.mem_query.call = "cudaMemGetInfo";
  fact.u.mem_query.result = 0;
  fact.u.mem_query.mem = m->mem;
  fact.u.mem_query.free = m->mem.free;
  fact.u.mem_query.total = m->mem.total;
  take(&fact, m);
}

static bool take_sample(struct preflight_memory *m, const char *root) {
  struct sample_from from = {
      .root = root, .parts = SAMPLE_MACHINE, .job_device = FACT_NO_U64, .job_pinned = FACT_NO_U64};
  struct fact fact;
  sample_read(&from, "start", &fact);
  m->mem = fact.u.sample.mem;
  if (m->mem.total == FACT_NO_U64 || m->mem.free == FACT_NO_U64 || m->mem.available == FACT_NO_U64) return false;
  take(&fact, m);
  return true;
}

static void take_split(struct preflight_memory *m) {
  struct fact fact;
  fact_init(&fact, FACT_KIND_split);
  fact.t = clock_us();
  m->has_split = split_now(&m->follow, "preflight", &m->split);
  if (!m->has_split) return;
  fact.u.split = m->split;
  take(&fact, m);
}

/* ---- looking --------------------------------------------------------------------------------------------------------- */
struct looks {
  const char *root;
  struct holder_looks seen;
  struct nvml_client client;
};

static void look_once(struct preflight_memory *m, struct looks *l) {
  m->holders = 0;
  m->ownerless = false;
  collect_look(&l->seen, &l->client, ANSWER_MS, l->root, NULL, take, m);
  take_sample(m, l->root); /* the answer may have taken seconds */
  take_split(m);
  uint64_t least = m->mem.total / 64 > GIB ? m->mem.total / 64 : GIB;
  if (m->has_split && m->split.device_nobody != FACT_NO_U64 && m->split.device_nobody >= least) m->ownerless = true;
}

/* Until it is sure that the memory stays, or it has come back. */
static void look_on(struct preflight_memory *m, struct looks *l) {
  const uint32_t go_on = 0;
  struct clock_watch watch;
  const uint64_t until = clock_us() + PATIENCE_US + LOOK_EVERY_US / 10;
  if (isatty(STDERR_FILENO)) say("looking for 10 s whether GPU memory that belongs to nobody comes back");
  clock_watch_begin(&watch, l->root);
  for (uint64_t now = clock_us(); m->ownerless && m->answered && now < until; now = clock_us()) {
    clock_watch_sleep(&watch, now + LOOK_EVERY_US < until ? now + LOOK_EVERY_US : until, &go_on);
    look_once(m, l);
  }
  clock_watch_end(&watch);
}

void preflight_memory_look(struct preflight_memory *m, const char *root) {
  static struct looks looks = {.client = NVML_CLIENT_NONE};
  struct cgroup_place place;
  looks.root = root;
  m->judged.detectors = det_mask("G3,G6");
  split_follow_init(&m->follow);
  take_header(m, root);
  cgroup_find(root, 0, &place);
  collect_limits(root, 0, place.version ? &place : NULL, take, m);
  collect_killers(root, NULL, take, m);
  if (!take_sample(m, root)) {
    m->error = -1;
    return;
  }
  take_query(m);
  look_once(m, &looks);
  if (m->ownerless) look_on(m, &looks);
  nvml_end(&looks.client);
}

void preflight_memory_free(struct preflight_memory *m) { judged_free(&m->judged); }

/* ---- showing --------------------------------------------------------------------------------------------------------- */
static void print_size(uint64_t bytes, FILE *to) {
  if (bytes == FACT_NO_U64)
    fprintf(to, "%11s", "not known");
  else if (bytes < GIB / 10)
    fprintf(to, "%7.1f MiB", (double)bytes / (1 << 20));
  else
    fprintf(to, "%7.1f GiB", (double)bytes / (double)GIB);
}

static void print_holders(const struct preflight_memory *m, FILE *to) {
  for (size_t i = 0; i < m->holders; i++) {
    const struct preflight_holder *h = &m->holder[i];
    fputs("memory  ", to);
    print_size(h->bytes, to);
    fprintf(to, "    held by pid %llu, %s%s%s%s\n", (unsigned long long)h->pid, h->name,
            h->graphics ? " (graphics)" : "", h->unit[0] ? ", of " : "", h->unit);
  }
}

void preflight_memory_print(const struct preflight_memory *m, bool simulated, FILE *to) {
  struct split_row rows[SPLIT_ROWS];
  char line[512];
  if (!m->has_split) return;
  split_line(&m->split, line, sizeof line);
  fprintf(to, "memory  %s%s\n", line, simulated ? " (simulated)" : "");
  split_rows(&m->split, rows);
  for (int i = 0; i < SPLIT_ROWS; i++) {
    bool job = strstr(rows[i].name, "this job") != NULL;
    if (job || (!rows[i].bytes && strcmp(rows[i].key, "rest")))
      continue; /* there is no job, and nothing to say of nothing */
    fputs(rows[i].negative ? "memory -" : "memory  ", to);
    print_size(rows[i].bytes, to);
    fprintf(to, "  %s\n", rows[i].negative ? "counted twice" : rows[i].name);
    if (!strcmp(rows[i].key, "device_others")) print_holders(m, to);
  }
  fputs("memory  ", to);
  print_size(m->split.total, to);
  fputs("  in all\n", to);
}

static json_t *holders_json(const struct preflight_memory *m) {
  json_t *array = json_array();
  for (size_t i = 0; i < m->holders; i++) {
    const struct preflight_holder *h = &m->holder[i];
    json_t *o = json_object();
    json_set_u64(o, "pid", h->pid);
    json_set_text(o, "name", h->name);
    json_set_text(o, "kind", h->graphics ? "graphics" : "compute");
    json_set_u64(o, "bytes", h->bytes);
    if (h->unit[0]) json_set_text(o, "unit", h->unit);
    json_array_append_new(array, o);
  }
  return array;
}

json_t *preflight_memory_json(const struct preflight_memory *m) {
  const struct split_at now = {.t = 0, .split = m->split};
  if (!m->has_split) return NULL;
  json_t *o = split_json(&now);
  json_object_set_new(o, "holders", holders_json(m));
  return o;
}
