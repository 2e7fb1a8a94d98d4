/* ending.c - see ending.h. Runs inside the preloaded library: no libc, no state. */
#include "ending.h"

#include "number.h"
#include "text.h"

enum { HUP = 1, INT = 2, ABRT = 6, KILL = 9, TERM = 15, SIGNALS = 64, SHELL_BASE = 128 };

/* Loading frameworks down after an exception takes seconds; 30 s is the project's rule for all detectors. */
#define LAST_WORDS_US ((uint64_t)30 * 1000 * 1000)

int64_t ending_signal(const struct fact *end) {
  const struct fact_exit *e = &end->u.exit;
  if (e->signal != FACT_NO_I64) return e->signal;
  return e->status > SHELL_BASE && e->status <= SHELL_BASE + SIGNALS ? e->status - SHELL_BASE : FACT_NO_I64;
}

static bool is_unsuccessful(const struct fact *end) {
  return end->u.exit.status != FACT_NO_I64 && end->u.exit.status != 0;
}

bool ending_is_own_failure(const struct fact *end) {
  int64_t signal = ending_signal(end);
  return is_unsuccessful(end) && signal != HUP && signal != INT && signal != KILL && signal != TERM;
}

bool ending_gave_up(const struct fact *end) {
  int64_t signal = ending_signal(end);
  return is_unsuccessful(end) && (signal == FACT_NO_I64 || signal == ABRT);
}

static bool worked_after(uint64_t t, const struct fact *end) {
  uint64_t activity = end->u.exit.last_activity;
  return num_known(activity) && activity > t;
}

bool ending_follows(uint64_t t, const struct fact *end) {
  return !worked_after(t, end) && end->t >= t && end->t - t <= LAST_WORDS_US;
}

enum verdict ending_verdict(uint64_t t, bool resolved, const struct fact *end) {
  if (resolved || end->u.exit.status == 0) return VERDICT_INFO;
  return ending_is_own_failure(end) && ending_follows(t, end) ? VERDICT_FAIL : VERDICT_WARN;
}

struct fact ending_of_good_job(const struct fact *job_end) {
  struct fact end = {.kind = FACT_KIND_exit, .t = job_end->t};
  end.u.exit.signal = FACT_NO_I64;
  end.u.exit.last_activity = FACT_NO_U64;
  return end;
}

void ending_say(struct finding_list *list, uint64_t t, const struct fact *end) {
  const struct fact_exit *e = &end->u.exit;
  struct text line = text_item(list);
  bool by_signal = e->signal != FACT_NO_I64;
  int64_t how = by_signal ? e->signal : e->status;
  text_add(&line, by_signal ? "the process was ended by signal " : "the process ended with status ");
  if (how == FACT_NO_I64 || how < 0)
    text_add(&line, "unknown");
  else
    text_number(&line, (uint64_t)how);
  if (end->t >= t) {
    text_add(&line, ", ");
    text_number(&line, (end->t - t) / 1000);
    text_add(&line, " ms later");
  }
  text_add(&line,
           worked_after(t, end) ? "; other CUDA work succeeded in between" : "; no CUDA work succeeded in between");
}
