/* preflight.c - `sparkshim preflight [--json] [--env-report FILE]`: is this machine fit for a job?
 *
 * Ten lines, always, one for each G, in the format of every line of sparkshim. The machine is read into facts, and
 * the detectors that judge a job judge those. A G whose readers are not built yet says so by SKIP.
 */
#include "launcher.h"
#include "clock.h"
#include "detector.h"
#include "meminfo.h"

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
  struct det_out out;
  struct finding finding[GS]; /* the gravest of each G */
  bool simulated;
  double headroom_gb; /* what a job can get now; negative: not known */
};

static void set(struct preflight *p, unsigned g, enum verdict verdict, const char *text) {
  struct finding *f = &p->finding[g - 1];
  f->g = g;
  f->verdict = verdict;
  snprintf(f->text, sizeof f->text, "%s", text);
}

static void keep_gravest(struct det_out *out, const struct finding *f) {
  struct preflight *p = (struct preflight *)out;
  struct finding *kept = &p->finding[f->g - 1];
  /* SKIP weighs more than PASS in a report; here both give way to what was found. */
  if (kept->verdict < VERDICT_INFO || f->verdict > kept->verdict) *kept = *f;
}

/* G3: what a program that asks cudaMemGetInfo would be told now. On GB10 that is MemFree. */
static void look_at_memory(struct preflight *p) {
  struct fact fact = {.kind = FACT_KIND_mem_query, .t = clock_us()};
  struct fact_mem_query *q = &fact.u.mem_query;
  char text[FINDING_TEXT];
  int error = meminfo_read(getenv("SPARKSHIM_ROOT"), &q->mem);
  if (error || q->mem.total == FACT_NO_U64 || q->mem.free == FACT_NO_U64 || q->mem.available == FACT_NO_U64) {
    snprintf(text, sizeof text, "/proc/meminfo could not be read%s%s", error ? ": " : "",
             error ? strerror(-error) : "");
    set(p, 3, VERDICT_SKIP, text);
    return;
  }
  p->headroom_gb = (double)q->mem.available / (1 << 30);
  snprintf(text, sizeof text, "%.1f GiB of %.1f GiB can be had, %.1f GiB of that is free and the rest page cache",
           p->headroom_gb, (double)q->mem.total / (1 << 30), (double)q->mem.free / (1 << 30));
  set(p, 3, VERDICT_PASS, text);
  q->call = "cudaMemGetInfo";
  q->free = q->mem.free;
  q->total = q->mem.total;
  void *state = calloc(1, det_state_size());
  if (state) det_observe(state, det_mask("G3"), &fact, &p->out);
  free(state);
}

static void look(struct preflight *p) {
  for (unsigned g = 1; g <= GS; g++) set(p, g, VERDICT_SKIP, "this version does not look at it");
  p->out.emit = keep_gravest;
  p->simulated = getenv("SPARKSHIM_ROOT") != NULL;
  p->headroom_gb = -1;
  look_at_memory(p);
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
        "Looks at the machine before a job. One line for each of G1 to G10.\n\n"
        "  -j, --json             one JSON object {v, verdict, checks[{g, verdict, cause, text, fixes}], headroom_gb}\n"
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
  static struct preflight p; /* ten findings are too large for a stack frame */
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
  if (json && print_json(&p)) return STATUS_BLIND;
  if (!json) print_lines(&p);
  if (env_report && write_env_report(&p, env_report)) return STATUS_BLIND;
  return status_of(&p);
}
