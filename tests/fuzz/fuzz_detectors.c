/* fuzz_detectors.c - hostile streams of facts against all detectors.
 *
 * A stream is a sequence of bytes, read as facts by the table of facts.def: a log may come from another
 * version, from a torn file or from somebody who wishes us ill. Whatever it holds, no detector may crash, write
 * beyond its state, or emit a finding that cannot be printed. Built with the sanitizers.
 *
 *   fuzz_detectors SECONDS [SEED]   random streams, from a fixed seed
 *   fuzz_detectors FILE...          the streams in files
 *
 * With clang and -DSPARKSHIM_LIBFUZZER, libFuzzer brings main and the streams.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "detector.h"

enum { GUARD = 64, STREAM = 4096 };

struct stream {
  const uint8_t *at, *end;
};

static uint8_t byte(struct stream *s) { return s->at < s->end ? *s->at++ : 0; }

/* Small numbers, sizes of the world's order of magnitude, extremes and anything else, each often. */
static uint64_t take_u64(struct stream *s) {
  static const uint64_t often[] = {
      0, 1, 2, UINT64_MAX, UINT64_MAX - 1, INT64_MAX, (uint64_t)1 << 30, 127535084 * 1024ULL};
  uint8_t how = byte(s);
  if (how < 64) return often[how % 8];
  if (how < 160) return (uint64_t)byte(s) << 30;
  uint64_t n = 0;
  for (unsigned i = 0; i < how % 9U; i++) n = n << 8 | byte(s);
  return n;
}
static int64_t take_i64(struct stream *s) {
  uint8_t how = byte(s);
  return how < 128 ? how % 4 : how < 160 ? FACT_NO_I64 : (int64_t)take_u64(s);
}
static uint64_t take_hex(struct stream *s) { return take_u64(s); }
static bool take_flag(struct stream *s) { return byte(s) & 1; }

/* A word that some detector looks for, none, or bytes; of exactly its length, so that reading on is seen. */
static char *texts[256];
static unsigned n_texts;
static const char *take_str(struct stream *s) {
  static const char *const often[] = {
      "device",     "managed",          "pinned",      "pool",           "vmm",     "array",    "nccl",
      "cudaMalloc", "cudaHostRegister", "cuMemCreate", "cudaMemGetInfo", "cgroup",  "raylet",   "systemd-oomd",
      "",           "processes",        "compute",     "graphics",       "service", "preflight"};
  uint8_t how = byte(s);
  if (how < 180) return often[how % (sizeof often / sizeof *often)];
  if (how < 200 || n_texts == sizeof texts / sizeof *texts) return NULL;
  size_t n = byte(s);
  char *text = malloc(n + 1);
  if (!text) abort();
  for (size_t i = 0; i < n; i++) text[i] = (char)byte(s);
  text[n] = '\0';
  return texts[n_texts++] = text;
}

static struct fact_memory take_memory(struct stream *s) {
  struct fact_memory m;
#define MEM(name, key, doc) m.name = take_u64(s);
#include "memory_fields.def"
#undef MEM
  return m;
}

static void take_fact(struct stream *s, struct fact *f) {
  f->kind = (enum fact_kind)(byte(s) % (FACT_KIND_COUNT + 1));
  f->t = f->t + (take_u64(s) >> 40);
  f->tid = byte(s);
  switch (f->kind) {
#define FACT(name, doc) case FACT_KIND_##name:
#define FIELD(name, type, field, unit, doc) f->u.name.field = take_##type(s);
#define FACT_MEMORY(name) f->u.name.mem = take_memory(s);
#define FACT_END(name) break;
#include "facts.def"
  default: break;
  }
}

static void check(bool good, const char *what) {
  if (good) return;
  fprintf(stderr, "fuzz_detectors: %s\n", what);
  abort();
}

static void check_list(const struct finding_list *list) {
  check(list->n <= FINDING_ITEMS, "list too long");
  for (unsigned i = 0; i < list->n; i++) check(memchr(list->item[i], 0, FINDING_ITEM) != NULL, "item without end");
}

static unsigned long findings;

static void emit(struct det_out *out, const struct finding *f) {
  char line[512];
  (void)out;
  findings++;
  check(f->g >= 1 && f->g <= 10 && f->verdict <= VERDICT_FAIL && f->confidence <= CONFIDENCE_HIGH, "odd number");
  check(f->cause && f->cause[0], "no cause");
  check(memchr(f->text, 0, FINDING_TEXT) && f->text[0], "no text");
  check(memchr(f->object, 0, FINDING_OBJECT) != NULL, "object without end");
  check_list(&f->evidence);
  check_list(&f->fixes);
  check_list(&f->ruled_out);
  size_t n = finding_line(f, true, line, sizeof line);
  check(n == strlen(line) && n < sizeof line, "odd line");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct stream s = {data, data + size};
  size_t n = det_state_size();
  uint8_t *state = aligned_alloc(16, (n + GUARD + 15) / 16 * 16);
  if (!state) abort();
  memset(state, 0, n);
  memset(state + n, 0xa5, GUARD);
  struct det_out out = {.emit = emit};
  struct fact fact = {.t = 1700000000000000};
  while (s.at < s.end) {
    take_fact(&s, &fact);
    det_observe(state, det_mask(NULL), &fact, &out);
  }
  for (size_t i = 0; i < GUARD; i++) check(state[n + i] == 0xa5, "wrote beyond the state");
  while (n_texts) free(texts[--n_texts]);
  free(state);
  return 0;
}

#ifndef SPARKSHIM_LIBFUZZER
static uint64_t seed;
static uint64_t random64(void) { /* xorshift64* */
  seed ^= seed >> 12;
  seed ^= seed << 25;
  seed ^= seed >> 27;
  return seed * 0x2545F4914F6CDD1DULL;
}

static void run_file(const char *path) {
  FILE *f = fopen(path, "rb");
  static uint8_t data[1 << 20];
  if (!f) {
    perror(path);
    exit(2);
  }
  size_t n = fread(data, 1, sizeof data, f);
  fclose(f);
  LLVMFuzzerTestOneInput(data, n);
}

static void run_random(long seconds) {
  uint8_t data[STREAM];
  unsigned long runs = 0;
  for (time_t stop = time(NULL) + seconds; time(NULL) < stop;)
    for (int i = 0; i < 64; i++, runs++) {
      size_t n = random64() % sizeof data;
      for (size_t k = 0; k < n; k++) data[k] = (uint8_t)(random64() >> 56);
      LLVMFuzzerTestOneInput(data, n);
    }
  printf("%lu streams, %lu findings\n", runs, findings);
  check(findings > runs / 100, "the streams hardly reach the detectors: adjust take_fact");
}

int main(int argc, char **argv) {
  char *rest = NULL;
  long seconds = argc > 1 ? strtol(argv[1], &rest, 10) : 0;
  if (seconds > 0 && !*rest) {
    seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 20260115;
    run_random(seconds);
    return 0;
  }
  for (int i = 1; i < argc; i++) run_file(argv[i]);
  return argc > 1 ? 0 : 2;
}
#endif
