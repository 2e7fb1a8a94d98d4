/* world.h - the simulated Spark: one shared page range that every stand-in library and gb10sim itself map.
 *
 * gb10sim fills it from a scenario, the stand-ins move it (an allocation takes MemFree), and whoever changed
 * a figure renders the machine's files below SPARKSHIM_ROOT before it returns. Only this code writes there,
 * by rename(2). Everything in `struct world` is guarded by world_lock() but the words marked atomic.
 * It runs inside test jobs: it may use libc, but keeps errno and takes no lock across a call back.
 */
#ifndef GB10SIM_WORLD_H
#define GB10SIM_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "gb10sim.h"

#define WORLD_API __attribute__((visibility("default")))

enum {
  WORLD_PATH = 256,
  WORLD_NAME = 64,
  WORLD_TEXT = 240,
  WORLD_JOBS = 256,
  WORLD_PROCS = 64,
  WORLD_RULES = 64,
  WORLD_EVENTS = 512,
  WORLD_MARKS = 64,
  WORLD_VMSTAT = 64,
  WORLD_ATTRIBUTES = 64,
  WORLD_ORDERS = 14,
  WORLD_FILES = 64,
  WORLD_LOG = 8192,
  WORLD_CALLS = 512,
  WORLD_IPC_EVENTS = 256,
};

/* The machine was booted this long before the world begins. */
#define WORLD_UPTIME_US (UINT64_C(86400) * 1000000)
/* How often the processor time of busy processes moves. */
#define WORLD_BUSY_US UINT64_C(500000)

enum scalar {
#define SCALAR(id, words, unit, first) SCALAR_##id,
#include "scalars.def"
#undef SCALAR
  SCALAR_COUNT
};

enum scalar_unit { UNIT_KB, UNIT_N, UNIT_CENTI, UNIT_MW, UNIT_US, UNIT_MJ };

/* A process of the job that has used the simulated driver. */
struct world_job {
  int32_t pid; /* 0 = free */
  int32_t has_context;
  uint64_t start;       /* field 22 of /proc/<pid>/stat: tells a reused pid */
  int64_t device_bytes; /* device, managed and VMM memory held */
  int64_t pinned_bytes;
  int64_t anonymous_bytes; /* by gb10sim_touch() */
  uint64_t gone_us;        /* simulated time at which it was found dead, 0 = alive */
};

/* A process that is not part of the job. */
struct world_process {
  int32_t pid; /* 0 = free */
  int32_t parent;
  int32_t session;
  int32_t graphics;
  int32_t service;
  int32_t uid;
  int32_t busy; /* per cent of one processor that it uses all the time */
  int32_t pad;
  int64_t memory_kb; /* -1 = N/A, -2 = not on the GPU */
  int64_t rss_kb;    /* anonymous memory */
  char name[WORLD_NAME];
  char cgroup[WORLD_TEXT]; /* its path; empty: that of its session */
  char command[WORLD_TEXT];
};

enum rule_kind { RULE_NONE, RULE_FAIL, RULE_BLOCK, RULE_DELAY, RULE_SIGNAL };
struct world_rule {
  int32_t kind;
  int32_t code;      /* error number, or signal */
  int32_t real_time; /* block: real seconds, not simulated ones */
  int32_t pad;
  uint64_t nth;   /* the nth matching call is the first hit, counted from 1 */
  uint64_t times; /* number of hits; UINT64_MAX = always */
  uint64_t min_size, max_size;
  uint64_t wait_us;
  uint64_t from_us, until_us; /* simulated time since start */
  uint64_t seen;              /* matching calls so far */
  char call[WORLD_NAME];
};

enum event_when { EVENT_AT, EVENT_AT_MARK };
struct world_event {
  int32_t when;
  int32_t mark; /* index into marks */
  int32_t done;
  int32_t ramp;     /* scalar + 1, or SCALAR_COUNT + counter of vmstat + 1; 0 = a line to apply */
  uint64_t at_us;   /* since start, or since the mark */
  uint64_t span_us; /* ramp: how long it takes */
  int64_t from, to;
  char text[WORLD_TEXT];
};

struct world_mark {
  uint64_t hit; /* number of times passed */
  uint64_t at_us;
  char name[WORLD_NAME];
};

struct world_vmstat {
  int64_t value;
  char name[48];
};

struct world_attribute {
  int32_t attribute, value;
};

struct world_file {
  char path[WORLD_PATH];
  char text[1024];
};

struct world_call { /* what the job did, for tests to read */
  uint64_t count;
  char name[112];
};

struct world_ipc_event { /* an interprocess event: recorded at this simulated time, 0 = not yet */
  uint64_t recorded_us;
  uint64_t id;
};

struct world {
  char magic[8];
  uint32_t size;
  int32_t lock;                                /* atomic: pid of the holder */
  uint32_t generation, rendered;               /* atomic: move when anything that a file shows has changed */
  uint32_t memory_generation, memory_rendered; /* the same for /proc/meminfo alone */
  uint32_t moving_generation, moving_rendered; /* the same for counters and pressure of the machine alone */
  int32_t n_rules;                             /* atomic for reading */
  int32_t n_events;
  int32_t n_marks;
  int32_t n_vmstat;
  int32_t n_attributes;
  int32_t n_files;
  int32_t signal_job;     /* every process of the job with a context gets it when the lock is let go of; 0: none */
  uint64_t start_us;      /* Unix time at which the world began */
  uint64_t next_event_us; /* atomic: earliest open event on the clock */
  uint64_t next_id;
  uint64_t busy_us; /* simulated time at which the busy processes were written last */
  double pace;
  char dir[WORLD_PATH]; /* the world folder */
  char host[WORLD_NAME];
  char boot_id[40];
  char kernel[WORLD_NAME];
  char driver[32];
  char device_name[WORLD_NAME];
  char uuid[16];
  char bus_id[32];
  char cgroup[WORLD_PATH]; /* the job's, as in /proc/<pid>/cgroup */
  char log[WORLD_LOG];     /* /dev/kmsg; empty: the kernel log may not be read */
  int32_t log_lines;
  int32_t pad;
  char accept[WORLD_TEXT]; /* further image targets that load, " sm_120a sm_90 " */
  int64_t scalar[SCALAR_COUNT];
  int64_t buddy[WORLD_ORDERS];
  struct world_vmstat vmstat[WORLD_VMSTAT];
  struct world_attribute attribute[WORLD_ATTRIBUTES];
  struct world_process process[WORLD_PROCS];
  struct world_job job[WORLD_JOBS];
  struct world_rule rule[WORLD_RULES];
  struct world_event event[WORLD_EVENTS];
  struct world_mark mark[WORLD_MARKS];
  struct world_file file[WORLD_FILES];
  struct world_call call[WORLD_CALLS];
  struct world_ipc_event ipc_event[WORLD_IPC_EVENTS];
};

/* ---- world.c -------------------------------------------------------------------------------------------- */
/* The world named by GB10SIM_WORLD (a folder), mapped once a process; NULL when there is none. */
WORLD_API struct world *world_get(void);
/* Creates a world in the existing folder `dir`: idle GB10, clock started. NULL with errno set. */
WORLD_API struct world *world_create(const char *dir, uint64_t start_unix_us);
WORLD_API void world_lock(struct world *w);
WORLD_API void world_unlock(struct world *w);
/* Writes w->start_us, which a scenario may have set, to the clock page. */
WORLD_API void world_set_start(struct world *w);
/* Simulated microseconds since the world began; Unix time is start_us + that. */
WORLD_API uint64_t world_now(const struct world *w);
/* Adds to the simulated clock, applies what became due, renders. */
WORLD_API void world_advance(struct world *w, uint64_t us);
/* Waits until the simulated clock is past `until_us`; polls, so that jumps made elsewhere end it. */
WORLD_API void world_wait_until(struct world *w, uint64_t until_us);
/* Sleeps in real time. */
WORLD_API void world_sleep_real(uint64_t us);
/* Applies due events and renders when anything changed. Cheap when nothing is due. Not under the lock. */
WORLD_API void world_refresh(struct world *w);
/* Counts `name` in w->call (kernels as "kernel:NAME"). */
WORLD_API void world_count(struct world *w, const char *name);

/* The host version that this process registered for a kernel, or NULL. */
WORLD_API gb10sim_kernel_fn world_kernel(const char *name);

/* ---- memory.c ------------------------------------------------------------------------------------------- */
enum world_memory { WORLD_DEVICE, WORLD_PINNED };
/* Takes or gives memory in the name of the calling process. Take: 0 or -ENOMEM. Renders before it returns. */
/* Anonymous memory of the job: comes out of MemFree like device memory, and shows in AnonPages. 0 or -1. */
int world_touch(struct world *w, int64_t bytes);
WORLD_API int world_take(struct world *w, enum world_memory kind, uint64_t bytes);
WORLD_API void world_give(struct world *w, enum world_memory kind, uint64_t bytes);
/* This process has a context now (NVML lists it); takes the context's own memory. 0 or -ENOMEM. */
WORLD_API int world_enter_context(struct world *w);
/* Gives back what dead processes held. True when something changed. Under the lock. */
bool world_reap(struct world *w);
WORLD_API void world_give_back_dead(struct world *w); /* the same, taking the lock */
/* Moves page cache in or out: positive makes MemFree into Cached. Under the lock. */
void world_page_cache(struct world *w, int64_t kb);

/* ---- rules.c -------------------------------------------------------------------------------------------- */
/* Called first by every entry point of a stand-in: refreshes the world, waits or raises a signal when a rule
 * says so, and returns the error number that a rule wants this call to return, 0 for none. `size` is the
 * request's size in bytes where it has one. A rule for "cuMemAlloc" also covers its _v2, _ptsz, _ptds forms. */
WORLD_API int world_call(const char *name, uint64_t size);

/* ---- setting.c, timeline.c ------------------------------------------------------------------------------ */
/* Applies one line of a scenario to the world. 0, or -1 with one sentence in error[]. Under the lock. */
int world_setting(struct world *w, const char *line, char *error, size_t error_size);
WORLD_API int world_setting_locked(struct world *w, const char *line, char *error, size_t error_size);
/* Splits a line into words ("quoted words" count as one). Returns the count, or -1 when there are too many. */
enum { WORLD_WORDS = 48 };
struct words {
  int n;
  char *w[WORLD_WORDS];
  char buffer[1400];
};
WORLD_API int words_split(struct words *out, const char *line);
/* Values: 0, or -1 when the text is not one. Durations in microseconds ("1.5s", "20ms", "3h"), sizes in bytes. */
WORLD_API int parse_duration(const char *text, uint64_t *ret_us);
WORLD_API int parse_bytes(const char *text, uint64_t *ret_bytes);
int parse_scalar(enum scalar_unit unit, const char *text, int64_t *ret_value);
/* Longest scalar whose words stand at words[at]; *ret_used = number of words. SCALAR_COUNT when none does. */
enum scalar scalar_find(const struct words *in, int at, int *ret_used);
enum scalar_unit scalar_unit_of(enum scalar id);
/* Applies due events. True when something changed. Under the lock. */
bool world_timeline(struct world *w, uint64_t now_us);
int world_timeline_setting(struct world *w, const struct words *in, const char *line, char *error, size_t size);
/* The counter of that name, a new one where there is none yet; -1: no room, or no name. */
int world_vmstat_index(struct world *w, const char *name);
int world_rule_setting(struct world *w, const struct words *in, char *error, size_t size);
WORLD_API void world_mark(struct world *w, const char *name);
int world_mark_index(struct world *w, const char *name);

/* ---- render.c ------------------------------------------------------------------------------------------- */
/* Writes what has changed since the last call. 0 or negative errno. Under the lock. */
int world_render(struct world *w);
WORLD_API int world_render_locked(struct world *w);
/* Marks the files that show this number, or all of them, as out of date. Under the lock. */
void world_changed(struct world *w, enum scalar id);
void world_changed_vmstat(struct world *w);
void world_changed_all(struct world *w);

#endif
