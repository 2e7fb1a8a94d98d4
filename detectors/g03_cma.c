/* g03_cma.c - cma_trap: memory that lies in a contiguous area (CMA), or that the kernel takes to lie in one.
 *
 * Two traps with one name (facts):
 * - The free part of a CMA area is in MemFree and MemAvailable, but CUDA does not get it. Where most of what is left is
 *   such memory, every figure promises what cannot be had.
 * - Some kernels (reported: 7.0.0-1019-nvidia) say "CmaTotal: 0 kB" and CmaFree above 0. There, locking memory fails with
 *   "Cannot allocate memory" while tens of GiB are free: cudaHostRegister is refused, NCCL says that a system
 *   call failed when it registers memory for RDMA. The figure CmaFree is worth nothing then.
 *
 * Look-alikes of the second: the limit on locked memory (fact limit), memory that is used up (MemFree), and for
 * NCCL the network or a peer (a registration fails at once; waiting for others takes long).
 * Freestanding: no libc, no I/O, no clock, no lock.
 */
#include "g03_memory.h"
#include "number.h"
#include "words.h"

/* ncclSystemError (nccl.h). */
enum { NCCL_SYSTEM_FAILED = 2 };

/* NCCL's retries against a peer that does not listen take longer than this in any case; a registration does not. */
#define AT_ONCE_US ((uint64_t)10 * 1000 * 1000)

/* Free memory in a real area; 0 where there is none or the figures are nonsense. */
static uint64_t in_area(const struct fact_memory *m) {
  uint64_t size = num_or_zero(m->cma_total), free_part = num_or_zero(m->cma_free);
  return free_part <= size ? free_part : 0;
}

static bool has_phantom(const struct fact_memory *m) { return m->cma_total == 0 && num_or_zero(m->cma_free) > 0; }

/* Half and more of what seems to be available cannot be had, and that is no trifle. */
static bool misleads(const struct fact_memory *m) {
  struct reading r = reading_of(m);
  uint64_t area = in_area(m);
  return r.known && area >= r.reserve && area >= m->available / 2;
}

static void say_phantom(struct finding *f, uint64_t t_seen, const struct g03_cma *c) {
  struct text t = text_in(f->text, sizeof f->text);
  words_begin(f, 3, VERDICT_WARN, "cma_trap", "area");
  f->confidence = CONFIDENCE_MEDIUM;
  f->t = t_seen;
  text_sized(
      &t, "the kernel counts ", c->mem.cma_free,
      " of free contiguous memory (CMA) in an area that it does not have: on such kernels locking memory was seen "
      "to fail with memory free");
  words_cma(&f->evidence, &c->mem);
  text_item_add(&f->evidence, "not excluded: locking memory works here all the same");
  text_item_add(&f->fixes, "if RDMA or page-locking fails, start another kernel; NCCL_IB_DISABLE=1 does without RDMA");
}

static void say_reading(struct finding *f, uint64_t t_seen, const struct fact_memory *m) {
  struct reading r = reading_of(m);
  struct text t = text_in(f->text, sizeof f->text);
  words_begin(f, 3, VERDICT_WARN, "cma_trap", "area");
  f->confidence = CONFIDENCE_HIGH;
  f->retry = RETRY_USELESS;
  f->t = t_seen;
  text_sized(&t, "of ", m->available, " that seem to be available ");
  text_sized(&t, "", in_area(m), " lie in a contiguous area (CMA), which CUDA does not get: ");
  text_sized(&t, "", r.available, " can be had");
  words_cma(&f->evidence, m);
  words_memory(&f->evidence, m);
  text_item_sized(&f->ruled_out, "page_cache_counted: dropping caches adds at most ", reading_droppable(&r), "");
  words_fix_area(&f->fixes);
}

void g03_cma_reading(struct g03_state *s, uint64_t t, const struct fact_memory *m, struct det_out *out) {
  struct g03_cma *c = &s->cma;
  c->mem = *m;
  c->read = true;
  if (c->warned || !misleads(m)) return;
  c->warned = true;
  say_reading(&out->f, t, m);
  out->emit(out, &out->f);
}

void g03_cma_on_split(struct g03_state *s, const struct fact *fact, struct det_out *out) {
  struct g03_cma *c = &s->cma;
  if (!text_equal(fact->u.split.why, "preflight") || !c->read || c->warned || !has_phantom(&c->mem)) return;
  c->warned = true;
  say_phantom(&out->f, fact->t, c);
  out->emit(out, &out->f);
}

void g03_cma_on_limit(struct g03_cma *c, const struct fact_limit *l) {
  if (!text_equal(l->name, "memlock")) return;
  c->memlock = l->soft;
  c->memlock_read = true;
}

static bool locks_memory(const struct g03_event *e) {
  return e->route == G03_PINNED || (e->route == G03_NCCL && e->result == NCCL_SYSTEM_FAILED);
}

static void cma(struct g03_judgement *j, enum confidence confidence, enum g03_doubt doubt) {
  j->cause = G03_CMA;
  j->confidence = confidence;
  j->doubt = doubt;
}

static void judge_phantom(const struct g03_cma *c, const struct g03_event *e, struct g03_judgement *j) {
  bool covered = c->memlock == FACT_NO_U64 ||
                 (num_known(e->size) && num_plus(e->size, num_or_zero(e->live_pinned)) <= c->memlock);
  if (!c->memlock_read)
    cma(j, CONFIDENCE_MEDIUM, G03_DOUBT_NO_MEMLOCK);
  else if (!covered)
    cma(j, CONFIDENCE_LOW, G03_DOUBT_MEMLOCK);
  else if (e->communicator && num_known(e->wall) && e->wall > AT_ONCE_US)
    cma(j, CONFIDENCE_MEDIUM, G03_DOUBT_NETWORK);
  else
    cma(j, CONFIDENCE_HIGH, G03_SURE);
}

void g03_cma_judge(const struct g03_cma *c, const struct g03_event *e, struct g03_judgement *j) {
  struct reading r = reading_of(&e->mem);
  if (!r.known) return;
  if (j->cause == G03_UNEXPLAINED && locks_memory(e) && has_phantom(&e->mem)) {
    judge_phantom(c, e, j);
  } else if (j->cause == G03_EXHAUSTED && in_area(&e->mem) >= 2 * r.reserve &&
             e->mem.available >= num_plus(num_or_zero(e->size), r.reserve)) {
    cma(j, j->confidence, j->doubt);
  }
}

static void on_nccl(struct g03_state *s, uint64_t t, const char *call, uint64_t wall, struct det_out *out) {
  struct g03_event e = {.route = G03_NCCL,
                        .t = t,
                        .size = FACT_NO_U64,
                        .result = NCCL_SYSTEM_FAILED,
                        .live_device = FACT_NO_U64,
                        .live_pinned = FACT_NO_U64,
                        .mem = s->cma.mem,
                        .communicator = true,
                        .wall = wall};
  text_copy(e.call, sizeof e.call, call);
  if (s->cma.read) g03_refused(s, &e, 1, out);
}

void g03_cma_on_call(struct g03_state *s, const struct fact *fact, struct det_out *out) {
  if (fact->kind == FACT_KIND_comm) {
    const struct fact_comm *c = &fact->u.comm;
    if (c->result == NCCL_SYSTEM_FAILED) on_nccl(s, fact->t, c->call, c->wall_us, out);
    if (c->result == 0 && text_starts(c->call, "ncclCommInit")) g03_granted(s, G03_NCCL, 0, out);
  } else if (text_starts(fact->u.call_failed.call, "nccl") && fact->u.call_failed.result == NCCL_SYSTEM_FAILED) {
    on_nccl(s, fact->t, fact->u.call_failed.call, FACT_NO_U64, out);
  }
}
