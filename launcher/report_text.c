/* report_text.c - a report for the terminal. People read tails: the root cause and what to do come last. */
#include "escape.h"
#include "report_page.h"

static void begin(FILE *to, const char *run, enum verdict verdict) {
  fputs("Run ", to);
  escape_plain(to, run);
  fprintf(to, ": %s\n", verdict_word(verdict));
}

static void heading(FILE *to, const char *label, const char *text) {
  fprintf(to, text ? "%s: " : "%s:", label);
  if (text) escape_plain(to, text);
  fputc('\n', to);
}

static void item(FILE *to, bool below, const char *text) {
  fputs(below ? "      " : "  ", to);
  escape_plain(to, text);
  fputc('\n', to);
}

static void sentence(FILE *to, const char *text) {
  escape_plain(to, text);
  fputc('\n', to);
}

static void list(FILE *to, const char *label, const struct finding_list *list) {
  for (unsigned i = 0; i < list->n && i < FINDING_ITEMS; i++) {
    fprintf(to, "    %-9s ", i ? "" : label);
    escape_plain(to, list->item[i]);
    fputc('\n', to);
  }
}

static void finding(FILE *to, const struct page_finding *finding) {
  fputc('\n', to);
  escape_plain(to, finding->line);
  fputs("\n    ", to);
  escape_plain(to, finding->details);
  fputc('\n', to);
  if (finding->memory) {
    fputs("    memory:   ", to);
    escape_plain(to, finding->memory);
    fputc('\n', to);
  }
  list(to, "seen:", &finding->f->evidence);
  list(to, "not:", &finding->f->ruled_out);
  list(to, "do:", &finding->f->fixes);
}

static void gap(FILE *to) { fputc('\n', to); }

static void end(FILE *to) { (void)to; }

const struct page_style page_text = {false, begin, heading, item, sentence, gap, finding, end};
