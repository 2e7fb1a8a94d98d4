/* rules.c - calls that the scenario makes fail, block or die. See world.h.
 *
 *   fail CALL [nth N] [times N|always] [minsize S] [maxsize S] [from T] [until T] code N
 *   block CALL [nth N] [times N|always] [minsize S] [maxsize S] [from T] [until T] for T [real]
 *   signal CALL [nth N] [times N|always] ... number N
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "world.h"

/* "cuMemAlloc_v2", "cudaMemcpyAsync_ptsz" -> length of the name without such endings. */
static size_t base_length(const char *name) {
  static const char *const endings[] = {"_ptsz", "_ptds", "_v2", "_v3", "_v4"};
  size_t n = strlen(name);
  for (unsigned i = 0; i < sizeof endings / sizeof endings[0]; i++) {
    size_t e = strlen(endings[i]);
    if (n > e && !memcmp(name + n - e, endings[i], e)) {
      n -= e;
      i = (unsigned)-1;
    }
  }
  return n;
}

static bool rule_covers(const struct world_rule *r, const char *name, uint64_t size, uint64_t now) {
  if (size < r->min_size || size > r->max_size || now < r->from_us || now > r->until_us) return false;
  if (!strcmp(r->call, name)) return true;
  size_t n = base_length(name);
  return strlen(r->call) == n && !memcmp(r->call, name, n);
}

static bool rule_waits(const struct world_rule *r) { return r->kind == RULE_BLOCK || r->kind == RULE_DELAY; }

/* The first rule that makes this call wait, and the first that makes it fail; counts the call in every rule that covers
 * it. Kind 0: none. Under the lock. */
static void rules_hit(struct world *w, const char *name, uint64_t size, struct world_rule *ret_wait,
                      struct world_rule *ret_fail) {
  uint64_t now = world_now(w);
  for (int i = 0; i < w->n_rules; i++) {
    struct world_rule *r = &w->rule[i];
    if (!rule_covers(r, name, size, now)) continue;
    uint64_t n = ++r->seen;
    if (n < r->nth || n - r->nth >= r->times) continue;
    struct world_rule *ret = rule_waits(r) ? ret_wait : ret_fail;
    if (!ret->kind) *ret = *r;
  }
}

int world_call(const char *name, uint64_t size) {
  struct world *w = world_get();
  if (!w) return 0;
  world_refresh(w);
  if (!__atomic_load_n(&w->n_rules, __ATOMIC_ACQUIRE)) return 0;
  struct world_rule wait = {0}, fail = {0};
  world_lock(w);
  rules_hit(w, name, size, &wait, &fail);
  world_unlock(w);
  int saved = errno;
  if (wait.kind == RULE_BLOCK && wait.real_time) world_sleep_real(wait.wait_us);
  if (wait.kind == RULE_BLOCK && !wait.real_time) world_wait_until(w, world_now(w) + wait.wait_us);
  if (wait.kind == RULE_DELAY) world_advance(w, wait.wait_us);
  if (fail.kind == RULE_SIGNAL) kill(getpid(), fail.code);
  errno = saved;
  return fail.kind == RULE_FAIL ? fail.code : 0;
}

static int number(const char *text, uint64_t *ret) {
  char *end;
  errno = 0;
  *ret = strtoull(text, &end, 0);
  return errno || *end || end == text || *text == '-' ? -1 : 0;
}

/* One "word value" pair of a rule. */
static int rule_option(struct world_rule *r, const char *word, const char *value) {
  uint64_t n = 0;
  if (!strcmp(word, "nth")) return number(value, &r->nth) || !r->nth ? -1 : 0;
  if (!strcmp(word, "times")) return number(value, &r->times);
  if (!strcmp(word, "minsize")) return parse_bytes(value, &r->min_size);
  if (!strcmp(word, "maxsize")) return parse_bytes(value, &r->max_size);
  if (!strcmp(word, "from")) return parse_duration(value, &r->from_us);
  if (!strcmp(word, "until")) return parse_duration(value, &r->until_us);
  if (!strcmp(word, "for") && r->kind == RULE_BLOCK) return parse_duration(value, &r->wait_us);
  if (!strcmp(word, "by") && r->kind == RULE_DELAY) return parse_duration(value, &r->wait_us);
  if ((!strcmp(word, "code") && r->kind == RULE_FAIL) || (!strcmp(word, "number") && r->kind == RULE_SIGNAL)) {
    if (number(value, &n) || n > 100000) return -1;
    r->code = (int32_t)n;
    return 0;
  }
  return -1;
}

static int32_t kind_of(const char *word) {
  if (!strcmp(word, "fail")) return RULE_FAIL;
  if (!strcmp(word, "block")) return RULE_BLOCK;
  return !strcmp(word, "delay") ? RULE_DELAY : RULE_SIGNAL;
}

int world_rule_setting(struct world *w, const struct words *in, char *error, size_t size) {
  struct world_rule r = {.nth = 1, .times = 1, .max_size = UINT64_MAX, .until_us = UINT64_MAX};
  r.kind = kind_of(in->w[0]);
  if (in->n < 2 || strlen(in->w[1]) >= sizeof r.call) {
    snprintf(error, size, "%s needs the name of a call", in->w[0]);
    return -1;
  }
  strcpy(r.call, in->w[1]);
  for (int i = 2; i < in->n; i++) {
    if (!strcmp(in->w[i], "always")) {
      r.times = UINT64_MAX;
    } else if (!strcmp(in->w[i], "real") && r.kind == RULE_BLOCK) {
      r.real_time = 1;
    } else if (i + 1 >= in->n || rule_option(&r, in->w[i], in->w[i + 1])) {
      snprintf(error, size, "%s: cannot read \"%s\" and what follows", in->w[0], in->w[i]);
      return -1;
    } else {
      i++;
    }
  }
  if (r.kind == RULE_BLOCK || r.kind == RULE_DELAY ? !r.wait_us : !r.code) {
    static const char *const wanted[] = {
        [RULE_FAIL] = "code N", [RULE_BLOCK] = "for TIME", [RULE_DELAY] = "by TIME", [RULE_SIGNAL] = "number N"};
    snprintf(error, size, "%s needs \"%s\"", in->w[0], wanted[r.kind]);
    return -1;
  }
  if (w->n_rules >= WORLD_RULES) {
    snprintf(error, size, "more than %d rules", WORLD_RULES);
    return -1;
  }
  w->rule[w->n_rules] = r;
  __atomic_fetch_add(&w->n_rules, 1, __ATOMIC_RELEASE);
  return 0;
}
