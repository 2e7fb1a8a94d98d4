/* bench_calls.c - what one call costs, in ticks of the processor's counter; started by bench.py with and without the
 * library, the same program each time.
 *
 *   bench_calls LIVE SAMPLES     LIVE allocations are held throughout
 * Prints lines "name order ns", the tenth percentile: cudaMalloc and cudaFree in batches of BATCH, once of neighbours
 * (allocated one after the other, as a step's buffers are) and once of allocations scattered at random, where each
 * touches memory that no cache holds; a look-up by dlsym that finds nothing; and one reading of the counter itself.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "clock.h"

int cudaMalloc(void **ptr, size_t size);
int cudaFree(void *ptr);

enum { BATCH = 32 };

static double ns_per_tick(void) {
  struct timespec a, b, pause = {.tv_nsec = 100 * 1000 * 1000};
  clock_gettime(CLOCK_MONOTONIC, &a);
  uint64_t t0 = clock_ticks();
  nanosleep(&pause, NULL);
  clock_gettime(CLOCK_MONOTONIC, &b);
  uint64_t t1 = clock_ticks();
  return ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / (double)(t1 - t0);
}

static int by_value(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

/* The tenth percentile: what the call costs when nobody else uses the core or the cache. */
static void print_p10(const char *name, const char *order, uint64_t *samples, size_t n, double scale) {
  qsort(samples, n, sizeof *samples, by_value);
  printf("%s %s %.2f\n", name, order, (double)samples[n / 10] * scale / BATCH);
}

static void *checked(void *p) {
  if (p) return p;
  perror("bench_calls");
  exit(1);
}

static uint64_t random_number(void) {
  static uint64_t x = 88172645463325252u;
  x ^= x << 13, x ^= x >> 7, x ^= x << 17;
  return x;
}

/* BATCH different places among `live`. */
static void pick(size_t place[BATCH], size_t live, int scattered) {
  size_t first = random_number() % (live - BATCH);
  for (int i = 0; i < BATCH; i++) {
    place[i] = scattered ? random_number() % live : first + (size_t)i;
    for (int j = 0; j < i; j++)
      if (place[j] == place[i]) i--, j = BATCH;
  }
}

static void bench_order(void **held, size_t live, size_t samples, double scale, int scattered) {
  uint64_t *free_ticks = checked(calloc(samples, sizeof *free_ticks));
  uint64_t *malloc_ticks = checked(calloc(samples, sizeof *malloc_ticks));
  const char *order = scattered ? "scattered" : "neighbours";
  for (size_t s = 0; s < samples; s++) {
    size_t place[BATCH];
    void *batch[BATCH];
    pick(place, live, scattered);
    for (int i = 0; i < BATCH; i++) batch[i] = held[place[i]];
    uint64_t t0 = clock_ticks();
    for (int i = 0; i < BATCH; i++) cudaFree(batch[i]);
    uint64_t t1 = clock_ticks();
    for (int i = 0; i < BATCH; i++) cudaMalloc(&batch[i], 4096);
    uint64_t t2 = clock_ticks();
    free_ticks[s] = t1 - t0;
    malloc_ticks[s] = t2 - t1;
    for (int i = 0; i < BATCH; i++) held[place[i]] = batch[i];
  }
  print_p10("cudaMalloc", order, malloc_ticks, samples, scale);
  print_p10("cudaFree", order, free_ticks, samples, scale);
  free(free_ticks);
  free(malloc_ticks);
}

static void bench_allocations(size_t live, size_t samples, double scale) {
  void **held = checked(calloc(live, sizeof *held));
  for (size_t i = 0; i < live; i++) cudaMalloc(&held[i], 4096);
  bench_order(held, live, samples, scale, 0);
  bench_order(held, live, samples, scale, 1);
  free(held);
}

static void bench_dlsym_miss(size_t samples, double scale) {
  void *handle = checked(dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD));
  uint64_t *ticks = checked(calloc(samples, sizeof *ticks));
  for (size_t s = 0; s < samples; s++) {
    uint64_t t0 = clock_ticks();
    for (int i = 0; i < BATCH; i++)
      if (dlsym(handle, "no_function_of_that_name")) abort();
    ticks[s] = clock_ticks() - t0;
  }
  print_p10("dlsym_miss", "-", ticks, samples, scale);
  free(ticks);
}

static void bench_counter(size_t samples, double scale) {
  uint64_t *ticks = checked(calloc(samples, sizeof *ticks));
  volatile uint64_t read = 0;
  for (size_t s = 0; s < samples; s++) {
    uint64_t t0 = clock_ticks();
    for (int i = 0; i < BATCH; i++) read = clock_ticks();
    ticks[s] = clock_ticks() - t0;
  }
  (void)read;
  print_p10("counter", "-", ticks, samples, scale);
  free(ticks);
}

int main(int argc, char **argv) {
  size_t live = argc > 1 ? strtoul(argv[1], NULL, 10) : 0, samples = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
  if (live < 2 * BATCH || !samples) {
    fprintf(stderr, "usage: bench_calls LIVE SAMPLES\n");
    return 2;
  }
  clock_init(NULL);
  double scale = ns_per_tick();
  bench_allocations(live, samples, scale);
  bench_dlsym_miss(samples / 10 + 1, scale);
  bench_counter(samples, scale);
  return 0;
}
