/* want.c - see want.h. Runs inside the preloaded library: no libc, no state. */
#include "want.h"

#include "number.h"
#include "reading.h"
#include "text.h"

/* cudaErrorMemoryAllocation and CUDA_ERROR_OUT_OF_MEMORY; of ncclMemAlloc, that CUDA or the system refused inside. */
enum { CUDA_OUT_OF_MEMORY = 2, NCCL_CUDA_FAILED = 1, NCCL_SYSTEM_FAILED = 2 };

static bool is_about_memory(const char *route, int64_t result) {
  if (text_equal(route, "nccl")) return result == NCCL_CUDA_FAILED || result == NCCL_SYSTEM_FAILED;
  return result == CUDA_OUT_OF_MEMORY;
}

static void refused(struct want *w, const char *call, const char *route, uint64_t size, int64_t result) {
  if (w->kind != WANT_REQUEST || !w->open) w->most = 0;
  w->kind = WANT_REQUEST;
  w->open = true;
  w->size = size;
  w->most = num_max(w->most, num_or_zero(size));
  w->result = result;
  text_copy(w->call, sizeof w->call, call);
  text_copy(w->route, sizeof w->route, route);
}

static enum want_news on_alloc_failed(struct want *w, const struct fact *fact) {
  const struct fact_alloc_failed *a = &fact->u.alloc_failed;
  bool held_back = num_known(a->last) && a->last && a->last < fact->t; /* told afterwards: the reading is of later */
  bool has_reading = w->kind == WANT_REQUEST;
  if (!is_about_memory(a->route, a->result)) return WANT_NO_NEWS;
  if (held_back && has_reading && a->last < w->t) return WANT_NO_NEWS;
  refused(w, a->call, a->route, a->size, a->result);
  w->t = held_back ? a->last : fact->t;
  w->times = num_plus(w->times, num_known(a->repeat) && a->repeat ? a->repeat : 1);
  if (!held_back || !has_reading) w->mem = a->mem;
  w->live_device = a->live_device;
  w->live_pinned = a->live_pinned;
  return WANT_REFUSED;
}

static enum want_news on_alloc_recovered(struct want *w, const struct fact *fact) {
  const struct fact_alloc_recovered *a = &fact->u.alloc_recovered;
  if (w->kind != WANT_REQUEST || !w->open || !text_equal(w->route, a->route)) return WANT_NO_NEWS;
  if (!num_known(a->size) || a->size < w->most) return WANT_NO_NEWS;
  w->open = false;
  return WANT_GRANTED;
}

/* The driver's total is MemTotal where memory is shared. */
static bool tells_discrete(const struct fact_mem_query *q) {
  uint64_t total = q->mem.total;
  if (!num_known(q->total) || !num_known(total)) return false;
  return q->total < total - total / 8 || q->total > num_plus(total, total / 8);
}

static enum want_news on_mem_query(struct want *w, const struct fact *fact) {
  const struct fact_mem_query *q = &fact->u.mem_query;
  if (q->result == CUDA_OUT_OF_MEMORY) {
    refused(w, q->call, "query", 0, q->result);
    w->t = fact->t;
    w->times = num_plus(w->times, 1);
    w->mem = q->mem;
    w->live_device = w->live_pinned = FACT_NO_U64;
    return WANT_REFUSED;
  }
  if (q->result) return WANT_NO_NEWS;
  if (w->kind == WANT_REQUEST && w->open && text_equal(w->route, "query")) {
    w->open = false;
    return WANT_GRANTED;
  }
  if (w->kind == WANT_REQUEST || !num_known(q->free)) return WANT_NO_NEWS;
  if (tells_discrete(q)) {
    *w = (struct want){.discrete = true};
    return WANT_NO_NEWS;
  }
  w->kind = WANT_FIGURE;
  w->t = fact->t;
  w->free = q->free;
  w->mem = q->mem;
  text_copy(w->call, sizeof w->call, q->call);
  return WANT_TOLD;
}

enum want_news want_observe(struct want *w, const struct fact *fact) {
  if (fact->kind == FACT_KIND_header && fact->u.header.gpu && !text_has_word(fact->u.header.gpu, "GB10"))
    w->discrete = true;
  if (w->discrete) return WANT_NO_NEWS;
  switch (fact->kind) {
  case FACT_KIND_alloc_failed: return on_alloc_failed(w, fact);
  case FACT_KIND_alloc_recovered: return on_alloc_recovered(w, fact);
  case FACT_KIND_mem_query: return on_mem_query(w, fact);
  default: return WANT_NO_NEWS;
  }
}

/* The memory is the caller's already: nothing new is taken but page tables. */
static bool asks_for_existing(const char *call) {
  return text_equal(call, "cudaHostRegister") || text_equal(call, "cuMemHostRegister") ||
         text_equal(call, "cuMemHostRegister_v2");
}

uint64_t want_missing(const struct want *w) {
  struct reading r = reading_of(&w->mem);
  if (w->kind != WANT_REQUEST || !r.known || r.huge) return 0;
  uint64_t size = asks_for_existing(w->call) ? 0 : num_or_zero(w->size);
  return num_less(num_plus(size, r.reserve), r.obtainable);
}
