/* outcome.h - what a run comes to as a whole: its verdict, and what the findings leave open.
 *
 * Findings say what was wrong; they do not say that all was well. A job that failed from a cause that no detector knows, that
 * was killed, or whose detectors were off must not read as healthy, so PASS takes two things: something was judged, and the
 * job ended well (or is still running).
 */
#ifndef SPARKSHIM_OUTCOME_H
#define SPARKSHIM_OUTCOME_H

#include "runlog.h"

enum { OUTCOME_LINE = 320, OUTCOME_LINES = 16 };

/* Sentences for people, without a full stop. Those beyond OUTCOME_LINES are counted, not kept. */
struct outcome_lines {
  size_t n; /* how many there are */
  char line[OUTCOME_LINES][OUTCOME_LINE];
};

struct outcome {
  /* The greatest of the findings of INFO or more; without one: PASS, or SKIP where no process was watched, nothing was
   * judged, or the end of the job is not explained. */
  enum verdict verdict;
  struct outcome_lines unexplained; /* ends that were bad or not seen, where no finding of WARN or more was made */
  struct outcome_lines remarks;     /* what was not judged, and why; what is still going on */
};

/* After runlog_finish(). */
void outcome_of(const struct runlog *run, struct outcome *ret);

/* Whether the process used the GPU under the library's eyes: not a launcher, and there is something in its log. */
bool outcome_is_watched(const struct process *p);

#endif
