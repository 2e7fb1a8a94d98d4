/* report_html.c - a report as one HTML file that needs nothing else: no script, no picture, no font, nothing is fetched. The
 * root cause stands first.
 */
#include "escape.h"
#include "report_page.h"

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n";

static const char style[] =
    "<style>\n"
    ":root { color-scheme: light dark; --fail: #c62828; --warn: #b26a00; --info: #1565c0; --pass: #2e7d32; --skip: "
    "#616161; }\n"
    "body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }\n"
    "h1 { font-size: 1.4rem; overflow-wrap: anywhere; }\n"
    "h2 { font-size: 1.1rem; margin: 1.5rem 0 .3rem; }\n"
    "p { margin: .3rem 0; overflow-wrap: anywhere; }\n"
    ".item { padding-left: 1rem; } .below { padding-left: 2.5rem; font-size: .9rem; }\n"
    ".text { font-family: ui-monospace, monospace; font-size: .9rem; }\n"
    ".badge { color: #fff; border-radius: .3rem; padding: .1rem .5rem; font-size: .85em; }\n"
    ".FAIL { background: var(--fail); } .WARN { background: var(--warn); } .INFO { background: var(--info); }\n"
    ".PASS { background: var(--pass); } .SKIP { background: var(--skip); }\n"
    "section { border: 1px solid #8886; border-radius: .5rem; padding: .5rem 1rem; margin: 1rem 0; }\n"
    "section h2 { margin-top: .3rem; } .line { font-weight: 600; } .details { opacity: .75; font-size: .9rem; }\n"
    "h3 { font-size: .95rem; margin: .8rem 0 0; } ul, ol { margin: .2rem 0; } li { overflow-wrap: anywhere; }\n"
    "</style>\n";

static void badge(FILE *to, enum verdict verdict) {
  fprintf(to, "<span class=\"badge %s\">%s</span>", verdict_word(verdict), verdict_word(verdict));
}

static void element(FILE *to, const char *name, const char *class, const char *text) {
  fprintf(to, "<%s class=\"%s\">", name, class);
  escape_html(to, text);
  fprintf(to, "</%s>\n", name);
}

static void begin(FILE *to, const char *run, enum verdict verdict) {
  fputs(head, to);
  fputs("<title>", to);
  escape_html(to, run);
  fprintf(to, ": %s</title>\n%s</head>\n<body>\n<h1>Run ", verdict_word(verdict), style);
  escape_html(to, run);
  fputc(' ', to);
  badge(to, verdict);
  fputs("</h1>\n", to);
}

static void heading(FILE *to, const char *label, const char *text) {
  fprintf(to, "<h2>%s</h2>\n", label);
  if (text) element(to, "p", "item text", text);
}

static void item(FILE *to, bool below, const char *text) { element(to, "p", below ? "below" : "item", text); }

static void sentence(FILE *to, const char *text) { element(to, "p", "sentence", text); }

static void list(FILE *to, const char *label, const char *name, const struct finding_list *list) {
  if (!list->n) return;
  fprintf(to, "<h3>%s</h3>\n<%s>\n", label, name);
  for (unsigned i = 0; i < list->n && i < FINDING_ITEMS; i++) element(to, "li", "text", list->item[i]);
  fprintf(to, "</%s>\n", name);
}

static void finding(FILE *to, const struct page_finding *finding) {
  fprintf(to, "<section>\n<h2>G%u ", finding->f->g);
  badge(to, finding->f->verdict);
  fputc(' ', to);
  escape_html(to, finding->f->cause);
  fputs("</h2>\n", to);
  element(to, "p", "line", finding->line);
  element(to, "p", "details", finding->details);
  if (finding->memory) {
    fputs("<p class=\"details\">memory: ", to);
    escape_html(to, finding->memory);
    fputs("</p>\n", to);
  }
  list(to, "seen", "ul", &finding->f->evidence);
  list(to, "not", "ul", &finding->f->ruled_out);
  list(to, "do", "ol", &finding->f->fixes);
  fputs("</section>\n", to);
}

static void end(FILE *to) { fputs("</body>\n</html>\n", to); }

const struct page_style page_html = {true, begin, heading, item, sentence, NULL, finding, end};
