/* holder_words.c - how a holder of GPU memory is named, and how its memory comes back. See holder_list.h.
 *
 * The order of the fixes is that of harm: what a manager stops in good order, what its owner ends by SIGTERM, and SIGKILL
 * only after that. Of another user's process it is said whose it is. Freestanding.
 */
#include "holder_list.h"

#include "number.h"

static void add_name(struct text *t, const struct holder *p) { text_add(t, p->name[0] ? p->name : "a process"); }

static bool is_others(const struct holders *h, const struct holder *p) {
  return num_known(p->uid) && h->uid_known && p->uid != h->uid;
}

static void add_user(struct text *t, const struct holder *p) {
  text_add(t, "user ");
  if (p->user[0])
    text_add(t, p->user);
  else
    text_number(t, p->uid);
}

void holder_who(struct text *t, const struct holders *h, const struct holder *p) {
  add_name(t, p);
  text_add(t, " (pid ");
  text_number(t, p->pid);
  switch (p->manager) {
  case MANAGED_BY_SERVICE: text_add(t, ", service "); break;
  case MANAGED_BY_USER_SERVICE: text_add(t, ", user service "); break;
  case MANAGED_BY_CONTAINER: text_add(t, ", container "); break;
  case MANAGED_BY_NOTHING: break;
  }
  if (p->manager != MANAGED_BY_NOTHING) {
    text_add(t, p->unit[0] ? p->unit : "without a name");
  } else if (p->unseen) {
    text_add(t, ", not visible here");
  } else if (is_others(h, p)) {
    text_add(t, ", ");
    add_user(t, p);
  }
  text_add(t, ")");
}

static void add_seconds(struct text *t, const char *before, uint64_t us) {
  text_add(t, before);
  text_number(t, us / 1000000);
  text_add(t, " s");
}

void holder_evidence(struct finding_list *list, const struct holder *p) {
  struct text t = text_item(list);
  text_add(&t, p->graphics ? "NVML: graphics process " : "NVML: compute process ");
  text_number(&t, p->pid);
  if (num_known(p->bytes))
    text_sized(&t, " holds ", p->bytes, "");
  else
    text_add(&t, ", which does not tell what it holds");
  add_seconds(&t, ", listed for ", p->watched);
  if (num_known(p->idle)) add_seconds(&t, ", idle for ", p->idle);
  if (holder_is_alone(p)) text_add(&t, ", parent and session's leader gone");
  if (!p->argv[0] && !p->name[0]) return;
  text_add(&t, ": ");
  text_add(&t, p->argv[0] ? p->argv : p->name);
}

static void fix_by_signal(struct finding_list *list, const struct holders *h, const struct holder *p, bool alone) {
  struct text t = text_item(list);
  if (is_others(h, p)) {
    text_add(&t, "ask ");
    add_user(&t, p);
    text_add(&t, ", whose process it is, to end ");
    add_name(&t, p);
    text_add(&t, " (kill ");
    text_number(&t, p->pid);
    text_add(&t, "); without its owner's consent leave it alone");
    return;
  }
  text_add(&t, alone ? "end it: kill " : "wait until it has ended, or end it: kill ");
  text_number(&t, p->pid);
  text_add(&t, " (SIGTERM); its memory takes up to 10 s to come back");
}

static void fix_by_force(struct finding_list *list, const struct holders *h, const struct holder *p) {
  if (is_others(h, p)) return;
  struct text t = text_item(list);
  text_add(&t, "only if it is still there then: kill -9 ");
  text_number(&t, p->pid);
}

static void fix_by_name(struct finding_list *list, const char *before, const char *name, const char *after) {
  struct text t = text_item(list);
  text_add(&t, before);
  text_add(&t, name);
  text_add(&t, after);
}

void holder_fix(struct finding_list *list, const struct holders *h, const struct holder *p, bool alone) {
  if (p->manager == MANAGED_BY_SERVICE) {
    fix_by_name(list, "sudo systemctl stop ", p->unit, " (systemctl start brings it back after the run)");
  } else if (p->manager == MANAGED_BY_USER_SERVICE) {
    fix_by_name(list, "systemctl --user stop ", p->unit, ", as the user whose service it is");
  } else if (p->manager == MANAGED_BY_CONTAINER) {
    fix_by_name(list, "docker stop ", p->unit, " (podman stop, or the tool that started this container)");
  } else if (p->unseen) {
    struct text t = text_item(list);
    text_add(&t, "pid ");
    text_number(&t, p->pid);
    text_add(
        &t,
        " is in another PID namespace or has just ended: look on the host (ps -fp, docker ps), and stop what runs it");
  } else {
    fix_by_signal(list, h, p, alone);
    if (alone) fix_by_force(list, h, p);
  }
  if (!alone)
    text_item_add(list,
                  "run one GPU server at a time, or give each a share: vLLM --gpu-memory-utilization 0.5 at most, "
                  "ollama OLLAMA_KEEP_ALIVE=0 or `ollama stop MODEL`");
}
