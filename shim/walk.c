/* walk.c - libc's dl_iterate_phdr, and forks that come in between.
 *
 * It holds a lock of the loader, which glibc does not make new in a forked child: a child that is forked while some
 * thread walks can neither walk nor load or unload an object for ever after. A bare program has few such moments,
 * so none may be added: a fork waits until our own walks are over, and a walk until the fork is, both only for a while.
 * And where the program itself held the lock, the child must not be made to wait for it, which perhaps never loads anything:
 * it finds the lock taken by a thread that it does not have, and from then on walks without it. Nobody can
 * change the list there any more.
 *
 * The lock is found in the loader's data by what our own walk does to it. Where it is not found (another libc, one
 * without threads), only the waiting remains.
 */
#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "linkmap.h"
#include "shim.h"
#include "sys.h"

#include "poison.h"

enum { CANDIDATES = 4, GLOBALS = 8192 /* bytes of the loader's data that are searched */ };

static struct {
  uint32_t walking, forking; /* threads */
  uint32_t watched;          /* the fork handlers are registered */
  int forker;                /* the thread that forks: its own walks do not wait */
  const pthread_mutex_t *lock;
  bool lost; /* this process was forked while somebody held the lock */
} loader;

/* ---- fork handlers ------------------------------------------------------------------------------------------- */

static void wait_a_little(void) {
  static const struct timespec pause = {0, 200000};
  sys_call6(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
}

static void before_fork(void) {
  enum { TRIES = 500 }; /* 100 ms: a walker may have lost its processor */
  __atomic_store_n(&loader.forker, sys_gettid(), __ATOMIC_RELAXED);
  __atomic_fetch_add(&loader.forking, 1, __ATOMIC_SEQ_CST);
  for (int i = 0; i < TRIES && __atomic_load_n(&loader.walking, __ATOMIC_SEQ_CST); i++) wait_a_little();
}

static void after_fork(void) { __atomic_fetch_sub(&loader.forking, 1, __ATOMIC_RELEASE); }

static void after_fork_in_child(void) {
  loader.walking = loader.forking = 0;
  loader.lost = loader.lost || (loader.lock && loader.lock->__data.__lock);
}

/* ---- the lock -------------------------------------------------------------------------------------------------- */

struct search {
  uintptr_t at; /* the loader's data; behind them is never looked */
  unsigned found;
  struct {
    const pthread_mutex_t *lock;
    unsigned count;
  } candidate[CANDIDATES];
};

static bool is_held_here(const pthread_mutex_t *mutex) {
  return mutex->__data.__lock && mutex->__data.__owner == sys_gettid() &&
         mutex->__data.__kind == PTHREAD_MUTEX_RECURSIVE && mutex->__data.__count;
}

/* During a walk: which of the loader's mutexes does this thread hold? */
static int search_globals(struct dl_phdr_info *info, size_t size, void *data) {
  struct search *search = data;
  (void)size;
  for (unsigned i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[i];
    uintptr_t start = info->dlpi_addr + header->p_vaddr, end = start + header->p_memsz;
    if (header->p_type != PT_LOAD || search->at < start || search->at >= end) continue;
    if (end - search->at > GLOBALS) end = search->at + GLOBALS;
    for (uintptr_t at = search->at; end - at >= sizeof(pthread_mutex_t) && search->found < CANDIDATES; at += 8) {
      const pthread_mutex_t *mutex = (const pthread_mutex_t *)at;
      if (!is_held_here(mutex)) continue;
      search->candidate[search->found].lock = mutex;
      search->candidate[search->found++].count = mutex->__data.__count;
    }
    return 1;
  }
  return 0;
}

/* The one that our walk held and holds no more; a thread inside of dlopen holds others besides. */
static void find_lock(void) {
  struct search search = {.at = (uintptr_t)linkmap_loader("_rtld_global")};
  const pthread_mutex_t *lock = NULL;
  if (!search.at) return;
  shim_real.dl_iterate_phdr(search_globals, &search);
  for (unsigned i = 0; i < search.found; i++) {
    const pthread_mutex_t *mutex = search.candidate[i].lock;
    if (is_held_here(mutex) && mutex->__data.__count >= search.candidate[i].count) continue;
    if (lock) return;
    lock = mutex;
  }
  loader.lock = lock;
}

static void watch_forks(void) {
  int (*at_fork)(void (*)(void), void (*)(void), void (*)(void), void *);
  if (__atomic_exchange_n(&loader.watched, 1, __ATOMIC_RELAXED)) return;
  *(void **)&at_fork = linkmap_libc("__register_atfork");
  if (at_fork) at_fork(before_fork, after_fork, after_fork_in_child, NULL);
  find_lock();
}

/* ---- walks ------------------------------------------------------------------------------------------------------- */

/* The kernel answers EFAULT for a path that it cannot read. */
static bool is_readable(const void *at) {
  return at && sys_call6(SYS_faccessat, SYS_AT_FDCWD, (long)at, 0, 0, 0, 0) != -EFAULT;
}

/* The program headers of an object stand behind its ELF header, at the start of its first segment. */
static bool describe(const struct link_map *map, struct dl_phdr_info *out) {
  const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)map->l_addr;
  if (!is_readable(header) || !is_readable(map->l_ld) || !is_readable(map->l_name)) return false;
  for (unsigned i = 0; i < SELFMAG; i++)
    if (header->e_ident[i] != ELFMAG[i]) return false;
  *out = (struct dl_phdr_info){.dlpi_addr = map->l_addr, .dlpi_name = map->l_name, .dlpi_phnum = header->e_phnum};
  out->dlpi_phdr = (const ElfW(Phdr) *)(map->l_addr + header->e_phoff);
  return true;
}

/* What was being unmapped when the process was forked still stands in the list. */
static int walk_frozen(int (*see)(struct dl_phdr_info *, size_t, void *), void *data) {
  enum { OBJECTS = 65536 };
  const struct link_map *map = linkmap_first();
  int answer = 0;
  for (int i = 0; i < OBJECTS && !answer && is_readable(map); i++, map = map->l_next) {
    struct dl_phdr_info info;
    if (describe(map, &info)) answer = see(&info, offsetof(struct dl_phdr_info, dlpi_adds), data);
  }
  return answer;
}

static void begin_walk(void) {
  enum { TRIES = 100 }; /* 20 ms: the fork may wait for something that this thread holds */
  for (int i = 0; i < TRIES; i++) {
    __atomic_fetch_add(&loader.walking, 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&loader.forking, __ATOMIC_SEQ_CST)) return;
    if (__atomic_load_n(&loader.forker, __ATOMIC_RELAXED) == sys_gettid()) return;
    __atomic_fetch_sub(&loader.walking, 1, __ATOMIC_SEQ_CST);
    wait_a_little();
  }
  __atomic_fetch_add(&loader.walking, 1, __ATOMIC_SEQ_CST);
}

int linkmap_walk(int (*see)(struct dl_phdr_info *, size_t, void *), void *data) {
  if (!linkmap_init()) return 0;
  if (loader.lost) return walk_frozen(see, data);
  watch_forks();
  begin_walk();
  int answer = shim_real.dl_iterate_phdr(see, data);
  __atomic_fetch_sub(&loader.walking, 1, __ATOMIC_RELEASE);
  return answer;
}
