/* g06_swap.c - G6, speed lost to swapping beside another GPU process: swap_pressure.
 *
 * Two servers that fit into memory and swap together but not into memory alone take turns: each step first fetches back what
 * the other one pushed out, and the speed has two values, full and none. Swap space in use is ordinary, and so is a page
 * now and then; said is only that pages move both ways for several seconds while tasks stand still for it, beside a process
 * that holds memory of its own. Without another holder it is the job's own size (G3). Freestanding: no libc, no I/O.
 */
#include "detector.h"
#include "holder_list.h"
#include "number.h"
#include "words.h"

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)
#define SECOND ((uint64_t)1000 * 1000)

#define WINDOW_US (10 * SECOND)
#define GAP_US (300 * SECOND) /* nobody has looked for so long: what was before is not compared with */
#define MOVED_LEAST MIB       /* each way in a second: above what wakes up now and then */
#define PAGE_DEFAULT 4096

enum { READINGS = 16, TIMES = 3 /* the window must tell it so often, a second apart */ };

struct reading_of_swap {
  uint64_t t, in, out, full_total; /* pages, pages, us */
};

struct g06_swap_state {
  struct holders holders;
  struct reading_of_swap at[READINGS]; /* oldest first */
  unsigned n;
  unsigned times;
  bool said;
};

/* What the window shows. */
struct swapping {
  uint64_t us, in, out; /* bytes */
  uint64_t full_us;     /* time for which all tasks stood still; FACT_NO_U64: not told */
  uint64_t used;
};

static const struct holder *beside(const struct g06_swap_state *s, uint64_t t) {
  if (!holders_tell(&s->holders, t)) return NULL;
  for (unsigned i = 0; i < s->holders.now.n; i++) {
    const struct holder *p = &s->holders.now.at[i];
    if (holder_counts(p) && p->bytes >= GIB) return p;
  }
  return NULL;
}

static bool add(struct g06_swap_state *s, const struct fact *fact) {
  const struct fact_sample *m = &fact->u.sample;
  struct reading_of_swap r = {fact->t, m->pswpin, m->pswpout, m->full_total};
  if (!num_known(r.in) || !num_known(r.out)) return false;
  if (s->n && fact->t - s->at[s->n - 1].t < SECOND) return false;
  if (s->n && (r.in < s->at[s->n - 1].in || r.out < s->at[s->n - 1].out)) s->n = 0; /* another boot, or nonsense */
  if (s->n && fact->t - s->at[s->n - 1].t > GAP_US) s->n = 0;
  /* A log of many hours has a look every ten seconds or more: the latest two are always compared. */
  while (s->n == READINGS || (s->n > 1 && fact->t - s->at[0].t > WINDOW_US + SECOND / 2)) {
    for (unsigned i = 1; i < s->n; i++) s->at[i - 1] = s->at[i];
    s->n--;
  }
  s->at[s->n++] = r;
  return s->n > 1;
}

static struct swapping window(const struct g06_swap_state *s, const struct fact_sample *m) {
  const struct reading_of_swap *a = &s->at[0], *b = &s->at[s->n - 1];
  uint64_t page = num_known(m->page_size) && m->page_size < GIB ? m->page_size : PAGE_DEFAULT;
  struct swapping w = {.us = b->t - a->t, .full_us = FACT_NO_U64};
  uint64_t in = b->in - a->in, out = b->out - a->out;
  w.in = in < UINT64_MAX / GIB ? in * page : UINT64_MAX - 1;
  w.out = out < UINT64_MAX / GIB ? out * page : UINT64_MAX - 1;
  if (num_known(a->full_total) && num_known(b->full_total)) w.full_us = num_less(b->full_total, a->full_total);
  w.used = num_known(m->mem.swap_total) && num_known(m->mem.swap_free) ? num_less(m->mem.swap_total, m->mem.swap_free)
                                                                       : 0;
  return w;
}

/* The job has run into the limit of its own cgroup: that makes it swap on a machine with memory left. */
static bool is_limited(const struct fact_sample *m) {
  return num_known(m->cgroup_max) && num_known(m->cgroup_current) &&
         m->cgroup_current >= m->cgroup_max - m->cgroup_max / 16;
}

static bool is_swapping(const struct swapping *w, const struct fact_sample *m) {
  bool stands_still = num_or_zero(w->full_us) > 0 || num_or_zero(m->full_avg10) > 0;
  uint64_t least = w->us / SECOND * MOVED_LEAST;
  return w->us >= WINDOW_US / 2 && w->in >= least && w->out >= least && w->used >= GIB && stands_still;
}

static void evidence(struct finding *f, const struct swapping *w, const struct fact_sample *m, const struct holder *p) {
  struct text t = text_item(&f->evidence);
  text_sized(&t, "pswpin and pswpout: ", w->in, " in and ");
  text_sized(&t, "", w->out, " out within ");
  text_number(&t, w->us / SECOND);
  text_add(&t, " s");
  if (num_known(m->full_avg10)) {
    t = text_item(&f->evidence);
    text_add(&t, "memory pressure: all tasks stood still for ");
    text_number(&t, m->full_avg10 / 100);
    text_add(&t, ".");
    text_number(&t, m->full_avg10 % 100 / 10);
    text_add(&t, " % of the last 10 s");
  }
  holder_evidence(&f->evidence, p);
  words_memory(&f->evidence, &m->mem);
  if (num_known(m->job_swap) && m->job_swap > 0)
    text_item_sized(&f->evidence, "not excluded: the job would swap alone as well; of its own memory ", m->job_swap,
                    " are in swap");
  else
    text_item_add(&f->evidence, "not excluded: the job would swap alone as well");
}

static void say(struct g06_swap_state *s, const struct fact *fact, const struct swapping *w, const struct holder *p,
                struct det_out *out) {
  struct finding *f = &out->f;
  words_begin(f, 6, VERDICT_WARN, "swap_pressure", "swap");
  struct text t = text_in(f->text, sizeof f->text);
  f->confidence = CONFIDENCE_MEDIUM;
  f->t = fact->t;
  f->retry = RETRY_USELESS;
  text_sized(&t, "the machine swaps in and out, ", w->used, " are in swap, and its tasks stand still for it, while ");
  holder_who(&t, &s->holders, p);
  if (num_known(p->bytes)) text_sized(&t, " holds ", p->bytes, " of GPU memory");
  evidence(f, w, &fact->u.sample, p);
  text_item_add(&f->ruled_out, "swap space that is merely in use: pages move both ways");
  if (num_known(fact->u.sample.cgroup_max))
    text_item_add(&f->ruled_out, "the limit of the job's own cgroup: it is not reached");
  holder_fix(&f->fixes, &s->holders, p, holder_is_alone(p) && holder_is_watched(p));
  text_item_add(&f->fixes, "use less in this job: a smaller batch, context or cache, so that both fit into memory");
  out->emit(out, f);
}

static void on_sample(struct g06_swap_state *s, const struct fact *fact, struct det_out *out) {
  const struct fact_sample *m = &fact->u.sample;
  if (s->said || !add(s, fact)) return;
  struct swapping w = window(s, m);
  const struct holder *p = beside(s, fact->t);
  s->times = p && is_swapping(&w, m) && !is_limited(m) ? s->times + 1 : 0;
  if (s->times < TIMES) return;
  s->said = true;
  say(s, fact, &w, p, out);
}

static void observe(void *state, const struct fact *fact, struct det_out *out) {
  struct g06_swap_state *s = state;
  holders_observe(&s->holders, fact);
  if (fact->kind == FACT_KIND_sample) on_sample(s, fact, out);
}

const struct detector det_g06_swap = {
    .g = 6, .name = "g06_swap", .state_size = sizeof(struct g06_swap_state), .observe = observe};
