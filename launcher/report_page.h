/* report_page.h - a report as a page for people. What stands on it, and in which words, is decided once (report_page.c);
 * how it looks, by a style: text, Markdown, HTML. Strings are handed over as the log has them: styles escape them.
 */
#ifndef SPARKSHIM_REPORT_PAGE_H
#define SPARKSHIM_REPORT_PAGE_H

#include <stdio.h>
#include "finding.h"

struct page_finding {
  const struct finding *f;
  const char *line;    /* "G3 FAIL: ...; fix: ..." */
  const char *details; /* cause, process, time, confidence */
  const char *memory;  /* where memory was before it; NULL: not known, or not what it is about */
};

/* All functions write to `to`. */
struct page_style {
  bool findings_first; /* above the job and its processes, root cause first; else below them, root cause last */
  void (*begin)(FILE *to, const char *run, enum verdict verdict);
  void (*heading)(FILE *to, const char *label, const char *text); /* text: NULL where items follow */
  void (*item)(FILE *to, bool below, const char *text);           /* below: belongs to the item before */
  void (*sentence)(FILE *to, const char *text);
  void (*gap)(FILE *to); /* between the findings and what concludes them; NULL: none */
  void (*finding)(FILE *to, const struct page_finding *f);
  void (*end)(FILE *to);
};

extern const struct page_style page_text, page_markdown, page_html;

#endif
