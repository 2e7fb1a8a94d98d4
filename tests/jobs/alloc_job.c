/* alloc_job.c - a CUDA program that allocates, works and ends as its command line says.
 *
 *   alloc_job WORD...
 *
 *   CALL:SIZE      asks for memory; a refusal is printed and survived
 *   CALL:SIZE!     ... a refusal ends the program with status 1, as an uncaught exception does
 *   CALL:SIZE~     ... after a refusal all memory but the first piece is freed, the mark "retry" passed, and the
 *                  call made once more
 *   CALL:SIZE/MIN  ... after a refusal half the size is tried, down to MIN, then status 1
 *   meminfo, meminfo!   asks for free and total memory
 *   need:SIZE      asks, and gives up with status 1 when less is free
 *   budget:PERCENT asks, and takes this part of the free figure with the first call
 *   work           fills device memory
 *   step:TIME      works, and does something else for this long (simulated)
 *   round          works as a training step does: data from the host, work, waiting for the result
 *   stage:SIZE, unstage:SIZE   takes anonymous memory, gives it back; status 1 when there is none
 *   communicator, communicator!   NCCL's, of one rank; gather: a collective of it
 *   free, free-all gives back the latest piece, or all
 *   sleep:TIME     waits in simulated time (us ms s m h), mark:NAME passes a mark of the scenario
 *   exit:N, abort  ends
 * Words joined by commas are done in turn, and any word or such a row may end in *N: that many times. SIZE has a unit: B
 * KiB MiB GiB; behind it % stands for another size at each call, up to half as much again. What happens is printed to stdout
 * without addresses, so that two runs can be compared.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"

enum { PIECES = 4096 };
enum on_refusal { GO_ON, GIVE_UP, FREE_AND_RETRY, HALVE };

static struct {
  const struct job_call *call;
  uint64_t key;
} held[PIECES];
static unsigned n_held;

static void usage(const char *word) {
  fprintf(stderr, "alloc_job: cannot do '%s'\n", word);
  exit(64);
}

static uint64_t number(const char *s, const char *word, char **ret_rest) {
  char *rest;
  unsigned long long n = strtoull(s, &rest, 10);
  if (rest == s) usage(word);
  *ret_rest = rest;
  return n;
}

struct unit {
  const char *name;
  uint64_t factor;
};
static const struct unit sizes[] = {{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}, {NULL, 0}};
static const struct unit times[] = {{"us", 1},       {"ms", 1000},      {"s", 1000000},
                                    {"m", 60000000}, {"h", 3600000000}, {NULL, 0}};

/* A number with a unit; *ret_rest: what stands behind it. */
static uint64_t quantity(const char *s, const struct unit *units, const char *word, char **ret_rest) {
  uint64_t n = number(s, word, ret_rest);
  for (; units->name; units++) {
    size_t len = strlen(units->name);
    if (strncmp(*ret_rest, units->name, len)) continue;
    *ret_rest += len;
    return n * units->factor;
  }
  usage(word);
  return 0;
}

static void keep(const struct job_call *call, uint64_t key) {
  if (n_held == PIECES) usage("more than 4096 pieces");
  held[n_held].call = call;
  held[n_held++].key = key;
}

static void give_back(unsigned down_to) {
  while (n_held > down_to) {
    n_held--;
    int rc = held[n_held].call->give(held[n_held].key);
    printf("free %s -> %d\n", held[n_held].call->name, rc);
  }
}

static bool take(const struct job_call *call, uint64_t size) {
  uint64_t key = 0;
  int rc = call->take(size, &key);
  printf("%s %llu -> %d\n", call->name, (unsigned long long)size, rc);
  if (!rc) keep(call, key);
  return !rc;
}

static void give_up(const char *why) {
  fflush(stdout);
  fprintf(stderr, "Error: %s\n", why);
  exit(1);
}

static void pass_time(uint64_t us) {
  void (*advance)(uint64_t) = (void (*)(uint64_t))dlsym(RTLD_DEFAULT, "gb10sim_advance");
  if (advance) advance(us);
}

static void pass_mark(const char *name) {
  void (*mark)(const char *) = (void (*)(const char *))dlsym(RTLD_DEFAULT, "gb10sim_mark");
  if (mark) mark(name);
}

static void allocate(const struct job_call *call, uint64_t size, enum on_refusal what, uint64_t least) {
  if (take(call, size) || what == GO_ON) return;
  if (what == FREE_AND_RETRY) {
    give_back(1);
    pass_mark("retry");
    if (take(call, size)) return;
  }
  while (what == HALVE && size / 2 >= least) {
    size /= 2;
    if (take(call, size)) return;
  }
  give_up("out of memory");
}

/* Data that is read before it is copied. The simulator is told; elsewhere nothing happens. */
static void stage(int64_t bytes) {
  int (*touch)(int64_t) = (int (*)(int64_t))dlsym(RTLD_DEFAULT, "gb10sim_touch");
  int rc = touch ? touch(bytes) : 0;
  printf("stage %lld -> %d\n", (long long)bytes, rc);
  if (rc) give_up("cannot allocate memory");
}

/* As PyTorch has it: NCCL is loaded when it is needed, and its functions are looked up in it. */
static void *nccl, *comm;

static void communicate(bool must) {
  struct unique_id {
    char bytes[128]; /* ncclUniqueId: NCCL_UNIQUE_ID_BYTES of nccl.h */
  } id;
  nccl = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  int (*get_id)(struct unique_id *) = nccl ? (int (*)(struct unique_id *))dlsym(nccl, "ncclGetUniqueId") : NULL;
  int (*init)(void **, int, struct unique_id,
              int) = nccl ? (int (*)(void **, int, struct unique_id, int))dlsym(nccl, "ncclCommInitRank") : NULL;
  if (!get_id || !init) usage("communicator");
  int rc = get_id(&id);
  if (!rc) rc = init(&comm, 1, id, 0);
  printf("communicator -> %d\n", rc);
  if (rc && must) give_up("NCCL: unhandled system error");
}

/* A collective of that one rank, on the latest piece of device memory. */
static void gather(void) {
  enum { NCCL_INT8 = 0 };
  int (*all_gather)(
      const void *, void *, size_t, int, void *,
      void *) = comm ? (int (*)(const void *, void *, size_t, int, void *, void *))dlsym(nccl, "ncclAllGather") : NULL;
  if (!all_gather || !n_held) usage("gather");
  void *piece = (void *)(uintptr_t)held[n_held - 1].key;
  printf("gather -> %d\n", all_gather(piece, piece, 1 << 20, NCCL_INT8, comm, NULL));
}

static uint64_t ask(bool must) {
  uint64_t free_bytes = 0, total = 0;
  int rc = job_meminfo(&free_bytes, &total);
  printf("%s -> %d, %llu of %llu\n", job_meminfo_name, rc, (unsigned long long)free_bytes, (unsigned long long)total);
  if (rc && must) give_up("out of memory");
  return free_bytes;
}

static void work(int (*how)(uint64_t), const char *name) {
  unsigned i = 0;
  while (i < n_held && held[i].call != &job_calls[0]) i++;
  if (i == n_held && !take(&job_calls[0], 1 << 20)) give_up("out of memory");
  int rc = how(held[i].key);
  if (rc) printf("%s -> %d\n", name, rc);
}

/* The same sizes in every run, each another one than those before it for a while. */
static uint64_t varied(uint64_t size) {
  enum { PARTS = 64 };
  static unsigned turn;
  return size + size / PARTS * (turn++ * 19 % (PARTS / 2));
}

static void do_call(const char *word, const char *colon) {
  char *rest;
  uint64_t size = quantity(colon + 1, sizes, word, &rest), least = 0;
  enum on_refusal what = GO_ON;
  if (*rest == '%') size = varied(size), rest++;
  if (*rest == '!')
    what = GIVE_UP;
  else if (*rest == '~')
    what = FREE_AND_RETRY;
  else if (*rest == '/')
    what = HALVE, least = quantity(rest + 1, sizes, word, &rest);
  for (const struct job_call *call = job_calls; call->name; call++) {
    if (strncmp(call->name, word, (size_t)(colon - word)) || call->name[colon - word]) continue;
    allocate(call, size, what, least);
    return;
  }
  usage(word);
}

static void do_word(const char *word) {
  const char *colon = strchr(word, ':');
  char *rest;
  if (!strcmp(word, "meminfo"))
    ask(false);
  else if (!strcmp(word, "meminfo!"))
    ask(true);
  else if (!strcmp(word, "work"))
    work(job_work, word);
  else if (!strcmp(word, "round"))
    work(job_round, word);
  else if (!strcmp(word, "communicator"))
    communicate(false);
  else if (!strcmp(word, "communicator!"))
    communicate(true);
  else if (!strcmp(word, "gather"))
    gather();
  else if (!strcmp(word, "free"))
    give_back(n_held ? n_held - 1 : 0);
  else if (!strcmp(word, "free-all"))
    give_back(0);
  else if (!strcmp(word, "abort"))
    abort();
  else if (!colon)
    usage(word);
  else if (!strncmp(word, "need:", 5)) {
    if (ask(true) < quantity(word + 5, sizes, word, &rest)) give_up("the free memory does not suffice");
  } else if (!strncmp(word, "budget:", 7))
    allocate(job_calls, ask(true) / 100 * number(word + 7, word, &rest), GIVE_UP, 0);
  else if (!strncmp(word, "stage:", 6))
    stage((int64_t)quantity(word + 6, sizes, word, &rest));
  else if (!strncmp(word, "unstage:", 8))
    stage(-(int64_t)quantity(word + 8, sizes, word, &rest));
  else if (!strncmp(word, "sleep:", 6))
    pass_time(quantity(word + 6, times, word, &rest));
  else if (!strncmp(word, "step:", 5)) {
    work(job_work, word);
    pass_time(quantity(word + 5, times, word, &rest));
  } else if (!strncmp(word, "mark:", 5))
    pass_mark(word + 5);
  else if (!strncmp(word, "exit:", 5))
    exit((int)number(word + 5, word, &rest));
  else
    do_call(word, colon);
}

/* A row of words, once. */
static void do_row(const char *row) {
  char words[128];
  snprintf(words, sizeof words, "%s", row);
  for (char *rest = words, *word; (word = strsep(&rest, ","));) do_word(word);
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    char row[128], *rest;
    uint64_t repeat = 1;
    if (snprintf(row, sizeof row, "%s", argv[i]) >= (int)sizeof row) usage(argv[i]);
    char *star = strrchr(row, '*');
    if (star) {
      repeat = number(star + 1, argv[i], &rest);
      *star = '\0';
    }
    while (repeat--) do_row(row);
  }
  return 0;
}
