/* g03_relief.c - G3, what SPARKSHIM_RELIEF=cache did: the library has changed what the job would have met, so it is said.
 *
 * A note, never more: where the second call was refused too, the refusal is judged like any other (g03_memory.c).
 * Freestanding, see detector.h.
 */
#include "detector.h"
#include "number.h"
#include "text.h"
#include "words.h"

enum { CALL = 48 };

struct relief_state {
  uint64_t granted, refused, dropped;
};

static void add_count(struct text *t, uint64_t n, const char *one, const char *more) {
  text_number(t, n);
  text_add(t, n == 1 ? one : more);
}

static void say_sentence(struct text *t, const struct fact_relief *r) {
  char call[CALL];
  text_copy(call, sizeof call, r->call);
  text_add(t, call);
  text_sized(t, " of ", r->size, " was refused");
  text_add(t, r->result ? " twice: giving back " : " and then granted: ");
  text_sized(t, "", num_or_zero(r->dropped), " of page cache of ");
  add_count(t, num_or_zero(r->files), " data file", " data files");
  text_add(t, r->result ? " in between did not help" : " was given back in between");
  text_add(t, " (SPARKSHIM_RELIEF=cache)");
}

static void say_evidence(struct finding_list *list, const struct relief_state *s, const struct fact_relief *r) {
  struct text t = text_item(list);
  if (num_known(r->mem.free) && num_known(r->free_after)) {
    text_sized(&t, "MemFree ", r->mem.free, " before and ");
    text_sized(&t, "", r->free_after, " after it");
    if (num_known(r->wall_us)) {
      text_add(&t, ", ");
      text_number(&t, r->wall_us / 1000);
      text_add(&t, " ms");
    }
    t = text_item(list);
  }
  add_count(&t, s->granted, " request granted and ", " requests granted and ");
  text_number(&t, s->refused);
  text_sized(&t, " refused after relief so far, ", s->dropped, " of cache given back");
  words_memory(list, &r->mem);
}

static void observe(void *state, const struct fact *fact, struct det_out *out) {
  struct relief_state *s = state;
  const struct fact_relief *r = &fact->u.relief;
  struct finding *f = &out->f;
  struct text t;
  if (fact->kind != FACT_KIND_relief || r->result == FACT_NO_I64) return;
  *(r->result ? &s->refused : &s->granted) += 1;
  s->dropped = num_plus(s->dropped, num_or_zero(r->dropped));
  words_begin(f, 3, VERDICT_INFO, "cache_relieved", "relief");
  f->confidence = CONFIDENCE_HIGH;
  f->retry = r->result ? RETRY_UNKNOWN : RETRY_MAY_HELP;
  f->t = fact->t;
  t = text_in(f->text, sizeof f->text);
  say_sentence(&t, r);
  say_evidence(&f->evidence, s, r);
  text_item_add(&f->fixes, "give the cache back before the next start, so that nothing has to wait: sparkshim evict "
                           "FILES, or sparkshim evict --run RUN");
  out->emit(out, f);
}

const struct detector det_g03_relief = {
    .g = 3, .name = "g03_relief", .state_size = sizeof(struct relief_state), .observe = observe};
