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

static const char *const cause_words[G03_CAUSES] = {"alloc_refused_reclaimable", "alloc_refused_exhausted",
                                                    "oversize_request", "alloc_refused_unexplained"};
static const char *const route_words[G03_ROUTES] = {"device", "managed", "pinned", "pool", "vmm",
                                                    "array",  "nccl",    "query",  "other"};

/* "cudaMalloc of 2.0 GiB", "cudaMemGetInfo". */
static void add_request(struct text *t, const struct g03_event *e) {
  text_add(t, e->call);
  if (e->route != G03_QUERY) text_sized(t, " of ", e->size, "");
}

static void say_sentence(struct text *t, const struct g03_record *rec, const struct reading *r) {
  const struct g03_event *e = &rec->last;
  add_request(t, e);
  if (rec->judged.cause == G03_OVERSIZE) {
    text_sized(t, " asks for more than memory and swap together (", r->total + r->swap_total, ")");
    text_add(t, rec->refused ? " and was refused" : "; such a call can hang the machine instead of failing");
    return;
  }
  text_add(t, " was refused with error ");
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
  default:
    if (r->known)
      text_sized(t, " although ", r->free, " is free: not explained by the machine's memory");
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
    if (e->route != G03_QUERY) text_sized(t, " (up to ", rec->size_max, ")");
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
    text_sized(&t, ", of ", rec->size_min, " to ");
    text_size(&t, rec->size_max);
  }
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
  if (doubt != G03_SURE) text_item_add(list, words[doubt]);
}

static void rule_out(struct finding *f, const struct g03_record *rec, const struct reading *r) {
  enum g03_cause cause = rec->judged.cause;
  if (!r->known || cause == G03_OVERSIZE) return;
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

static void fix_reclaimable(struct finding *f, const struct g03_event *e, const struct reading *r) {
  if (num_known(e->mem.mapped) && e->mem.mapped >= reading_gap(r) / 2)
    text_item_add(&f->fixes,
                  "load the files without mmap, or unmap them first: cache of mapped files cannot be dropped");
  words_fix_cache(&f->fixes);
  text_item_add(&f->fixes,
                "read large files so that they do not stay cached: O_DIRECT, or posix_fadvise DONTNEED after reading");
}

/* Who holds it decides what to do first. */
static void fix_exhausted(struct finding *f, const struct g03_event *e, const struct reading *r) {
  uint64_t used = r->total > r->available ? r->total - r->available : 0;
  bool device = num_known(e->live_device) && e->live_device >= used / 2;
  bool pinned = num_known(e->live_pinned) && e->live_pinned >= used / 4;
  bool huge = r->huge && e->mem.huge_total >= used / 4;
  if (huge) text_item_add(&f->fixes, "shrink the HugeTLB pool (vm.nr_hugepages): its pages serve nobody else");
  if (pinned)
    text_item_add(&f->fixes, "hold less pinned host memory in this process: pin_memory, offload and staging buffers");
  if (device)
    text_item_add(&f->fixes,
                  "use a smaller batch, sequence or model, or free memory of this process before this point");
  if (!huge && !pinned && !device)
    text_item_add(&f->fixes,
                  "find out who holds the memory (nvidia-smi; ps -e -o pid,rss,args --sort=-rss) and end that first");
  if (!device) text_item_add(&f->fixes, "use a smaller batch, sequence or model");
}

static void fix_refusal(struct finding *f, const struct g03_record *rec, const struct reading *r) {
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
    text_item_sized(&f->fixes, "ask for less than what can be had now, ", r->obtainable,
                    "; split the tensor or stream it");
    break;
  default:
    f->retry = RETRY_UNKNOWN;
    text_item_add(&f->fixes, "look for a limit set on the pool or the process, and retry with a smaller request");
    break;
  }
}

void g03_say_refusal(struct finding *f, const struct g03_record *rec, enum verdict v, const struct fact *end) {
  struct reading r = reading_of(&rec->last.mem);
  struct text t = text_in(f->text, sizeof f->text);
  words_begin(f, 3, v, cause_words[rec->judged.cause], route_words[rec->last.route]);
  f->confidence = rec->judged.confidence;
  f->t = end ? end->t : rec->last.t;
  evidence_refusal(&f->evidence, rec);
  if (r.known) words_memory(&f->evidence, &rec->last.mem);
  words_live(&f->evidence, rec->last.live_device, rec->last.live_pinned);
  evidence_doubt(&f->evidence, rec->judged.doubt);
  if (end) ending_say(&f->evidence, rec->last.t, end);
  rule_out(f, rec, &r);
  if (v == VERDICT_INFO) {
    say_withdrawal(&t, rec);
  } else {
    say_sentence(&t, rec, &r);
    fix_refusal(f, rec, &r);
  }
}

void g03_say_answer(struct finding *f, const struct g03_answer *a, enum verdict v, const struct fact *end) {
  struct reading r = reading_of(&a->mem);
  struct text t = text_in(f->text, sizeof f->text);
  words_begin(f, 3, v, "page_cache_counted", "free");
  f->confidence = end ? CONFIDENCE_MEDIUM : CONFIDENCE_HIGH;
  f->retry = RETRY_USELESS;
  f->t = end ? end->t : a->t;
  text_add(&t, a->call);
  text_sized(&t, " says ", a->free, " free");
  text_sized(&t, " although ", r.available, " can be had: ");
  text_sized(&t, "it counts ", reading_droppable(&r), " of page cache as used");
  if (end) text_add(&t, "; the process ended unsuccessfully right after it");
  words_memory(&f->evidence, &a->mem);
  text_item_add(&f->evidence,
                a->refused ? "requests had been refused before" : "no request had been refused until then");
  if (end)
    text_item_add(&f->evidence, "not excluded: the process failed for a reason that has nothing to do with memory");
  if (end) ending_say(&f->evidence, a->t, end);
  if (!a->refused)
    text_item_sized(&f->ruled_out, "alloc_refused_exhausted: MemAvailable ", r.available, " and no refusal until then");
  if (end) words_fix_cache(&f->fixes);
  text_item_add(&f->fixes, "size the budget from MemAvailable, not from cudaMemGetInfo (or set it by hand)");
  if (!end) words_fix_cache(&f->fixes);
}
