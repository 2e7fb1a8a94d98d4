/* g03_words.c - the sentences of G3's findings: what, where, how much, and what to do in which order.
 *
 * Dropping the page cache stands among the fixes only where the readings say that it gives memory back. Here
 * is no judging: verdict, cause and confidence come in. Freestanding, see detector.h.
 */
#include "g03_memory.h"

#include "ending.h"
#include "number.h"
#include "text.h"
#include "words.h"

static const char *const cause_words[G03_CAUSES] = {"alloc_refused_reclaimable",
                                                    "alloc_refused_exhausted",
                                                    "oversize_request",
                                                    "alloc_refused_unexplained",
                                                    "pinned_host",
                                                    "load_double_count",
                                                    "allocator_reserve",
                                                    "cma_trap"};

static const char *word_of(enum g03_route route) {
  return route == G03_QUERY ? "query" : route < G03_QUERY ? route_word((unsigned)route) : "other";
}

/* "cudaMalloc of 2.0 GiB", "cudaMemGetInfo". */
static void add_request(struct text *t, const struct g03_event *e) {
  text_add(t, e->call);
  if (e->route != G03_QUERY && !e->communicator) text_sized(t, " of ", e->size, "");
}

/* Host memory that came while the process filled the machine: its own pinned memory, and what programs hold. */
static uint64_t host_grown(const struct g03_record *rec) {
  const struct g03_held *from = &rec->filled.from, *to = &rec->filled.to;
  return num_plus(num_less(to->pinned, from->pinned), num_less(to->host, from->host));
}

/* How the process came to fill the memory, behind "was refused with error 2". */
static void say_filled(struct text *t, const struct g03_record *rec, const struct reading *r) {
  const struct g03_held *from = &rec->filled.from, *to = &rec->filled.to;
  switch (rec->judged.cause) {
  case G03_PINNED_HOST:
    text_sized(t, ": this process holds ", to->pinned,
               " of page-locked host memory, which is the GPU's memory too, and ");
    text_sized(t, "", to->device, " of device memory");
    break;
  case G03_DOUBLE_COUNT:
    text_sized(t, ": what is loaded is there twice, device memory grew by ", num_less(to->device, from->device), "");
    text_sized(t, " and host memory beside it by ", host_grown(rec), "");
    break;
  default:
    text_sized(t, ": device memory grew from ", from->device, " to ");
    text_sized(t, "", to->device, " in ");
    text_number(t, rec->filled.rounds);
    text_add(t, " rounds of work, by ");
    text_number(t, num_less(to->grants, from->grants));
    text_add(t, " requests and ");
    text_number(t, num_less(to->frees, from->frees));
    text_add(t, " frees: the allocator keeps what does not fit again");
    break;
  }
  text_sized(t, "; ", r->obtainable, " can be had");
}

static void say_cma(struct text *t, const struct g03_event *e, const struct reading *r) {
  if (e->mem.cma_total == 0)
    text_sized(t, " with ", r->free,
               " free: on this kernel, which counts free contiguous memory (CMA) that it does not have, "
               "locking memory fails");
  else {
    text_sized(t, ": of ", e->mem.available, " that seem to be available ");
    text_sized(t, "", e->mem.cma_free, " lie in a contiguous area (CMA), which CUDA does not get");
  }
}

static void say_sentence(struct text *t, const struct g03_record *rec, const struct reading *r) {
  const struct g03_event *e = &rec->last;
  add_request(t, e);
  if (rec->judged.cause == G03_OVERSIZE) {
    text_sized(t, " asks for more than memory and swap together (", r->total + r->swap_total, ")");
    text_add(t, rec->refused ? " and was refused" : "; such a call can hang the machine instead of failing");
    return;
  }
  text_add(t, e->communicator ? " failed with error " : " was refused with error ");
  text_number(t, (uint64_t)e->result);
  switch (rec->judged.cause) {
  case G03_RECLAIMABLE:
    text_sized(t, " although ", r->available, " can be had: ");
    text_sized(t, "only ", r->free, " is free, ");
    text_sized(t, "", reading_droppable(r), " is page cache that the kernel could have given up");
    break;
  case G03_EXHAUSTED:
    text_sized(t, ": memory is used up, ", r->obtainable, " can be had");
    if (!r->huge) text_sized(t, ", of which page cache ", reading_droppable(r), "");
    break;
  case G03_CMA: say_cma(t, e, r); break;
  case G03_UNEXPLAINED:
    if (r->known)
      text_sized(t, " although ", r->free, " is free: not explained by the machine's memory");
    else
      text_add(t, "; the machine's memory could not be read");
    break;
  default: say_filled(t, rec, r); break;
  }
  if (rec->judged.cuda12) text_add(t, "; or a library of CUDA 12 does not fit (low confidence)");
}

static void say_withdrawal(struct text *t, const struct g03_record *rec) {
  const struct g03_event *e = &rec->last;
  if (rec->judged.doubt == G03_DOUBT_DISCRETE) {
    add_request(t, e);
    text_add(t, ": the GPU has memory of its own, the machine's memory says nothing about it");
  } else if (rec->judged.doubt == G03_DOUBT_IN_USE) {
    add_request(t, e);
    text_add(t, ": the allocator had next to nothing to give back when it asked again, what it holds is in use");
  } else if (!rec->refused) {
    add_request(t, e);
    text_add(t, " asked for more than memory and swap together, and the process ended well");
  } else {
    text_number(t, rec->refused);
    text_add(t, rec->refused == 1 ? " refusal of " : " refusals of ");
    text_add(t, e->call);
    if (e->route != G03_QUERY) text_sized(t, " (up to ", rec->size_max, ")");
    text_add(t, rec->open ? " handled: the process ended well" : " handled: the request was granted later");
  }
}

static void evidence_refusal(struct finding_list *list, const struct g03_record *rec) {
  const struct g03_event *e = &rec->last;
  struct text t = text_item(list);
  add_request(&t, e);
  if (!e->communicator) text_add(&t, ", route ");
  if (!e->communicator) text_add(&t, word_of(e->route));
  if (!rec->refused) {
    text_add(&t, ", about to be made");
    return;
  }
  text_add(&t, ", returned ");
  text_number(&t, (uint64_t)e->result);
  if (rec->refused == 1) return;
  text_add(&t, "; ");
  text_number(&t, rec->refused);
  text_add(&t, " refusals in all");
  if (rec->size_min != rec->size_max && !e->communicator) {
    text_sized(&t, ", of ", rec->size_min, " to ");
    text_size(&t, rec->size_max);
  }
}

static bool is_growth(enum g03_cause cause) {
  return cause == G03_PINNED_HOST || cause == G03_DOUBLE_COUNT || cause == G03_RESERVE;
}

static void evidence_filled(struct finding_list *list, const struct g03_record *rec) {
  const struct g03_held *from = &rec->filled.from, *to = &rec->filled.to;
  struct text t = text_item(list);
  text_sized(&t, "device memory ", from->device, " to ");
  text_sized(&t, "", to->device, ", pinned ");
  text_sized(&t, "", from->pinned, " to ");
  text_sized(&t, "", to->pinned, ", anonymous and shared of all programs ");
  text_sized(&t, "", from->host, " to ");
  text_sized(&t, "", to->host, "; copied from the host ");
  text_size(&t, num_less(to->copied, from->copied));
}

static void evidence_cma(struct finding_list *list, const struct g03_event *e, const struct g03_cma *c) {
  struct text t = text_item(list);
  text_sized(&t, "CmaTotal ", e->mem.cma_total, ", CmaFree ");
  text_sized(&t, "", e->mem.cma_free, ", kernel ");
  text_add(&t, c->kernel[0] ? c->kernel : "not known");
  text_add(&t, ", limit on locked memory ");
  if (!c->memlock_read)
    text_add(&t, "not known");
  else if (c->memlock == FACT_NO_U64)
    text_add(&t, "none");
  else
    text_size(&t, c->memlock);
}

static bool blocks_known(const struct g03_state *s) { return s->sampled && num_known(s->blocks_large); }

static void evidence_blocks(struct finding_list *list, const struct g03_state *s) {
  struct text t = text_item(list);
  text_number(&t, s->blocks_large);
  text_add(&t, " free blocks of 32 MiB or more at the latest sample");
  if (num_known(s->block_max)) text_sized(&t, ", the largest has ", s->block_max, "");
  if (!s->blocks_large) text_add(&t, ": fragmentation is the likelier of what is left");
}

/* What is known of the process's part in it: one item, the list is short. */
static void evidence_part(struct finding_list *list, const struct g03_record *rec, const struct g03_state *s) {
  if (is_growth(rec->judged.cause))
    evidence_filled(list, rec);
  else if (rec->judged.cause == G03_CMA)
    evidence_cma(list, &rec->last, &s->cma);
  else if (rec->judged.cause == G03_UNEXPLAINED && blocks_known(s))
    evidence_blocks(list, s);
  else if (rec->judged.cuda12)
    text_item_add(list, "also possible, low confidence: libcudart.so.12 is mapped on a machine with CUDA 13; the same "
                        "call from a program for CUDA 13 tells which");
  else
    words_live(list, rec->last.live_device, rec->last.live_pinned);
}

static void evidence_doubt(struct finding_list *list, enum g03_doubt doubt) {
  static const char *const words[] = {
      [G03_DOUBT_UNREAD] = "not excluded: any cause, /proc/meminfo could not be read",
      [G03_DOUBT_HUGETLB] =
          "not excluded: HugeTLB is in use, so that MemAvailable and the free huge pages both may count",
      [G03_DOUBT_SWAP] = "not excluded: the kernel could have made room by swapping others out",
      [G03_DOUBT_NARROW] = "not excluded: the request is within the machine's reserve of what can be had",
      [G03_DOUBT_FITS] = "not excluded: a cause other than memory, as MemFree alone covers the request",
      [G03_DOUBT_NOT_CACHE] =
          "not excluded: memory in use, as page cache accounts for less than half of the difference",
      [G03_DOUBT_NCCL] = "not excluded: another failure inside NCCL, its error number does not say memory",
      [G03_DOUBT_DISCRETE] = "cudaMemGetInfo's total is not MemTotal",
      [G03_DOUBT_OTHER_LIMIT] =
          "not excluded: a limit of the pool or the process, fragmentation, an error that is not about memory",
      [G03_DOUBT_TOUCHED] =
          ("not excluded: the program had touched the memory before, and page-locking it needed next to "
           "nothing more"),
      [G03_DOUBT_MEANT] = ("not excluded: the program means to hold so much host memory (offload), and its device "
                           "memory is what does not fit"),
      [G03_DOUBT_OTHERS] = "not excluded: the host memory that grew belongs to other programs; ps tells whose it is",
      [G03_DOUBT_KEPT] = ("not excluded: the program keeps more at every step; emptying the allocator's cache tells: "
                          "what it keeps stays"),
      [G03_DOUBT_IN_USE] = "the same request was made again, and hardly any device memory was freed in between",
      [G03_DOUBT_MEMLOCK] = "not excluded: the limit on locked memory; with ulimit -l unlimited the call tells which",
      [G03_DOUBT_NO_MEMLOCK] = "not excluded: the limit on locked memory (ulimit -l), which could not be read",
      [G03_DOUBT_NETWORK] =
          "not excluded: the network or a peer, for the call ran long; NCCL_DEBUG=WARN tells the error",
  };
  if (doubt != G03_SURE) text_item_add(list, words[doubt]);
}

static void rule_out_cma(struct finding_list *list, const struct g03_record *rec, const struct reading *r) {
  const struct g03_event *e = &rec->last;
  if (e->mem.cma_total == 0) {
    text_item_sized(list, "alloc_refused_exhausted, page_cache_counted: MemFree is ", r->free, "");
    if (rec->judged.confidence == CONFIDENCE_HIGH)
      text_item_add(list, "the limit on locked memory: it covers the call");
    if (rec->judged.confidence == CONFIDENCE_HIGH && e->communicator)
      text_item_add(list, "the network or a peer: the call failed at once, and not with NCCL's error for a peer");
  } else {
    text_item_sized(list, "alloc_refused_exhausted: with the area, ", e->mem.available, " would cover the request");
    text_item_sized(list, "page_cache_counted: dropping caches adds at most ", reading_droppable(r), "");
  }
}

static void rule_out_growth(struct finding_list *list, const struct g03_record *rec, const struct reading *r) {
  const struct g03_held *from = &rec->filled.from, *to = &rec->filled.to;
  text_item_sized(list, "page_cache_counted: giving up all page cache would add ", reading_gap(r),
                  " and not be enough");
  if (rec->judged.cause == G03_RESERVE) {
    text_item_sized(list, "a model or batch that is too large: memory kept growing after the first rounds, and only ",
                    num_less(to->copied, from->copied), " came from the host");
    text_item_sized(list, "pinned_host, load_double_count: host memory grew by ", host_grown(rec), "");
  }
  if (rec->judged.cause == G03_PINNED_HOST)
    text_item_sized(list, "allocator_reserve: device memory grew by ", num_less(to->device, from->device), "");
  if (rec->judged.cause == G03_DOUBLE_COUNT)
    text_item_sized(list, "pinned_host: device memory grew as well, by ", num_less(to->device, from->device), "");
}

static void rule_out(struct finding *f, const struct g03_record *rec, const struct reading *r) {
  enum g03_cause cause = rec->judged.cause;
  if (!r->known || cause == G03_OVERSIZE) return;
  if (is_growth(cause)) rule_out_growth(&f->ruled_out, rec, r);
  if (cause == G03_CMA) rule_out_cma(&f->ruled_out, rec, r);
  if (rec->last.communicator) return;
  if (cause == G03_RECLAIMABLE && rec->judged.doubt == G03_SURE)
    text_item_sized(&f->ruled_out, "alloc_refused_exhausted: MemAvailable ", r->available,
                    " covers the request and a reserve");
  if (cause == G03_EXHAUSTED && rec->judged.doubt == G03_SURE)
    text_item_sized(&f->ruled_out, "page_cache_counted: giving up all page cache would add ", reading_gap(r),
                    " and not be enough");
  if (cause == G03_EXHAUSTED || cause == G03_RECLAIMABLE)
    text_item_sized(&f->ruled_out, "an error that is not about memory: MemFree was down to ", r->free, "");
  if (cause == G03_UNEXPLAINED)
    text_item_sized(&f->ruled_out, "alloc_refused_exhausted, alloc_refused_reclaimable: MemFree ", r->free,
                    " covers the request");
  text_item_sized(&f->ruled_out, "oversize_request: the request is below memory and swap together, ",
                  r->total + r->swap_total, "");
}

void g03_say_refusal(struct finding *f, const struct g03_state *s, const struct g03_record *rec, enum verdict v,
                     const struct fact *end) {
  struct reading r = reading_of(&rec->last.mem);
  struct text t = text_in(f->text, sizeof f->text);
  words_begin(f, 3, v, cause_words[rec->judged.cause], word_of(rec->last.route));
  f->confidence = rec->judged.confidence;
  f->t = end ? end->t : rec->last.t;
  evidence_refusal(&f->evidence, rec);
  if (r.known) words_memory(&f->evidence, &rec->last.mem);
  evidence_part(&f->evidence, rec, s);
  evidence_doubt(&f->evidence, rec->judged.doubt);
  if (end) ending_say(&f->evidence, rec->last.t, end);
  rule_out(f, rec, &r);
  if (v == VERDICT_INFO) {
    say_withdrawal(&t, rec);
  } else {
    say_sentence(&t, rec, &r);
    g03_fix_refusal(f, rec, &r);
    if (rec->judged.cause == G03_UNEXPLAINED && blocks_known(s) && !s->blocks_large)
      text_item_add(&f->fixes, "restart the machine: after days of uptime only that made large blocks again");
  }
}
