/* g03_words.c - the sentences of G3's findings: what, where, how much, and what to do in which order.
 *
 * Dropping the page cache stands among the fixes only where the readings say that it gives memory back. Here
 * is no judging: verdict, cause and confidence come in. Freestanding, see detector.h.
 */
#include "g03_memory.h"

#include "text.h"

static const char *const cause_words[G03_CAUSES] = {"alloc_refused_reclaimable", "alloc_refused_exhausted",
                                                    "oversize_request", "alloc_refused_unexplained"};
static const char *const route_words[G03_ROUTES] = {"device", "managed", "pinned", "pool", "vmm",
                                                    "array",  "nccl",    "query",  "other"};

static const char drop_caches[] =
    "drop the page cache before the next start: sync; echo 3 | sudo tee /proc/sys/vm/drop_caches";

static bool known(uint64_t n) { return n != FACT_NO_U64; }

/* Adds "a", size, "b" to t. */
static void add_size(struct text *t, const char *before, uint64_t bytes, const char *after) {
  text_add(t, before);
  text_size(t, bytes);
  text_add(t, after);
}

/* Page cache that could go: what MemAvailable promises beyond MemFree, as far as there is cache. */
static uint64_t droppable(const struct g03_reading *r) {
  uint64_t gap = g03_gap(r);
  return r->cache < gap ? r->cache : gap;
}

static void add_item(struct finding_list *list, const char *s) {
  struct text t = text_item(list);
  text_add(&t, s);
}

static void add_item_size(struct finding_list *list, const char *before, uint64_t bytes, const char *after) {
  struct text t = text_item(list);
  add_size(&t, before, bytes, after);
}

/* "cudaMalloc of 2.0 GiB", "cudaMemGetInfo". */
static void add_request(struct text *t, const struct g03_event *e) {
  text_add(t, e->call);
  if (e->route != G03_QUERY) add_size(t, " of ", e->size, "");
}

static void say_sentence(struct text *t, const struct g03_record *rec, const struct g03_reading *r) {
  const struct g03_event *e = &rec->last;
  add_request(t, e);
  if (rec->judged.cause == G03_OVERSIZE) {
    add_size(t, " asks for more than memory and swap together (", r->total + r->swap_total, ")");
    text_add(t, rec->refused ? " and was refused" : "; such a call can hang the machine instead of failing");
    return;
  }
  text_add(t, " was refused with error ");
  text_number(t, (uint64_t)e->result);
  switch (rec->judged.cause) {
  case G03_RECLAIMABLE:
    add_size(t, " although ", r->available, " can be had: ");
    add_size(t, "only ", r->free, " is free, ");
    add_size(t, "", droppable(r), " is page cache that the kernel could have given up");
    break;
  case G03_EXHAUSTED:
    add_size(t, ": memory is used up, ", r->obtainable, " can be had");
    if (!r->huge) add_size(t, ", of which page cache ", droppable(r), "");
    break;
  default:
    if (r->known)
      add_size(t, " although ", r->free, " is free: not explained by the machine's memory");
    else
      text_add(t, "; the machine's memory could not be read");
    break;
  }
}

static void say_withdrawal(struct text *t, const struct g03_record *rec) {
  const struct g03_event *e = &rec->last;
  if (rec->judged.doubt == G03_DOUBT_DISCRETE) {
    add_request(t, e);
    text_add(t, ": the GPU has memory of its own, the machine's memory says nothing about it");
  } else if (!rec->refused) {
    add_request(t, e);
    text_add(t, " asked for more than memory and swap together, and the process ended well");
  } else {
    text_number(t, rec->refused);
    text_add(t, rec->refused == 1 ? " refusal of " : " refusals of ");
    text_add(t, e->call);
    if (e->route != G03_QUERY) add_size(t, " (up to ", rec->size_max, ")");
    text_add(t, rec->open ? " handled: the process ended well" : " handled: the request was granted later");
  }
}

static void evidence_refusal(struct finding_list *list, const struct g03_record *rec) {
  const struct g03_event *e = &rec->last;
  struct text t = text_item(list);
  add_request(&t, e);
  text_add(&t, ", route ");
  text_add(&t, route_words[e->route]);
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
  if (rec->size_min != rec->size_max) {
    add_size(&t, ", of ", rec->size_min, " to ");
    text_size(&t, rec->size_max);
  }
}

static void evidence_memory(struct finding_list *list, const struct fact_memory *m) {
  struct text t = text_item(list);
  add_size(&t, "MemAvailable ", m->available, ", MemFree ");
  add_size(&t, "", m->free, ", Cached ");
  add_size(&t, "", m->cached, " of MemTotal ");
  text_size(&t, m->total);
  if (!known(m->swap_total)) return;
  t = text_item(list);
  add_size(&t, "SwapFree ", m->swap_free, " of ");
  text_size(&t, m->swap_total);
}

static void evidence_holder(struct finding_list *list, const struct g03_event *e) {
  if (!known(e->live_device) || !known(e->live_pinned)) return;
  struct text t = text_item(list);
  add_size(&t, "this process holds ", e->live_device, " of device and ");
  add_size(&t, "", e->live_pinned, " of pinned host memory");
}

static void evidence_end(struct finding_list *list, uint64_t t_seen, const struct fact *end) {
  if (!end) return;
  const struct fact_exit *e = &end->u.exit;
  struct text t = text_item(list);
  bool by_signal = e->signal != FACT_NO_I64;
  int64_t how = by_signal ? e->signal : e->status;
  text_add(&t, by_signal ? "the process was ended by signal " : "the process ended with status ");
  if (how == FACT_NO_I64 || how < 0)
    text_add(&t, "unknown");
  else
    text_number(&t, (uint64_t)how);
  if (end->t >= t_seen) {
    text_add(&t, ", ");
    text_number(&t, (end->t - t_seen) / 1000);
    text_add(&t, " ms later");
  }
  bool after = known(e->last_activity) && e->last_activity > t_seen;
  text_add(&t, after ? "; other CUDA work succeeded in between" : "; no CUDA work succeeded in between");
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
  };
  if (doubt != G03_SURE) add_item(list, words[doubt]);
}

static void rule_out(struct finding *f, const struct g03_record *rec, const struct g03_reading *r) {
  enum g03_cause cause = rec->judged.cause;
  if (!r->known || cause == G03_OVERSIZE) return;
  if (cause == G03_RECLAIMABLE && rec->judged.doubt == G03_SURE)
    add_item_size(&f->ruled_out, "alloc_refused_exhausted: MemAvailable ", r->available,
                  " covers the request and a reserve");
  if (cause == G03_EXHAUSTED && rec->judged.doubt == G03_SURE)
    add_item_size(&f->ruled_out, "page_cache_counted: giving up all page cache would add ", g03_gap(r),
                  " and not be enough");
  if (cause == G03_EXHAUSTED || cause == G03_RECLAIMABLE)
    add_item_size(&f->ruled_out, "an error that is not about memory: MemFree was down to ", r->free, "");
  if (cause == G03_UNEXPLAINED)
    add_item_size(&f->ruled_out, "alloc_refused_exhausted, alloc_refused_reclaimable: MemFree ", r->free,
                  " covers the request");
  add_item_size(&f->ruled_out, "oversize_request: the request is below memory and swap together, ",
                r->total + r->swap_total, "");
}

static void fix_reclaimable(struct finding *f, const struct g03_event *e, const struct g03_reading *r) {
  if (known(e->mem.mapped) && e->mem.mapped >= g03_gap(r) / 2)
    add_item(&f->fixes, "load the files without mmap, or unmap them first: cache of mapped files cannot be dropped");
  add_item(&f->fixes, drop_caches);
  add_item(&f->fixes,
           "read large files so that they do not stay cached: O_DIRECT, or posix_fadvise DONTNEED after reading");
}

/* Who holds it decides what to do first. */
static void fix_exhausted(struct finding *f, const struct g03_event *e, const struct g03_reading *r) {
  uint64_t used = r->total > r->available ? r->total - r->available : 0;
  bool device = known(e->live_device) && e->live_device >= used / 2;
  bool pinned = known(e->live_pinned) && e->live_pinned >= used / 4;
  bool huge = r->huge && e->mem.huge_total >= used / 4;
  if (huge) add_item(&f->fixes, "shrink the HugeTLB pool (vm.nr_hugepages): its pages serve nobody else");
  if (pinned)
    add_item(&f->fixes, "hold less pinned host memory in this process: pin_memory, offload and staging buffers");
  if (device)
    add_item(&f->fixes, "use a smaller batch, sequence or model, or free memory of this process before this point");
  if (!huge && !pinned && !device)
    add_item(&f->fixes,
             "find out who holds the memory (nvidia-smi; ps -e -o pid,rss,args --sort=-rss) and end that first");
  if (!device) add_item(&f->fixes, "use a smaller batch, sequence or model");
}

static void fix_refusal(struct finding *f, const struct g03_record *rec, const struct g03_reading *r) {
  switch (rec->judged.cause) {
  case G03_RECLAIMABLE:
    f->retry = RETRY_MAY_HELP;
    fix_reclaimable(f, &rec->last, r);
    break;
  case G03_EXHAUSTED:
    f->retry = RETRY_USELESS;
    fix_exhausted(f, &rec->last, r);
    break;
  case G03_OVERSIZE:
    f->retry = RETRY_USELESS;
    add_item_size(&f->fixes, "ask for less than what can be had now, ", r->obtainable,
                  "; split the tensor or stream it");
    break;
  default:
    f->retry = RETRY_UNKNOWN;
    add_item(&f->fixes, "look for a limit set on the pool or the process, and retry with a smaller request");
    break;
  }
}

static void begin(struct finding *f, const char *cause, const char *object, enum verdict v) {
  /* Not one big assignment: the struct is larger than a careful hook's stack, and only these need zeroing. */
  f->evidence.n = f->fixes.n = f->ruled_out.n = 0;
  f->g = 3;
  f->verdict = v;
  f->cause = cause;
  f->retry = RETRY_UNKNOWN;
  text_copy(f->object, sizeof f->object, object);
}

void g03_say_refusal(struct finding *f, const struct g03_record *rec, enum verdict v, const struct fact *end) {
  struct g03_reading r = g03_read(&rec->last.mem);
  struct text t = text_in(f->text, sizeof f->text);
  begin(f, cause_words[rec->judged.cause], route_words[rec->last.route], v);
  f->confidence = rec->judged.confidence;
  f->t = end ? end->t : rec->last.t;
  evidence_refusal(&f->evidence, rec);
  if (r.known) evidence_memory(&f->evidence, &rec->last.mem);
  evidence_holder(&f->evidence, &rec->last);
  evidence_doubt(&f->evidence, rec->judged.doubt);
  evidence_end(&f->evidence, rec->last.t, end);
  rule_out(f, rec, &r);
  if (v == VERDICT_INFO) {
    say_withdrawal(&t, rec);
  } else {
    say_sentence(&t, rec, &r);
    fix_refusal(f, rec, &r);
  }
}

void g03_say_answer(struct finding *f, const struct g03_answer *a, enum verdict v, const struct fact *end) {
  struct g03_reading r = g03_read(&a->mem);
  struct text t = text_in(f->text, sizeof f->text);
  begin(f, "page_cache_counted", "free", v);
  f->confidence = end ? CONFIDENCE_MEDIUM : CONFIDENCE_HIGH;
  f->retry = RETRY_USELESS;
  f->t = end ? end->t : a->t;
  text_add(&t, a->call);
  add_size(&t, " says ", a->free, " free");
  add_size(&t, " although ", r.available, " can be had: ");
  add_size(&t, "it counts ", droppable(&r), " of page cache as used");
  if (end) text_add(&t, "; the process ended unsuccessfully right after it");
  evidence_memory(&f->evidence, &a->mem);
  add_item(&f->evidence, a->refused ? "requests had been refused before" : "no request had been refused until then");
  if (end) add_item(&f->evidence, "not excluded: the process failed for a reason that has nothing to do with memory");
  evidence_end(&f->evidence, a->t, end);
  if (!a->refused)
    add_item_size(&f->ruled_out, "alloc_refused_exhausted: MemAvailable ", r.available, " and no refusal until then");
  if (end) add_item(&f->fixes, drop_caches);
  add_item(&f->fixes, "size the budget from MemAvailable, not from cudaMemGetInfo (or set it by hand)");
  if (!end) add_item(&f->fixes, drop_caches);
}
