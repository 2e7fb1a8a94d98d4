/* g03_collapse.c - G3: MemAvailable falls so fast that it is used up within seconds (collapse).
 *
 * On a Spark nothing refuses an allocation until the machine is at its end: a server's start was seen to go from 29 to
 * 6.3 GiB in 11 s, a resumed checkpoint from 34 to 12.7 GiB in 1.5 s. What follows is a refusal, a kill or a machine that
 * stands still, so this is said while there is still something to do: WARN, never FAIL. A big model that is loaded falls
 * just as fast; it is told apart by where it is (the last sixteenth of the machine) and by still falling there.
 *
 * From the samples alone, live and afterwards. Freestanding: no libc, no I/O, no clock, no lock.
 */
#include "detector.h"
#include "number.h"
#include "text.h"
#include "words.h"

#define SECOND ((uint64_t)1000 * 1000)

enum { SECONDS = 16 }; /* how far back readings are kept, one a second */

/* The last sixteenth of memory (7.6 of 121.6 GiB) while it falls towards nothing within 20 s; a person needs about that
 * long to react. Where tasks already wait for memory or it is swapped, the last eighth and 3 s: too late for a person, in
 * time for the log. */
enum { LOW_PART = 16, LOW_SECONDS = 20, PRESSED_PART = 8, PRESSED_SECONDS = 3 };
/* It must have fallen by a sixteenth of the machine within the seconds kept, in three readings or more: one reading
 * that differs, or a slow approach, is another thing. */
enum { FALL_PART = 16, READINGS = 3 };
/* The pace is that of the last 3 s; of less than half a second it is noise. */
#define PACE_US (3 * SECOND)
#define PACE_LEAST_US (SECOND / 2)
/* Still falling: at a quarter of that pace or more since the second before this one began. */
#define STILL_US (2 * SECOND + SECOND / 5)
/* some avg10 in 0.01 %: 41 % in the reported case of pressure, 0 on a healthy machine. */
enum { SOME_PRESSED = 1000 };
/* Not at risk any more: an eighth of the machine is there again, or it has stood still for a minute. */
#define LEVEL_US (60 * SECOND)
enum { WARNINGS_MAX = 3 };

struct moment {
  uint64_t t; /* 0: none */
  uint64_t available, huge;
  uint64_t device, host; /* of the job: through hooked calls; anonymous, shared and pinned */
};

struct state {
  struct moment second[SECONDS]; /* of each second the reading with most MemAvailable */
  struct moment last;
  uint64_t total, some, allocstall, pswpout;
  bool pressed;      /* at the last reading tasks waited, or memory was written to swap since the one before */
  unsigned readings; /* in a row that fell */
  bool shown;        /* WARN stands */
  unsigned warnings;
  uint64_t low;       /* least since the warning */
  uint64_t lowered_t; /* when it last fell noticeably */
};

/* The reading with most MemAvailable in the last `span`; NULL: none. */
static const struct moment *highest(const struct state *s, uint64_t span) {
  const struct moment *high = NULL;
  for (int i = 0; i < SECONDS; i++) {
    const struct moment *m = &s->second[i];
    if (!m->t || m->t > s->last.t || s->last.t - m->t > span) continue;
    if (!high || m->available > high->available) high = m;
  }
  return high;
}

/* Bytes a second by which it fell in the last `span`. */
static uint64_t pace_of(const struct state *s, uint64_t span) {
  const struct moment *from = highest(s, span);
  if (!from || s->last.t - from->t < PACE_LEAST_US) return 0;
  uint64_t fall = num_less(from->available, s->last.available);
  return fall > UINT64_MAX / SECOND ? 0 : fall * SECOND / (s->last.t - from->t);
}

/* Bytes a second at which it falls now; 0: it does not, or no longer. */
static uint64_t pace(const struct state *s) {
  uint64_t rate = pace_of(s, PACE_US);
  return pace_of(s, STILL_US) >= rate / 4 ? rate : 0;
}

static bool collapsing(const struct state *s, const struct moment *from, uint64_t rate) {
  uint64_t fall = num_less(from->available, s->last.available);
  if (s->readings < READINGS || !rate || fall < s->total / FALL_PART) return false;
  if (num_less(s->last.huge, from->huge) >= fall / 2) return false; /* somebody grows the HugeTLB pool, on purpose */
  uint64_t left = s->last.available / rate;
  bool low = s->last.available <= s->total / LOW_PART && left <= LOW_SECONDS;
  return low || (s->pressed && s->last.available <= s->total / PRESSED_PART && left <= PRESSED_SECONDS);
}

/* ---- words ------------------------------------------------------------------------------------------------------- */
static void say_evidence(struct finding *f, const struct state *s, const struct moment *from, uint64_t rate) {
  struct text t = text_item(&f->evidence);
  text_sized(&t, "MemAvailable ", from->available, "");
  text_seconds(&t, ", then ", s->last.t - from->t, " later ");
  text_sized(&t, "", s->last.available, "");
  text_sized(&t, " of ", s->total, "");
  t = text_item(&f->evidence);
  text_sized(&t, "falls by ", rate, " a second: used up in ");
  text_seconds(&t, "", rate ? s->last.available * 10 / rate * (SECOND / 10) : 0, " at this pace");
  if (s->pressed) text_item_add(&f->evidence, "tasks wait for memory already (pressure, or memory is written to swap)");
  if (num_known(from->device) && num_known(s->last.device))
    text_item_sized(&f->evidence, "device and pinned memory of the job grew meanwhile by ",
                    num_less(s->last.device, from->device), "");
  if (num_known(from->host) && num_known(s->last.host))
    text_item_sized(&f->evidence, "host memory of its processes grew meanwhile by ", num_less(s->last.host, from->host),
                    "");
}

/* What grew decides what to do first. */
static void say_fixes(struct finding *f, const struct state *s, const struct moment *from) {
  uint64_t fall = num_less(from->available, s->last.available);
  bool device = num_known(from->device) && num_known(s->last.device) &&
                num_less(s->last.device, from->device) >= fall / 2;
  bool host = num_known(from->host) && num_known(s->last.host) && num_less(s->last.host, from->host) >= fall / 2;
  bool seen = num_known(from->device) || num_known(from->host);
  if (device)
    text_item_add(&f->fixes,
                  "give it a smaller share at the next start (a server's utilization, batch, sequence, KV cache)");
  if (host)
    text_item_add(&f->fixes, "hold less host memory: load shard by shard straight to the device, fewer loader workers");
  if (seen && !device && !host)
    text_item_add(&f->fixes,
                  "find out which other process grows (ps -e -o pid,rss,args --sort=-rss; nvidia-smi), end it");
  if (!seen) text_item_add(&f->fixes, "give the job a smaller share at the next start (utilization, batch, sequence)");
  text_item_add(&f->fixes, "stop it now if it still grows: at the end the machine refuses, kills or stands still");
  text_item_add(&f->fixes,
                "cap the allocator (torch.cuda.set_per_process_memory_fraction), so that an error comes first");
}

static void warn(struct state *s, const struct moment *from, uint64_t rate, struct det_out *out) {
  struct finding *f = &out->f;
  words_begin(f, 3, VERDICT_WARN, "collapse", "memory");
  struct text t = text_in(f->text, sizeof f->text);
  f->confidence = CONFIDENCE_HIGH;
  f->t = s->last.t;
  text_sized(&t, "memory runs out: MemAvailable fell from ", from->available, "");
  text_sized(&t, " to ", s->last.available, "");
  text_seconds(&t, " in ", s->last.t - from->t, "");
  text_sized(&t, " and falls on by ", rate, " a second");
  say_evidence(f, s, from, rate);
  say_fixes(f, s, from);
  text_item_add(&f->ruled_out, "page cache that fills memory: MemAvailable counts it as available");
  text_item_add(&f->ruled_out, "a load that ends in time: it still fell at the last of three readings or more");
  if (num_known(s->last.huge))
    text_item_add(&f->ruled_out, "a HugeTLB pool that is made: HugePages_Total did not grow as much");
  out->emit(out, f);
  s->shown = true;
  s->warnings++;
  s->low = s->last.available;
}

static void withdraw(struct state *s, const char *why, uint64_t when, struct det_out *out) {
  struct finding *f = &out->f;
  words_begin(f, 3, VERDICT_INFO, "collapse", "memory");
  struct text t = text_in(f->text, sizeof f->text);
  f->confidence = CONFIDENCE_HIGH;
  f->t = when;
  text_sized(&t, "MemAvailable had fallen fast, down to ", s->low, "");
  text_add(&t, why);
  t = text_item(&f->evidence);
  text_sized(&t, "MemAvailable now ", s->last.available, "");
  text_sized(&t, " of ", s->total, "");
  out->emit(out, f);
  s->shown = false;
}

/* ---- facts --------------------------------------------------------------------------------------------------------- */
static uint64_t sum(uint64_t a, uint64_t b) {
  if (!num_known(a) && !num_known(b)) return FACT_NO_U64;
  return num_plus(num_or_zero(a), num_or_zero(b));
}

static void keep(struct state *s, const struct fact_sample *m, uint64_t t) {
  struct moment now = {.t = t,
                       .available = m->mem.available,
                       .huge = m->mem.huge_total,
                       .device = sum(m->job_device, m->job_pinned),
                       .host = sum(m->job_anon, m->job_shmem)};
  /* Between two whole samples there are some of the machine alone: the job is then as it was before. */
  if (s->last.t) now.device = num_or(now.device, s->last.device), now.host = num_or(now.host, s->last.host);
  bool rose = s->last.t && now.available > s->last.available;
  bool fell = s->last.t && now.available < s->last.available;
  s->pressed = num_or_zero(m->some_avg10) >= SOME_PRESSED ||
               (num_known(m->pswpout) && num_known(s->pswpout) && s->last.t && m->pswpout > s->pswpout);
  s->total = m->mem.total;
  s->pswpout = m->pswpout;
  /* A little up and down is no end of a fall. */
  if (rose && now.available - s->last.available > s->total / 256) s->readings = 0;
  if (fell) s->readings++;
  struct moment *place = &s->second[t / SECOND % SECONDS];
  if (!place->t || place->t / SECOND != t / SECOND || now.available > place->available) *place = now;
  s->last = now;
}

static void follow(struct state *s, struct det_out *out) {
  if (s->last.available + s->total / 256 < s->low || !s->lowered_t) s->lowered_t = s->last.t;
  s->low = num_min(s->low, s->last.available);
  if (s->last.available > s->total / PRESSED_PART)
    withdraw(s, ", and came back", s->last.t, out);
  else if (s->last.t - s->lowered_t >= LEVEL_US)
    withdraw(s, ", and stands still there", s->last.t, out);
}

static void on_sample(struct state *s, const struct fact *fact, struct det_out *out) {
  const struct fact_sample *m = &fact->u.sample;
  if (!num_known(m->mem.available) || !num_known(m->mem.total) || !m->mem.total || fact->t < s->last.t) return;
  keep(s, m, fact->t);
  if (s->shown) {
    /* What is free after the job's end was not given back by it. */
    if (!text_equal(m->why, "end")) follow(s, out);
    return;
  }
  const struct moment *from = highest(s, SECONDS * SECOND);
  uint64_t rate = pace(s);
  if (!from || s->warnings == WARNINGS_MAX || !collapsing(s, from, rate)) return;
  s->lowered_t = s->last.t;
  warn(s, from, rate, out);
}

static void on_end(struct state *s, int64_t status, const char *why, uint64_t t, struct det_out *out) {
  if (s->shown && status == 0) withdraw(s, why, t, out);
}

static void observe(void *state, const struct fact *fact, struct det_out *out) {
  struct state *s = state;
  switch (fact->kind) {
  case FACT_KIND_sample: on_sample(s, fact, out); break;
  case FACT_KIND_exit: on_end(s, fact->u.exit.status, ", and the process ended well", fact->t, out); break;
  case FACT_KIND_job_end: on_end(s, fact->u.job_end.exit, ", and the job ended well", fact->t, out); break;
  default: break;
  }
}

const struct detector det_g03_collapse = {
    .g = 3, .name = "g03_collapse", .state_size = sizeof(struct state), .observe = observe};
