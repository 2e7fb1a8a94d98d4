/* explain.c - `sparkshim explain G<n>|CAUSE`. The texts stand in explain.def. */
#include "launcher.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { WIDTH = 100 };

struct topic {
  const char *name, *what, *told, *cure;
};

static const struct topic topics[] = {
#define TOPIC(name, what, told, cure) {name, what, told, cure},
#include "explain.def"
#undef TOPIC
};

static const struct cause {
  unsigned g;
  const char *word, *title;
} causes[] = {
#define CAUSE(g, word, title) {g, #word, title},
#include "causes.def"
#undef CAUSE
};
enum { TOPICS = sizeof topics / sizeof topics[0], CAUSES = sizeof causes / sizeof causes[0] };

static void print_wrapped(const char *label, const char *text) {
  size_t column = (size_t)printf("\n%s\n  ", label) - strlen(label) - 2;
  while (*text) {
    size_t n = strcspn(text, " ");
    if (column + 1 + n > WIDTH) {
      fputs("\n  ", stdout);
      column = 2;
    }
    printf("%s%.*s", column > 2 ? " " : "", (int)n, text);
    column += n + (column > 2);
    text += n + (text[n] == ' ');
  }
  putchar('\n');
}

static const struct cause *find_cause(const char *word) {
  for (size_t i = 0; i < CAUSES; i++)
    if (!strcmp(causes[i].word, word)) return &causes[i];
  return NULL;
}

static void print_causes_of(unsigned g) {
  bool any = false;
  for (size_t i = 0; i < CAUSES; i++) {
    if (causes[i].g != g) continue;
    if (!any) puts("\nCauses");
    any = true;
    printf("  %-28s %s\n", causes[i].word, causes[i].title);
  }
}

static void print_topic(const struct topic *t) {
  const struct cause *cause = find_cause(t->name);
  unsigned g = 0;
  if (cause)
    printf("%s (G%u): %s\n", t->name, cause->g, cause->title);
  else
    puts(t->name);
  print_wrapped("What it is", t->what);
  print_wrapped("How it is told from its look-alikes", t->told);
  print_wrapped("What to do", t->cure);
  if (sscanf(t->name, "G%u", &g) == 1) print_causes_of(g);
}

static void print_all(FILE *to) {
  fputs("Usage: sparkshim explain G<n>|CAUSE\n\nThere are texts for:\n", to);
  for (size_t i = 0; i < TOPICS; i++) {
    const struct cause *cause = find_cause(topics[i].name);
    const char *title = cause ? cause->title : topics[i].what; /* of a G's text: how it begins */
    fprintf(to, "  %-28s %.*s\n", topics[i].name, (int)(cause ? strlen(title) : strcspn(title, ".:")), title);
  }
}

int verb_explain(int argc, char **argv) {
  if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
    print_all(stdout);
    return 0;
  }
  if (argc != 2) {
    print_all(stderr);
    return STATUS_LAUNCHER_FAILED;
  }
  for (size_t i = 0; i < TOPICS; i++)
    if (!strcasecmp(argv[1], topics[i].name)) {
      print_topic(&topics[i]);
      return 0;
    }
  say("nothing is known by the name '%s'; `sparkshim explain --help` lists what is", argv[1]);
  return 1;
}
