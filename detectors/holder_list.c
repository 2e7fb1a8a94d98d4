/* holder_list.c - see holder_list.h. Runs inside the preloaded library too: no libc, no state. */
#include "holder_list.h"

#include "number.h"
#include "text.h"

#define MIB ((uint64_t)1 << 20)
/* A context without a tensor takes 200 to 500 MiB. */
#define BARE_CONTEXT (512 * MIB)
#define ORDINARY_GRAPHICS (2048 * MIB)
/* A server loads its weights in 10 to 30 s. */
#define SHORTLY_US ((uint64_t)30 * 1000 * 1000)
/* There is a look every ten seconds, written or not, as long as NVML answers. */
#define BETWEEN_US ((uint64_t)15 * 1000 * 1000)
/* Looks that show nothing new are written after a minute; the next is then due after two. */
#define SELDOM_US ((uint64_t)150 * 1000 * 1000)
/* No machine has a pebibyte: a torn record, or N/A in a guise of its own. */
#define NONSENSE ((uint64_t)1 << 50)

/* ---- one look --------------------------------------------------------------------------------------------------------- */
static const char *base_name(const char *path) {
  const char *base = path;
  for (; path && *path; path++)
    if (*path == '/' && path[1]) base = path + 1;
  return base;
}

static enum holder_manager manager_of(const char *word) {
  if (text_equal(word, "service")) return MANAGED_BY_SERVICE;
  if (text_equal(word, "user-service")) return MANAGED_BY_USER_SERVICE;
  if (text_equal(word, "container")) return MANAGED_BY_CONTAINER;
  return MANAGED_BY_NOTHING;
}

/* A size that is not told weighs as much as the greatest. */
static bool weighs_more(const struct holder *a, const struct holder *b) {
  if (a->graphics != b->graphics) return b->graphics;
  return a->bytes > b->bytes;
}

static struct holder *find(struct holders_list *list, uint64_t pid) {
  for (unsigned i = 0; i < list->n; i++)
    if (list->at[i].pid == pid) return &list->at[i];
  return NULL;
}

static void insert(struct holders_list *list, const struct holder *p) {
  unsigned at = list->n;
  while (at > 0 && weighs_more(p, &list->at[at - 1])) at--;
  if (list->n == HOLDERS_KEPT) list->more++;
  if (at == HOLDERS_KEPT) return;
  unsigned last = list->n < HOLDERS_KEPT ? list->n++ : HOLDERS_KEPT - 1;
  for (; last > at; last--) list->at[last] = list->at[last - 1];
  list->at[at] = *p;
}

static void take_out(struct holders_list *list, struct holder *p) {
  list->n--;
  for (const struct holder *end = list->at + list->n; p < end; p++) *p = p[1];
}

/* A process can be in both lists, with its memory told in each. */
static void add(struct holders_list *list, struct holder *p) {
  struct holder *twice = find(list, p->pid);
  if (twice) {
    if (!num_known(p->bytes) || (num_known(twice->bytes) && twice->bytes > p->bytes)) p->bytes = twice->bytes;
    p->graphics = p->graphics && twice->graphics;
    take_out(list, twice);
  }
  insert(list, p);
}

static void forget_next(struct holders *h) {
  h->next.n = h->next.more = 0;
  h->next_ours = false;
}

static void on_holder(struct holders *h, const struct fact *fact) {
  const struct fact_holder *f = &fact->u.holder;
  if (fact->t != h->next_t) forget_next(h); /* the look before was not ended */
  h->next_t = fact->t;
  h->next_ours = h->next_ours || f->ours;
  if (f->ours || !num_known(f->pid)) return;
  struct holder p = {.pid = f->pid,
                     .ppid = f->ppid,
                     .uid = f->uid,
                     .bytes = f->bytes < NONSENSE ? f->bytes : FACT_NO_U64,
                     .watched = num_or_zero(f->watched),
                     .idle = f->idle,
                     .manager = manager_of(f->managed),
                     .graphics = text_equal(f->kind, "graphics"),
                     .session_gone = f->session_gone,
                     .unseen = f->unseen};
  text_copy(p.name, sizeof p.name, base_name(f->name));
  text_copy(p.argv, sizeof p.argv, f->argv);
  text_copy(p.unit, sizeof p.unit, f->unit);
  text_copy(p.user, sizeof p.user, f->user);
  add(&h->next, &p);
}

/* ---- looks one after the other ------------------------------------------------------------------------------------------ */
static void note_left(struct holders *h, uint64_t t) {
  for (unsigned i = 0; i < h->now.n; i++) {
    const struct holder *p = &h->now.at[i];
    bool larger = !h->left.pid || num_or_zero(p->bytes) > num_or_zero(h->left.bytes);
    if (find(&h->next, p->pid) || p->graphics || !larger) continue;
    if (h->next.more && weighs_more(&h->next.at[HOLDERS_KEPT - 1], p)) continue; /* may be among those without room */
    h->left = *p;
    h->left_t = t;
  }
}

static void note_came(struct holders *h, uint64_t t) {
  for (unsigned i = 0; i < h->next.n; i++) {
    struct holder *p = &h->next.at[i];
    const struct holder *old = find(&h->now, p->pid);
    p->came = old ? old->came : t;
    p->maybe_ours = p->unseen && h->job && !h->next_ours;
    p->newcomer = old ? old->newcomer : h->looks > 0;
  }
}

static void complete(struct holders *h, uint64_t t) {
  if (h->next_t != t) forget_next(h); /* nobody is listed */
  note_left(h, t);
  note_came(h, t);
  h->now = h->next;
  h->gap = h->looks ? num_less(t, h->t) : 0;
  h->before = h->silent || h->gap < BETWEEN_US ? t - h->gap : t - BETWEEN_US;
  h->t = t;
  h->looks++;
  h->silent = false;
  forget_next(h);
}

static void on_header(struct holders *h, const struct fact_header *f) {
  h->job = h->job || f->writer;
  if (!num_known(f->uid)) return;
  h->uid = f->uid;
  h->uid_known = true;
}

static bool on_nvml(struct holders *h, const struct fact_nvml *f, uint64_t t) {
  bool look = f->answered && text_equal(f->call, "processes");
  if (look)
    complete(h, t);
  else
    h->silent = true;
  return look;
}

bool holders_observe(struct holders *h, const struct fact *fact) {
  if (fact->kind == FACT_KIND_header) {
    on_header(h, &fact->u.header);
  } else if (fact->kind == FACT_KIND_holder) {
    on_holder(h, fact);
  } else if (fact->kind == FACT_KIND_nvml) {
    return on_nvml(h, &fact->u.nvml, fact->t);
  }
  return false;
}

bool holders_tell(const struct holders *h, uint64_t t) {
  uint64_t age = num_less(t, h->t), usual = num_max(SELDOM_US, num_plus(h->gap, h->gap));
  return h->looks && h->t <= t && age <= (h->silent ? SHORTLY_US : usual);
}

const struct holder *holders_find(const struct holders *h, uint64_t pid) {
  for (unsigned i = 0; i < h->now.n; i++)
    if (h->now.at[i].pid == pid) return &h->now.at[i];
  return NULL;
}

static bool is_large(const struct holder *p) {
  if (p->graphics) return num_known(p->bytes) && p->bytes >= ORDINARY_GRAPHICS;
  return p->bytes >= BARE_CONTEXT;
}

bool holder_counts(const struct holder *p) { return is_large(p) && !p->maybe_ours; }

bool holder_may_be_ours(const struct holder *p) { return is_large(p) && p->maybe_ours; }

bool holder_is_alone(const struct holder *p) {
  bool no_parent = !num_known(p->ppid) || p->ppid <= 1;
  return no_parent && p->session_gone && p->manager == MANAGED_BY_NOTHING && !p->unseen && !p->graphics;
}

bool holder_is_watched(const struct holder *p) { return p->watched >= HOLDER_PATIENCE_US; }
