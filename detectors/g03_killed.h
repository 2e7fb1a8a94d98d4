/* g03_killed.h - what the two files share: g03_killed.c judges who ended a process, g03_killed_words.c says it.
 *
 * Everything here is freestanding and belongs to one state, see detector.h. All sizes are bytes, all times Unix
 * microseconds; FACT_NO_U64 is "not known".
 */
#ifndef SPARKSHIM_G03_KILLED_H
#define SPARKSHIM_G03_KILLED_H

#include "detector.h"

enum g03k_cause { G03K_KERNEL, G03K_CGROUP, G03K_USERSPACE, G03K_UNKNOWN, G03K_CAUSES };

/* What the readings do not exclude, as a set of bits. None: high confidence; one: medium; more: low, and then no FAIL. */
enum g03k_doubt {
  G03K_OTHERS = 1 << 0,    /* the kernel's victim was another process */
  G03K_MANY = 1 << 1,      /* it took more than one */
  G03K_APART = 1 << 2,     /* the readings around it lie far apart: something else may have happened between them */
  G03K_KILLER = 1 << 3,    /* a program that kills at such readings is running */
  G03K_NO_LOOK = 1 << 4,   /* nobody has looked whether one is */
  G03K_FALLING = 1 << 5,   /* memory was not read at its lowest */
  G03K_LIMIT = 1 << 6,     /* the job's cgroup was near its limit as well, or the limit that was reached is not known */
  G03K_NO_SIGNAL = 1 << 7, /* the job failed; which of its processes was killed was not seen */
  G03K_BY_HAND = 1 << 8,   /* a person or a manager sent the signal */
  G03K_COUNTER = 1 << 9,   /* the kernel's own counter could not be read */
};

/* One sample, as far as it is needed here. */
struct g03k_moment {
  uint64_t t; /* 0: none */
  uint64_t total, available, swap_total, swap_free;
  uint64_t kills, cgroup_kills, cgroup_ooms; /* counters of the machine and of the job's cgroup */
  uint64_t cgroup_current, cgroup_max;
  uint64_t full, job_full; /* PSI full avg10 of the machine and of the job's cgroup, 0.01 % */
  uint64_t processes;      /* of the job */
  uint64_t job;            /* bytes that the job holds: anonymous, shared, pinned and device memory */
};

/* Between two samples the counter of victims has risen. */
struct g03k_rise {
  uint64_t by;
  struct g03k_moment before, after;
  uint64_t low;      /* least MemAvailable of the seconds around it */
  uint64_t slope;    /* bytes a second by which MemAvailable was falling before it */
  bool process_lost; /* the job had fewer processes after it */
  /* Of several rises near the end, when all are seen: */
  uint64_t cgroup_by; /* victims in the job's cgroup, FACT_NO_U64 where that is not counted */
  bool cgroup_oom;    /* the job's cgroup, or one above it, had run into its limit meanwhile */
};

/* A program that kills when memory runs low; parts of the total in 0.01 %. */
struct g03k_killer {
  char name[24];
  uint64_t pid;
  bool ancestor;
  uint64_t mem_min, swap_min, mem_kill;
};

/* A name in the kernel log. */
struct g03k_victim {
  uint64_t pid;
  char name[16];
  bool cgroup, ours;
};

/* How the process, or the job as its launcher saw it, came to its end. */
struct g03k_end {
  uint64_t t;
  uint64_t pid;
  int64_t signal; /* 0: by no signal that is known */
  bool failed;
  bool job; /* told by job_end: only the end of the job's first process was seen */
};

enum { G03K_SECONDS = 16, G03K_RISES = 8, G03K_KILLERS = 4, G03K_VICTIMS = 8 };

struct g03k_state {
  uint64_t pid; /* of the process that is judged, or of the job */
  struct g03k_moment before_last, last;
  uint64_t whole_t;                     /* of the last sample that had the cgroup's counters */
  struct g03k_moment low[G03K_SECONDS]; /* of each of the last seconds the moment with least MemAvailable */
  struct g03k_rise rise[G03K_RISES];    /* the latest, round robin */
  unsigned rises;                       /* ever */
  struct g03k_killer killer[G03K_KILLERS];
  unsigned killers;
  struct g03k_victim victim[G03K_VICTIMS];
  unsigned victims;
  uint64_t limit;  /* of the job's cgroup; 0: none that is known */
  bool looked;     /* facts of a launcher are among ours: it looks for killers */
  bool limit_said; /* limit_not_covering was emitted */
  bool ended;
};

struct g03k_verdict {
  enum g03k_cause cause;
  enum verdict verdict;
  unsigned doubts;
  uint64_t rose, cgroup_rose; /* victims near the end, on the machine and in the cgroup; FACT_NO_U64: not counted */
  uint64_t low;               /* least MemAvailable near the end; FACT_NO_U64: no reading */
  struct g03k_moment at;      /* the last reading before the end, or before the victim; t 0: none */
  uint64_t apart;             /* time between the readings around the victim */
  const struct g03k_killer *killer; /* who did it (userspace), or may have */
  const struct g03k_victim *victim; /* the kernel log's word on it */
};

/* g03_killed_words.c: fill every field of *f but the verdict's weight, which stands in *v. */
void g03k_say_end(struct finding *f, const struct g03k_verdict *v, const struct g03k_end *end);
/* `s` has the device memory that the job holds beside `limit` bytes of its cgroup. */
void g03k_say_limit(struct finding *f, const struct fact_sample *s, uint64_t limit, uint64_t when);

#endif
