/* g03_fixes.c - what to do about a refusal, in the order in which to try it.
 *
 * Dropping the page cache stands among the fixes only where the readings say that it gives memory back.
 * Freestanding, see detector.h.
 */
#include "g03_memory.h"
#include "number.h"
#include "words.h"

static void fix_reclaimable(struct finding *f, const struct g03_event *e, const struct reading *r) {
  if (num_known(e->mem.mapped) && e->mem.mapped >= reading_gap(r) / 2)
    text_item_add(&f->fixes,
                  "load the files without mmap, or unmap them first: cache of mapped files cannot be dropped");
  words_fix_cache(&f->fixes);
  text_item_add(&f->fixes, "or let the library drop it at a refusal and make the call again: SPARKSHIM_RELIEF=cache");
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

/* CPU and GPU share the memory: a page-locked copy costs as much as a device copy. */
static void fix_pinned(struct finding *f) {
  text_item_add(&f->fixes, "load without pinning: pin_memory=False, or a loader without page-locked staging buffers");
  text_item_add(&f->fixes, "give staging buffers back after each file, and bound their number");
  text_item_add(&f->fixes, "do not offload to the CPU on this machine: it is the same memory");
}

static void fix_double(struct finding *f) {
  text_item_add(&f->fixes,
                "load one shard at a time straight to the device, and free its host copy before the next one "
                "(low_cpu_mem_usage, device_map, safetensors with mmap)");
  text_item_add(&f->fixes, "load with fewer workers and smaller staging buffers, without pinning");
  text_item_add(&f->fixes, "convert or quantise the files once and load the result, instead of at every start");
}

static void fix_reserve(struct finding *f) {
  text_item_add(&f->fixes,
                "empty the allocator's cache between samples (torch.cuda.empty_cache) and see whether it helps");
  text_item_add(&f->fixes, "make sizes repeat: pad or bucket sequences to a few lengths");
  text_item_add(&f->fixes,
                "bound the allocator: torch.cuda.set_per_process_memory_fraction, garbage_collection_threshold");
}

static void fix_cma(struct finding *f, const struct g03_record *rec) {
  if (rec->last.mem.cma_total != 0) {
    words_fix_area(&f->fixes);
    return;
  }
  if (rec->judged.doubt == G03_DOUBT_MEMLOCK)
    text_item_add(&f->fixes,
                  "raise the limit on locked memory (ulimit -l unlimited; docker --ulimit memlock=-1) and see");
  text_item_add(&f->fixes, "start another kernel: the one before, or a later one whose CmaTotal and CmaFree agree");
  text_item_add(&f->fixes, rec->last.route == G03_NCCL
                               ? "until then do without RDMA: NCCL_IB_DISABLE=1"
                               : "until then do without page-locked memory: pin_memory=False, no cudaHostRegister");
}

void g03_fix_refusal(struct finding *f, const struct g03_record *rec, const struct reading *r) {
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
  case G03_PINNED_HOST:
    f->retry = RETRY_USELESS;
    fix_pinned(f);
    break;
  case G03_DOUBLE_COUNT:
    f->retry = RETRY_USELESS;
    fix_double(f);
    break;
  case G03_RESERVE:
    f->retry = RETRY_USELESS;
    fix_reserve(f);
    break;
  case G03_CMA:
    f->retry = RETRY_USELESS;
    fix_cma(f, rec);
    break;
  default:
    f->retry = RETRY_UNKNOWN;
    text_item_add(&f->fixes, "look for a limit set on the pool or the process, and retry with a smaller request");
    break;
  }
}
