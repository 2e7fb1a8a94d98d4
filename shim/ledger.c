/* ledger.c - which objects of families.def are mapped.
 *
 * Read from the loader's list (linkmap_walk, which holds the loader's lock), never by
 * asking dlopen again: that would change what is loaded and wipe the application's dlerror text. Facts are written
 * after the walk, without the lock. Slow path only; one thread at a time writes, another one leaves its part to it.
 */
#include "ledger.h"

#include <elf.h>

#include "linkmap.h"
#include "shim.h"
#include "sys.h"

#include "poison.h"

/* ---- families --------------------------------------------------------------------------------------------- */

enum family_match { MATCH_SO, MATCH_STEM, MATCH_MODULE };

struct family { /* no pointers: a relocation each */
  char word[20];
  char pattern[28];
  uint8_t match;
};

static const struct family families[] = {
#define FAMILY(word, match, pattern) {#word, pattern, MATCH_##match},
#include "families.def"
};
enum { FAMILIES = sizeof families / sizeof families[0] };

static bool name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

/* ".so", then nothing or digits and dots. */
static bool is_so_tail(const char *s) {
  if (!str_starts(s, ".so")) return false;
  s += 3;
  if (!*s) return true;
  if (*s != '.' || !s[1]) return false;
  for (; *s; s++)
    if (*s != '.' && (*s < '0' || *s > '9')) return false;
  return true;
}

static bool ends_in_so_tail(const char *s) {
  for (; *s; s++) {
    if (is_so_tail(s)) return true;
    if (!name_char(*s)) return false;
  }
  return false;
}

static bool is_hash(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

static bool family_fits(const struct family *family, const char *name) {
  const char *rest = name + str_length(family->pattern);
  if (!str_starts(name, family->pattern)) return false;
  if (family->match == MATCH_SO) {
    if (*rest == '-')
      for (rest++; is_hash(*rest);) rest++;
    return is_so_tail(rest);
  }
  return ends_in_so_tail(rest);
}

const char *family_of(const char *base_name) {
  for (unsigned i = 0; i < FAMILIES; i++)
    if (family_fits(&families[i], base_name)) return families[i].word;
  return NULL;
}

const char *family_in_text(const char *text) {
  char word[128];
  while (*text) {
    size_t n = 0;
    for (; name_char(*text); text++)
      if (n + 1 < sizeof word) word[n++] = *text;
    word[n] = '\0';
    const char *family = n ? family_of(word) : NULL;
    if (family) return family;
    if (*text) text++;
  }
  return NULL;
}

/* ---- the loader's list ------------------------------------------------------------------------------------- */

static int read_changes(struct dl_phdr_info *info, size_t size, void *data) {
  unsigned long long *changes = data;
  *changes = size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs
                 ? info->dlpi_adds + info->dlpi_subs
                 : 0;
  return 1;
}

bool ledger_changed(unsigned long long *seen) {
  unsigned long long now = 0;
  if (!linkmap_init()) return false;
  linkmap_walk(read_changes, &now);
  return __atomic_exchange_n(seen, now, __ATOMIC_RELAXED) != now || !now;
}

static const char *mapped_soname(const struct dl_phdr_info *info) {
  struct linkmap_object object;
  return linkmap_parse(info->dlpi_addr, linkmap_dynamic(info), &object) ? object.soname : NULL;
}

static const char *mapped_family(const struct dl_phdr_info *info) {
  const char *soname = mapped_soname(info);
  const char *family = family_of(str_base(info->dlpi_name));
  return family || !soname ? family : family_of(soname);
}

static int find_family(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  (void)data;
  return mapped_family(info) != NULL;
}

bool ledger_any_family(void) { return linkmap_walk(find_family, NULL); }

/* libcuda.so and libcuda.so.1, libcudart.so.13 and libcudart.so.13.0.88: links to one file, which the loader knows by
 * the name it was opened by first. */
static bool same_but_for_version(const char *a, const char *b) {
  while (*a && *a == *b) a++, b++;
  return (!*a || *a == '.') && (!*b || *b == '.') && (!*a || !*b);
}

static int find_name(struct dl_phdr_info *info, size_t size, void *data) {
  const char *name = data, *soname = mapped_soname(info);
  (void)size;
  return same_but_for_version(str_base(info->dlpi_name), name) || (soname && same_but_for_version(soname, name));
}

bool ledger_mapped(const char *base_name) { return linkmap_walk(find_name, (void *)(uintptr_t)base_name); }

/* ---- what was recorded --------------------------------------------------------------------------------------- */

enum { LEDGER_OBJECTS = 512, LEDGER_BATCH = 8, BUILD_ID_TEXT = 2 * 32 + 1 };

struct ledger_entry {
  const char *family;
  uintptr_t base;
  char path[512];
  char soname[64];
  char build_id[BUILD_ID_TEXT];
};

/* One writer at a time (ledger_busy). */
static uint32_t ledger_busy;
static struct {
  uintptr_t base;
  bool mapped; /* seen in this walk */
} recorded[LEDGER_OBJECTS];
static unsigned recorded_count;
static struct ledger_entry batch[LEDGER_BATCH];
static unsigned batch_count;

static bool is_recorded(uintptr_t base) {
  for (unsigned i = 0; i < recorded_count; i++)
    if (recorded[i].base == base) return recorded[i].mapped = true;
  return false;
}

static void hex_text(char *out, const unsigned char *bytes, size_t n) {
  for (size_t i = 0; i < n; i++) {
    *out++ = "0123456789abcdef"[bytes[i] >> 4];
    *out++ = "0123456789abcdef"[bytes[i] & 15];
  }
  *out = '\0';
}

static void read_build_id(const struct dl_phdr_info *info, char out[BUILD_ID_TEXT]) {
  out[0] = '\0';
  for (unsigned i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[i];
    uintptr_t at = info->dlpi_addr + header->p_vaddr, end = at + header->p_memsz;
    if (header->p_type != PT_NOTE) continue;
    while (end - at >= sizeof(ElfW(Nhdr))) {
      const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)at;
      uintptr_t name = at + sizeof *note, text = name + ((note->n_namesz + 3u) & ~3u);
      uintptr_t next = text + ((note->n_descsz + 3u) & ~3u);
      if (next > end || next <= at) break;
      if (note->n_type == NT_GNU_BUILD_ID && note->n_descsz * 2 < BUILD_ID_TEXT) {
        hex_text(out, (const unsigned char *)text, note->n_descsz);
        return;
      }
      at = next;
    }
  }
}

static int collect(struct dl_phdr_info *info, size_t size, void *data) {
  const char *family, *soname;
  struct ledger_entry *entry;
  (void)size;
  (void)data;
  if (batch_count == LEDGER_BATCH || recorded_count == LEDGER_OBJECTS) return 1;
  if (is_recorded(info->dlpi_addr)) return 0;
  family = mapped_family(info);
  if (!family) return 0;
  recorded[recorded_count].base = info->dlpi_addr;
  recorded[recorded_count++].mapped = true;
  entry = &batch[batch_count++];
  entry->family = family;
  entry->base = info->dlpi_addr;
  soname = mapped_soname(info);
  str_copy(entry->path, sizeof entry->path, info->dlpi_name);
  str_copy(entry->soname, sizeof entry->soname, soname ? soname : "");
  read_build_id(info, entry->build_id);
  return 0;
}

/* After a whole walk: what was unmapped makes room, and its address may come again. */
static void drop_unmapped(void) {
  unsigned kept = 0;
  for (unsigned i = 0; i < recorded_count; i++)
    if (recorded[i].mapped) recorded[kept++] = recorded[i];
  recorded_count = kept;
  for (unsigned i = 0; i < kept; i++) recorded[i].mapped = false;
}

static const char *text_or_null(const char *text) { return *text ? text : NULL; }

static void record_batch(const char *how) {
  for (unsigned i = 0; i < batch_count; i++) {
    struct fact fact = {.kind = FACT_KIND_load};
    fact.u.load.path = batch[i].path;
    fact.u.load.soname = text_or_null(batch[i].soname);
    fact.u.load.family = batch[i].family;
    fact.u.load.build_id = text_or_null(batch[i].build_id);
    fact.u.load.base = batch[i].base;
    fact.u.load.how = how;
    observe(&fact);
  }
}

void ledger_update(const char *how) {
  if (!linkmap_init() || __atomic_exchange_n(&ledger_busy, 1, __ATOMIC_ACQUIRE)) return;
  do {
    batch_count = 0;
    linkmap_walk(collect, NULL);
    record_batch(how);
  } while (batch_count == LEDGER_BATCH);
  drop_unmapped();
  __atomic_store_n(&ledger_busy, 0, __ATOMIC_RELEASE);
}

void ledger_forget(void) {
  recorded_count = 0;
  __atomic_store_n(&ledger_busy, 0, __ATOMIC_RELEASE);
}
