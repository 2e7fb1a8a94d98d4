/* fuzz_text.c - hostile bytes against everything in facts/ and probe/core/ that reads or writes text.
 *
 * /proc/meminfo, vmstat, pressure, buddyinfo, swaps and the files of /proc/<pid> (anybody's under SPARKSHIM_ROOT), paths of
 * cgroups, command lines to be redacted, strings on their way into a record and back. Nothing may crash or read beyond its input; a record must be one line of printable
 * bytes; what was written must come back. Built with the sanitizers.
 *
 *   fuzz_text SECONDS [SEED]   random inputs, from a fixed seed
 *
 * With clang and -DSPARKSHIM_LIBFUZZER, libFuzzer brings main and the inputs.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cgroup.h"
#include "fact_json.h"
#include "rlimits.h"
#include "meminfo.h"
#include "procstat.h"
#include "procuse.h"
#include "redact.h"
#include "rundir.h"
#include "sample.h"

static void must(bool good, const char *what) {
  if (good) return;
  fprintf(stderr, "fuzz_text: %s\n", what);
  abort();
}

static void try_record(const char *text) {
  static char record[FACT_JSON_MAX];
  struct fact fact = {.kind = FACT_KIND_note, .t = 1};
  fact.u.note.text = text;
  size_t n = fact_json(&fact, record, sizeof record);
  must(n > 0 && record[n - 1] == '\n' && strlen(record) == n, "a record is cut");
  for (size_t i = 0; i + 1 < n; i++) must((unsigned char)record[i] >= 0x20, "a record has a control byte");
}

static void try_redact(const char *words, size_t size) {
  char out[300], guard = 'g';
  size_t room = size % sizeof out;
  out[room] = guard;
  size_t n = redact_words(words, size, out, room);
  must(room ? n < room && out[n] == '\0' : n == 0, "redact_words says more than it wrote");
  must(out[room] == guard, "redact_words writes beyond its room");
}

static void try_name(const char *text) {
  char out[RUN_ID];
  rundir_sanitise(text, out, sizeof out);
  must(!strchr(out, '/') && out[0] != '.', "not a file name");
}

static void try_decode(char *text) {
  size_t before = strlen(text);
  fact_string_decode(text);
  must(strlen(text) <= before, "decoding grows");
}

static void try_machine(const char *text, size_t size) {
  struct fact fact;
  struct fact_sample *sample = &fact.u.sample;
  struct sample_pressure pressure;
  struct sample_swaps swaps;
  fact_init(&fact, FACT_KIND_sample);
  sample->page_size = size & 1 ? 4096 : 65536;
  sample_parse_vmstat(text, size, sample);
  sample_parse_buddyinfo(text, size, sample);
  sample_parse_pressure(text, size, &pressure);
  sample_parse_swaps(text, size, &swaps);
  must(sample->blocks_large == FACT_NO_U64 || sample->block_max != FACT_NO_U64, "blocks of no size");
}

static void try_process(const char *text, size_t size) {
  struct procuse use;
  uint64_t anon, shmem;
  char name[40];
  procuse_clear(&use);
  procuse_parse_status(text, size, &use);
  procuse_parse_stat(text, size, &use);
  procuse_parse_io(text, size, &use);
  procuse_parse_share(text, size, &anon, &shmem);
  must(memchr(use.name, 0, sizeof use.name), "a name without end");
  const char *managed = cgroup_manager(text, strnlen(text, size), name, sizeof name);
  must(memchr(name, 0, sizeof name) && !managed == !name[0], "a manager without a name");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fact_memory memory;
  struct procstat stat;
  uint64_t soft, hard;
  /* Copies of just this size, so that the sanitizer sees a byte read beyond. */
  char *bytes = malloc(size ? size : 1), *text = malloc(size + 1);
  if (!bytes || !text) abort();
  if (size) memcpy(bytes, data, size), memcpy(text, data, size);
  text[size] = '\0';
  meminfo_parse(bytes, size, &memory);
  try_redact(bytes, size);
  try_machine(bytes, size);
  try_process(bytes, size);
  procstat_parse(text, &stat);
  limit_parse(text, LIMIT_MEMLOCK, &soft, &hard);
  try_record(text);
  try_name(text);
  try_decode(text);
  free(bytes);
  free(text);
  return 0;
}

#ifndef SPARKSHIM_LIBFUZZER
/* Pieces that lead further in than random bytes do. */
static size_t make_input(uint8_t *out, size_t room) {
  static const char *const pieces[] = {"MemTotal:",
                                       "MemFree: ",
                                       "HugePages_Total: ",
                                       "Hugepagesize: ",
                                       " kB\n",
                                       "99999999999999999",
                                       "1 (a b) S ",
                                       "7 ",
                                       "--token=",
                                       "--password",
                                       "https://u:p@",
                                       "hf_",
                                       "oom_kill ",
                                       "allocstall_",
                                       "some avg10=",
                                       " total=",
                                       "Node 0, zone Normal ",
                                       "/swap file ",
                                       "RssAnon:",
                                       "Pss_Anon: ",
                                       "Name:\t",
                                       "Uid:\t",
                                       "read_bytes: ",
                                       "/system.slice/",
                                       ".service",
                                       "docker-",
                                       "0123456789abcdef0123456789abcdef",
                                       "lxc.payload.",
                                       "41.20",
                                       "\n",
                                       "Bearer ",
                                       "\xef\x9c\x80",
                                       "\xef\x9f",
                                       "\xf0\x9f\x9a\x80",
                                       "\xed\xa0",
                                       "../"};
  size_t n = 0, count = (size_t)rand() % 40;
  for (size_t i = 0; i < count; i++) {
    const char *piece = pieces[(size_t)rand() % (sizeof pieces / sizeof *pieces)];
    size_t length = strlen(piece);
    if (rand() % 3 == 0 || n + length > room) {
      if (n < room) out[n++] = (uint8_t)rand();
    } else {
      memcpy(out + n, piece, length);
      n += length;
    }
  }
  return n;
}

int main(int argc, char **argv) {
  static uint8_t input[4096];
  if (argc < 2) {
    fprintf(stderr, "usage: fuzz_text SECONDS [SEED]\n");
    return 2;
  }
  const time_t end = time(NULL) + atoi(argv[1]);
  srand(argc > 2 ? (unsigned)atoi(argv[2]) : 1);
  unsigned long rounds = 0;
  while (time(NULL) < end)
    for (int i = 0; i < 1000; i++, rounds++) LLVMFuzzerTestOneInput(input, make_input(input, sizeof input));
  printf("%lu inputs\n", rounds);
  return rounds ? 0 : 1;
}
#endif
