/* relief_job.c - a CUDA program that reads data files in several ways while it allocates. It knows nothing of sparkshim.
 *
 *   relief_job WORD...
 *
 *   shared:FILE      maps the file MAP_SHARED, for reading
 *   private:FILE     ... MAP_PRIVATE, for reading
 *   loader:FILE      ... MAP_PRIVATE, for reading and writing, and writes nothing: as PyTorch maps weights
 *   changed:FILE     ... and changes a byte of every 16th page, then makes it read-only
 *   locked:FILE      ... MAP_SHARED, and locks it
 *   registered:FILE  ... MAP_SHARED, and registers it with CUDA
 *   results:FILE     ... MAP_SHARED, for reading and writing
 *   open:FILE        opens and reads it, keeps it open; append:FILE: for writing too
 *   close            closes those
 *   watch            from now on two threads read all mappings again and again and compare with what they held
 *   malloc:N         N times: cudaMalloc of 64 GiB, what it and cudaGetLastError say, cudaFree
 *   state:NAME       a line for the mapping of that file: resident, anonymous and swapped bytes, by smaps
 *   wait             until each thread has compared everything once more
 *   smaps-watched    at the end it is printed whether this process's smaps was opened from now on
 *
 * At the end: how many rounds were read, and how many were wrong.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cuda_runtime_api.h>

enum { MAPPINGS = 8, WATCHERS = 2, PAGE = 4096, CHANGED_EACH = 16 };

static struct held {
  const char *name;
  unsigned char *at;
  size_t size;
  uint64_t sum;
} held[MAPPINGS];
static unsigned n_held, wrong;
static unsigned long rounds[WATCHERS];
static bool over;
static pthread_t watcher[WATCHERS];

static void fail(const char *what) {
  perror(what);
  exit(64);
}

static uint64_t sum_of(const struct held *h) {
  uint64_t sum = 0, word;
  for (size_t i = 0; i + sizeof word <= h->size; i += sizeof word) {
    memcpy(&word, h->at + i, sizeof word);
    sum = sum * 31 + word;
  }
  return sum;
}

static void *watch(void *arg) {
  unsigned long *mine = arg;
  while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
    for (unsigned i = 0; i < n_held; i++)
      if (sum_of(&held[i]) != held[i].sum) __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(mine, 1, __ATOMIC_RELAXED);
  }
  return NULL;
}

static int open_file(const char *path, int flags, size_t *ret_size) {
  struct stat st;
  int fd = open(path, flags | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &st) < 0) fail(path);
  *ret_size = (size_t)st.st_size;
  return fd;
}

static struct held *map(const char *path, int prot, int flags) {
  struct held *h = &held[n_held];
  int fd = open_file(path, prot & PROT_WRITE && flags == MAP_SHARED ? O_RDWR : O_RDONLY, &h->size);
  h->name = strrchr(path, '/') + 1;
  h->at = mmap(NULL, h->size, prot, flags, fd, 0);
  if (h->at == MAP_FAILED) fail(path);
  close(fd);
  return h;
}

static void keep(struct held *h) {
  h->sum = sum_of(h);
  n_held++;
}

static void map_changed(const char *path) {
  struct held *h = map(path, PROT_READ | PROT_WRITE, MAP_PRIVATE);
  for (size_t i = 0; i < h->size; i += CHANGED_EACH * PAGE) h->at[i] ^= 0xff;
  if (mprotect(h->at, h->size, PROT_READ) < 0) fail("mprotect");
  keep(h);
}

static void map_locked(const char *path) {
  struct held *h = map(path, PROT_READ, MAP_SHARED);
  if (mlock(h->at, h->size) < 0) fail("mlock");
  keep(h);
}

static void map_registered(const char *path) {
  struct held *h = map(path, PROT_READ, MAP_SHARED);
  if (cudaHostRegister(h->at, h->size, cudaHostRegisterReadOnly)) fail("cudaHostRegister");
  keep(h);
}

static int opened[MAPPINGS];
static unsigned n_opened;

static void read_open(const char *path, int flags) {
  static char block[1 << 20];
  size_t size;
  int fd = open_file(path, flags, &size);
  while (read(fd, block, sizeof block) > 0) continue;
  opened[n_opened++] = fd;
}

static void close_all(void) {
  while (n_opened) close(opened[--n_opened]);
}

static void allocate(unsigned long n) {
  while (n--) {
    void *p = NULL;
    errno = 0;
    cudaError_t result = cudaMalloc(&p, (size_t)64 << 30);
    int left_errno = errno;
    printf("cudaMalloc -> %d, errno %d, last error %d\n", result, left_errno, cudaGetLastError());
    if (!result) cudaFree(p);
  }
}

/* The figure of one line of smaps behind the head of `h`. */
static void print_state(const struct held *h) {
  char line[4096], head[32];
  bool inside = false;
  FILE *smaps = fopen("/proc/self/smaps", "re");
  snprintf(head, sizeof head, "%lx-", (unsigned long)h->at);
  printf("%s:", h->name);
  while (smaps && fgets(line, sizeof line, smaps)) {
    unsigned long kb;
    if (line[0] < 'A' || line[0] > 'Z') inside = !strncmp(line, head, strlen(head));
    if (inside && sscanf(line, "Rss: %lu", &kb) == 1) printf(" rss %lu", kb);
    if (inside && sscanf(line, "Anonymous: %lu", &kb) == 1) printf(" anonymous %lu", kb);
    if (inside && sscanf(line, "Swap: %lu", &kb) == 1) printf(" swap %lu", kb);
  }
  putchar('\n');
  if (smaps) fclose(smaps);
}

static void state(const char *name) {
  for (unsigned i = 0; i < n_held; i++)
    if (!strcmp(held[i].name, name)) print_state(&held[i]);
}

static int notices = -1;

static void watch_smaps(void) {
  notices = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (notices < 0 || inotify_add_watch(notices, "/proc/thread-self/smaps", IN_OPEN) < 0) fail("inotify");
}

static void start_watchers(void) {
  for (unsigned i = 0; i < WATCHERS; i++)
    if (pthread_create(&watcher[i], NULL, watch, &rounds[i])) fail("pthread_create");
}

static void wait_for_watchers(void) {
  for (unsigned i = 0; i < WATCHERS; i++) {
    unsigned long before = __atomic_load_n(&rounds[i], __ATOMIC_RELAXED);
    while (__atomic_load_n(&rounds[i], __ATOMIC_RELAXED) < before + 2) usleep(1000);
  }
}

static void finish(void) {
  unsigned long all = 0;
  __atomic_store_n(&over, true, __ATOMIC_RELAXED);
  for (unsigned i = 0; i < WATCHERS; i++) {
    if (watcher[i]) pthread_join(watcher[i], NULL);
    all += rounds[i];
  }
  char events[4096];
  if (notices >= 0) printf("smaps opened: %s\n", read(notices, events, sizeof events) > 0 ? "yes" : "no");
  fprintf(stderr, "rounds %lu\n", all);
  printf("wrong %u\n", wrong);
}

static void do_word(const char *word) {
  const char *colon = strchr(word, ':'), *what = colon ? colon + 1 : "";
  size_t n = colon ? (size_t)(colon - word) : strlen(word);
#define IS(name) (n == strlen(name) && !strncmp(word, name, n))
  if (IS("shared"))
    keep(map(what, PROT_READ, MAP_SHARED));
  else if (IS("private"))
    keep(map(what, PROT_READ, MAP_PRIVATE));
  else if (IS("loader"))
    keep(map(what, PROT_READ | PROT_WRITE, MAP_PRIVATE));
  else if (IS("changed"))
    map_changed(what);
  else if (IS("locked"))
    map_locked(what);
  else if (IS("registered"))
    map_registered(what);
  else if (IS("results"))
    keep(map(what, PROT_READ | PROT_WRITE, MAP_SHARED));
  else if (IS("open"))
    read_open(what, O_RDONLY);
  else if (IS("append"))
    read_open(what, O_RDWR | O_APPEND);
  else if (IS("close"))
    close_all();
  else if (IS("watch"))
    start_watchers();
  else if (IS("malloc"))
    allocate(strtoul(what, NULL, 10));
  else if (IS("state"))
    state(what);
  else if (IS("wait"))
    wait_for_watchers();
  else if (IS("smaps-watched"))
    watch_smaps();
  else
    fail(word);
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) do_word(argv[i]);
  finish();
  return 0;
}
