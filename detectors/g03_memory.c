/* g03_memory.c - G3, out of memory with memory left: refused requests and misleading free figures.
 *
 * On GB10, CPU and GPU share one memory. A program fails there with memory left when it reads a free figure that counts
 * page cache as used (g03_answer.c), when a request is refused although room could be made (g03_refused.c), or when the
 * memory that is left lies where CUDA does not get it (g03_cma.c). This file hands each fact to whom it concerns.
 * Freestanding: no libc, no I/O, no clock, no lock.
 */
#include "g03_memory.h"

#include "number.h"

/* The driver's total is MemTotal where memory is shared; a GPU with memory of its own says something else. */
static bool tells_discrete(const struct fact_mem_query *q) {
  struct reading r = reading_of(&q->mem);
  uint64_t total = q->total;
  return r.known && num_known(total) && (total < r.total - r.total / 8 || total > r.total + r.total / 8);
}

static void on_mem_query(struct g03_state *s, const struct fact *fact, struct det_out *out) {
  const struct fact_mem_query *q = &fact->u.mem_query;
  if (q->result != 0) {
    g03_on_query_refused(s, fact, out);
  } else if (tells_discrete(q)) {
    s->discrete = true;
    g03_withdraw(s, out);
  } else {
    g03_on_answer(s, fact, out);
  }
}

/* Other models have memory of their own, or are not what the figures here were measured on. */
static void on_header(struct g03_state *s, const struct fact_header *h) {
  if (h->gpu && !text_has_word(h->gpu, "GB10")) s->discrete = true;
  text_copy(s->cma.kernel, sizeof s->cma.kernel, h->kernel);
}

static void on_load(struct g03_state *s, const struct fact_load *l) {
  if (text_starts(l->soname, "libcudart.so.12")) s->cuda12 = true;
}

/* A library of CUDA 12 on a machine with CUDA 12 fits. */
static void on_device(struct g03_state *s, const struct fact_device *d) {
  enum { CUDA_13 = 13000 };
  if (d->version != FACT_NO_I64 && d->version > 0 && d->version < CUDA_13) s->cuda12_fits = true;
}

static void on_sample(struct g03_state *s, const struct fact_sample *m) {
  s->sampled = true;
  s->block_max = m->block_max;
  s->blocks_large = m->blocks_large;
}

static const struct fact_memory *reading_in(const struct fact *fact) {
  switch (fact->kind) {
  case FACT_KIND_mem: return &fact->u.mem.mem;
  case FACT_KIND_mem_query: return &fact->u.mem_query.mem;
  case FACT_KIND_alloc_large: return &fact->u.alloc_large.mem;
  case FACT_KIND_holding: return &fact->u.holding.mem;
  case FACT_KIND_sample: return &fact->u.sample.mem;
  default: return NULL;
  }
}

static void observe(void *state, const struct fact *fact, struct det_out *out) {
  struct g03_state *s = state;
  if (s->discrete) return;
  const struct fact_memory *m = reading_in(fact);
  if (m) g03_cma_reading(s, fact->t, m, out);
  switch (fact->kind) {
  case FACT_KIND_header: on_header(s, &fact->u.header); break;
  case FACT_KIND_load: on_load(s, &fact->u.load); break;
  case FACT_KIND_device: on_device(s, &fact->u.device); break;
  case FACT_KIND_limit: g03_cma_on_limit(&s->cma, &fact->u.limit); break;
  case FACT_KIND_mem: g03_growth_begins(&s->growth, &fact->u.mem.mem); break;
  case FACT_KIND_sample: on_sample(s, &fact->u.sample); break;
  case FACT_KIND_split: g03_cma_on_split(s, fact, out); break;
  case FACT_KIND_holding: g03_on_holding(&s->growth, &fact->u.holding); break;
  case FACT_KIND_mem_query: on_mem_query(s, fact, out); break;
  case FACT_KIND_alloc_large: g03_on_alloc_large(s, fact, out); break;
  case FACT_KIND_alloc_failed: g03_on_alloc_failed(s, fact, out); break;
  case FACT_KIND_alloc_recovered: g03_on_alloc_recovered(s, fact, out); break;
  case FACT_KIND_comm:
  case FACT_KIND_call_failed: g03_cma_on_call(s, fact, out); break;
  case FACT_KIND_exit:
    g03_refused_at_exit(s, fact, out);
    g03_answer_at_exit(s, fact, out);
    break;
  default: break;
  }
  g03_on_other_failure(s, fact);
}

const struct detector det_g03_memory = {
    .g = 3, .name = "g03_memory", .state_size = sizeof(struct g03_state), .observe = observe};
