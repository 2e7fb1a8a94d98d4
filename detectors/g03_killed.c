/* g03_killed.c - G3: who ended the job. Kernel, cgroup limit, a user-space killer, or nobody that is known.
 *
 * SIGKILL alone says nothing: people, managers, the kernel and programs like earlyoom all send it. Told apart by:
 *   - oom_kill of /proc/vmstat counts every victim of the kernel, those of other groups and of cgroup limits among them;
 *   - oom_kill of a cgroup counts its own victims, whoever's memory was short, and `oom` counts only its own limit
 *     (measured on kernel 6.1 with cgroup v2: a kill for the whole machine raises the victim's group's oom_kill and not
 *     its `oom`; a limit of a group above raises that one's `oom`);
 *   - the kernel log names victims, where it may be read;
 *   - MemAvailable at that moment, and the documented thresholds of killers that are running.
 * What remains is INFO "killed_unknown", never a FAIL.
 *
 * The launcher's facts decide (facts.def: sample, killer, oom_victim, limit), at the end of the process (`exit`, made by
 * report for one that could not write it) or of the job (`job_end`). Freestanding: no libc, no I/O, no clock, no lock.
 */
#include "g03_killed.h"

#include "number.h"
#include "text.h"

#define SECOND ((uint64_t)1000 * 1000)

enum { SIG_KILL = 9, SIG_TERM = 15, SHELL_BASE = 128 };

/* A victim of the kernel is gone for whoever waits for it once its memory is given back: 2 to 5 s for 92 GB in a public
 * report, here with room. What happened longer before belongs to another process. */
#define TEARDOWN_US (10 * SECOND)
/* A job that failed after it had lost a process: DESIGN's 30 s for what may have ended a process. */
#define LAST_WORDS_US (30 * SECOND)
/* Readings come once a second and faster near the edge; further apart, more than one thing may have happened between. */
#define CLOSE_US (3 * SECOND)
/* How long before the end a user-space killer must have seen its threshold: it looks several times a second. */
#define KILLER_US (5 * SECOND)

/* The kernel kills when nothing can be reclaimed: MemAvailable is then a small part of the machine. Readings lie up to
 * a second apart, and memory was seen to fall by 14 GiB/s, so not zero but 1/32 (3.8 GiB of 121.6). */
enum { EDGE_PART = 32 };
/* A cgroup is at its limit when less than 1/16 of it is free: the last reading is a moment old. */
enum { NEAR_LIMIT_PART = 16 };

/* 0.01 %. What a threshold may be missed by: readings are older than the killer's own. */
enum { WHOLE = 10000, TOLERANCE = 200 };
/* systemd-oomd acts on swap, or on 50 % (Ubuntu's units) to 60 % (its own default) of pressure for 20 to 30 s; an average
 * over 10 s at the last reading may have fallen behind that. */
enum { OOMD_PRESSURE = 4000 };
/* A killer whose thresholds are not known (nohang has its own rules) counts where its kin do by default. */
enum { DEFAULT_MEM_MIN = 1000 };

/* part of whole in 0.01 %, WHOLE where there is no whole. Sizes are below 2^53 on any machine; else it saturates. */
static uint64_t hundredths(uint64_t part, uint64_t whole) {
  if (!whole || part >= whole) return WHOLE;
  return whole > UINT64_MAX / WHOLE ? part / (whole / WHOLE) : part * WHOLE / whole;
}

/* ---- what is kept ------------------------------------------------------------------------------------------------- */
static uint64_t held_by_job(const struct fact_sample *s) {
  if (!num_known(s->job_anon) || !num_known(s->job_device)) return FACT_NO_U64;
  return num_plus(num_plus(s->job_anon, num_or_zero(s->job_shmem)),
                  num_plus(s->job_device, num_or_zero(s->job_pinned)));
}

/* Between two whole samples there are some of the machine alone: the cgroup and the job are then as they were before. */
static struct g03k_moment moment_of(const struct fact_sample *s, uint64_t t, const struct g03k_moment *last) {
  struct g03k_moment m = {.t = t,
                          .total = s->mem.total,
                          .available = s->mem.available,
                          .swap_total = s->mem.swap_total,
                          .swap_free = s->mem.swap_free,
                          .kills = s->oom_kill,
                          .cgroup_kills = s->cgroup_oom_kill,
                          .cgroup_ooms = s->cgroup_oom,
                          .cgroup_current = s->cgroup_current,
                          .job = held_by_job(s),
                          .cgroup_max = s->cgroup_max,
                          .full = s->full_avg10,
                          .job_full = s->job_full_avg10,
                          .processes = s->job_processes};
  if (!last->t) return m;
  m.cgroup_kills = num_or(m.cgroup_kills, last->cgroup_kills);
  m.cgroup_ooms = num_or(m.cgroup_ooms, last->cgroup_ooms);
  m.cgroup_current = num_or(m.cgroup_current, last->cgroup_current);
  m.cgroup_max = num_or(m.cgroup_max, last->cgroup_max);
  m.job_full = num_or(m.job_full, last->job_full);
  m.processes = num_or(m.processes, last->processes);
  m.job = num_or(m.job, last->job);
  return m;
}

static void keep_low(struct g03k_state *s, const struct g03k_moment *m) {
  struct g03k_moment *low = &s->low[m->t / SECOND % G03K_SECONDS];
  if (!num_known(m->available)) return;
  if (!low->t || low->t / SECOND != m->t / SECOND || m->available < low->available) *low = *m;
}

/* Least MemAvailable that was read in [from, to]; FACT_NO_U64: none was. */
static uint64_t low_between(const struct g03k_state *s, uint64_t from, uint64_t to) {
  uint64_t low = FACT_NO_U64;
  for (int i = 0; i < G03K_SECONDS; i++)
    if (s->low[i].t && s->low[i].t >= from && s->low[i].t <= to) low = num_min(low, s->low[i].available);
  return low;
}

/* FACT_NO_U64 where it is not counted on both sides; a counter that runs back is of another group. */
static uint64_t risen(uint64_t before, uint64_t after) {
  return num_known(before) && num_known(after) ? num_less(after, before) : FACT_NO_U64;
}

static uint64_t slope_before(const struct g03k_state *s) {
  uint64_t dt = num_less(s->last.t, s->before_last.t);
  if (!s->before_last.t || !dt || !num_known(s->last.available) || !num_known(s->before_last.available)) return 0;
  uint64_t fall = num_less(s->before_last.available, s->last.available);
  return fall > UINT64_MAX / SECOND ? 0 : fall * SECOND / dt;
}

static void keep_rise(struct g03k_state *s, const struct g03k_moment *m) {
  uint64_t by = risen(s->last.kills, m->kills);
  if (!num_or_zero(by)) return;
  struct g03k_rise *r = &s->rise[s->rises++ % G03K_RISES];
  *r = (struct g03k_rise){.by = by, .before = s->last, .after = *m};
  r->low = low_between(s, num_less(s->last.t, CLOSE_US), m->t);
  r->slope = slope_before(s);
}

/* The look after a victim's end has one process less. When the whole job is over, that tells nothing. */
static void keep_loss(struct g03k_state *s, const struct fact_sample *sample, uint64_t t) {
  struct g03k_rise *r = s->rises ? &s->rise[(s->rises - 1) % G03K_RISES] : NULL;
  if (!r || t - r->after.t > CLOSE_US || text_equal(sample->why, "end")) return;
  if (num_known(sample->job_processes) && num_known(r->before.processes) && sample->job_processes < r->before.processes)
    r->process_lost = true;
}

/* ---- limit_not_covering -------------------------------------------------------------------------------------------- */
/* Device memory is in no cgroup: what the job holds of it comes on top of what its limit bounds. Said once both together
 * have passed a limit that is below the machine's memory, for then it shows. */
static void look_at_limit(struct g03k_state *s, const struct fact_sample *sample, uint64_t t, struct det_out *out) {
  uint64_t limit = num_known(sample->cgroup_max) && sample->cgroup_max ? sample->cgroup_max : s->limit;
  uint64_t device = num_or_zero(sample->job_device), charged = num_or_zero(sample->cgroup_current);
  if (s->limit_said || !limit || !num_known(sample->mem.total) || limit >= sample->mem.total) return;
  if (!device || (device <= limit && charged <= limit && device + charged <= limit)) return;
  s->limit_said = true;
  g03k_say_limit(&out->f, sample, limit, t);
  out->emit(out, &out->f);
}

static void on_sample(struct g03k_state *s, const struct fact *fact, struct det_out *out) {
  struct g03k_moment m = moment_of(&fact->u.sample, fact->t, &s->last);
  look_at_limit(s, &fact->u.sample, fact->t, out);
  keep_low(s, &m);
  if (s->last.t) keep_rise(s, &m);
  keep_loss(s, &fact->u.sample, fact->t);
  if (num_known(fact->u.sample.cgroup_oom_kill)) s->whole_t = fact->t;
  /* The slope is of times that differ: the same sample may come twice, from the process and from its launcher. */
  if (m.t != s->last.t) s->before_last = s->last;
  s->last = m;
}

static void on_killer(struct g03k_state *s, const struct fact_killer *k) {
  struct g03k_killer *place = NULL;
  for (unsigned i = 0; i < s->killers && !place; i++)
    if (s->killer[i].pid == k->pid) place = &s->killer[i];
  if (!place && s->killers == G03K_KILLERS) return;
  if (!place) place = &s->killer[s->killers++];
  *place = (struct g03k_killer){
      .pid = k->pid, .ancestor = k->ancestor, .mem_min = k->mem_min, .swap_min = k->swap_min, .mem_kill = k->mem_kill};
  text_copy(place->name, sizeof place->name, k->name);
}

static void on_victim(struct g03k_state *s, const struct fact_oom_victim *v) {
  for (unsigned i = 0; i < s->victims; i++)
    if (s->victim[i].pid == v->pid) return;
  if (s->victims == G03K_VICTIMS) return;
  struct g03k_victim *place = &s->victim[s->victims++];
  *place = (struct g03k_victim){.pid = v->pid, .cgroup = v->cgroup, .ours = v->ours};
  text_copy(place->name, sizeof place->name, v->name);
}

static void on_limit(struct g03k_state *s, const struct fact_limit *l) {
  if (!text_equal(l->name, "cgroup")) return;
  s->limit = num_or_zero(l->soft);
}

/* ---- the kernel ------------------------------------------------------------------------------------------------------ */
/* What the job's cgroup counted since before the first of the rises. Looks of the machine alone do not have it, so
 * that it counts only once a whole one has followed; more than the machine's is another group's figure. */
static void count_cgroup(const struct g03k_state *s, struct g03k_rise *sum) {
  sum->cgroup_by = s->whole_t >= sum->after.t ? risen(sum->before.cgroup_kills, s->last.cgroup_kills) : FACT_NO_U64;
  if (num_known(sum->cgroup_by) && sum->cgroup_by > sum->by) sum->cgroup_by = FACT_NO_U64;
  sum->cgroup_oom = num_or_zero(sum->cgroup_by) && num_or_zero(risen(sum->before.cgroup_ooms, s->last.cgroup_ooms));
}

/* The rises that may be about this end, added up into *sum. False: none. */
static bool rise_near(const struct g03k_state *s, const struct g03k_end *end, struct g03k_rise *sum) {
  uint64_t window = end->signal ? TEARDOWN_US : LAST_WORDS_US;
  unsigned n = s->rises < G03K_RISES ? s->rises : G03K_RISES;
  bool any = false;
  for (unsigned i = 0; i < n; i++) {
    const struct g03k_rise *r = &s->rise[i];
    if (r->after.t + window < end->t || r->before.t > end->t) continue;
    if (!any) {
      *sum = *r;
      any = true;
      continue;
    }
    sum->by = num_plus(sum->by, r->by);
    sum->low = num_min(sum->low, r->low);
    sum->slope = num_max(sum->slope, r->slope);
    sum->process_lost |= r->process_lost;
    if (r->before.t < sum->before.t) sum->before = r->before;
    if (r->after.t > sum->after.t) sum->after = r->after;
  }
  if (any) count_cgroup(s, sum);
  return any;
}

/* Whether memory was at the edge between the two readings: read there, or on its way there. */
static bool at_edge(const struct g03k_rise *r, bool *ret_falling) {
  uint64_t total = r->before.total, dt = num_less(r->after.t, r->before.t);
  *ret_falling = false;
  if (!num_known(total) || !total || !num_known(r->low)) return false;
  if (r->low <= total / EDGE_PART) return true;
  /* The fall of the seconds before it, continued, would have used up all in half of the time between the readings. */
  *ret_falling = r->slope && dt && r->low / r->slope < dt / SECOND / 2 + 1 && r->low <= total / 8;
  return *ret_falling;
}

static bool near_limit(const struct g03k_moment *m, uint64_t limit) {
  if (num_known(m->cgroup_max) && m->cgroup_max) limit = m->cgroup_max;
  return limit && num_known(m->cgroup_current) && m->cgroup_current >= limit - limit / NEAR_LIMIT_PART;
}

/* The kernel log names this end's process; for a job any process of it. Never by the number alone: in a container
 * the log has the host's numbers. */
static const struct g03k_victim *named(const struct g03k_state *s, const struct g03k_end *end) {
  const struct g03k_victim *found = NULL;
  for (unsigned i = 0; i < s->victims; i++) {
    const struct g03k_victim *v = &s->victim[i];
    if (!v->ours || (v->pid != end->pid && !end->job)) continue;
    if (!found || v->pid == end->pid) found = v;
  }
  return found;
}

/* The log accounts for every victim by another name; where the cgroup counts, by other names of this job. */
static bool log_names_others(const struct g03k_state *s, const struct g03k_rise *r) {
  unsigned ours = 0;
  for (unsigned i = 0; i < s->victims; i++) ours += s->victim[i].ours;
  return num_known(r->cgroup_by) ? ours && ours >= r->cgroup_by : s->victims && s->victims >= r->by;
}

/* A process of the job that is not the one whose end was seen: how close are the two? */
static unsigned doubts_of_name(const struct g03k_victim *v, const struct g03k_end *end, bool rose) {
  if (v->pid == end->pid || (rose && end->signal)) return 0;
  return rose ? G03K_NO_SIGNAL : G03K_NO_SIGNAL | G03K_APART;
}

/* Among the kernel's victims: the cgroup's limit, or the whole machine? And what speaks against it being this one. */
static bool judge_rise(const struct g03k_state *s, const struct g03k_end *end, const struct g03k_rise *r,
                       struct g03k_verdict *v) {
  bool falling, edge = at_edge(r, &falling), limit = r->cgroup_oom || near_limit(&r->before, s->limit);
  bool counted = num_known(r->cgroup_by);
  if (counted && !r->cgroup_by) return false; /* every victim was in another cgroup */
  if (log_names_others(s, r)) return false;
  if (!edge && !limit && !counted) return false; /* a limit of somebody else's cgroup */
  v->cause = r->cgroup_oom || !edge ? G03K_CGROUP : G03K_KERNEL;
  if (v->cause == G03K_KERNEL && falling) v->doubts |= G03K_FALLING;
  if (v->cause == G03K_KERNEL && limit) v->doubts |= G03K_LIMIT;
  if (v->cause == G03K_CGROUP && !limit) v->doubts |= G03K_LIMIT;
  if (!counted) v->doubts |= G03K_OTHERS;
  if ((counted ? r->cgroup_by : r->by) > 1) v->doubts |= G03K_MANY;
  v->apart = num_less(r->after.t, r->before.t);
  if (v->apart > CLOSE_US) v->doubts |= G03K_APART;
  if (!end->signal) v->doubts |= r->process_lost ? G03K_NO_SIGNAL : G03K_NO_SIGNAL | G03K_OTHERS;
  v->at = r->before;
  v->low = r->low;
  return true;
}

static bool judge_kernel(const struct g03k_state *s, const struct g03k_end *end, struct g03k_verdict *v) {
  struct g03k_rise r = {.by = 0};
  bool rose = rise_near(s, end, &r);
  if (rose) {
    v->rose = r.by;
    v->cgroup_rose = r.cgroup_by;
  }
  v->victim = named(s, end);
  if (v->victim) {
    v->cause = v->victim->cgroup ? G03K_CGROUP : G03K_KERNEL;
    v->doubts = doubts_of_name(v->victim, end, rose);
    if (rose) v->at = r.before, v->low = r.low;
    return true;
  }
  return rose && judge_rise(s, end, &r, v);
}

/* ---- user space ------------------------------------------------------------------------------------------------------ */
static bool below(uint64_t part, uint64_t whole, uint64_t threshold) {
  return hundredths(part, whole) <= threshold + TOLERANCE;
}

static bool swap_below(const struct g03k_moment *m, uint64_t threshold) {
  if (!num_known(threshold) || !m->swap_total) return true;
  return num_known(m->swap_total) && num_known(m->swap_free) && below(m->swap_free, m->swap_total, threshold);
}

/* Whether the killer acts at this reading by this signal: from its documentation, see the constants above. */
static bool acts(const struct g03k_killer *k, const struct g03k_moment *m, int64_t signal) {
  bool oomd = text_equal(k->name, "systemd-oomd") || text_equal(k->name, "oomd");
  bool raylet = text_equal(k->name, "raylet");
  uint64_t least = num_known(k->mem_min) ? k->mem_min : DEFAULT_MEM_MIN;
  if (!num_known(m->total) || !m->total || !num_known(m->available)) return false;
  if ((oomd || raylet) && signal != SIG_KILL) return false;
  if (oomd && (num_or_zero(m->full) >= OOMD_PRESSURE || num_or_zero(m->job_full) >= OOMD_PRESSURE)) return true;
  if (oomd && !num_known(k->swap_min)) return false;
  /* Ray's monitor ends its own workers only; in a container it goes by the cgroup's figures. */
  if (raylet && !k->ancestor) return false;
  if (raylet && num_known(m->cgroup_max) && num_known(m->cgroup_current) &&
      below(num_less(m->cgroup_max, m->cgroup_current), m->cgroup_max, least))
    return true;
  if (signal == SIG_KILL && num_known(k->mem_kill)) least = k->mem_kill;
  return below(m->available, m->total, least) && swap_below(m, k->swap_min);
}

/* The killer that acts at a reading near the end, and that reading. */
static const struct g03k_killer *acting(const struct g03k_state *s, const struct g03k_end *end,
                                        struct g03k_moment *ret_at) {
  for (unsigned i = 0; i < s->killers; i++) {
    if (end->t - s->last.t <= KILLER_US && s->last.t <= end->t && acts(&s->killer[i], &s->last, end->signal)) {
      *ret_at = s->last;
      return &s->killer[i];
    }
    for (int n = 0; n < G03K_SECONDS; n++) {
      const struct g03k_moment *m = &s->low[n];
      if (!m->t || m->t > end->t || end->t - m->t > KILLER_US || !acts(&s->killer[i], m, end->signal)) continue;
      *ret_at = *m;
      return &s->killer[i];
    }
  }
  return NULL;
}

static bool judge_userspace(const struct g03k_state *s, const struct g03k_end *end, struct g03k_verdict *v) {
  if (end->signal != SIG_KILL && end->signal != SIG_TERM) return false;
  v->killer = acting(s, end, &v->at);
  if (!v->killer) return false;
  v->cause = G03K_USERSPACE;
  v->doubts = G03K_BY_HAND;
  if (!num_known(v->rose)) v->doubts |= G03K_COUNTER;
  v->low = v->at.available;
  return true;
}

/* ---- the end --------------------------------------------------------------------------------------------------------- */
static unsigned count(unsigned bits) {
  unsigned n = 0;
  for (; bits; bits &= bits - 1) n++;
  return n;
}

/* The kernel's victim: what a user-space killer would have done at the same reading. */
static void doubt_killers(const struct g03k_state *s, const struct g03k_end *end, struct g03k_verdict *v) {
  struct g03k_moment at;
  if (v->victim) return;
  v->killer = acting(s, end, &at);
  if (v->killer) v->doubts |= G03K_KILLER;
  if (!s->looked && v->cause == G03K_KERNEL) v->doubts |= G03K_NO_LOOK;
}

static void judge_end(struct g03k_state *s, const struct g03k_end *end, struct det_out *out) {
  struct g03k_verdict v = {.cause = G03K_UNKNOWN, .low = FACT_NO_U64, .rose = FACT_NO_U64, .cgroup_rose = FACT_NO_U64};
  if (s->ended || (end->signal != SIG_KILL && end->signal != SIG_TERM && !(end->job && end->failed))) return;
  s->ended = true;
  if (s->last.t && num_known(s->last.kills)) v.rose = 0;
  if (s->last.t && num_known(s->last.cgroup_kills)) v.cgroup_rose = 0;
  bool kernel = end->signal != SIG_TERM && judge_kernel(s, end, &v);
  if (kernel)
    doubt_killers(s, end, &v);
  else if (!num_or_zero(v.rose))
    judge_userspace(s, end, &v);
  if (v.cause == G03K_UNKNOWN && end->signal != SIG_KILL) return;
  v.verdict = v.cause == G03K_UNKNOWN ? VERDICT_INFO : count(v.doubts) > 1 ? VERDICT_WARN : VERDICT_FAIL;
  if (!v.at.t && s->last.t && s->last.t <= end->t) v.at = s->last;
  if (!num_known(v.low)) v.low = low_between(s, num_less(end->t, KILLER_US), end->t);
  g03k_say_end(&out->f, &v, end);
  out->emit(out, &out->f);
}

static void on_exit_fact(struct g03k_state *s, const struct fact *fact, struct det_out *out) {
  const struct fact_exit *e = &fact->u.exit;
  struct g03k_end end = {.t = fact->t, .pid = s->pid, .failed = e->status != 0 && e->status != FACT_NO_I64};
  if (e->signal != FACT_NO_I64) end.signal = e->signal;
  judge_end(s, &end, out);
}

static void on_job_end(struct g03k_state *s, const struct fact *fact, struct det_out *out) {
  const struct fact_job_end *e = &fact->u.job_end;
  struct g03k_end end = {.t = fact->t, .pid = e->pid, .job = true};
  if (e->signal != FACT_NO_I64)
    end.signal = e->signal;
  else if (e->exit == SHELL_BASE + SIG_KILL || e->exit == SHELL_BASE + SIG_TERM)
    end.signal = e->exit - SHELL_BASE; /* so a shell, docker and others tell of what they ran */
  end.failed = end.signal || (e->exit != 0 && e->exit != FACT_NO_I64);
  judge_end(s, &end, out);
}

/* The library writes none of these: a launcher is there, which looks for killers. */
static bool tells_launcher(const struct fact *fact) {
  return fact->kind == FACT_KIND_killer || fact->kind == FACT_KIND_nvml ||
         (fact->kind == FACT_KIND_limit && text_equal(fact->u.limit.name, "as"));
}

static void observe(void *state, const struct fact *fact, struct det_out *out) {
  struct g03k_state *s = state;
  switch (fact->kind) {
  case FACT_KIND_header: s->pid = fact->u.header.pid; break;
  case FACT_KIND_sample: on_sample(s, fact, out); break;
  case FACT_KIND_killer: on_killer(s, &fact->u.killer); break;
  case FACT_KIND_oom_victim: on_victim(s, &fact->u.oom_victim); break;
  case FACT_KIND_limit: on_limit(s, &fact->u.limit); break;
  case FACT_KIND_exit: on_exit_fact(s, fact, out); break;
  case FACT_KIND_job_end: on_job_end(s, fact, out); break;
  default: break;
  }
  if (tells_launcher(fact)) s->looked = true;
}

const struct detector det_g03_killed = {
    .g = 3, .name = "g03_killed", .state_size = sizeof(struct g03k_state), .observe = observe};
