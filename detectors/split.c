/* split.c - see split.h. No libc, no I/O, no clock, no lock. */
#include "split.h"

#include "number.h"
#include "text.h"

#define GIB ((uint64_t)1 << 30)
/* A look at NVML and a reading of memory tell of one moment when they lie this close together: a job moves by gigabytes a
 * second, and what it took in between would be called nobody's. */
#define SAME_MOMENT_US ((uint64_t)1500 * 1000)

/* ---- making ---------------------------------------------------------------------------------------------------------- */

/* The free part of a CMA area. `CmaTotal: 0 kB` with CmaFree above 0 is a bug of some kernels: nothing is subtracted then. */
static uint64_t cma_of(const struct fact_memory *m) {
  return num_or_zero(m->cma_total) ? num_min(num_or_zero(m->cma_free), m->free) : 0;
}

static uint64_t kernel_of(const struct fact_memory *m) {
  const uint64_t parts[] = {m->sunreclaim, m->kernel_stack, m->page_tables, m->sec_page_tables, m->percpu};
  uint64_t sum = 0;
  for (unsigned i = 0; i < sizeof parts / sizeof parts[0]; i++) sum = num_plus(sum, num_or_zero(parts[i]));
  return sum;
}

/* What of the driver's memory is nobody's: known only where NVML gave a figure for everyone. What can be had by what
 * MemAvailable says is held by nobody at all, and by no driver: readings that contradict each other name no culprit. */
static uint64_t nobody_of(const struct split_input *in, const struct fact_split *s, uint64_t told) {
  if (!in->nvml || in->nvml_untold) return FACT_NO_U64;
  uint64_t others = num_plus(num_plus(s->shmem, s->huge), num_plus(s->kernel, num_or_zero(in->mem.anon)));
  uint64_t used = num_less(s->total, num_plus(num_or_zero(in->mem.available), others));
  uint64_t left = num_less(num_min(s->driver, used), told);
  return left > SPLIT_DRIVER_MOST ? left - SPLIT_DRIVER_OWN : 0;
}

static void take_driver(const struct split_input *in, struct fact_split *s) {
  s->pinned = num_or_zero(in->job_pinned);
  s->device_job = num_or_zero(in->job_device);
  if (in->nvml) s->device_job = num_max(s->device_job, num_or_zero(in->nvml_job));
  s->device_others = in->nvml ? num_or_zero(in->nvml_others) : 0;
  uint64_t told = num_plus(num_plus(s->pinned, s->device_job), s->device_others);
  s->device_nobody = nobody_of(in, s, told);
}

/* a - b as a signed number; figures of a torn file are kept within its range. */
static int64_t difference(uint64_t a, uint64_t b) {
  uint64_t d = a > b ? a - b : b - a;
  if (d > INT64_MAX) d = INT64_MAX;
  return a > b ? (int64_t)d : -(int64_t)d;
}

static uint64_t sum_of(const struct fact_split *s) {
  const uint64_t parts[] = {s->free, s->cma,    s->cache,      s->shmem,         s->anon_job,      s->anon_others,
                            s->huge, s->pinned, s->device_job, s->device_others, s->device_nobody, s->kernel};
  uint64_t sum = 0;
  for (unsigned i = 0; i < sizeof parts / sizeof parts[0]; i++) sum = num_plus(sum, num_or_zero(parts[i]));
  return sum;
}

bool split_make(const struct split_input *in, const char *why, struct fact_split *out) {
  const struct fact_memory *m = &in->mem;
  struct fact_split s = {.why = why, .total = m->total};
  if (!num_known(m->total) || !m->total || !num_known(m->free)) return false;
  s.cma = cma_of(m);
  s.free = m->free - s.cma;
  s.shmem = num_or_zero(m->shmem);
  s.cache = num_plus(num_plus(num_less(num_or_zero(m->cached), s.shmem), num_or_zero(m->buffers)),
                     num_plus(num_or_zero(m->kreclaimable), num_or_zero(m->swap_cached)));
  s.anon_job = num_min(num_or_zero(in->job_anon), num_or_zero(m->anon));
  s.anon_others = num_or_zero(m->anon) - s.anon_job;
  s.huge = num_or_zero(m->huge_total);
  s.kernel = kernel_of(m);
  s.driver = num_less(s.total, sum_of(&s));
  take_driver(in, &s);
  s.rest = difference(s.total, sum_of(&s));
  *out = s;
  return true;
}

/* ---- following --------------------------------------------------------------------------------------------------------- */
void split_follow_init(struct split_follow *s) {
  *s = (struct split_follow){.t = 0};
  s->in.mem.total = s->in.mem.free = FACT_NO_U64;
  s->in.job_anon = s->in.job_device = s->in.job_pinned = FACT_NO_U64;
}

static bool take_memory(struct split_follow *s, const struct fact_memory *m, uint64_t t) {
  if (!num_known(m->total) || !num_known(m->free)) return false;
  s->in.mem = *m;
  s->t = t;
  return true;
}

/* A sample without the job's part (taken in haste) leaves what was known of it. */
static bool take_sample(struct split_follow *s, const struct fact *fact) {
  const struct fact_sample *p = &fact->u.sample;
  if (p->job_processes == 0) s->in.job_anon = s->in.job_device = s->in.job_pinned = s->in.nvml_job = 0;
  if (num_known(p->job_anon)) s->in.job_anon = p->job_anon;
  if (num_known(p->job_device)) s->in.job_device = p->job_device;
  if (num_known(p->job_pinned)) s->in.job_pinned = p->job_pinned;
  return take_memory(s, &p->mem, fact->t);
}

static uint64_t at_least(uint64_t known_before, uint64_t now) {
  if (!num_known(now)) return known_before;
  return num_known(known_before) ? num_max(known_before, now) : now;
}

/* One process's own figures, at the moment of its refusal: the job has as much at least. */
static bool take_refusal(struct split_follow *s, const struct fact *fact) {
  const struct fact_alloc_failed *a = &fact->u.alloc_failed;
  if (num_known(a->last) && a->last && a->last < fact->t) return false; /* held back: the reading is of later */
  s->in.job_device = at_least(s->in.job_device, a->live_device);
  s->in.job_pinned = at_least(s->in.job_pinned, a->live_pinned);
  return take_memory(s, &a->mem, fact->t);
}

static void take_holder(struct split_follow *s, const struct fact *fact) {
  const struct fact_holder *h = &fact->u.holder;
  if (fact->t != s->next_t || !s->next_t) {
    s->next_t = fact->t;
    s->next_job = s->next_others = 0;
    s->next_untold = false;
  }
  uint64_t *sum = h->ours ? &s->next_job : &s->next_others;
  if (num_known(h->bytes))
    *sum = num_plus(*sum, h->bytes);
  else
    s->next_untold = true;
}

static bool take_look(struct split_follow *s, const struct fact *fact) {
  const struct fact_nvml *n = &fact->u.nvml;
  if (!n->answered || !text_equal(n->call, "processes")) return false;
  bool told = s->next_t == fact->t && s->next_t;
  s->in.nvml = true;
  s->in.nvml_job = told ? s->next_job : 0;
  s->in.nvml_others = told ? s->next_others : 0;
  s->in.nvml_untold = told && s->next_untold;
  s->look_t = fact->t;
  s->next_t = 0;
  return true;
}

bool split_follow(struct split_follow *s, const struct fact *fact) {
  switch (fact->kind) {
  case FACT_KIND_sample: return take_sample(s, fact);
  case FACT_KIND_alloc_failed: return take_refusal(s, fact);
  case FACT_KIND_mem_query: return take_memory(s, &fact->u.mem_query.mem, fact->t);
  case FACT_KIND_alloc_large: return take_memory(s, &fact->u.alloc_large.mem, fact->t);
  case FACT_KIND_mem: return take_memory(s, &fact->u.mem.mem, fact->t);
  case FACT_KIND_exit: return take_memory(s, &fact->u.exit.mem, fact->t);
  case FACT_KIND_holder: take_holder(s, fact); return false;
  case FACT_KIND_nvml: return take_look(s, fact);
  default: return false;
  }
}

bool split_now(const struct split_follow *s, const char *why, struct fact_split *out) {
  struct split_input in = s->in;
  uint64_t age = num_max(s->t, s->look_t) - num_min(s->t, s->look_t);
  if (age > SAME_MOMENT_US) {
    in.nvml_untold = true;
    if (num_known(in.job_device)) in.nvml_job = 0;
  }
  return split_make(&in, why, out);
}

/* What split_follow() reads: a state that has seen nothing of it stays zero. */
static bool is_of_memory(enum fact_kind kind) {
  return kind == FACT_KIND_sample || kind == FACT_KIND_alloc_failed || kind == FACT_KIND_mem_query ||
         kind == FACT_KIND_alloc_large || kind == FACT_KIND_mem || kind == FACT_KIND_exit || kind == FACT_KIND_holder ||
         kind == FACT_KIND_nvml;
}

bool split_watch(struct split_watch *w, const struct fact *fact, struct fact_split *out) {
  if (!is_of_memory(fact->kind)) return false;
  if (!w->on) split_follow_init(&w->follow);
  w->on = true;
  return split_follow(&w->follow, fact) && split_now(&w->follow, "", out);
}

/* ---- showing ----------------------------------------------------------------------------------------------------------- */
void split_rows(const struct fact_split *s, struct split_row rows[SPLIT_ROWS]) {
  const struct split_row all[SPLIT_ROWS] = {
      {"free", "free", s->free, false},
      {"cma", "free for devices only (CMA)", s->cma, false},
      {"cache", "page cache", s->cache, false},
      {"shmem", "shared memory", s->shmem, false},
      {"anon_job", "of this job's processes", s->anon_job, false},
      {"anon_others", "of other processes", s->anon_others, false},
      {"huge", "HugeTLB pool", s->huge, false},
      {"pinned", "pinned by this job", s->pinned, false},
      {"device_job", "GPU, this job", s->device_job, false},
      {"device_others", "GPU, other processes", s->device_others, false},
      {"device_nobody", "GPU, nobody's", s->device_nobody, false},
      {"kernel", "kernel", s->kernel, false},
      {"rest", "not accounted for", s->rest < 0 ? (uint64_t)-s->rest : (uint64_t)s->rest, s->rest < 0},
  };
  for (unsigned i = 0; i < SPLIT_ROWS; i++) rows[i] = all[i];
}

/* Tenths of GiB, rounded. */
static uint64_t tenths(uint64_t bytes) { return bytes / GIB * 10 + (bytes % GIB * 10 + GIB / 2) / GIB; }

static uint64_t whole_tenths(uint64_t bytes) { return bytes / GIB * 10 + bytes % GIB * 10 / GIB; }
static uint64_t part_of_tenth(uint64_t bytes) { return bytes % GIB * 10 % GIB; }

/* Rounds down, then gives the tenths that are missing to those that lost most, so that the figures add up to `sum`. */
static void round_together(const struct split_row rows[SPLIT_ROWS], uint64_t sum, uint64_t out[SPLIT_ROWS]) {
  bool raised[SPLIT_ROWS] = {false};
  uint64_t now = 0;
  for (unsigned i = 0; i < SPLIT_ROWS; i++) {
    out[i] = num_known(rows[i].bytes) ? whole_tenths(rows[i].bytes) : 0;
    if (!rows[i].negative) now = num_plus(now, out[i]);
  }
  for (; now < sum; now++) {
    int most = -1;
    for (int i = 0; i < SPLIT_ROWS; i++)
      if (!raised[i] && !rows[i].negative && num_known(rows[i].bytes) &&
          (most < 0 || part_of_tenth(rows[i].bytes) > part_of_tenth(rows[most].bytes)))
        most = i;
    if (most < 0) return;
    raised[most] = true;
    out[most]++;
  }
}

static void add_tenths(struct text *t, uint64_t n) {
  text_number(t, n / 10);
  text_add(t, ".");
  text_number(t, n % 10);
}

size_t split_line(const struct fact_split *s, char *out, size_t size) {
  struct split_row rows[SPLIT_ROWS];
  uint64_t shown[SPLIT_ROWS];
  struct text t = text_in(out, size);
  bool first = true;
  split_rows(s, rows);
  const struct split_row *rest = &rows[SPLIT_ROWS - 1];
  uint64_t excess = rest->negative ? tenths(rest->bytes) : 0;
  round_together(rows, num_plus(tenths(s->total), excess), shown);
  shown[SPLIT_ROWS - 1] = rest->negative ? excess : shown[SPLIT_ROWS - 1];
  add_tenths(&t, tenths(s->total));
  text_add(&t, " GiB =");
  for (unsigned i = 0; i < SPLIT_ROWS; i++) {
    if (!shown[i]) continue;
    text_add(&t, rows[i].negative ? " - " : first ? " " : " + ");
    add_tenths(&t, shown[i]);
    text_add(&t, " ");
    text_add(&t, rows[i].negative ? "counted twice" : rows[i].name);
    first = false;
  }
  return (size_t)(t.at - out);
}
