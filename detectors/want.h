/* want.h - what the process asked for and did not get: for detectors that look for who has it instead. Freestanding.
 *
 * Kept is the latest refusal for lack of memory or, as long as nothing was refused, the latest free figure that the process
 * was told: programs read it and give up. Whether it was about memory at all, and for what reason, is judged by G3.
 */
#ifndef SPARKSHIM_WANT_H
#define SPARKSHIM_WANT_H

#include "fact.h"
#include "finding.h"

enum want_kind { WANT_NOTHING, WANT_REQUEST, WANT_FIGURE };
enum want_news { WANT_NO_NEWS, WANT_REFUSED, WANT_GRANTED, WANT_TOLD };

/* All zero: nothing yet. Sizes in bytes. */
struct want {
  enum want_kind kind;
  bool open;      /* WANT_REQUEST: not granted since */
  bool discrete;  /* the GPU has memory of its own: nothing here says anything about it, kind stays WANT_NOTHING */
  uint64_t t;     /* Unix time, us, of the latest refusal or answer */
  uint64_t size;  /* of the latest request; FACT_NO_U64: not known, 0 where the free figure itself was refused */
  uint64_t most;  /* greatest size refused since a grant */
  uint64_t times; /* refusals */
  uint64_t free;  /* WANT_FIGURE: what was answered */
  uint64_t live_device, live_pinned; /* what the process held at the refusal */
  int64_t result;                    /* error number */
  char call[FINDING_OBJECT], route[16];
  struct fact_memory mem; /* the reading beside it */
};

enum want_news want_observe(struct want *w, const struct fact *fact);

/* Bytes that were missing for the request and for what the machine keeps for itself. 0: nothing was missing, page cache
 * counted as free; or it cannot be told. */
uint64_t want_missing(const struct want *w);

#endif
