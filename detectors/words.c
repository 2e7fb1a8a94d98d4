/* words.c - see words.h. Runs inside the preloaded library: no libc, no state. */
#include "words.h"

#include "number.h"
#include "text.h"

void words_begin(struct finding *f, unsigned g, enum verdict v, const char *cause, const char *object) {
  /* Not one big assignment: the struct is larger than a careful hook's stack, and only these need zeroing. */
  f->evidence.n = f->fixes.n = f->ruled_out.n = 0;
  f->g = g;
  f->verdict = v;
  f->cause = cause;
  f->retry = RETRY_UNKNOWN;
  text_copy(f->object, sizeof f->object, object);
}

void words_memory(struct finding_list *list, const struct fact_memory *m) {
  struct text t = text_item(list);
  text_sized(&t, "MemAvailable ", m->available, ", MemFree ");
  text_sized(&t, "", m->free, ", Cached ");
  text_sized(&t, "", m->cached, " of MemTotal ");
  text_size(&t, m->total);
  if (!num_known(m->swap_total)) return;
  t = text_item(list);
  text_sized(&t, "SwapFree ", m->swap_free, " of ");
  text_size(&t, m->swap_total);
}

void words_live(struct finding_list *list, uint64_t device, uint64_t pinned) {
  if (!num_known(device) || !num_known(pinned)) return;
  struct text t = text_item(list);
  text_sized(&t, "this process holds ", device, " of device and ");
  text_sized(&t, "", pinned, " of pinned host memory");
}

void words_cma(struct finding_list *list, const struct fact_memory *m) {
  struct text t = text_item(list);
  text_sized(&t, "CmaTotal ", m->cma_total, ", CmaFree ");
  text_size(&t, m->cma_free);
}

void words_fix_area(struct finding_list *list) {
  text_item_add(list, "count with MemAvailable less CmaFree, and end what holds the rest");
  text_item_add(list, "make the contiguous area smaller (cma= on the kernel's command line) and restart the machine");
}

void words_fix_cache(struct finding_list *list) {
  text_item_add(list,
                "give page cache back before the next start: sparkshim evict FILES, or sparkshim evict --run RUN; "
                "or of all files: sync; echo 3 | sudo tee /proc/sys/vm/drop_caches");
}
