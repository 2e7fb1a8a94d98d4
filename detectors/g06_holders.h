/* g06_holders.h - what the files of G6 about memory share: g06_holders.c judges, g06_words.c writes the finding.
 *
 * Freestanding; everything here belongs to one state, see detector.h. Sizes are bytes, times microseconds.
 */
#ifndef SPARKSHIM_G06_HOLDERS_H
#define SPARKSHIM_G06_HOLDERS_H

#include "detector.h"
#include "holder_list.h"
#include "split.h"
#include "want.h"

enum g06_cause { G06_OTHER, G06_ORPHAN, G06_CAUSES };

/* Look-alikes that the readings do not exclude: one bit each. */
enum g06_doubt {
  G06_DOUBT_ENDING = 1, /* nobody's, and looked at for less than the patience */
  G06_DOUBT_BUSY = 2,   /* an orphan that still works: detached on purpose? */
  G06_DOUBT_GROWTH = 4, /* little beside the machine and the request: the job may just need more than there is */
  G06_DOUBT_LOOK = 8,   /* nobody looked shortly before the refusal */
  G06_DOUBT_END = 16,   /* nothing was refused: the process may have failed for another reason */
  G06_DOUBT_SIZE = 32,  /* NVML does not tell its size, it follows from what is left of MemTotal */
  G06_DOUBT_OURS = 64,  /* it cannot be seen, and the job itself was not listed: one of its processes? */
  G06_DOUBTS = 7
};

/* Who has what is missing. */
struct g06_blame {
  bool any;
  struct holder who; /* the largest; bytes may be an estimate, see G06_DOUBT_SIZE */
  unsigned n;        /* processes that hold `sum` together; 1: `who` alone is enough */
  uint64_t sum;
  uint64_t missing; /* want_missing(); 0 for a free figure */
  uint64_t look_t;  /* of the look by which it was judged */
  unsigned doubts;
};

enum g06_mode {
  G06_NOTHING,
  G06_LISTED,  /* it is there, nothing has happened */
  G06_REFUSED, /* a request was refused for its sake */
  G06_GAVE_UP, /* the process read the free figure and ended */
  G06_OVER,    /* what was said did no harm, or has another name now */
};

struct g06_shown {
  enum verdict verdict; /* VERDICT_PASS: nothing was said */
  enum g06_mode mode;
  struct g06_blame blame;
  unsigned warnings; /* so far: each WARN after something less */
};

struct g06_state {
  struct want want;
  struct holders holders;
  struct split_watch split;
  struct g06_blame blame; /* for want.t */
  bool preflight;         /* no job: who holds memory now is what is asked */
  uint64_t unnamed;       /* held for processes whose size NVML does not tell, by the latest split; 0: not known */
  struct g06_shown shown[G06_CAUSES];
};

/* g06_words.c: fills every field of *f. `end` is NULL while the process lives. */
struct g06_say {
  const struct g06_state *state;
  enum g06_cause cause;
  enum g06_mode mode;
  const struct g06_blame *blame;
  enum g06_mode before; /* G06_OVER: what had been said */
  const struct fact *end;
};
void g06_fill(struct finding *f, const struct g06_say *say, enum verdict v);

#endif
