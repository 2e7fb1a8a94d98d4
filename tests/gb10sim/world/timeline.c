/* timeline.c - what a scenario lets happen later: at a time, at a named point of the job, or as a ramp.
 *
 *   at TIME LINE                         at mark NAME [+TIME] LINE
 *   over SPAN [from TIME | mark NAME [+TIME]] NUMBER FROM -> TO
 *   over SPAN [from TIME | mark NAME [+TIME]] vmstat NAME FROM -> TO
 *
 * Whoever enters the world first after an event is due applies it; gb10sim itself looks every few milliseconds.
 */
#include <stdio.h>
#include <string.h>

#include "world.h"

int world_mark_index(struct world *w, const char *name) {
  if (!*name || strlen(name) >= WORLD_NAME) return -1;
  for (int i = 0; i < w->n_marks; i++)
    if (!strcmp(w->mark[i].name, name)) return i;
  if (w->n_marks == WORLD_MARKS) return -1;
  strcpy(w->mark[w->n_marks].name, name);
  return w->n_marks++;
}

/* Time since the world's start at which an event begins; UINT64_MAX while its mark has not been passed. */
static uint64_t event_begin(const struct world *w, const struct world_event *e) {
  if (e->when == EVENT_AT) return e->at_us;
  return w->mark[e->mark].hit ? w->mark[e->mark].at_us + e->at_us : UINT64_MAX;
}

static void ramp_apply(struct world *w, struct world_event *e, uint64_t elapsed) {
  double part = e->span_us && elapsed < e->span_us ? (double)elapsed / (double)e->span_us : 1.0;
  int64_t now = e->from + (int64_t)((double)(e->to - e->from) * part);
  e->done = part >= 1.0;
  if (e->ramp > SCALAR_COUNT) {
    w->vmstat[e->ramp - 1 - SCALAR_COUNT].value = now;
    world_changed_vmstat(w);
  } else {
    w->scalar[e->ramp - 1] = now;
    world_changed(w, (enum scalar)(e->ramp - 1));
  }
}

static int earliest_due(const struct world *w, uint64_t now_us) {
  int best = -1;
  for (int i = 0; i < w->n_events; i++) {
    const struct world_event *e = &w->event[i];
    if (e->done || event_begin(w, e) > now_us) continue;
    if (best < 0 || event_begin(w, e) < event_begin(w, &w->event[best])) best = i;
  }
  return best;
}

/* Lines in the order of their times, then running ramps: a jump over both gives the same end as small steps. */
bool world_timeline(struct world *w, uint64_t now_us) {
  bool changed = false;
  int i;
  uint64_t next = UINT64_MAX;
  while ((i = earliest_due(w, now_us)) >= 0) {
    struct world_event *e = &w->event[i];
    char error[WORLD_TEXT];
    uint64_t begin = event_begin(w, e);
    e->done = 1;
    changed = true;
    if (e->ramp) {
      ramp_apply(w, e, now_us - begin);
      if (!e->done) e->done = 2; /* running: looked at again on the next visit */
    } else if (world_setting(w, e->text, error, sizeof error)) {
      fprintf(stderr, "gb10sim: %s: %s\n", e->text, error);
    }
  }
  for (int k = 0; k < w->n_events; k++) {
    struct world_event *e = &w->event[k];
    /* A running ramp moves in a thousand steps, or every millisecond. */
    uint64_t step = e->span_us / 1000 > 1000 ? e->span_us / 1000 : 1000;
    uint64_t again = e->done == 2 ? now_us + step : e->done ? UINT64_MAX : event_begin(w, e);
    if (e->done == 2) e->done = 0;
    if (again < next) next = again;
  }
  for (int k = 0; k < WORLD_PROCS; k++)
    if (w->process[k].pid > 0 && w->process[k].busy && now_us + WORLD_BUSY_US < next) next = now_us + WORLD_BUSY_US;
  __atomic_store_n(&w->next_event_us, next, __ATOMIC_RELEASE);
  return changed;
}

void world_mark(struct world *w, const char *name) {
  world_lock(w);
  int i = world_mark_index(w, name);
  if (i >= 0 && !w->mark[i].hit++) w->mark[i].at_us = world_now(w);
  world_timeline(w, world_now(w));
  world_render(w);
  world_unlock(w);
}

/* "TIME" or "mark NAME [+TIME]" at in->w[*at]. */
static int read_when(struct world *w, const struct words *in, int *at, struct world_event *e) {
  if (*at >= in->n) return -1;
  if (strcmp(in->w[*at], "mark")) {
    e->when = EVENT_AT;
    return parse_duration(in->w[(*at)++], &e->at_us);
  }
  if (*at + 1 >= in->n) return -1;
  e->when = EVENT_AT_MARK;
  e->mark = world_mark_index(w, in->w[*at + 1]);
  *at += 2;
  if (e->mark < 0) return -1;
  if (*at < in->n && in->w[*at][0] == '+') return parse_duration(in->w[(*at)++] + 1, &e->at_us);
  return 0;
}

/* What moves: a number of the machine, or a counter of /proc/vmstat (ramp > SCALAR_COUNT). Returns the words used, 0:
 * neither. */
static int read_moving(struct world *w, const struct words *in, int at, struct world_event *e,
                       enum scalar_unit *ret_unit) {
  int used = 0;
  enum scalar id = scalar_find(in, at, &used);
  if (id != SCALAR_COUNT) {
    e->ramp = (int32_t)id + 1;
    *ret_unit = scalar_unit_of(id);
    return used;
  }
  int counter = at + 1 < in->n && !strcmp(in->w[at], "vmstat") ? world_vmstat_index(w, in->w[at + 1]) : -1;
  if (counter < 0) return 0;
  e->ramp = SCALAR_COUNT + counter + 1;
  *ret_unit = UNIT_N;
  return 2;
}

static int read_ramp(struct world *w, const struct words *in, struct world_event *e) {
  int at = 2;
  enum scalar_unit unit = UNIT_N;
  if (in->n < 3 || parse_duration(in->w[1], &e->span_us)) return -1;
  if (!strcmp(in->w[at], "from")) at++;
  if ((at == 3 || !strcmp(in->w[at], "mark")) && read_when(w, in, &at, e)) return -1;
  int used = read_moving(w, in, at, e, &unit);
  if (!used || at + used + 3 != in->n || strcmp(in->w[at + used + 1], "->")) return -1;
  return parse_scalar(unit, in->w[at + used], &e->from) || parse_scalar(unit, in->w[at + used + 2], &e->to);
}

/* The part of `line` that begins at word `at`. */
static const char *rest_of_line(const char *line, const struct words *in, int at) {
  size_t offset = (size_t)(in->w[at] - in->buffer);
  return line + offset - (offset && line[offset - 1] == '"' ? 1 : 0);
}

int world_timeline_setting(struct world *w, const struct words *in, const char *line, char *error, size_t size) {
  struct world_event e = {0};
  bool ramp = !strcmp(in->w[0], "over");
  int at = 1;
  if (ramp ? read_ramp(w, in, &e) : read_when(w, in, &at, &e) || at >= in->n) {
    snprintf(error, size,
             ramp ? "over SPAN [from TIME | mark NAME [+TIME]] NUMBER FROM -> TO"
                  : "at TIME LINE, or at mark NAME [+TIME] LINE");
    return -1;
  }
  if (!ramp) {
    const char *rest = rest_of_line(line, in, at);
    if (strlen(rest) >= sizeof e.text || !strcmp(in->w[at], "at") || !strcmp(in->w[at], "over")) {
      snprintf(error, size, "at: the line is too long, or not one that can stand here");
      return -1;
    }
    strcpy(e.text, rest);
  }
  if (w->n_events == WORLD_EVENTS) {
    snprintf(error, size, "more than %d events", WORLD_EVENTS);
    return -1;
  }
  w->event[w->n_events++] = e;
  w->next_event_us = 0;
  return 0;
}
