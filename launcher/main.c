/* main.c - `sparkshim VERB ...`, and `sparkrun ...` by the name it is called with. */
#include "launcher.h"
#include "nvml_client.h"

#include <stdio.h>
#include <string.h>

struct verb {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *synopsis;
};

static const struct verb verbs[] = {
    {"run", verb_run, "run [options] -- CMD...      run a program under the shim (= sparkrun CMD...)"},
    {"report", verb_report, "report [RUN] [--format F]    what a run's logs say, judged again; --list shows the runs"},
    {"preflight", verb_preflight, "preflight [--json]           is this machine fit for a job: G1 to G10"},
    {"explain", verb_explain, "explain G<n>|CAUSE           what it is, what looks like it, what to do"},
    {"doctor", verb_doctor, "doctor                       is the shim really mapped and seeing calls here"},
    {"evict", verb_evict, "evict PATH...                give the page cache of files back, without root"},
};
enum { VERBS = sizeof verbs / sizeof verbs[0] };

static void usage(FILE *to) {
  fputs("Usage: sparkshim VERB [options]\n\n", to);
  for (int i = 0; i < VERBS; i++) fprintf(to, "  sparkshim %s\n", verbs[i].synopsis);
  fputs("\n`sparkshim VERB --help` tells more. Version " SPARKSHIM_VERSION ".\n", to);
}

static int run_verb(int argc, char **argv) {
  for (int i = 0; i < VERBS; i++)
    if (!strcmp(argv[0], verbs[i].name)) return verbs[i].run(argc, argv);
  say("there is no verb '%s'; `sparkshim --help` lists them", argv[0]);
  return STATUS_LAUNCHER_FAILED;
}

int main(int argc, char **argv) {
  const char *name = argc && strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argc ? argv[0] : "";
  if (!strcmp(name, "sparkrun")) return sparkrun_main(argc, argv);
  if (argc < 2) {
    usage(stderr);
    return STATUS_LAUNCHER_FAILED;
  }
  if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
    usage(stdout);
    return 0;
  }
  if (!strcmp(argv[1], "--version")) {
    puts("sparkshim " SPARKSHIM_VERSION);
    return 0;
  }
  if (!strcmp(argv[1], NVML_HELPER_VERB)) return nvml_helper_main(argc - 1, argv + 1);
  return run_verb(argc - 1, argv + 1);
}
