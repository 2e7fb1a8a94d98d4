/* fuzz_report.c - hostile logs and rings against all that reads them: the log reader, the ring reader, the detectors, every form
 * of the report.
 *
 * Nothing may crash, loop, or reach the terminal but printable text on its own line; the JSON is JSON, and all forms agree.
 * Built with the sanitizers.
 *
 *   fuzz_report SECONDS [SEED]   records of every kind with extreme values, then bytes changed, from a fixed seed
 *
 * With clang and -DSPARKSHIM_LIBFUZZER, libFuzzer brings main and the inputs.
 */
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "fact.h"
#include "fact_json.h"
#include "plain.h"
#include "report.h"
#include "ring_format.h"

static char folder[64], log_path[96], launcher_path[96], ring_path[96];

static void must(bool good, const char *what) {
  if (good) return;
  fprintf(stderr, "fuzz_report: %s\n", what);
  abort();
}

static void put_file(const char *path, const void *bytes, size_t size) {
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  must(file >= 0 && write(file, bytes, size) == (ssize_t)size, "cannot write");
  close(file);
}

static void clean_up(void) {
  unlink(log_path), unlink(launcher_path), unlink(ring_path);
  rmdir(folder);
}

static void make_folder(void) {
  if (*folder) return;
  snprintf(folder, sizeof folder, "%s/fuzz_report.XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
  must(mkdtemp(folder) != NULL, "no folder");
  snprintf(log_path, sizeof log_path, "%s/a.ndjson", folder);
  snprintf(ring_path, sizeof ring_path, "%s/a.ring", folder);
  snprintf(launcher_path, sizeof launcher_path, "%s/launcher-a.ndjson", folder);
  atexit(clean_up);
}

/* DEL does nothing, and JSON does not escape it. */
static void must_be_shown(const char *text, size_t size) {
  for (size_t at = 0, n; at < size; at += n) {
    n = text[at] == '\n' || text[at] == 0x7f ? 1 : plain_length(text + at, size - at);
    if (!n) fprintf(stderr, "%.*s\n", (int)(at > 200 ? 200 : at), text + (at > 200 ? at - 200 : 0));
    must(n, "behind this stands what a terminal does not just show");
  }
}

static void try_page(const struct runlog *run, const struct outcome *outcome, const struct page_style *style) {
  char *text = NULL;
  size_t size = 0;
  FILE *to = open_memstream(&text, &size);
  must(to != NULL, "no memory");
  report_page(run, outcome, style, to);
  fclose(to);
  must(strlen(text) == size, "a page holds a NUL");
  must_be_shown(text, size);
  free(text);
}

static void try_json(const struct runlog *run, const struct outcome *outcome) {
  char *text = NULL;
  size_t size = 0;
  FILE *to = open_memstream(&text, &size);
  must(to && report_json(run, outcome, to) == 0, "no JSON");
  fclose(to);
  json_t *back = json_loads(text, 0, NULL);
  must(back && !strcmp(json_string_value(json_object_get(back, "verdict")), verdict_word(outcome->verdict)),
       "not the JSON that was meant");
  must_be_shown(text, size);
  json_decref(back);
  free(text);
}

static void try_report(void) {
  struct runlog run = {0};
  struct outcome outcome;
  char command[REPORT_COMMAND];
  must(runlog_read(&run, folder) == 0, "cannot read");
  runlog_finish(&run);
  outcome_of(&run, &outcome);
  try_page(&run, &outcome, &page_text);
  try_page(&run, &outcome, &page_markdown);
  try_page(&run, &outcome, &page_html);
  try_json(&run, &outcome);
  report_command(&run, command);
  must_be_shown(command, strlen(command));
  runlog_free(&run);
}

/* The input: a length, a ring of that length behind a sound header or as it is, then a log of a process and one of a launcher,
 * divided by a NUL. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2) return 0;
  size_t ring = (size_t)(data[0] | data[1] << 8);
  data += 2, size -= 2;
  if (ring > size) ring = size;
  make_folder();
  put_file(ring_path, data, ring);
  data += ring, size -= ring;
  const uint8_t *end = memchr(data, '\0', size);
  size_t first = end ? (size_t)(end - data) : size, second = end ? size - first - 1 : 0;
  put_file(log_path, data, first);
  put_file(launcher_path, data + size - second, second);
  try_report();
  return 0;
}

#ifndef SPARKSHIM_LIBFUZZER
static uint8_t input[1 << 18];
static size_t used;

static void put(const char *text, size_t n) {
  if (n > sizeof input - used) return;
  memcpy(input + used, text, n);
  used += n;
}

static void put_word(const char *text) { put(text, strlen(text)); }

static unsigned pick(unsigned n) { return (unsigned)rand() % n; }

static const char *any(const char *const *of, size_t n) { return of[pick((unsigned)n)]; }
#define ANY(of) any(of, sizeof(of) / sizeof(of)[0])

static void put_number(void) {
  static const char *const numbers[] = {"0",
                                        "1",
                                        "2",
                                        "9",
                                        "100",
                                        "137",
                                        "143",
                                        "4096",
                                        "1073741824",
                                        "131000000000",
                                        "1796009407000000",
                                        "1796009409000000",
                                        "9223372036854775807",
                                        "18446744073709551615",
                                        "-1",
                                        "-9223372036854775807",
                                        "99999999999999999999999",
                                        "1e9",
                                        "1.5"};
  put_word(ANY(numbers));
}

static void put_string(void) {
  static const char *const strings[] = {"",
                                        "a",
                                        "spark-1",
                                        "python train.py",
                                        "cudaMalloc",
                                        "device",
                                        "shim",
                                        "launcher",
                                        "tick",
                                        "end",
                                        "WARN",
                                        "FAIL",
                                        "alloc_refused_exhausted",
                                        "libcudart.so.13",
                                        "\\u001b[31m",
                                        "\\n",
                                        "\xc2\x9b",
                                        "\xff",
                                        "\\ud83d\\ude00",
                                        "\\uf79b",
                                        "\\uf700",
                                        "\\uf70012",
                                        "<script>",
                                        "`@x`",
                                        "%s%n",
                                        "../../etc",
                                        "compute",
                                        "earlyoom",
                                        "kernel"};
  put_word("\"");
  for (unsigned n = pick(12) ? 1 : pick(700); n--;) put_word(ANY(strings));
  put_word("\"");
}

static void put_value(char type) {
  static const char *const odd[] = {"null",           "true", "false", "[]", "{}",         "[[[[]]]]",
                                    "{\"a\":[1,{}]}", "\"",   "tru",   "-",  "\"0x7f00\"", "\"0x\""};
  if (!pick(12))
    put_word(ANY(odd));
  else if (type == 's')
    put_string();
  else if (type == 'h')
    put_word("\"0x7f0000001000\"");
  else if (type == 'f')
    put_word("true");
  else
    put_number();
}

static void put_field(const char *name, char type) {
  if (!pick(4)) return;
  put_word(",\"");
  put_word(name);
  put_word("\":");
  put_value(type);
}

#define TYPE_u64 'u'
#define TYPE_i64 'i'
#define TYPE_hex 'h'
#define TYPE_str 's'
#define TYPE_flag 'f'

static void put_memory(void) {
#define MEM(name, key, doc) put_field("mem_" #name, 'u');
#include "memory_fields.def"
#undef MEM
}

/* One function for each kind, made from the table. */
#define FACT(kind, doc) static void put_##kind(void) {
#define FIELD(kind, type, name, unit, doc) put_field(#name, TYPE_##type);
#define FACT_MEMORY(kind) put_memory();
#define FACT_END(kind) }
#include "facts.def"

static void put_finding(void) {
  put_field("g", 'u'), put_field("verdict", 's'), put_field("cause", 's'), put_field("object", 's');
}

static void put_record(unsigned kind, uint64_t *t) {
  char head[128];
  *t += pick(8) ? pick(2000000) : 0;
  put_word("{\"v\":");
  put_word(pick(30) ? "1" : "2");
  if (pick(30))
    snprintf(head, sizeof head, ",\"t\":%llu,\"tid\":%u,\"k\":\"%s\"", (unsigned long long)*t, pick(3),
             kind == FACT_KIND_COUNT ? "finding" : fact_kind_word((enum fact_kind)kind));
  else
    snprintf(head, sizeof head, ",\"t\":99999999999999999,\"k\":\"%s\"", pick(2) ? "exit" : "what");
  put_word(head);
  switch (kind) {
#define FACT(name, doc)  \
  case FACT_KIND_##name: \
    put_##name();        \
    break;
#include "facts.def"
  default: put_finding();
  }
  put_word("}\n");
}

/* A ring that is sound but for what is changed afterwards. */
static size_t put_ring(void) {
  struct ring_header h = {.magic = RING_MAGIC, .version = RING_VERSION, .size = sizeof h};
  const size_t start = used;
  if (pick(3)) return 0;
  h.slots = pick(8), h.allocs = 1U << pick(5), h.names = pick(6), h.tallies = pick(4), h.routes = pick(RING_ROUTES + 2);
  uint32_t at = sizeof h;
  h.slot_at = at, at += h.slots * (uint32_t)sizeof(struct ring_slot);
  h.alloc_at = at, at += h.allocs * (uint32_t)sizeof(struct ring_alloc);
  h.name_at = at, at += h.names * RING_NAME;
  h.tally_at = at, at += h.tallies * (uint32_t)sizeof(struct ring_tally);
  h.route_at = at, at += h.routes * (uint32_t)sizeof(struct ring_route);
  h.child_at = at, at += sizeof(struct ring_child);
  h.tick0 = (uint64_t)rand() * pick(3), h.us0 = 1796009407000000, h.tick1 = (uint64_t)rand() << pick(40),
  h.us1 = h.us0 + pick(9) * 1000000;
  h.alloc_next = (uint64_t)rand() << pick(40);
  put((const char *)&h, sizeof h);
  for (; used - start < at && used < sizeof input; used++) input[used] = pick(3) ? 0 : (uint8_t)rand();
  return used - start;
}

static void put_log(bool launcher) {
  uint64_t t = 1796009407000000;
  if (pick(20)) put_word("{\"v\":1,\"t\":1796009407000000,\"k\":\"header\",\"host\":\"spark-1\",\"pid\":");
  if (used && input[used - 1] == ':')
    put_word(launcher ? "99,\"writer\":\"launcher\"}\n" : "100,\"writer\":\"shim\"}\n");
  for (unsigned n = pick(40); n--;) put_record(1 + pick(FACT_KIND_COUNT), &t);
}

static void make_input(void) {
  used = 2;
  size_t ring = put_ring();
  input[0] = (uint8_t)ring, input[1] = (uint8_t)(ring >> 8);
  put_log(false);
  put("", 1);
  put_log(true);
  for (unsigned n = pick(2) ? 0 : pick(20); n--;)
    input[pick((unsigned)used)] = (uint8_t)(pick(2) ? rand() : "\"\\{}[]:,\n0u"[pick(11)]);
  if (!pick(8)) used = pick((unsigned)used);
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: fuzz_report SECONDS [SEED]\n");
    return 2;
  }
  const time_t end = time(NULL) + atoi(argv[1]);
  srand(argc > 2 ? (unsigned)atoi(argv[2]) : 1);
  unsigned long rounds = 0;
  for (; time(NULL) < end; rounds++) {
    make_input();
    LLVMFuzzerTestOneInput(input, used);
  }
  printf("%lu inputs\n", rounds);
  return rounds ? 0 : 1;
}
#endif
