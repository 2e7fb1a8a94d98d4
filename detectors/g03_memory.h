/* g03_memory.h - what the files of G3's detector of refusals share:
 *
 *   g03_memory.c   hands the facts on
 *   g03_refused.c  refused requests: what kind of refusal, and what becomes of it
 *   g03_growth.c   what filled the memory before a refusal
 *   g03_cma.c      memory that lies in a contiguous area, or that the kernel takes to lie in one
 *   g03_answer.c   the free figure, when nothing was refused
 *   g03_words.c    the sentences of refusals
 *   g03_fixes.c    what to do about them
 *
 * Everything here is freestanding and belongs to one state, see detector.h. All sizes are bytes.
 */
#ifndef SPARKSHIM_G03_MEMORY_H
#define SPARKSHIM_G03_MEMORY_H

#include "detector.h"
#include "reading.h"
#include "route.h"
#include "text.h"

enum g03_cause {
  G03_RECLAIMABLE,
  G03_EXHAUSTED,
  G03_OVERSIZE,
  G03_UNEXPLAINED,
  G03_PINNED_HOST,
  G03_DOUBLE_COUNT,
  G03_RESERVE,
  G03_CMA,
  G03_CAUSES
};

/* The routes of alloc_failed.route; a query is cudaMemGetInfo itself. */
enum g03_route {
  G03_DEVICE, /* the first seven are those of route.h */
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
_Static_assert((int)G03_QUERY == (int)ROUTE_COUNT, "a route that G3 does not tell apart");

enum g03_doubt { /* the look-alike that the readings do not exclude */
                 G03_SURE,
                 G03_DOUBT_UNREAD,      /* no reading of memory */
                 G03_DOUBT_HUGETLB,     /* HugeTLB in use: both figures are possible */
                 G03_DOUBT_SWAP,        /* swapping others out would have made room */
                 G03_DOUBT_NARROW,      /* within the reserve of the other cause */
                 G03_DOUBT_FITS,        /* MemFree alone covers the request: error 2 may not be about memory */
                 G03_DOUBT_NOT_CACHE,   /* the page cache does not account for MemAvailable */
                 G03_DOUBT_NCCL,        /* NCCL's error number does not say "memory" */
                 G03_DOUBT_DISCRETE,    /* the GPU turned out to have memory of its own */
                 G03_DOUBT_OTHER_LIMIT, /* memory is there: some limit, fragmentation, or no memory error at all */
                 G03_DOUBT_TOUCHED,     /* page-locking memory that may have been there already */
                 G03_DOUBT_MEANT,       /* the program may mean to hold so much host memory */
                 G03_DOUBT_OTHERS,      /* host memory may have grown in other programs */
                 G03_DOUBT_KEPT,        /* the program may keep more at every step */
                 G03_DOUBT_IN_USE,      /* an allocator that had nothing to give back: withdrawn */
                 G03_DOUBT_MEMLOCK,     /* the limit on locked memory may have refused it */
                 G03_DOUBT_NO_MEMLOCK,  /* that limit is not known */
                 G03_DOUBT_NETWORK,     /* the network or a peer: the call took long */
                 G03_DOUBTS
};

struct g03_judgement {
  enum g03_cause cause;
  enum confidence confidence;
  enum g03_doubt doubt;
  bool cuda12; /* a library of CUDA 12 may be at fault as well */
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
  bool communicator; /* no request for memory: a NCCL call that says that a system call failed, */
  uint64_t wall;     /* and for how long it ran, us; FACT_NO_U64: not known */
};

/* What the process held at one moment (fact holding), and what the machine's figures were. */
struct g03_held {
  uint64_t device, pinned;
  uint64_t host;          /* AnonPages and Shmem, of all programs */
  uint64_t available;     /* MemAvailable */
  uint64_t grants, frees; /* of device memory */
  uint64_t rounds, copied;
};

enum { G03_POINTS = 64 };

/* How memory was filled. Moves only when the process comes to hold more than ever before, so that what it gives back
 * after a refusal, before it tries again, does not hide what led to it. */
struct g03_growth {
  bool began;
  struct g03_held base, last;
  struct g03_point {
    uint64_t device, pinned, host;
  } point[G03_POINTS]; /* on the way from base to last: every `stride`-th */
  unsigned n_points, stride, skipped;
  /* Growth of device memory in rounds of work, after loading: */
  struct g03_held grown;  /* when it grew last */
  uint64_t loaded_rounds; /* rounds when it last grew by loading */
  bool steady;
  struct g03_held from;       /* when the first rounds were over */
  uint64_t in_round, biggest; /* growth within the latest round, and the most of any */
  uint64_t steps;             /* readings with more rounds and more memory than the one before */
  uint64_t sizes[4];          /* different sizes of the requests at those readings */
  unsigned n_sizes;
  /* A refusal, and the same request once more with nothing granted in between: what was given back meanwhile. */
  bool refused, retried;
  uint64_t refused_size, refused_grants, refused_device, freed;
};

/* What filled the memory, as far as it is the cause of a refusal. */
struct g03_filled {
  struct g03_held from, to;
  uint64_t rounds;
};

/* All refusals of one route that were judged to have the same cause. */
struct g03_record {
  struct g03_event last;
  struct g03_judgement judged; /* of `last` */
  struct g03_filled filled;    /* the same, where the cause is a growth */
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
  bool misleading;
  char call[FINDING_OBJECT];
  uint64_t t, free, total;
  struct fact_memory mem;
  bool refused; /* a request had been refused before */
  bool shown;
  bool failed_since; /* something else failed that may have ended the program */
};

/* What is known about contiguous memory and about locking memory. */
struct g03_cma {
  uint64_t memlock; /* limit on locked memory; FACT_NO_U64: unlimited */
  bool memlock_read;
  char kernel[FINDING_OBJECT]; /* release */
  struct fact_memory mem;      /* latest reading */
  bool read, warned;
};

struct g03_state {
  struct g03_record record[G03_ROUTES][G03_CAUSES];
  uint64_t turn;   /* refusals seen: the record with the same turn has the latest */
  uint64_t turn_t; /* its time */
  struct g03_growth growth;
  struct g03_cma cma;
  struct g03_answer answer;
  bool cuda12, cuda12_fits; /* libcudart.so.12 is mapped; and the driver is of CUDA 12 too */
  bool sampled;             /* free blocks at the latest sample; FACT_NO_U64: not known */
  uint64_t block_max, blocks_large;
  bool discrete; /* the GPU has memory of its own: nothing here applies */
};

/* g03_refused.c */
void g03_on_alloc_failed(struct g03_state *s, const struct fact *fact, struct det_out *out);
void g03_on_alloc_large(struct g03_state *s, const struct fact *fact, struct det_out *out);
void g03_on_alloc_recovered(struct g03_state *s, const struct fact *fact, struct det_out *out);
/* cudaMemGetInfo itself said "out of memory". */
void g03_on_query_refused(struct g03_state *s, const struct fact *fact, struct det_out *out);
/* `times` refusals like *e. */
void g03_refused(struct g03_state *s, const struct g03_event *e, uint64_t times, struct det_out *out);
/* A request of the route and of `size` was granted. */
void g03_granted(struct g03_state *s, enum g03_route route, uint64_t size, struct det_out *out);
void g03_refused_at_exit(struct g03_state *s, const struct fact *end, struct det_out *out);
/* Memory of its own: what was said is taken back. */
void g03_withdraw(struct g03_state *s, struct det_out *out);

/* g03_growth.c */
void g03_on_holding(struct g03_growth *g, const struct fact_holding *h);
void g03_growth_begins(struct g03_growth *g, const struct fact_memory *m);
/* Does pinned memory account for what is gone at a reading `m`? */
bool g03_growth_is_pinned(const struct g03_growth *g, const struct fact_memory *m);
/* Memory is used up, judged `*j`, at a reading `m`: what filled it, where that can be told. */
void g03_growth_judge(const struct g03_growth *g, const struct fact_memory *m, struct g03_judgement *j,
                      struct g03_filled *filled);

/* g03_answer.c */
void g03_on_answer(struct g03_state *s, const struct fact *fact, struct det_out *out);
void g03_on_other_failure(struct g03_state *s, const struct fact *fact);
void g03_answer_at_exit(struct g03_state *s, const struct fact *end, struct det_out *out);

/* g03_cma.c */
void g03_cma_reading(struct g03_state *s, uint64_t t, const struct fact_memory *m, struct det_out *out);
void g03_cma_on_limit(struct g03_cma *c, const struct fact_limit *l);
/* `preflight` looks at a machine before anything has failed on it: its last fact is a split of that name. */
void g03_cma_on_split(struct g03_state *s, const struct fact *fact, struct det_out *out);
/* A NCCL call returned (comm, call_failed). */
void g03_cma_on_call(struct g03_state *s, const struct fact *fact, struct det_out *out);
/* A refusal, judged `*j` without regard to contiguous memory: G03_CMA where that is the cause. */
void g03_cma_judge(const struct g03_cma *c, const struct g03_event *e, struct g03_judgement *j);

/* g03_words.c: fills every field of *f. `end` is NULL while the process lives. */
void g03_say_refusal(struct finding *f, const struct g03_state *s, const struct g03_record *rec, enum verdict v,
                     const struct fact *end);

/* g03_fixes.c: adds the fixes, says whether trying again helps. `r` is the reading at the refusal. */
void g03_fix_refusal(struct finding *f, const struct g03_record *rec, const struct reading *r);

#endif
