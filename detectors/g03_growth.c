/* g03_growth.c - what filled the memory: page-locked host memory, data held twice while it is loaded, or what a
 * caching allocator keeps.
 *
 * All three end in the same refusal with the same readings of /proc/meminfo. What tells them apart is how the process
 * came to hold what it holds (fact holding, written each time that it holds a 64th of the machine more):
 *
 *   pinned_host        pinned memory grew while device memory did not
 *   load_double_count  device memory and host memory (pinned, anonymous, shared) grew side by side
 *   allocator_reserve  device memory grew in many rounds of work, by many requests and hardly any free
 *
 * Look-alikes of the last, and what excludes each: a model or batch that is too large (it grows while loading, or in the
 * first rounds: copies from the host, number of rounds), one greater piece of work (most of the growth in one
 * round), another program (MemAvailable fell by much more than this process grew), tensors that the program keeps (at the
 * refusal the allocator had nothing to give back; or equal sizes come back, which a cache would have served). What is none of the three stays "used up".
 * Freestanding: no libc, no I/O, no clock, no lock.
 */
#include "g03_memory.h"
#include "number.h"

enum {
  WARM_UP = 8,    /* rounds in which a program still reaches its size: optimizer states, work spaces, first batches */
  STEPS = 3,      /* readings that make a growth, not a jump */
  REQUESTS = 8,   /* of them in that time */
  FREES_PART = 8, /* at most this part of the requests was given back */
  GAVE_PART = 16  /* of its growth: what an allocator gives back at a refusal, if it kept anything worth the name */
};

static struct g03_held held_of(const struct fact_holding *h) {
  return (struct g03_held){.device = num_or_zero(h->device),
                           .pinned = num_or_zero(h->pinned),
                           .host = num_plus(num_or_zero(h->mem.anon), num_or_zero(h->mem.shmem)),
                           .available = num_or_zero(h->mem.available),
                           .grants = num_or_zero(h->device_grants),
                           .frees = num_or_zero(h->device_frees),
                           .rounds = num_or_zero(h->rounds),
                           .copied = num_or_zero(h->copied)};
}

void g03_growth_begins(struct g03_growth *g, const struct fact_memory *m) {
  if (g->began) return;
  g->began = true;
  g->base = (struct g03_held){.host = num_plus(num_or_zero(m->anon), num_or_zero(m->shmem)),
                              .available = num_or_zero(m->available)};
  g->last = g->grown = g->base;
  g->stride = 1;
}

/* ---- the way there ------------------------------------------------------------------------------------ */

/* Room for more: every second point goes, and from now on half as many come. */
static void thin_out(struct g03_growth *g) {
  for (unsigned i = 0; i < G03_POINTS / 2; i++) g->point[i] = g->point[2 * i + 1];
  g->n_points = G03_POINTS / 2;
  g->stride *= 2;
}

static void note_point(struct g03_growth *g, const struct g03_held *now) {
  if (++g->skipped < g->stride) return;
  g->skipped = 0;
  if (g->n_points == G03_POINTS) thin_out(g);
  g->point[g->n_points++] = (struct g03_point){now->device, now->pinned, now->host};
}

static uint64_t device_of(const struct g03_point *p) { return p->device; }
static uint64_t pinned_of(const struct g03_point *p) { return p->pinned; }
static uint64_t host_of(const struct g03_point *p) { return num_plus(p->pinned, p->host); }

/* How much `other` grew while `one` went from a tenth to nine tenths of its own growth. */
static uint64_t meanwhile(const struct g03_growth *g, uint64_t (*one)(const struct g03_point *),
                          uint64_t (*other)(const struct g03_point *)) {
  struct g03_point start = {g->base.device, g->base.pinned, g->base.host};
  struct g03_point stop = {g->last.device, g->last.pinned, g->last.host};
  uint64_t grown = num_less(one(&stop), one(&start)), low = one(&start) + grown / 10, high = one(&stop) - grown / 10;
  struct g03_point from = stop, to = stop;
  for (unsigned i = g->n_points; i-- > 0;) {
    if (one(&g->point[i]) >= high) to = g->point[i];
    if (one(&g->point[i]) >= low) from = g->point[i];
  }
  return num_less(other(&to), other(&from));
}

/* The most that it grew at once. */
static uint64_t largest_step(const struct g03_growth *g, uint64_t (*one)(const struct g03_point *)) {
  struct g03_point start = {g->base.device, g->base.pinned, g->base.host};
  uint64_t last = one(&start), largest = 0;
  for (unsigned i = 0; i < g->n_points; i++) {
    largest = num_max(largest, num_less(one(&g->point[i]), last));
    last = one(&g->point[i]);
  }
  return largest;
}

/* ---- rounds ------------------------------------------------------------------------------------------- */

static void note_size(struct g03_growth *g, uint64_t size) {
  for (unsigned i = 0; i < g->n_sizes; i++)
    if (g->sizes[i] == size) return;
  if (g->n_sizes < sizeof g->sizes / sizeof *g->sizes) g->sizes[g->n_sizes++] = size;
}

static void note_step(struct g03_growth *g, uint64_t grown, bool new_round, uint64_t size) {
  g->in_round = new_round ? grown : num_plus(g->in_round, grown);
  g->biggest = num_max(g->biggest, g->in_round);
  g->steps += new_round;
  note_size(g, size);
}

/* Device memory has grown. */
static void note_device(struct g03_growth *g, const struct g03_held *now, uint64_t size) {
  uint64_t grown = num_less(now->device, g->grown.device);
  bool loading = num_less(now->copied, g->grown.copied) >= grown / 2;
  if (loading) {
    g->loaded_rounds = now->rounds;
    g->steady = false;
  } else if (g->steady) {
    note_step(g, grown, now->rounds > g->grown.rounds, size);
  } else if (now->rounds >= num_plus(g->loaded_rounds, WARM_UP)) {
    g->steady = true;
    g->from = *now;
    g->in_round = g->biggest = g->steps = g->n_sizes = 0;
  }
  g->grown = *now;
}

/* A caching allocator that is refused gives back what it does not use, and asks once more. */
static void note_refusal(struct g03_growth *g, const struct g03_held *now, uint64_t size) {
  g->retried = g->refused && g->refused_size == size && g->refused_grants == now->grants;
  g->freed = g->retried ? num_less(g->refused_device, now->device) : 0;
  if (g->retried) return; /* a third try is measured against the first */
  g->refused = true;
  g->refused_size = size;
  g->refused_grants = now->grants;
  g->refused_device = now->device;
}

void g03_on_holding(struct g03_growth *g, const struct fact_holding *h) {
  struct g03_held now = held_of(h);
  g03_growth_begins(g, &h->mem);
  if (text_equal(h->why, "refused")) note_refusal(g, &now, num_or_zero(h->size));
  bool grown = now.device > g->last.device || now.pinned > g->last.pinned;
  bool staged = now.device == g->last.device && now.pinned == g->last.pinned && now.host > g->last.host;
  if (!grown && !staged) return;
  note_point(g, &now);
  if (now.device > g->grown.device) note_device(g, &now, num_or_zero(h->size));
  g->last = now;
}

/* ---- judging ------------------------------------------------------------------------------------------ */

/* By how much MemAvailable fell since `from`. */
static uint64_t fallen(const struct g03_held *from, const struct fact_memory *m) {
  return num_less(from->available, num_or_zero(m->available));
}

static bool is_reserve(const struct g03_growth *g, const struct fact_memory *m) {
  const struct g03_held *from = &g->from, *to = &g->last;
  uint64_t grown = num_less(to->device, from->device), grants = num_less(to->grants, from->grants);
  uint64_t host = num_plus(num_less(to->pinned, from->pinned), num_less(to->host, from->host));
  return g->steady && grown >= m->total / 16 && g->steps >= STEPS && g->biggest <= grown / 2 && grants >= REQUESTS &&
         num_less(to->frees, from->frees) <= grants / FREES_PART && grown >= fallen(from, m) / 2 && host <= grown / 4 &&
         !(g->retried && g->freed < grown / GAVE_PART);
}

/* Sizes that come back would have been served from a cache; what it gave back at the refusal was one. */
static bool is_sure_reserve(const struct g03_growth *g) { return g->retried || g->n_sizes >= STEPS; }

/* Device memory that came when nine tenths of the pinned memory were there. */
static uint64_t grown_after_pinned(const struct g03_growth *g) {
  uint64_t most = g->last.pinned - g->last.pinned / 10;
  for (unsigned i = 0; i < g->n_points; i++)
    if (g->point[i].pinned >= most) return num_less(g->last.device, g->point[i].device);
  return 0;
}

/* Much pinned memory, got while device memory stayed as it was, and hardly any device memory after that; and what
 * others took meanwhile is less. */
bool g03_growth_is_pinned(const struct g03_growth *g, const struct fact_memory *m) {
  if (!g->began || !num_known(m->total)) return false;
  uint64_t pinned = num_less(g->last.pinned, g->base.pinned);
  uint64_t not_device = num_less(fallen(&g->base, m), num_less(g->last.device, g->base.device));
  return pinned >= m->total / 8 && pinned >= not_device / 2 && meanwhile(g, pinned_of, device_of) <= pinned / 8 &&
         grown_after_pinned(g) <= pinned / 4;
}

/* Much of both, and the host memory came while the device memory came, bit by bit. */
static bool is_double(const struct g03_growth *g, const struct fact_memory *m) {
  uint64_t device = num_less(g->last.device, g->base.device), fell = fallen(&g->base, m);
  uint64_t host = num_plus(num_less(g->last.pinned, g->base.pinned), num_less(g->last.host, g->base.host));
  return host >= m->total / 8 && device >= fell / 4 && host >= fell / 4 &&
         meanwhile(g, device_of, host_of) >= host / 3 && largest_step(g, host_of) <= host / 2;
}

static enum confidence lesser(enum confidence a, enum confidence b) { return a < b ? a : b; }

/* `doubt` is what these readings leave open; one that was there before stays the one to be named. */
static void now_is(struct g03_judgement *j, enum g03_cause cause, enum g03_doubt doubt) {
  j->cause = cause;
  if (doubt == G03_SURE) return;
  j->confidence = lesser(j->confidence, CONFIDENCE_MEDIUM);
  j->doubt = doubt;
}

void g03_growth_judge(const struct g03_growth *g, const struct fact_memory *m, struct g03_judgement *j,
                      struct g03_filled *filled) {
  if (!g->began || !num_known(m->total)) return;
  *filled = (struct g03_filled){.from = g->base, .to = g->last};
  if (is_reserve(g, m)) {
    filled->from = g->from;
    now_is(j, G03_RESERVE, is_sure_reserve(g) ? G03_SURE : G03_DOUBT_KEPT);
  } else if (g03_growth_is_pinned(g, m)) {
    now_is(j, G03_PINNED_HOST, G03_DOUBT_MEANT);
  } else if (is_double(g, m)) {
    now_is(j, G03_DOUBLE_COUNT, G03_DOUBT_OTHERS);
  }
  filled->rounds = num_less(filled->to.rounds, filled->from.rounds);
}
