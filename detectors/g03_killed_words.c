/* g03_killed_words.c - the sentences of g03_killed.c: who ended it, by which readings, and what to do.
 *
 * Dropping the page cache is never among the fixes: before the kernel kills, it has given up all that it could.
 * Here is no judging. Freestanding, see detector.h.
 */
#include "g03_killed.h"

#include "doubts.h"
#include "number.h"
#include "text.h"
#include "words.h"

static const char *const cause_words[G03K_CAUSES] = {"kernel_oom_kill", "cgroup_oom_kill", "userspace_oom_kill",
                                                     "killed_unknown"};

static void add_count(struct text *t, const char *before, uint64_t n, const char *after) {
  text_add(t, before);
  text_number(t, n);
  text_add(t, after);
}

/* 0.01 % as "5.0 %". */
static void add_percent(struct text *t, const char *before, uint64_t hundredths, const char *after) {
  text_add(t, before);
  text_number(t, hundredths / 100);
  add_count(t, ".", hundredths % 100 / 10, " %");
  text_add(t, after);
}

/* "this process", "a process of this job". */
static const char *whom(const struct g03k_verdict *v, const struct g03k_end *end) {
  return end->job && !(v->victim && v->victim->pid == end->pid) ? "a process of this job" : "this process";
}

static const char *signal_word(const struct g03k_end *end) { return end->signal == 15 ? "SIGTERM" : "SIGKILL"; }

/* ---- the sentence -------------------------------------------------------------------------------------------------- */
static void add_memory(struct text *t, const struct g03k_verdict *v) {
  if (!num_known(v->low)) return;
  text_sized(t, "MemAvailable ", v->low, "");
  if (v->at.t && num_known(v->at.total)) text_sized(t, " of ", v->at.total, "");
}

static void say_kernel(struct text *t, const struct g03k_verdict *v, const struct g03k_end *end) {
  text_add(t, "the kernel's OOM killer ended ");
  text_add(t, whom(v, end));
  text_add(t, ": the machine's memory was used up");
  if (!num_known(v->low)) return;
  text_add(t, ", ");
  add_memory(t, v);
}

static void say_cgroup(struct text *t, const struct g03k_verdict *v, const struct g03k_end *end) {
  text_add(t, "the kernel's OOM killer ended ");
  text_add(t, whom(v, end));
  text_add(t, " at a limit of its memory cgroup");
  if (v->at.t && num_known(v->at.cgroup_max)) text_sized(t, " (", v->at.cgroup_max, ")");
  if (!num_known(v->low)) return;
  text_add(t, ", not for lack of memory: ");
  add_memory(t, v);
}

static const char *name_of(const struct g03k_killer *k) {
  return k->name[0] ? k->name : "a program that kills when memory runs low";
}

/* False: plenty was left, and the killer's threshold is set as high as that. */
static bool was_low(const struct g03k_verdict *v) {
  enum { QUARTER = 2500 /* 0.01 % */ };
  if (!num_known(v->killer->mem_min) || v->killer->mem_min <= QUARTER) return true;
  return !num_known(v->low) || !v->at.t || !num_known(v->at.total) || v->low <= v->at.total / 4;
}

static void say_userspace(struct text *t, const struct g03k_verdict *v, const struct g03k_end *end) {
  text_add(t, name_of(v->killer));
  text_add(t, " ended ");
  text_add(t, whom(v, end));
  text_add(t, " by ");
  text_add(t, signal_word(end));
  text_add(t, was_low(v) ? " because memory ran low: " : " at a threshold that is set high, memory was not low: ");
  add_memory(t, v);
}

static void say_unknown(struct text *t, const struct g03k_verdict *v, const struct g03k_end *end) {
  text_add(t, end->job ? "the job was ended by SIGKILL, sender unknown" : "ended by SIGKILL, sender unknown");
  if (!num_known(v->low)) {
    text_add(t, ": memory was not read near the end");
    return;
  }
  text_add(t, ": ");
  add_memory(t, v);
  if (v->rose == 0) text_add(t, ", and the kernel's OOM killer took nobody");
  if (num_known(v->rose) && v->rose) text_add(t, "; the kernel's OOM killer took another process");
}

/* ---- evidence -------------------------------------------------------------------------------------------------------- */
static void evidence_end(struct finding_list *list, const struct g03k_end *end) {
  struct text t = text_item(list);
  if (!end->signal)
    text_add(&t, "the job failed");
  else
    text_add(&t, end->signal == 15 ? "ended by SIGTERM (15)" : "ended by SIGKILL (9)");
}

static void evidence_victim(struct finding_list *list, const struct g03k_victim *victim) {
  if (!victim) return;
  struct text t = text_item(list);
  text_add(&t, "the kernel log names ");
  text_add(&t, victim->name[0] ? victim->name : "a process");
  add_count(&t, ", pid ", victim->pid, victim->cgroup ? ", killed at a cgroup's limit" : ", killed as out of memory");
}

static void evidence_counters(struct finding_list *list, const struct g03k_verdict *v) {
  struct text t = text_item(list);
  if (!num_known(v->rose)) {
    text_add(&t, "oom_kill of /proc/vmstat was not read on both sides of the end");
    return;
  }
  if (!v->rose) {
    text_add(&t, "oom_kill of /proc/vmstat unchanged near the end");
  } else {
    add_count(&t, "oom_kill of /proc/vmstat rose by ", v->rose, "");
    if (v->apart) text_seconds(&t, " within ", v->apart, "");
  }
  if (num_known(v->cgroup_rose)) add_count(&t, "; of these in the job's cgroup: ", v->cgroup_rose, "");
}

static void evidence_memory(struct finding_list *list, const struct g03k_verdict *v, const struct g03k_end *end) {
  const struct g03k_moment *m = &v->at;
  if (!m->t || !num_known(m->available)) return;
  struct text t = text_item(list);
  text_sized(&t, "MemAvailable ", m->available, "");
  if (num_known(m->total)) text_sized(&t, " of ", m->total, "");
  if (num_known(m->swap_total) && num_known(m->swap_free))
    text_sized(&t, ", SwapFree ", m->swap_free, ""), text_sized(&t, " of ", m->swap_total, "");
  if (end->t >= m->t) text_seconds(&t, ", read ", end->t - m->t, " before the end");
  if (!num_known(m->cgroup_current) || !num_known(m->cgroup_max)) return;
  t = text_item(list);
  text_sized(&t, "the job's cgroup held ", m->cgroup_current, "");
  text_sized(&t, " of its limit of ", m->cgroup_max, "");
}

static void evidence_killer(struct finding_list *list, const struct g03k_killer *k) {
  if (!k) return;
  struct text t = text_item(list);
  text_add(&t, name_of(k));
  add_count(&t, " is running (pid ", k->pid, k->ancestor ? ", an ancestor of the job)" : ")");
  if (num_known(k->mem_min)) add_percent(&t, ", acts below ", k->mem_min, " of memory");
  if (num_known(k->swap_min)) add_percent(&t, " and ", k->swap_min, " of swap");
  if (num_known(k->mem_kill)) add_percent(&t, ", by SIGKILL below ", k->mem_kill, "");
}

static void evidence_doubts(struct finding_list *list, const struct g03k_verdict *v) {
  static const struct {
    unsigned bit;
    const char *words;
  } row[] = {
      {G03K_OTHERS,
       "not excluded: the kernel's victim was another process, and this one was killed at the same moment"},
      {G03K_MANY, "not excluded: another process, as the kernel took more than one"},
      {G03K_APART, "not excluded: another process, as the readings around it lie far apart"},
      {G03K_KILLER, "not excluded: the program below, which kills at such readings"},
      {G03K_NO_LOOK, "not excluded: a user-space killer, nobody has looked whether one is running"},
      {G03K_FALLING, "not excluded: another reason, as memory was falling but not read at its lowest"},
      {G03K_LIMIT, "not excluded: the other of the machine's memory and a limit of the cgroup"},
      {G03K_NO_SIGNAL, "not excluded: the job failed for another reason, its own end was no SIGKILL"},
      {G03K_BY_HAND, "not excluded: a person or a manager sent the signal at this moment"},
      {G03K_COUNTER, "not excluded: the kernel's OOM killer, whose counter could not be read"},
  };
  for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
    if (v->doubts & row[i].bit) text_item_add(list, row[i].words);
}

/* ---- ruled out ------------------------------------------------------------------------------------------------------- */
static void rule_out_kernel(struct finding *f, const struct g03k_verdict *v) {
  struct text t;
  if (v->cause == G03K_KERNEL && !(v->doubts & G03K_LIMIT) && num_known(v->cgroup_rose) && !v->victim)
    text_item_add(&f->ruled_out, "cgroup_oom_kill: no limit of the job's cgroup was reached");
  if (v->cause == G03K_KERNEL && !(v->doubts & (G03K_OTHERS | G03K_MANY)))
    text_item_add(&f->ruled_out, v->victim ? "another process: the kernel log names this one"
                                           : "another process: the job's cgroup counts the victim as its own");
  if (v->cause == G03K_CGROUP && num_known(v->low) && !(v->doubts & G03K_LIMIT)) {
    t = text_item(&f->ruled_out);
    text_sized(&t, "kernel_oom_kill: MemAvailable was ", v->low, "");
  }
  if (!(v->doubts & (G03K_KILLER | G03K_NO_LOOK)))
    text_item_add(&f->ruled_out, v->victim ? "userspace_oom_kill: the kernel log says that it was the kernel"
                                           : "userspace_oom_kill: no such program runs that acts at this reading");
}

static void rule_out(struct finding *f, const struct g03k_verdict *v) {
  switch (v->cause) {
  case G03K_KERNEL:
  case G03K_CGROUP: rule_out_kernel(f, v); break;
  case G03K_USERSPACE:
    if (v->rose == 0)
      text_item_add(&f->ruled_out, "kernel_oom_kill, cgroup_oom_kill: oom_kill of /proc/vmstat unchanged");
    break;
  default:
    if (v->rose == 0)
      text_item_add(&f->ruled_out, "kernel_oom_kill, cgroup_oom_kill: oom_kill of /proc/vmstat unchanged");
    if (num_known(v->cgroup_rose) && !v->cgroup_rose && num_known(v->rose) && v->rose)
      text_item_add(&f->ruled_out, "kernel_oom_kill, cgroup_oom_kill: no victim in the job's cgroup");
    break;
  }
}

/* ---- fixes ----------------------------------------------------------------------------------------------------------- */
static const char use_less[] =
    "hold less at once: load weights shard by shard straight to the device, fewer loader workers, a smaller batch";

/* Who holds the greater part of what is in use comes first. */
static void fix_holders(struct finding *f, const struct g03k_moment *m) {
  static const char end_others[] = "end other holders of memory first (ps -e -o pid,rss,args --sort=-rss; nvidia-smi)";
  bool others = m->t && num_known(m->job) && num_known(m->total) && num_known(m->available) &&
                m->job < num_less(m->total, m->available) / 2;
  text_item_add(&f->fixes, others ? end_others : use_less);
  text_item_add(&f->fixes, others ? use_less : end_others);
}

static void fix_killer(struct finding *f, const char *name) {
  if (text_equal(name, "raylet"))
    text_item_add(&f->fixes,
                  "raise Ray's threshold (RAY_memory_usage_threshold, default 0.95): its figures count device memory");
  else if (text_equal(name, "earlyoom"))
    text_item_add(&f->fixes,
                  "exempt the job (earlyoom --avoid REGEX) or lower the threshold (-m), in /etc/default/earlyoom");
  else if (text_equal(name, "systemd-oomd"))
    text_item_add(&f->fixes,
                  "exempt the job's unit: ManagedOOMPreference=avoid, or ManagedOOMMemoryPressure=auto on its slice");
  else
    text_item_add(&f->fixes, "exempt the job in the settings of that program, or lower its threshold");
}

static void fix(struct finding *f, const struct g03k_verdict *v) {
  f->retry = RETRY_USELESS;
  switch (v->cause) {
  case G03K_KERNEL:
    fix_holders(f, &v->at);
    text_item_add(&f->fixes,
                  "cap the allocator (torch.cuda.set_per_process_memory_fraction): an error comes before the killer");
    break;
  case G03K_CGROUP:
    text_item_add(&f->fixes, "raise the limit of the job's cgroup (docker --memory, systemd MemoryMax=, Slurm --mem)");
    text_item_add(&f->fixes, use_less);
    break;
  case G03K_USERSPACE:
    if (was_low(v)) fix_holders(f, &v->at);
    fix_killer(f, v->killer->name);
    break;
  default:
    f->retry = RETRY_UNKNOWN;
    text_item_add(&f->fixes, "ask who sent it: the log of the scheduler, container or supervisor; sudo journalctl -k "
                             "--grep 'Killed process'");
    break;
  }
}

/* ---- the whole ------------------------------------------------------------------------------------------------------- */
static enum confidence confidence_of(const struct g03k_verdict *v) {
  return v->cause == G03K_UNKNOWN ? CONFIDENCE_HIGH : doubts_confidence(v->doubts);
}

void g03k_say_end(struct finding *f, const struct g03k_verdict *v, const struct g03k_end *end) {
  struct text t = text_in(f->text, sizeof f->text);
  words_begin(f, 3, v->verdict, cause_words[v->cause], "end");
  f->t = end->t;
  f->confidence = confidence_of(v);
  switch (v->cause) {
  case G03K_KERNEL: say_kernel(&t, v, end); break;
  case G03K_CGROUP: say_cgroup(&t, v, end); break;
  case G03K_USERSPACE: say_userspace(&t, v, end); break;
  default: say_unknown(&t, v, end); break;
  }
  evidence_end(&f->evidence, end);
  evidence_victim(&f->evidence, v->victim);
  evidence_counters(&f->evidence, v);
  evidence_memory(&f->evidence, v, end);
  evidence_doubts(&f->evidence, v);
  evidence_killer(&f->evidence, v->killer);
  rule_out(f, v);
  fix(f, v);
}

void g03k_say_limit(struct finding *f, const struct fact_sample *s, uint64_t limit, uint64_t when) {
  struct text t = text_in(f->text, sizeof f->text);
  words_begin(f, 3, VERDICT_INFO, "limit_not_covering", "cgroup");
  f->t = when;
  f->confidence = CONFIDENCE_MEDIUM;
  text_sized(&t, "the memory limit of ", limit, " does not bound this job: ");
  text_sized(&t, "it holds ", s->job_device, " of device memory, which no cgroup counts");
  t = text_item(&f->evidence);
  text_sized(&t, "device memory of the job ", s->job_device, "");
  if (num_known(s->cgroup_current)) text_sized(&t, ", charged to its cgroup ", s->cgroup_current, "");
  text_sized(&t, ", limit ", limit, "");
  t = text_item(&f->evidence);
  text_sized(&t, "MemAvailable ", s->mem.available, " of ");
  text_size(&t, s->mem.total);
  text_item_add(&f->evidence, "not excluded: the limit is meant for host memory alone");
  text_item_add(
      &f->fixes,
      "bound device memory in the program: torch.cuda.set_per_process_memory_fraction, a server's utilization");
}
