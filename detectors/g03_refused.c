/* g03_refused.c - refused requests: what kind of refusal it is, and what becomes of it.
 *
 * The reading of memory that was taken at the refusal tells whether the kernel could have made room
 * (alloc_refused_reclaimable), memory is used up (alloc_refused_exhausted, or one of the causes of g03_growth.c where
 * it can be told what filled it), the request can never fit (oversize_request), or none of these
 * (alloc_refused_unexplained, which never becomes a FAIL).
 *
 * A refusal is a WARN at once and is judged again when the process ends: many programs handle it.
 * Freestanding: no libc, no I/O, no clock, no lock.
 */
#include "ending.h"
#include "g03_memory.h"
#include "number.h"

/* cudaErrorMemoryAllocation and CUDA_ERROR_OUT_OF_MEMORY (cuda.h, driver_types.h). Other errors of an
 * allocation call (invalid value, a sticky error of an earlier kernel, no device) are not about memory. */
enum { CUDA_OUT_OF_MEMORY = 2 };
/* cudaErrorOperatingSystem, CUDA_ERROR_OPERATING_SYSTEM: a system call failed, of which only locking memory is of
 * interest here. */
enum { CUDA_SYSTEM_FAILED = 304 };
/* What ncclMemAlloc returns when a CUDA call or a system call inside failed (nccl.h). */
enum { NCCL_CUDA_FAILED = 1, NCCL_SYSTEM_FAILED = 2 };

/* After a grant, a refusal warns again only when the retry is refused too, and this often at most: PyTorch
 * frees its cache and retries, in a tight job at every step. */
enum { WARNINGS_MAX = 3 };

static struct g03_judgement judgement(enum g03_cause cause, enum confidence confidence, enum g03_doubt doubt) {
  return (struct g03_judgement){.cause = cause, .confidence = confidence, .doubt = doubt};
}

/* Not even giving up all page cache would have made room for `size`. */
static struct g03_judgement judge_exhausted(const struct reading *r, uint64_t size) {
  if (r->huge && r->available >= num_plus(size, r->reserve))
    return judgement(G03_EXHAUSTED, CONFIDENCE_MEDIUM, G03_DOUBT_HUGETLB);
  if (r->obtainable < r->reserve || num_plus(r->obtainable, r->swappable) < size)
    return judgement(G03_EXHAUSTED, CONFIDENCE_HIGH, G03_SURE);
  if (r->obtainable < size) return judgement(G03_EXHAUSTED, CONFIDENCE_MEDIUM, G03_DOUBT_SWAP);
  return judgement(G03_EXHAUSTED, CONFIDENCE_MEDIUM, G03_DOUBT_NARROW);
}

/* Free memory fell short of `size`, free memory and page cache together do not. */
static struct g03_judgement judge_reclaimable(const struct reading *r, uint64_t size) {
  enum g03_doubt doubt = G03_SURE;
  if (r->huge)
    doubt = G03_DOUBT_HUGETLB;
  else if (size && r->free >= size)
    doubt = G03_DOUBT_FITS;
  else if (r->cache < reading_gap(r) / 2)
    doubt = G03_DOUBT_NOT_CACHE;
  else if (r->obtainable - size < 2 * r->reserve)
    doubt = G03_DOUBT_NARROW;
  return judgement(G03_RECLAIMABLE, doubt == G03_SURE ? CONFIDENCE_HIGH : CONFIDENCE_MEDIUM, doubt);
}

static bool oversize(const struct reading *r, uint64_t size) {
  return r->known && size > num_plus(r->total, r->swap_total);
}

/* Page-locks memory that the program already has: it asks for next to nothing more. */
static bool asks_for_existing(const char *call) {
  return text_equal(call, "cudaHostRegister") || text_equal(call, "cuMemHostRegister") ||
         text_equal(call, "cuMemHostRegister_v2");
}

/* By the machine's memory alone, for a call that needs `size` bytes more. */
static struct g03_judgement judge_size(const struct reading *r, uint64_t size) {
  if (oversize(r, size)) return judgement(G03_OVERSIZE, CONFIDENCE_HIGH, G03_SURE);
  if (r->obtainable < num_plus(size, r->reserve)) return judge_exhausted(r, size);
  if (r->free < num_plus(size, r->reserve)) return judge_reclaimable(r, size);
  return judgement(G03_UNEXPLAINED, CONFIDENCE_LOW, G03_DOUBT_OTHER_LIMIT);
}

/* Page-locking what is there needs nothing, and all of it where the program never touched the memory. Which of the two
 * it was cannot be seen: page cache was in the way only where all of it would have fitted. */
static struct g03_judgement judge_existing(const struct reading *r, uint64_t size, bool pinned_fills) {
  struct g03_judgement j = judge_size(r, 0);
  bool fits = r->obtainable >= num_plus(size, r->reserve);
  if (fits || j.cause == G03_EXHAUSTED || (j.cause == G03_UNEXPLAINED && !pinned_fills)) return j;
  return judgement(G03_EXHAUSTED, CONFIDENCE_MEDIUM, G03_DOUBT_TOUCHED);
}

static struct g03_judgement judge_memory(const struct g03_state *s, const struct g03_event *e) {
  struct reading r = reading_of(&e->mem);
  if (!r.known) return judgement(G03_UNEXPLAINED, CONFIDENCE_LOW, G03_DOUBT_UNREAD);
  struct g03_judgement j = asks_for_existing(e->call)
                               ? judge_existing(&r, num_or_zero(e->size), g03_growth_is_pinned(&s->growth, &e->mem))
                               : judge_size(&r, num_or_zero(e->size));
  if (e->route == G03_NCCL && j.confidence == CONFIDENCE_HIGH) {
    j.confidence = CONFIDENCE_MEDIUM;
    j.doubt = G03_DOUBT_NCCL;
  }
  return j;
}

static struct g03_judgement judge(const struct g03_state *s, const struct g03_event *e, struct g03_filled *filled) {
  struct g03_judgement j = judge_memory(s, e);
  g03_cma_judge(&s->cma, e, &j);
  if (j.cause == G03_EXHAUSTED) g03_growth_judge(&s->growth, &e->mem, &j, filled);
  j.cuda12 = s->cuda12 && !s->cuda12_fits && (j.doubt == G03_DOUBT_FITS || j.doubt == G03_DOUBT_OTHER_LIMIT);
  return j;
}

/* A NCCL error number does not say that it was about memory: only a reading can. */
static bool is_about_memory(const struct g03_event *e, const struct g03_judgement *j) {
  if (e->communicator || e->result == CUDA_SYSTEM_FAILED) return j->cause == G03_CMA;
  return e->route != G03_NCCL || j->cause != G03_UNEXPLAINED;
}

static enum g03_route route_of(const char *word) {
  for (int i = 0; i < G03_QUERY; i++)
    if (text_equal(word, route_word((unsigned)i))) return (enum g03_route)i;
  return G03_OTHER;
}

static void emit_refusal(const struct g03_state *s, struct g03_record *rec, enum verdict v, const struct fact *end,
                         struct det_out *out) {
  if (rec->shown && rec->shown_verdict == v && rec->shown_refused == rec->refused) return;
  rec->shown = true;
  rec->shown_verdict = v;
  rec->shown_refused = rec->refused;
  g03_say_refusal(&out->f, s, rec, v, end);
  out->emit(out, &out->f);
}

static void warn_at_once(const struct g03_state *s, struct g03_record *rec, struct det_out *out) {
  bool first = !rec->shown;
  bool retry_refused = rec->shown_verdict == VERDICT_INFO && rec->since_granted == 2;
  if (!first && !(retry_refused && rec->warnings < WARNINGS_MAX)) return;
  rec->warnings++;
  emit_refusal(s, rec, VERDICT_WARN, NULL, out);
}

/* Keeps the range of sizes, of all refusals and of those since the last grant. */
static void note_size(struct g03_record *rec, uint64_t size) {
  if (!rec->refused || size < rec->size_min) rec->size_min = size;
  if (size > rec->size_max) rec->size_max = size;
  if (!rec->open || size > rec->open_max) rec->open_max = size;
}

/* The allocator asked again without having given anything back: what it holds is in use, and no reserve. */
static void take_back_reserve(struct g03_state *s, enum g03_route route, struct det_out *out) {
  struct g03_record *rec = &s->record[route][G03_RESERVE];
  if (!rec->open || !s->growth.retried) return;
  rec->open = false;
  rec->judged.doubt = G03_DOUBT_IN_USE;
  rec->judged.confidence = CONFIDENCE_LOW;
  emit_refusal(s, rec, VERDICT_INFO, NULL, out);
}

void g03_refused(struct g03_state *s, const struct g03_event *e, uint64_t times, struct det_out *out) {
  struct g03_filled filled = {.rounds = 0};
  struct g03_judgement j = judge(s, e, &filled);
  if (!is_about_memory(e, &j)) return;
  if (j.cause == G03_EXHAUSTED) take_back_reserve(s, e->route, out);
  struct g03_record *rec = &s->record[e->route][j.cause];
  note_size(rec, num_or_zero(e->size));
  rec->last = *e;
  rec->judged = j;
  rec->filled = filled;
  rec->refused = num_plus(rec->refused, times);
  rec->open = true;
  rec->since_granted = rec->since_granted + times > 2 ? 2 : rec->since_granted + (unsigned)times;
  rec->turn = ++s->turn;
  s->turn_t = e->t;
  warn_at_once(s, rec, out);
}

/* The record of the route's latest refusal, NULL before the first. */
static struct g03_record *latest_of(struct g03_state *s, enum g03_route route) {
  struct g03_record *latest = NULL;
  for (int c = 0; c < G03_CAUSES; c++) {
    struct g03_record *rec = &s->record[route][c];
    if (rec->turn && (!latest || rec->turn > latest->turn)) latest = rec;
  }
  return latest;
}

/* Refusals that were only counted, told afterwards: the reading is not theirs, the judgement stays as it was. */
static void on_counted(struct g03_state *s, const struct g03_event *e, uint64_t times) {
  struct g03_record *rec = latest_of(s, e->route);
  if (!rec || e->t < rec->last.t) return;
  note_size(rec, num_or_zero(e->size));
  rec->last.t = e->t;
  rec->last.size = e->size;
  rec->refused = num_plus(rec->refused, times);
  rec->open = true;
  if (e->t < s->turn_t) return; /* another route was refused later */
  rec->turn = ++s->turn;
  s->turn_t = e->t;
}

static bool may_be_about_memory(enum g03_route route, int64_t result) {
  if (route == G03_NCCL) return result == NCCL_CUDA_FAILED || result == NCCL_SYSTEM_FAILED;
  return result == CUDA_OUT_OF_MEMORY || (route == G03_PINNED && result == CUDA_SYSTEM_FAILED);
}

void g03_on_alloc_failed(struct g03_state *s, const struct fact *fact, struct det_out *out) {
  const struct fact_alloc_failed *a = &fact->u.alloc_failed;
  enum g03_route route = route_of(a->route);
  if (!may_be_about_memory(route, a->result)) return;
  struct g03_event e = {.route = route,
                        .t = fact->t,
                        .size = a->size,
                        .result = a->result,
                        .live_device = a->live_device,
                        .live_pinned = a->live_pinned,
                        .mem = a->mem};
  uint64_t times = num_known(a->repeat) && a->repeat ? a->repeat : 1;
  text_copy(e.call, sizeof e.call, a->call);
  if (a->last && num_known(a->last) && a->last < fact->t) {
    e.t = a->last;
    on_counted(s, &e, times);
  } else {
    g03_refused(s, &e, times, out);
  }
}

/* The request is about to be made: the one moment to speak if the machine may not come back from it. */
void g03_on_alloc_large(struct g03_state *s, const struct fact *fact, struct det_out *out) {
  const struct fact_alloc_large *a = &fact->u.alloc_large;
  struct reading r = reading_of(&a->mem);
  if (!num_known(a->size) || !oversize(&r, a->size)) return;
  enum g03_route route = route_of(a->route);
  struct g03_record *rec = &s->record[route][G03_OVERSIZE];
  if (rec->shown) return;
  rec->last = (struct g03_event){.route = route,
                                 .t = fact->t,
                                 .size = a->size,
                                 .result = FACT_NO_I64,
                                 .live_device = FACT_NO_U64,
                                 .live_pinned = FACT_NO_U64,
                                 .mem = a->mem};
  text_copy(rec->last.call, sizeof rec->last.call, a->call);
  rec->judged = judgement(G03_OVERSIZE, CONFIDENCE_HIGH, G03_SURE);
  warn_at_once(s, rec, out);
}

void g03_granted(struct g03_state *s, enum g03_route route, uint64_t size, struct det_out *out) {
  for (int c = 0; c < G03_CAUSES; c++) {
    struct g03_record *rec = &s->record[route][c];
    if (!rec->open || !num_known(size) || size < rec->open_max) continue;
    rec->open = false;
    rec->since_granted = 0;
    if (rec->shown_verdict == VERDICT_WARN) emit_refusal(s, rec, VERDICT_INFO, NULL, out);
  }
}

void g03_on_alloc_recovered(struct g03_state *s, const struct fact *fact, struct det_out *out) {
  const struct fact_alloc_recovered *a = &fact->u.alloc_recovered;
  g03_granted(s, route_of(a->route), a->size, out);
}

void g03_on_query_refused(struct g03_state *s, const struct fact *fact, struct det_out *out) {
  const struct fact_mem_query *q = &fact->u.mem_query;
  if (q->result != CUDA_OUT_OF_MEMORY) return;
  struct g03_event e = {.route = G03_QUERY,
                        .t = fact->t,
                        .result = q->result,
                        .live_device = FACT_NO_U64,
                        .live_pinned = FACT_NO_U64,
                        .mem = q->mem};
  text_copy(e.call, sizeof e.call, q->call);
  g03_refused(s, &e, 1, out);
}

void g03_withdraw(struct g03_state *s, struct det_out *out) {
  for (int route = 0; route < G03_ROUTES; route++)
    for (int cause = 0; cause < G03_CAUSES; cause++) {
      struct g03_record *rec = &s->record[route][cause];
      if (!rec->shown || rec->shown_verdict == VERDICT_INFO) continue;
      rec->judged.confidence = CONFIDENCE_LOW;
      rec->judged.doubt = G03_DOUBT_DISCRETE;
      emit_refusal(s, rec, VERDICT_INFO, NULL, out);
    }
}

/* Only the latest refusal can have been fatal, and only when the readings name one cause. */
static enum verdict verdict_at_end(const struct g03_state *s, const struct g03_record *rec, const struct fact *end) {
  enum verdict v = ending_verdict(rec->last.t, rec->refused && !rec->open, end);
  bool named = rec->open && rec->turn == s->turn && rec->judged.confidence > CONFIDENCE_LOW;
  return v == VERDICT_FAIL && !named ? VERDICT_WARN : v;
}

void g03_refused_at_exit(struct g03_state *s, const struct fact *end, struct det_out *out) {
  for (int route = 0; route < G03_ROUTES; route++)
    for (int cause = 0; cause < G03_CAUSES; cause++) {
      struct g03_record *rec = &s->record[route][cause];
      if (rec->shown) emit_refusal(s, rec, verdict_at_end(s, rec, end), end, out);
    }
}
