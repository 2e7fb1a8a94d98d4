/* memory.c - what an allocation does to the machine's memory. See world.h.
 *
 * One pool: device, managed and page-locked memory all come out of MemFree (facts/memory.md: cudaMemGetInfo's
 * free equals MemFree). When MemFree would fall below the watermark, the kernel gives up page cache, if the
 * scenario has "reclaim 1"; with "reclaim 0" the driver's request is refused although cache could go: both
 * pictures are in public reports. ASSUMED: the driver takes exactly the bytes asked for, in whole pages.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "world.h"

static int64_t *figure(struct world *w, enum scalar id) { return &w->scalar[id]; }
static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

static void touched(struct world *w) { world_changed(w, SCALAR_MemFree); }

void world_page_cache(struct world *w, int64_t kb) {
  int64_t *free_kb = figure(w, SCALAR_MemFree), *cached = figure(w, SCALAR_Cached);
  if (kb > 0) kb = min64(kb, max64(*free_kb - w->scalar[SCALAR_watermark], 0));
  if (kb < 0) kb = -min64(-kb, max64(*cached - w->scalar[SCALAR_Shmem], 0));
  *free_kb -= kb;
  *cached += kb;
  touched(w);
}

/* What the kernel could give up for a request: page cache, buffers and slab, as far as MemAvailable counts them. */
static int64_t reclaimable_kb(const struct world *w) {
  int64_t cache = w->scalar[SCALAR_Cached] - w->scalar[SCALAR_Shmem] + w->scalar[SCALAR_Buffers] +
                  max64(w->scalar[SCALAR_KReclaimable], 0);
  return max64(min64(cache, w->scalar[SCALAR_MemAvailable] - w->scalar[SCALAR_MemFree]), 0);
}

static void reclaim(struct world *w, int64_t kb) {
  static const enum scalar order[] = {SCALAR_Cached, SCALAR_Buffers, SCALAR_KReclaimable};
  for (unsigned i = 0; i < sizeof order / sizeof order[0] && kb > 0; i++) {
    int64_t *have = figure(w, order[i]);
    int64_t keep = order[i] == SCALAR_Cached ? w->scalar[SCALAR_Shmem] : 0;
    int64_t take = max64(min64(kb, *have - keep), 0);
    *have -= take;
    *figure(w, SCALAR_MemFree) += take;
    kb -= take;
  }
}

static int take_kb(struct world *w, int64_t kb) {
  int64_t free_after = w->scalar[SCALAR_MemFree] - kb;
  int64_t lacking = w->scalar[SCALAR_watermark] - free_after;
  if (lacking > 0) {
    if (!w->scalar[SCALAR_reclaim] || reclaimable_kb(w) < lacking) return -ENOMEM;
    reclaim(w, lacking);
  }
  *figure(w, SCALAR_MemFree) -= kb;
  *figure(w, SCALAR_MemAvailable) = max64(w->scalar[SCALAR_MemAvailable] - kb, 0);
  touched(w);
  return 0;
}

static void give_kb(struct world *w, int64_t kb) {
  int64_t total = w->scalar[SCALAR_MemTotal];
  *figure(w, SCALAR_MemFree) = min64(w->scalar[SCALAR_MemFree] + kb, total);
  *figure(w, SCALAR_MemAvailable) = min64(w->scalar[SCALAR_MemAvailable] + kb, total);
  touched(w);
}

static void give_anonymous(struct world *w, struct world_job *j, int64_t kb) {
  kb = min64(kb, j->anonymous_bytes / 1024);
  j->anonymous_bytes -= kb * 1024;
  *figure(w, SCALAR_AnonPages) = max64(w->scalar[SCALAR_AnonPages] - kb, 0);
  give_kb(w, kb);
}

static int take_anonymous(struct world *w, struct world_job *j, int64_t kb) {
  if (take_kb(w, kb)) return -1;
  j->anonymous_bytes += kb * 1024;
  *figure(w, SCALAR_AnonPages) = max64(w->scalar[SCALAR_AnonPages], 0) + kb;
  return 0;
}

/* State letter and start time of a process; false when it is gone. */
static bool process_stat(int32_t pid, char *ret_state, uint64_t *ret_start) {
  char path[64], text[1024];
  /* "/./": qemu-user answers /proc/<own pid>/stat itself, with another start time than everyone else sees. */
  snprintf(path, sizeof path, "/proc/./%d/stat", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return false;
  text[n] = '\0';
  char *p = strrchr(text, ')');
  if (!p || p[1] != ' ') return false;
  *ret_state = p[2];
  p += 2;
  for (int field = 3; field < 22 && p; field++) {
    p = strchr(p, ' ');
    if (p) p++;
  }
  *ret_start = p ? strtoull(p, NULL, 10) : 0;
  return true;
}

static struct world_job *job_of_caller(struct world *w) {
  int32_t me = getpid();
  struct world_job *empty = NULL;
  for (int i = 0; i < WORLD_JOBS; i++) {
    if (w->job[i].pid == me) return &w->job[i];
    if (!w->job[i].pid && !empty) empty = &w->job[i];
  }
  if (!empty) return NULL;
  char state;
  memset(empty, 0, sizeof *empty);
  if (!process_stat(me, &state, &empty->start)) empty->start = 0;
  empty->pid = me;
  return empty;
}

static bool job_alive(const struct world_job *j) {
  char state = 'Z';
  uint64_t start = 0;
  if (!process_stat(j->pid, &state, &start)) return false;
  return state != 'Z' && state != 'X' && (!j->start || start == j->start);
}

bool world_reap(struct world *w) {
  bool changed = false;
  uint64_t now = world_now(w);
  for (int i = 0; i < WORLD_JOBS; i++) {
    struct world_job *j = &w->job[i];
    if (!j->pid || job_alive(j)) continue;
    if (!j->gone_us) j->gone_us = now ? now : 1;
    if (now - j->gone_us < (uint64_t)w->scalar[SCALAR_return_delay]) continue;
    int64_t context = j->has_context ? w->scalar[SCALAR_context_size] : 0;
    give_kb(w, (j->device_bytes + 1023) / 1024 + (j->pinned_bytes + 1023) / 1024 + context);
    give_anonymous(w, j, j->anonymous_bytes / 1024);
    memset(j, 0, sizeof *j);
    changed = true;
  }
  return changed;
}

void world_give_back_dead(struct world *w) {
  int saved = errno;
  world_lock(w);
  if (world_reap(w)) world_render(w);
  world_unlock(w);
  errno = saved;
}

static int64_t whole_pages(uint64_t bytes) { return (int64_t)((bytes + 4095) / 4096 * 4); }

int world_take(struct world *w, enum world_memory kind, uint64_t bytes) {
  int saved = errno, rc = -ENOMEM;
  world_lock(w);
  struct world_job *j = job_of_caller(w);
  if (j && bytes < (uint64_t)1 << 60) {
    rc = take_kb(w, whole_pages(bytes));
    if (rc && world_reap(w)) rc = take_kb(w, whole_pages(bytes));
  }
  if (!rc) *(kind == WORLD_PINNED ? &j->pinned_bytes : &j->device_bytes) += whole_pages(bytes) * 1024;
  world_render(w);
  world_unlock(w);
  errno = saved;
  return rc;
}

void world_give(struct world *w, enum world_memory kind, uint64_t bytes) {
  int saved = errno;
  world_lock(w);
  struct world_job *j = job_of_caller(w);
  if (j) *(kind == WORLD_PINNED ? &j->pinned_bytes : &j->device_bytes) -= whole_pages(bytes) * 1024;
  give_kb(w, whole_pages(bytes));
  world_render(w);
  world_unlock(w);
  errno = saved;
}

int world_touch(struct world *w, int64_t bytes) {
  int saved = errno, rc = -1;
  world_lock(w);
  struct world_job *j = job_of_caller(w);
  if (j && bytes >= 0)
    rc = take_anonymous(w, j, whole_pages((uint64_t)bytes));
  else if (j)
    give_anonymous(w, j, whole_pages((uint64_t)-bytes)), rc = 0;
  world_render(w);
  world_unlock(w);
  errno = saved;
  return rc;
}

int world_enter_context(struct world *w) {
  int saved = errno, rc = -ENOMEM;
  world_lock(w);
  struct world_job *j = job_of_caller(w);
  if (j && j->has_context)
    rc = 0;
  else if (j)
    rc = take_kb(w, w->scalar[SCALAR_context_size]);
  if (!rc) j->has_context = 1;
  world_render(w);
  world_unlock(w);
  errno = saved;
  return rc;
}
