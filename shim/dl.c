/* dl.c - the decisions behind the exported dlopen, dlmopen, dlsym and dlvsym, and the wrappers of dlerror and dlclose.
 *
 * The pre-functions run in the application's thread between its call and libc's function, perhaps before any
 * constructor and before libc is up (a sanitizer looks symbols up while it starts). They call no libc function on
 * their way to "pass it on", and never a dl function on the application's behalf: the text that dlerror holds for it
 * would be gone. How a passed-on dlopen ended is found out afterwards: by the text that the application fetches from
 * dlerror, or by looking whether the object is mapped, at this thread's next event or at exit.
 *
 * A look-up in a given handle does not depend on its caller; only there the real function is called from here, and
 * its answer exchanged. RTLD_NEXT and RTLD_DEFAULT depend on the caller and are passed on untouched.
 */
#include "dl.h"

#include "hooks.h"
#include "ledger.h"
#include "linkmap.h"
#include "shim.h"
#include "sys.h"

#include "poison.h"

enum last_dl { DL_OTHER, DL_OPEN };
enum { OPEN_NOLOAD = 4, OPEN_DEEPBIND = 8 }; /* RTLD_NOLOAD, RTLD_DEEPBIND: bits/dlfcn.h */

/* What the application would call without this library: mostly libc's, or another preload's. */
static struct {
  void *dlopen, *dlmopen, *dlsym, *dlvsym;
  int (*dlclose)(void *);
  char *(*dlerror)(void);
  uint32_t ready;
} next;

uint32_t shim_objects;

/* Any thread, several at once: all store the same values. */
static void next_init(void) {
  next.dlopen = linkmap_next("dlopen");
  next.dlmopen = linkmap_next("dlmopen");
  next.dlsym = linkmap_next("dlsym");
  next.dlvsym = linkmap_next("dlvsym");
  *(void **)&next.dlclose = linkmap_next("dlclose");
  *(void **)&next.dlerror = linkmap_next("dlerror");
  __atomic_store_n(&next.ready, next.dlopen != NULL, __ATOMIC_RELEASE);
}

static inline void next_ready(void) {
  if (unlikely(!__atomic_load_n(&next.ready, __ATOMIC_ACQUIRE))) next_init();
}

/* ---- names asked for ---------------------------------------------------------------------------------------- */

/* Copies that outlive the caller's string, one of each, never given back. */
enum { ASKED_NAMES = 64, ASKED_SIZE = 256 };
static char asked_names[ASKED_NAMES][ASKED_SIZE];
static uint32_t asked_count, asked_busy;

static const char *asked_copy(const char *name) {
  const char *copy = NULL;
  if (str_length(name) >= ASKED_SIZE) name = str_base(name);
  if (__atomic_exchange_n(&asked_busy, 1, __ATOMIC_ACQUIRE)) return NULL;
  for (uint32_t i = 0; i < asked_count && !copy; i++)
    if (str_equal(asked_names[i], name)) copy = asked_names[i];
  if (!copy && asked_count < ASKED_NAMES) {
    copy = asked_names[asked_count++];
    str_copy(asked_names[asked_count - 1], ASKED_SIZE, name);
  }
  __atomic_store_n(&asked_busy, 0, __ATOMIC_RELEASE);
  return copy;
}

/* ---- outcomes --------------------------------------------------------------------------------------------------- */

static void record_failure(const char *name, const char *error, const char *family, const char *how) {
  struct fact fact = {.kind = FACT_KIND_load_failed};
  fact.u.load_failed.name = name;
  fact.u.load_failed.error = error;
  fact.u.load_failed.family = family;
  fact.u.load_failed.how = how;
  observe(&fact);
}

static void note_once(uint32_t *noted, const char *text) {
  struct fact fact = {.kind = FACT_KIND_note};
  if (__atomic_exchange_n(noted, 1, __ATOMIC_RELAXED)) return;
  fact.u.note.text = text;
  observe(&fact);
}

static void note_changes(void) {
  static unsigned long long seen;
  if (ledger_changed(&seen)) ledger_update("dlopen");
}

void dl_settle(void) {
  const char *asked = shim_thread.asked;
  if (!asked || shim_thread.busy || !shim_same_process()) return;
  shim_thread.busy++;
  shim_thread.asked = NULL;
  note_changes();
  if (!ledger_mapped(str_base(asked))) record_failure(asked, NULL, family_of(str_base(asked)), "unmapped");
  shim_thread.busy--;
}

/* Without a name that belongs to us: did an earlier dlopen bring an object of a family along? */
static void wake_for_new_objects(void) {
  static unsigned long long seen;
  if (__atomic_load_n(&shim_life, __ATOMIC_RELAXED) == 0 && ledger_changed(&seen) && ledger_any_family()) shim_wake();
}

static bool awake_here(void) { return shim_wake() && shim_same_process(); }

static bool is_awake(void) { return __atomic_load_n(&shim_life, __ATOMIC_RELAXED) == 2; }

static void asking(const char *name, int flags, bool other_space) {
  static uint32_t deepbind_noted, space_noted;
  const char *base, *family;
  if (shim_thread.busy) return;
  dl_settle();
  shim_thread.last_dl = DL_OPEN;
  base = name ? str_base(name) : ""; /* none: the program itself */
  family = family_of(base);
  if (!family) {
    wake_for_new_objects();
    if (!is_awake()) return;
  }
  if (!awake_here()) return;
  if (other_space)
    note_once(&space_noted, "dlmopen loads objects into a namespace of their own: calls from there are not seen");
  else if (flags & OPEN_DEEPBIND)
    note_once(&deepbind_noted, "an object is loaded with RTLD_DEEPBIND: its own calls may pass this library by");
  if (name && family && !other_space && !(flags & OPEN_NOLOAD)) shim_thread.asked = asked_copy(name);
}

struct dl_step dl_pre_dlopen(const char *name, int flags) {
  next_ready();
  asking(name, flags, false);
  return (struct dl_step){.target = next.dlopen};
}

struct dl_step dl_pre_dlmopen(long space, const char *name, int flags) {
  next_ready();
  asking(name, flags, space != LM_ID_BASE);
  return (struct dl_step){.target = next.dlmopen};
}

/* ---- look-ups ------------------------------------------------------------------------------------------------------ */

/* Hook id of a look-up whose answer is to be exchanged, or HOOK_NONE. */
static inline enum hook_id exchanged(const void *handle, const char *name) {
  shim_thread.last_dl = DL_OTHER;
  if ((uintptr_t)handle + 1 <= 1 || shim_thread.busy) return HOOK_NONE; /* RTLD_DEFAULT is 0, RTLD_NEXT is -1 */
  return hook_by_name(name);
}

static void record_lookup(enum hook_id id, const char *via, bool hooked) {
  static uint8_t recorded[HOOK_ID_COUNT];
  struct fact fact = {.kind = FACT_KIND_lookup};
  if (__atomic_exchange_n(&recorded[id], 1, __ATOMIC_RELAXED)) return;
  fact.u.lookup.name = hook_name(id);
  fact.u.lookup.via = via;
  fact.u.lookup.version = FACT_NO_I64;
  fact.u.lookup.result = FACT_NO_I64;
  fact.u.lookup.hooked = hooked;
  observe(&fact);
}

static void *exchange(enum hook_id id, void *real, const char *via) {
  void *hook;
  bool awake;
  if (!real) return NULL;
  awake = awake_here();
  if (awake) dl_settle();
  shim_thread.busy++;
  hook = hook_for(id, real);
  if (awake) record_lookup(id, via, hook != real);
  shim_thread.busy--;
  return hook;
}

struct dl_step dl_pre_dlsym(void *handle, const char *name) {
  enum hook_id id;
  next_ready();
  id = exchanged(handle, name);
  if (likely(id == HOOK_NONE)) return (struct dl_step){.target = next.dlsym};
  void *(*real)(void *, const char *) = (void *(*)(void *, const char *))(uintptr_t)next.dlsym;
  return (struct dl_step){.result = exchange(id, real(handle, name), "dlsym")};
}

struct dl_step dl_pre_dlvsym(void *handle, const char *name, const char *node) {
  enum hook_id id;
  next_ready();
  id = exchanged(handle, name);
  if (likely(id == HOOK_NONE)) return (struct dl_step){.target = next.dlvsym};
  void *(*real)(void *, const char *,
                const char *) = (void *(*)(void *, const char *, const char *))(uintptr_t)next.dlvsym;
  return (struct dl_step){.result = exchange(id, real(handle, name, node), "dlvsym")};
}

/* ---- dlerror, dlclose ----------------------------------------------------------------------------------------------- */

/* Symbols whose absence is a fault of the CUDA or PyTorch installation (facts/abi_and_env.md in short: the prefix of
 * the missing symbol tells which part does not fit). */
static bool symbol_concerns(const char *symbol) {
  static const char prefixes[][12] = {"cuda",      "__cuda",  "cublas",      "cudnn",    "nvrtc",
                                      "nccl",      "_ZN3c10", "_ZNK3c10",    "_ZN2at",   "_ZNK2at",
                                      "_ZN5torch", "torch_",  "aoti_torch_", "cusparse", "cufft"};
  if (symbol[0] == 'c' && symbol[1] == 'u' && symbol[2] >= 'A' && symbol[2] <= 'Z') return true;
  for (unsigned i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
    if (str_starts(symbol, prefixes[i])) return true;
  return false;
}

static bool text_concerns(const char *text) {
  static const char mark[] = "undefined symbol: ";
  const char *symbol = str_find(text, mark);
  return family_in_text(text) || (symbol && symbol_concerns(symbol + sizeof mark - 1));
}

static void error_fetched(const char *text) {
  const char *asked = shim_thread.asked;
  bool after_open = shim_thread.last_dl == DL_OPEN;
  if (shim_thread.busy || !after_open) return;
  shim_thread.last_dl = DL_OTHER;
  if (!asked && !is_awake() && !text_concerns(text)) return;
  if (!awake_here()) return;
  shim_thread.busy++;
  shim_thread.asked = NULL;
  record_failure(asked, text, asked ? family_of(str_base(asked)) : family_in_text(text), "dlerror");
  shim_thread.busy--;
}

SHIM_EXPORT char *hook_dlerror(void) __asm__("dlerror");
SHIM_EXPORT int hook_dlclose(void *handle) __asm__("dlclose");

char *hook_dlerror(void) {
  char *text;
  next_ready();
  text = next.dlerror();
  if (text) error_fetched(text);
  return text;
}

int hook_dlclose(void *handle) {
  int result;
  next_ready();
  dl_settle(); /* afterwards, what was opened and is now closed would look as if it had not been loaded */
  shim_thread.last_dl = DL_OTHER;
  result = next.dlclose(handle);
  __atomic_add_fetch(&shim_objects, 1, __ATOMIC_RELEASE);
  if (is_awake() && !shim_thread.busy && shim_same_process()) {
    shim_thread.busy++;
    note_changes(); /* before the next object comes to the same address */
    shim_thread.busy--;
  }
  return result;
}
