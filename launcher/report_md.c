/* report_md.c - a report as a section of Markdown, to paste into an issue. The root cause stands first. */
#include "escape.h"
#include "report_page.h"

static void begin(FILE *to, const char *run, enum verdict verdict) {
  fputs("### sparkshim report, run ", to);
  escape_markdown(to, run);
  fprintf(to, ": %s\n", verdict_word(verdict));
}

static void heading(FILE *to, const char *label, const char *text) {
  fprintf(to, "\n**%s:**", label);
  if (text) {
    fputc(' ', to);
    escape_markdown(to, text);
  }
  fputc('\n', to);
}

static void item(FILE *to, bool below, const char *text) {
  fputs(below ? "  - " : "- ", to);
  escape_markdown(to, text);
  fputc('\n', to);
}

static void sentence(FILE *to, const char *text) {
  fputc('\n', to);
  escape_markdown(to, text);
  fputc('\n', to);
}

static void list(FILE *to, const char *label, const char *mark, const struct finding_list *list) {
  if (!list->n) return;
  fprintf(to, "- %s\n", label);
  for (unsigned i = 0; i < list->n && i < FINDING_ITEMS; i++) {
    fprintf(to, "  %s ", mark);
    escape_markdown(to, list->item[i]);
    fputc('\n', to);
  }
}

static void finding(FILE *to, const struct page_finding *finding) {
  fprintf(to, "\n#### G%u %s ", finding->f->g, verdict_word(finding->f->verdict));
  escape_markdown(to, finding->f->cause);
  fputs("\n\n", to);
  escape_markdown(to, finding->line);
  fputs("\n\n- ", to);
  escape_markdown(to, finding->details);
  fputc('\n', to);
  if (finding->memory) {
    fputs("- memory: ", to);
    escape_markdown(to, finding->memory);
    fputc('\n', to);
  }
  list(to, "seen:", "-", &finding->f->evidence);
  list(to, "not:", "-", &finding->f->ruled_out);
  list(to, "do:", "1.", &finding->f->fixes);
}

static void end(FILE *to) { (void)to; }

const struct page_style page_markdown = {true, begin, heading, item, sentence, NULL, finding, end};
