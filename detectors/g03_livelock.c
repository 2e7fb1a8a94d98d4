/* g03_livelock.c - G3: the machine stands still for lack of memory, and nothing says so (livelock).
 *
 * No call fails and nobody is killed: the kernel reclaims, compacts and swaps for ever, calls do not return, and even
 * nvidia-smi blocks. Reported: MemFree 138 to 891 MB, MemAvailable 1 to 2 GiB, calls in flight for 300 to 700 s, NVML
 * without an answer, or one thread at 100 to 200 % of a processor with no call returning.
 *
 * Waiting is no standing still, and standing still is no livelock. It takes all of these:
 *   - no hooked call of the process has returned for the limit, and no other process of the job worked meanwhile;
 *   - MemFree and MemAvailable are at the edge for as long as a part of that;
 *   - a sign that memory is what is waited for: all tasks wait (PSI full), memory goes to swap and comes back, or NVML
 *     does not answer;
 *   - nothing new is read from disk meanwhile, for a loader between two calls looks the same.
 * What remains is a driver, GPU or peer that stops calls by itself while memory happens to be short: always medium.
 *
 * From `stall`, `sample` and `nvml` (facts.def), while it lasts. Freestanding: no libc, no I/O, no clock, no lock.
 */
#include "detector.h"
#include "number.h"
#include "reading.h"
#include "text.h"
#include "words.h"

#define SECOND ((uint64_t)1000 * 1000)

/* WARN after a minute without a returned call, FAIL after five: a collective, a compilation or a load may well take
 * a minute; in the reported cases 300 s and more had passed. */
#define STANDS_WARN_US (60 * SECOND)
#define STANDS_FAIL_US (300 * SECOND)
/* The edge has to last: a last moment's shortage does not explain a stall that began before. */
#define SHORT_WARN_US (20 * SECOND)
#define SHORT_FAIL_US (60 * SECOND)
/* NVML answers in milliseconds; 491 to 737 s in the reported case. */
#define NVML_SILENT_US (30 * SECOND)
/* MemAvailable below a 48th of memory (2.5 of 121.6 GiB; 2.0 GiB were the most reported), and below 8 GiB on any machine.
 * MemFree: reading.h's reserve. */
enum { AVAILABLE_PART = 48 };
#define AVAILABLE_MOST ((uint64_t)8 << 30)
/* PSI full avg10, 0.01 %: 7.8 % in the reported case of pressure, 0 on healthy machines. */
enum { FULL_WAITING = 500 };
/* Pages a second in and out of swap, both: 1 MiB/s. A machine that has swapped once does one of them. */
enum { SWAP_PAGES = 256 };
/* Disk reads that are progress: 8 MiB/s, and pages that were dropped before and read again are less than half of it. */
#define READ_RATE ((uint64_t)8 << 20)

enum { MARKS = 8, STALLS = 4 };
#define MARK_US (10 * SECOND) /* between two kept samples: a window of some 70 s */

enum sign { SIGN_FULL = 1, SIGN_SWAP = 2, SIGN_NVML = 4 };

/* One sample, as far as differences are made of it. */
struct mark {
  uint64_t t; /* 0: none */
  uint64_t in, out, refault, read, work, full_total, page;
};

struct stalled {
  uint64_t pid; /* 0: free */
  uint64_t t;   /* of the record; age and idle are of then */
  uint64_t age, idle, thread_cpu;
  char call[40]; /* empty: none in flight */
};

struct state {
  struct fact_memory mem;
  uint64_t t;           /* of the last sample; 0: none */
  uint64_t full, block; /* of it: PSI full avg10, largest free block */
  uint64_t short_since; /* 0: memory is not at the edge */
  uint64_t nvml_since;  /* 0: it answers, or was not asked */
  struct mark now, mark[MARKS];
  unsigned marks;
  struct stalled stalled[STALLS];
  bool shown;
  enum verdict verdict;
  uint64_t longest; /* time stood still, when it was last said */
};

/* What is concluded from the state at the time of a fact. */
struct scene {
  uint64_t t;
  const struct stalled *who;
  uint64_t still, age; /* no call has returned for; the call in flight is that old, FACT_NO_U64: none */
  uint64_t edge;       /* memory is at the edge for */
  unsigned signs;
  uint64_t swap_in, swap_out, read, nvml; /* bytes a second in the window; us without an answer */
};

/* ---- readings ------------------------------------------------------------------------------------------------------ */
/* The plain figures: what CMA or HugeTLB take from them is another cause. */
static bool at_edge(const struct fact_memory *m) {
  struct reading r = reading_of(m);
  return r.known && m->free <= r.reserve && m->available <= num_min(m->total / AVAILABLE_PART, AVAILABLE_MOST);
}

/* The oldest sample that is kept; itself at the beginning. */
static const struct mark *window(const struct state *s) { return &s->mark[s->marks < MARKS ? 0 : s->marks % MARKS]; }

/* Units a second of a counter in the window; 0 where it is not known or runs back. */
static uint64_t rate(uint64_t from, uint64_t to, uint64_t dt) {
  if (!num_known(from) || !num_known(to) || !dt) return 0;
  uint64_t rise = num_less(to, from);
  return rise > UINT64_MAX / SECOND ? 0 : rise * SECOND / dt;
}

static uint64_t times(uint64_t a, uint64_t b) { return b && a > UINT64_MAX / b ? UINT64_MAX : a * b; }

static void look_at_window(const struct state *s, struct scene *c, bool *ret_progress) {
  const struct mark *from = window(s);
  uint64_t dt = num_less(s->now.t, from->t), page = num_known(s->now.page) ? s->now.page : 4096;
  uint64_t in = rate(from->in, s->now.in, dt), out = rate(from->out, s->now.out, dt);
  uint64_t again = times(rate(from->refault, s->now.refault, dt), page) + times(in, page);
  c->read = rate(from->read, s->now.read, dt);
  c->swap_in = times(in, page);
  c->swap_out = times(out, page);
  if (in >= SWAP_PAGES && out >= SWAP_PAGES) c->signs |= SIGN_SWAP;
  if (num_or_zero(s->full) >= FULL_WAITING || rate(from->full_total, s->now.full_total, dt) >= FULL_WAITING * 100)
    c->signs |= SIGN_FULL;
  *ret_progress = (c->read >= READ_RATE && again < c->read / 2) ||
                  num_less(num_known(s->now.work) ? s->now.work : 0, from->work) > 0;
}

/* The process that has stood still for longest. */
static void find_stalled(const struct state *s, struct scene *c) {
  for (int i = 0; i < STALLS; i++) {
    const struct stalled *p = &s->stalled[i];
    uint64_t since = num_known(p->idle) ? p->idle : p->age;
    if (!p->pid || !num_known(since) || c->t < p->t) continue;
    if (c->t - p->t > since) continue; /* who watches writes again before it has doubled: the process is gone */
    uint64_t still = num_plus(since, c->t - p->t);
    if (c->who && still <= c->still) continue;
    c->who = p;
    c->still = still;
    c->age = p->call[0] && num_known(p->age) ? num_plus(p->age, c->t - p->t) : FACT_NO_U64;
  }
}

/* ---- words ----------------------------------------------------------------------------------------------------------- */
static void add_whole_seconds(struct text *t, const char *before, uint64_t us, const char *after) {
  text_add(t, before);
  text_number(t, us / SECOND);
  text_add(t, " s");
  text_add(t, after);
}

static void say_who(struct text *t, const struct scene *c) {
  if (num_known(c->age)) {
    text_add(t, c->who->call);
    add_whole_seconds(t, " has not returned for ", c->age, "");
  } else {
    add_whole_seconds(t, "no CUDA or NCCL call has returned for ", c->still, "");
  }
}

static void add_signs(struct text *t, const struct state *s, const struct scene *c) {
  if (c->signs & SIGN_NVML) add_whole_seconds(t, "NVML has not answered for ", c->nvml, "; ");
  if (c->signs & SIGN_FULL) {
    text_add(t, "all tasks wait for memory in ");
    text_number(t, num_or_zero(s->full) / 100);
    text_add(t, " % of the time (PSI full); ");
  }
  if (c->signs & SIGN_SWAP) {
    text_sized(t, "", c->swap_in, " a second from swap, ");
    text_sized(t, "", c->swap_out, " a second to it; ");
  }
  if (num_known(s->block)) text_sized(t, "largest free block ", s->block, "");
}

static void say_evidence(struct finding *f, const struct state *s, const struct scene *c) {
  struct text t = text_item(&f->evidence);
  say_who(&t, c);
  text_add(&t, " in process ");
  text_number(&t, c->who->pid);
  if (num_known(c->who->thread_cpu)) {
    text_add(&t, "; its busiest thread uses ");
    text_number(&t, c->who->thread_cpu / 100);
    text_add(&t, " % of a processor");
  }
  t = text_item(&f->evidence);
  add_signs(&t, s, c);
  words_memory(&f->evidence, &s->mem);
  text_item_add(&f->evidence, "not excluded: a driver, GPU or peer that stops calls by itself while memory is short");
}

static void say(struct state *s, const struct scene *c, enum verdict v, struct det_out *out) {
  struct finding *f = &out->f;
  words_begin(f, 3, v, "livelock", "machine");
  struct text t = text_in(f->text, sizeof f->text);
  f->confidence = CONFIDENCE_MEDIUM;
  f->retry = RETRY_USELESS;
  f->t = c->t;
  text_add(&t, "the machine stands still for lack of memory: ");
  say_who(&t, c);
  text_sized(&t, ", MemFree ", s->mem.free, "");
  text_sized(&t, ", MemAvailable ", s->mem.available, "");
  add_whole_seconds(&t, " for ", c->edge, "");
  if (c->signs & SIGN_NVML) text_add(&t, ", and NVML does not answer");
  say_evidence(f, s, c);
  t = text_item(&f->ruled_out);
  text_add(&t, "waiting for a peer or a file: ");
  text_add(&t, c->read >= READ_RATE ? "what is read had been in memory before" : "hardly anything is read from disk");
  text_item_add(&f->ruled_out,
                "alloc_refused_exhausted, kernel_oom_kill: no call has failed and nobody was killed so far");
  t = text_item(&f->fixes);
  text_add(&t, "end the job before the machine needs a power cycle: kill -9 ");
  text_number(&t, c->who->pid);
  text_item_add(&f->fixes,
                "leave the machine 8 to 10 GiB at the next start: a smaller share, batch, sequence or KV cache");
  text_item_add(&f->fixes, "cap the allocator (torch.cuda.set_per_process_memory_fraction): an error comes instead");
  text_item_add(&f->fixes, "for a desktop on the same machine: log out of it, or run the job without one");
  out->emit(out, f);
  s->shown = true;
  s->verdict = v;
  s->longest = c->still;
}

/* It went on: WARN as it lost that time, INFO once the job has ended well. */
static void say_over(struct state *s, uint64_t when, enum verdict v, struct det_out *out) {
  struct finding *f = &out->f;
  words_begin(f, 3, v, "livelock", "machine");
  struct text t = text_in(f->text, sizeof f->text);
  f->confidence = CONFIDENCE_MEDIUM;
  f->t = when;
  add_whole_seconds(&t, "the machine stood still for lack of memory for ", s->longest, " or more, and went on");
  words_memory(&f->evidence, &s->mem);
  text_item_add(&f->fixes,
                "leave the machine 8 to 10 GiB at the next start: a smaller share, batch, sequence or KV cache");
  out->emit(out, f);
  s->verdict = v;
}

/* ---- judging ----------------------------------------------------------------------------------------------------------- */
static void judge(struct state *s, uint64_t t, struct det_out *out) {
  struct scene c = {.t = t, .age = FACT_NO_U64};
  bool progress;
  find_stalled(s, &c);
  if (!c.who || c.still < STANDS_WARN_US || !s->short_since) return;
  c.edge = num_less(t, s->short_since);
  look_at_window(s, &c, &progress);
  if (s->nvml_since && num_less(t, s->nvml_since) >= NVML_SILENT_US) {
    c.signs |= SIGN_NVML;
    c.nvml = t - s->nvml_since;
  }
  if (progress || !c.signs || c.edge < SHORT_WARN_US) return;
  enum verdict v = c.still >= STANDS_FAIL_US && c.edge >= SHORT_FAIL_US ? VERDICT_FAIL : VERDICT_WARN;
  /* Told again when the verdict rises, and with the new figures at each doubling. */
  if (s->shown && (s->verdict > v || (s->verdict == v && c.still / 2 < s->longest))) return;
  say(s, &c, v, out);
}

/* ---- facts ------------------------------------------------------------------------------------------------------------- */
static void on_sample(struct state *s, const struct fact *fact, struct det_out *out) {
  const struct fact_sample *m = &fact->u.sample;
  s->mem = m->mem;
  s->full = m->full_avg10;
  s->block = m->block_max;
  if (!at_edge(&m->mem))
    s->short_since = 0;
  else if (!s->short_since)
    s->short_since = fact->t;
  const struct mark before = s->t ? s->now : (struct mark){.read = FACT_NO_U64, .work = FACT_NO_U64};
  s->t = fact->t;
  s->now = (struct mark){.t = fact->t,
                         .in = m->pswpin,
                         .out = m->pswpout,
                         .refault = m->refault,
                         .read = m->job_read,
                         .work = m->job_work,
                         .full_total = m->full_total,
                         .page = m->page_size};
  /* Between two whole samples there are some of the machine alone: the job is then as it was before. */
  s->now.read = num_or(s->now.read, before.read);
  s->now.work = num_or(s->now.work, before.work);
  const struct mark *latest = s->marks ? &s->mark[(s->marks - 1) % MARKS] : NULL;
  if (!latest || num_less(fact->t, latest->t) >= MARK_US) s->mark[s->marks++ % MARKS] = s->now;
  judge(s, fact->t, out);
}

static struct stalled *place_of(struct state *s, uint64_t pid) {
  struct stalled *empty = NULL;
  for (int i = 0; i < STALLS; i++) {
    if (s->stalled[i].pid == pid) return &s->stalled[i];
    if (!s->stalled[i].pid && !empty) empty = &s->stalled[i];
  }
  return empty;
}

static void on_stall(struct state *s, const struct fact *fact, struct det_out *out) {
  const struct fact_stall *stall = &fact->u.stall;
  struct stalled *p = place_of(s, stall->pid);
  if (!p || !num_known(stall->pid)) return;
  if (stall->over) {
    p->pid = 0;
    if (s->shown && s->verdict == VERDICT_FAIL) say_over(s, fact->t, VERDICT_WARN, out);
    return;
  }
  *p = (struct stalled){
      .pid = stall->pid, .t = fact->t, .age = stall->age, .idle = stall->idle, .thread_cpu = stall->thread_cpu};
  text_copy(p->call, sizeof p->call, stall->call);
  judge(s, fact->t, out);
}

static void on_nvml(struct state *s, const struct fact *fact, struct det_out *out) {
  const struct fact_nvml *n = &fact->u.nvml;
  if (n->answered || n->error) {
    s->nvml_since = 0; /* it answers, or there is nobody to ask */
    return;
  }
  uint64_t since = num_less(fact->t, num_or_zero(n->waited));
  if (!s->nvml_since || since < s->nvml_since) s->nvml_since = since ? since : 1;
  judge(s, fact->t, out);
}

static void on_end(struct state *s, int64_t status, uint64_t t, struct det_out *out) {
  for (int i = 0; i < STALLS; i++) s->stalled[i].pid = 0;
  if (s->shown && status == 0 && s->verdict > VERDICT_INFO) say_over(s, t, VERDICT_INFO, out);
}

static void observe(void *state, const struct fact *fact, struct det_out *out) {
  struct state *s = state;
  switch (fact->kind) {
  case FACT_KIND_sample: on_sample(s, fact, out); break;
  case FACT_KIND_stall: on_stall(s, fact, out); break;
  case FACT_KIND_nvml: on_nvml(s, fact, out); break;
  case FACT_KIND_exit: on_end(s, fact->u.exit.status, fact->t, out); break;
  case FACT_KIND_job_end: on_end(s, fact->u.job_end.exit, fact->t, out); break;
  default: break;
  }
}

const struct detector det_g03_livelock = {
    .g = 3, .name = "g03_livelock", .state_size = sizeof(struct state), .observe = observe};
