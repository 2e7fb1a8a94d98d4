/* stallwatch.c - see stallwatch.h. */
#include "stallwatch.h"
#include "clock.h"
#include "live.h"
#include "procuse.h"
#include "ring_read.h"
#include "route.h"
#include "stall.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
  SECOND = 1000 * 1000,
  LIMIT_S = 30,
  LIMIT_MAX_S = 7 * 86400,
  LOOK_US = 5 * SECOND, /* at most, between two looks */
  THREADS = 512,        /* measured of one process; of more, the first ones */
};

struct thread {
  int tid;
  uint64_t cpu;
};

/* What a process and its threads had used at one moment. */
struct usage {
  uint64_t real_us; /* real time: processors do not follow the simulated clock */
  uint64_t cpu, read;
  size_t threads;
  struct thread thread[THREADS];
};

struct watched {
  int pid; /* 0: this place is free */
  uint64_t start;
  bool seen;
  struct stall_state state;
  struct usage *last; /* measured at the last look; NULL: not measured */
};

static struct {
  uint64_t limit, next;
  bool knows_limit;
  struct watched one[FOLLOW_MAX];
} s;

/* ---- rings ----------------------------------------------------------------------------------------------------------- */
static bool open_ring(const struct followed *p, struct ring_file *ring) {
  if (!p->ring || ring_open_state(p->ring, ring)) return false;
  ring_same_boot(ring); /* its process lives */
  return true;
}

void stallwatch_sums(struct ring_sums *out) {
  const struct followed *p;
  struct ring_sums sums = {0, 0, 0};
  bool any = false;
  for (size_t i = 0; (p = live_process(i)); i++) {
    struct ring_file ring;
    if (!follow_lives(p) || !open_ring(p, &ring)) continue;
    for (unsigned route = 0; route < ROUTE_COUNT; route++) {
      struct ring_counters c;
      ring_route_counters(&ring, route, &c);
      *(route == ROUTE_PINNED ? &sums.pinned : &sums.device) += c.live;
    }
    sums.work += ring_work(&ring);
    any = true;
    ring_close(&ring);
  }
  *out = any ? sums : (struct ring_sums){FACT_NO_U64, FACT_NO_U64, FACT_NO_U64};
}

/* *ret_slot: that of the oldest call in flight, in the ring; NULL: none is. */
static struct stall_view view_of(const struct ring_file *ring, const struct ring_slot **ret_slot) {
  struct stall_view v = {.t = clock_us()};
  *ret_slot = NULL;
  for (unsigned i = 0; i < ring->header->slots; i++) {
    const struct ring_slot *slot = ring_thread(ring, i);
    if (!slot) continue;
    uint64_t since = slot->call ? ring_us(ring, slot->since) : 0, activity = ring_us(ring, slot->last_activity);
    v.calls += slot->calls;
    if (activity > v.activity) v.activity = activity;
    if (!since || !slot->tid || (v.since && since >= v.since)) continue;
    v.since = since;
    v.mark = slot->since;
    v.tid = slot->tid;
    *ret_slot = slot;
  }
  return v;
}

/* ---- processes ------------------------------------------------------------------------------------------------------- */
static uint64_t real_us(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (uint64_t)ts.tv_sec * SECOND + (uint64_t)ts.tv_nsec / 1000;
}

static struct usage *measure(int pid) {
  char path[64];
  struct procuse use;
  struct usage *u = calloc(1, sizeof *u);
  if (!u || procuse_read(NULL, pid, &use)) {
    free(u);
    return NULL;
  }
  u->real_us = real_us();
  u->cpu = use.cpu;
  u->read = use.read;
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR *tasks = opendir(path);
  const struct dirent *entry;
  while (tasks && u->threads < THREADS && (entry = readdir(tasks))) {
    int tid = atoi(entry->d_name);
    if (tid <= 0 || procuse_thread(NULL, pid, tid, &use)) continue;
    u->thread[u->threads++] = (struct thread){tid, use.cpu};
  }
  if (tasks) closedir(tasks);
  return u;
}

static uint64_t rise(uint64_t from, uint64_t to) {
  if (from == FACT_NO_U64 || to == FACT_NO_U64) return FACT_NO_U64;
  return to > from ? to - from : 0;
}

/* Part of one processor, 0.01 %. */
static uint64_t part(uint64_t from, uint64_t to, uint64_t us) {
  uint64_t used = rise(from, to);
  return used == FACT_NO_U64 || !us ? FACT_NO_U64 : used * 10000 / us;
}

static uint64_t busiest(const struct usage *from, const struct usage *to, uint64_t us) {
  uint64_t most = FACT_NO_U64;
  for (size_t i = 0; i < to->threads; i++)
    for (size_t k = 0; k < from->threads; k++) {
      if (from->thread[k].tid != to->thread[i].tid) continue;
      uint64_t p = part(from->thread[k].cpu, to->thread[i].cpu, us);
      if (p != FACT_NO_U64 && (most == FACT_NO_U64 || p > most)) most = p;
      break;
    }
  return most;
}

static void put_usage(struct fact_stall *f, const struct usage *from, const struct usage *to) {
  if (!from || !to) return;
  uint64_t us = to->real_us - from->real_us;
  f->cpu = part(from->cpu, to->cpu, us);
  f->thread_cpu = busiest(from, to, us);
  f->read = rise(from->read, to->read);
}

/* ---- facts ----------------------------------------------------------------------------------------------------------- */

/* Of other calls the ring has a handle or a count. */
static bool has_size(const char *call) {
  return strstr(call, "Malloc") || strstr(call, "Alloc") || strstr(call, "MemCreate");
}

static void tell(const struct followed *p, const struct watched *w, const struct stall_view *v,
                 const struct ring_file *ring, const struct ring_slot *slot, const struct usage *now,
                 void (*write)(const struct fact *fact)) {
  struct fact fact;
  struct fact_stall *f = &fact.u.stall;
  struct procuse use;
  char state[2] = "";
  fact_init(&fact, FACT_KIND_stall);
  fact.t = v->t;
  f->pid = (uint64_t)p->pid;
  f->idle = stall_idle(&w->state, v);
  if (slot) {
    f->thread = slot->tid;
    f->call = ring_name(ring, slot->call);
    if (has_size(f->call)) f->arg = slot->arg;
    f->age = v->t > v->since ? v->t - v->since : 0;
    if (procuse_thread(NULL, p->pid, (int)slot->tid, &use) == 0) {
      state[0] = use.state;
      f->state = state;
    }
  }
  put_usage(f, w->last, now);
  write(&fact);
}

static void tell_end(const struct followed *p, const struct stall_state *told, const struct stall_view *v,
                     void (*write)(const struct fact *fact)) {
  struct fact fact;
  fact_init(&fact, FACT_KIND_stall);
  fact.t = v->t;
  fact.u.stall.pid = (uint64_t)p->pid;
  if (told->mark) fact.u.stall.thread = told->tid;
  fact.u.stall.age = v->t > told->since ? v->t - told->since : 0;
  fact.u.stall.over = true;
  write(&fact);
}

static void keep(struct watched *w, struct usage *now) {
  free(w->last);
  w->last = now;
}

static void look_at(const struct followed *p, struct watched *w, bool is_short,
                    void (*write)(const struct fact *fact)) {
  struct ring_file ring;
  const struct ring_slot *slot;
  if (!open_ring(p, &ring)) return;
  struct stall_view v = view_of(&ring, &slot);
  v.is_short = is_short;
  struct stall_state before = w->state;
  enum stall_event event = stall_judge(&w->state, &v, s.limit);
  if (event == STALL_OVER) {
    tell_end(p, &before, &v, write);
    event = stall_judge(&w->state, &v, s.limit);
  }
  struct usage *now = event == STALL_NONE ? NULL : measure(p->pid);
  if (event == STALL_LASTS) tell(p, w, &v, &ring, slot, now, write);
  keep(w, now);
  ring_close(&ring);
}

/* ---- the whole --------------------------------------------------------------------------------------------------------- */
static struct watched *place_of(const struct followed *p) {
  struct watched *empty = NULL;
  for (size_t i = 0; i < FOLLOW_MAX; i++) {
    if (s.one[i].pid == p->pid && s.one[i].start == p->start) return &s.one[i];
    if (!s.one[i].pid && !empty) empty = &s.one[i];
  }
  if (empty) *empty = (struct watched){.pid = p->pid, .start = p->start};
  return empty;
}

static uint64_t limit(void) {
  const char *text = getenv("SPARKSHIM_STALL");
  char *end;
  if (!text || !*text) return LIMIT_S * (uint64_t)SECOND;
  unsigned long long n = strtoull(text, &end, 10);
  return *end || n > LIMIT_MAX_S ? LIMIT_S * (uint64_t)SECOND : n * SECOND;
}

static bool is_time(void) {
  if (!s.knows_limit) s.limit = limit();
  s.knows_limit = true;
  uint64_t now = clock_us();
  if (!s.limit || now < s.next) return false;
  s.next = now + (s.limit / 4 < LOOK_US ? s.limit / 4 : LOOK_US);
  return true;
}

void stallwatch_look(bool is_short, void (*write)(const struct fact *fact)) {
  const struct followed *p;
  if (!is_time()) return;
  for (size_t i = 0; i < FOLLOW_MAX; i++) s.one[i].seen = false;
  for (size_t i = 0; (p = live_process(i)); i++) {
    struct watched *w = place_of(p);
    if (!w) continue;
    w->seen = true;
    look_at(p, w, is_short, write);
  }
  for (size_t i = 0; i < FOLLOW_MAX; i++) { /* processes that are gone */
    if (!s.one[i].pid || s.one[i].seen) continue;
    keep(&s.one[i], NULL);
    s.one[i] = (struct watched){0};
  }
}
