/* preflight.c - `sparkshim preflight [--json] [--env-report FILE]`: is this machine fit for a job?
 *
 * Ten lines, always, one for each G, in the format of every line of sparkshim; below them where memory is, on lines that
 * begin with "memory". The machine is read into facts, and the detectors that judge a job judge those. A G whose readers are not built yet says so by SKIP.
 */
#include "launcher.h"
#include "clock.h"
#include "preflight_memory.h"

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/utsname.h>

enum { GS = 10, STATUS_WARNINGS = 1, STATUS_BLOCKED = 2, STATUS_BLIND = 3 };

struct preflight {
  struct finding finding[GS]; /* the gravest of each G */
  struct preflight_memory memory;
  bool simulated;
  double headroom_gb; /* what a job can get now; negative: not known */
};

#define GIB ((double)(1 << 30))

static void set(struct preflight *p, unsigned g, enum verdict verdict, const char *text) {
  struct finding *f = &p->finding[g - 1];
  f->g = g;
  f->verdict = verdict;
  snprintf(f->text, sizeof f->text, "%s", text);
}

/* What the detectors have found takes the place of a PASS or SKIP. */
static void keep_gravest(struct preflight *p, const struct judged *j) {
  for (size_t i = 0; i < j->findings; i++) {
    const struct finding *f = &j->finding[i].f;
    struct finding *kept = &p->finding[f->g - 1];
    if (kept->verdict < VERDICT_INFO || f->verdict > kept->verdict) *kept = *f;
  }
}

static void say_memory(struct preflight *p) {
  const struct fact_memory *m = &p->memory.mem;
  char text[FINDING_TEXT];
  if (p->memory.error) {
    set(p, 3, VERDICT_SKIP, "/proc/meminfo could not be read");
    return;
  }
  p->headroom_gb = (double)m->available / GIB;
  snprintf(text, sizeof text, "%.1f GiB of %.1f GiB can be had, %.1f GiB of that is free and the rest page cache",
           p->headroom_gb, (double)m->total / GIB, (double)m->free / GIB);
  set(p, 3, VERDICT_PASS, text);
}

static void say_holders(struct preflight *p) {
  const struct preflight_memory *m = &p->memory;
  char text[FINDING_TEXT] = "no process holds GPU memory";
  if (!m->asked) {
    set(p, 6, VERDICT_SKIP, "NVML was not asked, as memory could not be read");
  } else if (m->nvml_error[0]) {
    snprintf(text, sizeof text, "NVML gives no answer: %s", m->nvml_error);
    set(p, 6, VERDICT_SKIP, text);
  } else if (!m->answered) {
    snprintf(text, sizeof text, "NVML has not answered for %.0f s", (double)m->waited / 1e6);
    set(p, 6, VERDICT_SKIP, text);
  } else {
    if (m->has_split && m->compute + m->graphics)
      snprintf(text, sizeof text, "%llu compute and %llu graphics processes hold %.1f GiB of GPU memory",
               (unsigned long long)m->compute, (unsigned long long)m->graphics, (double)m->split.device_others / GIB);
    set(p, 6, VERDICT_PASS, text);
  }
}

static void look(struct preflight *p) {
  const char *root = getenv("SPARKSHIM_ROOT");
  for (unsigned g = 1; g <= GS; g++) set(p, g, VERDICT_SKIP, "this version does not look at it");
  p->simulated = root != NULL;
  p->headroom_gb = -1;
  preflight_memory_look(&p->memory, root && *root ? root : NULL);
  say_memory(p);
  say_holders(p);
  keep_gravest(p, &p->memory.judged);
}

/* 0 ready, 1 warnings, 2 blocked, 3 nothing could be looked at. */
static int status_of(const struct preflight *p) {
  enum verdict worst = VERDICT_PASS;
  bool looked = false;
  for (int i = 0; i < GS; i++) {
    enum verdict v = p->finding[i].verdict;
    looked = looked || v != VERDICT_SKIP;
    if (v > worst) worst = v;
  }
  if (!looked) return STATUS_BLIND;
  return worst == VERDICT_FAIL ? STATUS_BLOCKED : worst == VERDICT_WARN ? STATUS_WARNINGS : 0;
}

static const char *status_word(int status) {
  static const char *const words[] = {"ready", "warnings", "blocked", "unknown"};
  return words[status];
}

static void print_lines(const struct preflight *p) {
  for (int i = 0; i < GS; i++) {
    char line[1024];
    finding_line(&p->finding[i], p->simulated, line, sizeof line);
    puts(line);
  }
  preflight_memory_print(&p->memory, p->simulated, stdout);
}

static int print_json(const struct preflight *p) {
  json_t *o = json_object(), *lines = json_array();
  for (int i = 0; i < GS; i++) {
    const struct finding *f = &p->finding[i];
    json_t *fixes = json_array();
    for (unsigned k = 0; k < f->fixes.n; k++) json_array_append_new(fixes, json_string(f->fixes.item[k]));
    json_array_append_new(lines,
                          json_pack("{s:i, s:s, s:s*, s:s, s:o}", "g", (int)f->g, "verdict", verdict_word(f->verdict),
                                    "cause", f->cause, "text", f->text, "fixes", fixes));
  }
  json_object_set_new(o, "v", json_integer(1));
  json_object_set_new(o, "verdict", json_string(status_word(status_of(p))));
  json_object_set_new(o, "checks", lines);
  if (p->headroom_gb >= 0) json_object_set_new(o, "headroom_gb", json_real(p->headroom_gb));
  json_t *memory = preflight_memory_json(&p->memory);
  if (memory) json_object_set_new(o, "memory", memory);
  int failed = json_dumpf(o, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(6));
  json_decref(o);
  putchar('\n');
  return failed ? STATUS_BLIND : 0;
}

/* "pass", "fail", "warn: ...", "skip: ...", "info: ...". */
static json_t *env_word(const struct finding *f) {
  char text[FINDING_TEXT + 16], word[8];
  snprintf(word, sizeof word, "%s", verdict_word(f->verdict));
  for (char *c = word; *c; c++) *c = (char)(*c | 0x20);
  if (f->verdict == VERDICT_PASS || f->verdict == VERDICT_FAIL) return json_string(word);
  snprintf(text, sizeof text, "%s: %s", word, f->text);
  return json_string(text);
}

static int write_env_report(const struct preflight *p, const char *path) {
  json_t *o = json_object(), *checks = json_object();
  struct utsname uts;
  char platform[256] = "unknown", name[8];
  if (!uname(&uts)) snprintf(platform, sizeof platform, "%.60s %.120s %.60s", uts.sysname, uts.release, uts.machine);
  for (int i = 0; i < GS; i++) {
    snprintf(name, sizeof name, "G%d", i + 1);
    json_object_set_new(checks, name, env_word(&p->finding[i]));
  }
  json_object_set_new(o, "platform", json_string(platform));
  json_object_set_new(o, "checks", checks);
  json_object_set_new(o, "headroom_gb", p->headroom_gb < 0 ? json_null() : json_real(p->headroom_gb));
  json_object_set_new(o, "verdict", json_string(status_word(status_of(p))));
  int failed = json_dump_file(o, path, JSON_INDENT(2) | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(6));
  json_decref(o);
  if (failed) say("cannot write %s: %s", path, strerror(errno));
  return failed;
}

static void usage(FILE *to) {
  fputs("Usage: sparkshim preflight [--json] [--env-report FILE]\n\n"
        "Looks at the machine before a job. One line for each of G1 to G10, then where memory is. Takes 10 s where it "
        "must be\n"
        "seen whether memory that belongs to nobody comes back.\n\n"
        "  -j, --json             one JSON object {v, verdict, checks[{g, verdict, cause, text, fixes}], headroom_gb,\n"
        "                         memory{line, total, free, cma, cache, ..., rest, driver, holders[]}}\n"
        "  -e, --env-report FILE  write {platform, checks{Gn: word}, headroom_gb, verdict} to FILE as well\n"
        "  -h, --help             this text\n\n"
        "Status: 0 ready, 1 warnings, 2 blocked, 3 nothing could be looked at.\n",
        to);
}

int verb_preflight(int argc, char **argv) {
  static const struct option options[] = {{"json", no_argument, NULL, 'j'},
                                          {"env-report", required_argument, NULL, 'e'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  static struct preflight p; /* findings are too large for a stack frame */
  const char *env_report = NULL;
  bool json = false;
  int option;
  optind = 1;
  while ((option = getopt_long(argc, argv, "je:h", options, NULL)) != -1) {
    if (option == 'j')
      json = true;
    else if (option == 'e')
      env_report = optarg;
    else {
      usage(option == 'h' ? stdout : stderr);
      return option == 'h' ? 0 : STATUS_LAUNCHER_FAILED;
    }
  }
  clock_init(getenv("SPARKSHIM_ROOT"));
  look(&p);
  int status = status_of(&p);
  if (json && print_json(&p)) status = STATUS_BLIND;
  if (!json) print_lines(&p);
  if (env_report && write_env_report(&p, env_report)) status = STATUS_BLIND;
  preflight_memory_free(&p.memory);
  return status;
}
