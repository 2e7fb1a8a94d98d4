/* holder_list.h - who else holds GPU memory, as NVML's lists tell it: for detectors that look for who has what is missing.
 *
 * A look is a number of `holder` facts of one time and the `nvml` fact that ends it; only a whole look counts. What is kept
 * are the processes that do not belong to the job. Freestanding; everything belongs to one state, see detector.h.
 */
#ifndef SPARKSHIM_HOLDER_LIST_H
#define SPARKSHIM_HOLDER_LIST_H

#include "fact.h"
#include "finding.h"
#include "text.h"

enum { HOLDERS_KEPT = 12, HOLDER_NAME = 48, HOLDER_ARGV = 120, HOLDER_UNIT = 56, HOLDER_USER = 24 };

/* After a crash 92 GB came back within 2 to 5 s: for this long a process without an owner may just be ending. */
#define HOLDER_PATIENCE_US ((uint64_t)10 * 1000 * 1000)

enum holder_manager { MANAGED_BY_NOTHING, MANAGED_BY_SERVICE, MANAGED_BY_USER_SERVICE, MANAGED_BY_CONTAINER };

struct holder {
  uint64_t pid, ppid, uid; /* ppid, uid: FACT_NO_U64: not known */
  uint64_t bytes;          /* GPU memory; FACT_NO_U64: NVML does not tell */
  uint64_t came;           /* time of the look that listed it first */
  bool newcomer;           /* that was not the first look */
  uint64_t watched, idle;  /* us, see facts.def; idle FACT_NO_U64: not looked at */
  enum holder_manager manager;
  bool graphics;          /* in the list of graphics processes alone */
  bool session_gone;      /* the leader of its session has ended */
  bool unseen;            /* NVML lists it, /proc has no such process */
  bool maybe_ours;        /* see holder_may_be_ours() */
  char name[HOLDER_NAME]; /* program, without folder */
  char argv[HOLDER_ARGV];
  char unit[HOLDER_UNIT];
  char user[HOLDER_USER];
};

struct holders_list {
  struct holder at[HOLDERS_KEPT]; /* compute before graphics, then larger before smaller */
  unsigned n;
  unsigned more; /* smaller ones that had no room */
};

/* All zero: no look yet. */
struct holders {
  struct holders_list now;  /* the latest whole look */
  uint64_t looks;           /* whole looks so far */
  uint64_t t;               /* time of the latest look */
  uint64_t gap;             /* time between it and the one before it */
  uint64_t before;          /* what it lists first was not there at this time */
  bool silent;              /* NVML was asked since, and has not answered */
  struct holder left;       /* the largest that an earlier look listed and a later one did not; pid 0: none */
  uint64_t left_t;          /* time of the look that missed it */
  struct holders_list next; /* the look that is being told */
  uint64_t next_t;
  uint64_t uid; /* of the process that is judged, from its header; see uid_known */
  bool uid_known;
  bool job;       /* there is one: a process of it, or its launcher, has told of itself */
  bool next_ours; /* the look that is being told lists a process of it */
};

/* True when the fact completes a look: `now` has changed. */
bool holders_observe(struct holders *h, const struct fact *fact);

/* Whether the latest look tells of time `t`, at or after it. Looks that show nothing new are written once a minute, more
 * seldom in a log of many hours; while NVML does not answer a look tells of half a minute. */
bool holders_tell(const struct holders *h, uint64_t t);

/* The one with this pid in the latest look, or NULL. */
const struct holder *holders_find(const struct holders *h, uint64_t pid);

/* Whether it can be what is missing: a compute process of more than a bare context (some hundred MiB), or one with a
 * size that NVML does not tell; of graphics processes, which desktops have and which hold 40 to 560 MiB, only those of 2 GiB
 * and more. */
bool holder_counts(const struct holder *p);

/* It counts, but for this: it cannot be seen, and no process of the job was listed. In a container NVML has the host's
 * numbers of processes, and it may be the job itself. */
bool holder_may_be_ours(const struct holder *p);

/* Nobody can be named who uses it: its parent has gone, the leader of its session has ended, neither a service nor a
 * container. Before HOLDER_PATIENCE_US have passed it may be ending (holder_is_watched). */
bool holder_is_alone(const struct holder *p);
/* It has been looked at for long enough: what it holds does not go away by itself. */
bool holder_is_watched(const struct holder *p);

/* ---- words ---------------------------------------------------------------------------------------------------------- */
/* "ollama (pid 812, service ollama.service)"; the user where it is not that of the judged process. */
void holder_who(struct text *t, const struct holders *h, const struct holder *p);
/* Evidence: "NVML: compute process 812 holds 19.0 GiB, listed for 15 s, idle for 15 s: /usr/bin/ollama serve". */
void holder_evidence(struct finding_list *list, const struct holder *p);
/* How to get it to give its memory back, in order of use. `alone`: what it did has ended. */
void holder_fix(struct finding_list *list, const struct holders *h, const struct holder *p, bool alone);

#endif
