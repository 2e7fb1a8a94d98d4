/* g03_memory.h - what the two files of G3 share: g03_memory.c judges, g03_words.c writes the finding.
 *
 * Everything here is freestanding and belongs to one state, see detector.h. All sizes are bytes.
 */
#ifndef SPARKSHIM_G03_MEMORY_H
#define SPARKSHIM_G03_MEMORY_H

#include "detector.h"
#include "reading.h"

enum g03_cause { G03_RECLAIMABLE, G03_EXHAUSTED, G03_OVERSIZE, G03_UNEXPLAINED, G03_CAUSES };

/* The routes of alloc_failed.route; a query is cudaMemGetInfo itself. */
enum g03_route {
  G03_DEVICE,
  G03_MANAGED,
  G03_PINNED,
  G03_POOL,
  G03_VMM,
  G03_ARRAY,
  G03_NCCL,
  G03_QUERY,
  G03_OTHER,
  G03_ROUTES
};

enum g03_doubt { /* the look-alike that the readings do not exclude */
                 G03_SURE,
                 G03_DOUBT_UNREAD,    /* no reading of memory */
                 G03_DOUBT_HUGETLB,   /* HugeTLB in use: both figures are possible */
                 G03_DOUBT_SWAP,      /* swapping others out would have made room */
                 G03_DOUBT_NARROW,    /* within the reserve of the other cause */
                 G03_DOUBT_FITS,      /* MemFree alone covers the request: error 2 may not be about memory */
                 G03_DOUBT_NOT_CACHE, /* the page cache does not account for MemAvailable */
                 G03_DOUBT_NCCL,      /* NCCL's error number does not say "memory" */
                 G03_DOUBT_DISCRETE,  /* the GPU turned out to have memory of its own */
                 G03_DOUBT_OTHER_LIMIT /* memory is there: a limit of a pool or process, fragmentation, or no memory error at all */
};

struct g03_judgement {
  enum g03_cause cause;
  enum confidence confidence;
  enum g03_doubt doubt;
};

/* One refusal, or one request about to be made (result FACT_NO_I64). */
struct g03_event {
  char call[FINDING_OBJECT];
  enum g03_route route;
  uint64_t t;
  uint64_t size; /* FACT_NO_U64: not known (some arrays); 0 for a query */
  int64_t result;
  uint64_t live_device, live_pinned;
  struct fact_memory mem;
};

/* All refusals of one route that were judged to have the same cause. */
struct g03_record {
  struct g03_event last;
  struct g03_judgement judged; /* of `last` */
  uint64_t refused;            /* refusals; 0 = the request was only announced */
  uint64_t turn;               /* g03_state.turn at the latest refusal */
  uint64_t size_min, size_max; /* of all refusals */
  uint64_t open_max;           /* greatest size refused and not granted since; meaningful while open */
  bool open;                   /* no such request was granted since */
  unsigned since_granted;      /* refusals since the last grant, at most 2 */
  unsigned warnings;           /* WARN lines so far */
  bool shown;                  /* something was emitted, the next two say what */
  enum verdict shown_verdict;
  uint64_t shown_refused;
};

/* The latest answer of cudaMemGetInfo. */
struct g03_answer {
  bool seen;
  bool misleading;
  char call[FINDING_OBJECT];
  uint64_t t, free, total;
  struct fact_memory mem;
  bool refused; /* a request had been refused before */
};

struct g03_state {
  struct g03_record record[G03_ROUTES][G03_CAUSES];
  uint64_t turn;   /* refusals seen: the record with the same turn has the latest */
  uint64_t turn_t; /* its time */
  struct g03_answer answer;
  bool answer_shown;
  bool discrete; /* the GPU has memory of its own: nothing here applies */
};

/* g03_words.c: fill every field of *f. `end` is NULL while the process lives. */
void g03_say_refusal(struct finding *f, const struct g03_record *rec, enum verdict v, const struct fact *end);
void g03_say_answer(struct finding *f, const struct g03_answer *a, enum verdict v, const struct fact *end);

#endif
