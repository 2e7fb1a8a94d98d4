/* linkmap.c - finds functions in mapped objects without asking the loader.
 *
 * dlsym is one of the functions this library stands in front of, allocates when it fails, and looks at its caller;
 * so real functions are found by walking the link map (_r_debug) and reading each object's hash table and version
 * table. Two kinds of walk: linkmap_next() and linkmap_libc() read only the objects that are there from the start of
 * the program, take no lock and call nothing, since they run for the first dlsym of a program, which may come before
 * any constructor; linkmap_symbol() and linkmap_object_at() see every object and hold the loader's lock meanwhile
 * (walk.c), slow path only.
 *
 * Base namespace only: objects that dlmopen put elsewhere have their own libc and never reach this library.
 */
#include "linkmap.h"

#include "shim.h"
#include "sys.h"

#include "poison.h"

/* Weak: not in libc but in the loader, which is not worth a NEEDED entry. */
extern struct r_debug loader_debug __asm__("_r_debug") __attribute__((weak, visibility("default")));
extern const ElfW(Dyn) own_dynamic[] __asm__("_DYNAMIC") __attribute__((visibility("hidden")));
extern const ElfW(Ehdr) own_header __asm__("__ehdr_start") __attribute__((visibility("hidden")));

struct shim_real shim_real;

/* d_ptr is an address where the loader relocated it (all but the vDSO), else an offset. */
static const void *dynamic_address(uintptr_t base, ElfW(Addr) value) {
  return (const void *)(value < base ? base + value : value);
}

bool linkmap_parse(uintptr_t base, const ElfW(Dyn) * dynamic, struct linkmap_object *out) {
  struct linkmap_object object = {.base = base};
  const ElfW(Dyn) *soname = NULL;
  if (!dynamic) return false;
  for (const ElfW(Dyn) *d = dynamic; d->d_tag != DT_NULL; d++) {
    const void *at = dynamic_address(base, d->d_un.d_ptr);
    if (d->d_tag == DT_STRTAB)
      object.strings = at;
    else if (d->d_tag == DT_SYMTAB)
      object.symbols = at;
    else if (d->d_tag == DT_GNU_HASH)
      object.gnu_hash = at;
    else if (d->d_tag == DT_HASH)
      object.sysv_hash = at;
    else if (d->d_tag == DT_VERSYM)
      object.versions = at;
    else if (d->d_tag == DT_VERDEF)
      object.nodes = at;
    else if (d->d_tag == DT_SONAME)
      soname = d;
  }
  if (!object.strings || !object.symbols) return false;
  if (soname) object.soname = object.strings + soname->d_un.d_val;
  *out = object;
  return true;
}

const ElfW(Dyn) * linkmap_dynamic(const struct dl_phdr_info *info) {
  for (unsigned i = 0; i < info->dlpi_phnum; i++)
    if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
      return (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
  return NULL;
}

static bool node_is(const struct linkmap_object *object, unsigned index, const char *node) {
  const ElfW(Verdef) *def = object->nodes;
  while (def) {
    const ElfW(Verdaux) *aux = (const ElfW(Verdaux) *)((const char *)def + def->vd_aux);
    if (def->vd_ndx == index) return str_equal(object->strings + aux->vda_name, node);
    if (!def->vd_next) return false;
    def = (const ElfW(Verdef) *)((const char *)def + def->vd_next);
  }
  return false;
}

/* As the loader does: no node asked for means the default one, and an object without versions fits any node. */
static bool version_fits(const struct linkmap_object *object, uint32_t index, const char *node) {
  if (!object->versions) return true;
  unsigned version = object->versions[index];
  if (!node) return !(version & 0x8000) && version != VER_NDX_LOCAL;
  return node_is(object, version & 0x7fff, node);
}

static void *symbol_address(const struct linkmap_object *object, uint32_t index, const char *node, const char *name) {
  const ElfW(Sym) *symbol = &object->symbols[index];
  unsigned type = ELF64_ST_TYPE(symbol->st_info);
  if (symbol->st_shndx == SHN_UNDEF || !symbol->st_value) return NULL;
  if (type != STT_FUNC && type != STT_OBJECT && type != STT_NOTYPE) return NULL;
  if (!str_equal(object->strings + symbol->st_name, name) || !version_fits(object, index, node)) return NULL;
  return (void *)(object->base + symbol->st_value);
}

static void *find_gnu(const struct linkmap_object *object, const char *node, const char *name) {
  const uint32_t *table = object->gnu_hash;
  uint32_t buckets = table[0], first = table[1], words = table[2], hash = 5381;
  const ElfW(Addr) *bloom = (const ElfW(Addr) *)(table + 4);
  const uint32_t *bucket = (const uint32_t *)(bloom + words), *chain = bucket + buckets;
  const unsigned bits = 8 * sizeof *bloom;
  for (const char *c = name; *c; c++) hash = hash * 33 + (unsigned char)*c;
  if (!buckets || !words) return NULL;
  ElfW(Addr) word = bloom[hash / bits % words];
  if (!(word >> hash % bits & word >> (hash >> table[3]) % bits & 1)) return NULL;
  uint32_t index = bucket[hash % buckets];
  if (index < first) return NULL;
  for (;; index++) {
    uint32_t entry = chain[index - first];
    if ((entry | 1) == (hash | 1)) {
      void *found = symbol_address(object, index, node, name);
      if (found) return found;
    }
    if (entry & 1) return NULL;
  }
}

static void *find_sysv(const struct linkmap_object *object, const char *node, const char *name) {
  const uint32_t *table = object->sysv_hash;
  uint32_t buckets = table[0], hash = 0;
  const uint32_t *bucket = table + 2, *chain = bucket + buckets;
  for (const char *c = name; *c; c++) {
    hash = (hash << 4) + (unsigned char)*c;
    hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
  }
  if (!buckets) return NULL;
  for (uint32_t index = bucket[hash % buckets]; index; index = chain[index]) {
    void *found = symbol_address(object, index, node, name);
    if (found) return found;
  }
  return NULL;
}

void *linkmap_find(const struct linkmap_object *object, const char *node, const char *symbol) {
  if (object->gnu_hash) return find_gnu(object, node, symbol);
  if (object->sysv_hash) return find_sysv(object, node, symbol);
  return NULL;
}

bool linkmap_is_ours(const void *p) {
  uintptr_t base = (uintptr_t)&own_header;
  const ElfW(Phdr) *header = (const ElfW(Phdr) *)(base + own_header.e_phoff);
  for (unsigned i = 0; i < own_header.e_phnum; i++)
    if (header[i].p_type == PT_LOAD && (uintptr_t)p - base - header[i].p_vaddr < header[i].p_memsz) return true;
  return false;
}

/* ---- the start of the list ---------------------------------------------------------------------------- */

const struct link_map *linkmap_first(void) { return &loader_debug ? loader_debug.r_map : NULL; }

static bool is_libc(const struct link_map *map) { return map->l_name && str_equal(str_base(map->l_name), "libc.so.6"); }

static void *find_in_map(const struct link_map *map, const char *symbol) {
  struct linkmap_object object;
  if (map->l_ld == own_dynamic || !linkmap_parse(map->l_addr, map->l_ld, &object)) return NULL;
  return linkmap_find(&object, NULL, symbol);
}

bool linkmap_interposing(void) {
  for (const struct link_map *map = linkmap_first(); map && !is_libc(map); map = map->l_next)
    if (map->l_ld == own_dynamic) return true;
  return false;
}

void *linkmap_libc(const char *symbol) {
  for (const struct link_map *map = linkmap_first(); map; map = map->l_next) {
    /* Before glibc 2.34 the loader's functions were in libdl.so.2, which stood there from the start, too. */
    bool libdl = map->l_name && str_equal(str_base(map->l_name), "libdl.so.2");
    void *found = is_libc(map) || libdl ? find_in_map(map, symbol) : NULL;
    if (found) return found;
  }
  return NULL;
}

void *linkmap_loader(const char *symbol) {
  for (const struct link_map *map = linkmap_first(); map; map = map->l_next)
    if (map->l_name && str_starts(str_base(map->l_name), "ld-linux")) return find_in_map(map, symbol);
  return NULL;
}

void *linkmap_next(const char *symbol) {
  const struct link_map *map = linkmap_first();
  if (!linkmap_interposing()) return linkmap_libc(symbol);
  while (map->l_ld != own_dynamic) map = map->l_next;
  for (map = map->l_next; map; map = map->l_next) {
    void *found = find_in_map(map, symbol);
    if (found) return found;
  }
  return NULL;
}

bool linkmap_init(void) {
  struct shim_real real = {0};
  if (__atomic_load_n(&shim_real.dl_iterate_phdr, __ATOMIC_ACQUIRE)) return true;
  *(void **)&real.dlopen = linkmap_libc("dlopen");
  *(void **)&real.dlmopen = linkmap_libc("dlmopen");
  *(void **)&real.dlsym = linkmap_libc("dlsym");
  *(void **)&real.dlvsym = linkmap_libc("dlvsym");
  *(void **)&real.dlclose = linkmap_libc("dlclose");
  *(void **)&real.dlerror = linkmap_libc("dlerror");
  *(void **)&real.dl_iterate_phdr = linkmap_libc("dl_iterate_phdr");
  shim_real.dlopen = real.dlopen;
  shim_real.dlmopen = real.dlmopen;
  shim_real.dlsym = real.dlsym;
  shim_real.dlvsym = real.dlvsym;
  shim_real.dlclose = real.dlclose;
  shim_real.dlerror = real.dlerror;
  __atomic_store_n(&shim_real.dl_iterate_phdr, real.dl_iterate_phdr, __ATOMIC_RELEASE);
  return real.dl_iterate_phdr != NULL;
}

/* ---- every object, under the loader's lock -------------------------------------------------------------- */

struct symbol_search {
  const char *soname, *node, *symbol;
  void *found;
};

static int search_symbol(struct dl_phdr_info *info, size_t size, void *data) {
  struct symbol_search *search = data;
  struct linkmap_object object;
  const ElfW(Dyn) *dynamic = linkmap_dynamic(info);
  (void)size;
  if (dynamic == own_dynamic || !linkmap_parse(info->dlpi_addr, dynamic, &object)) return 0;
  if (!str_equal(object.soname ? object.soname : str_base(info->dlpi_name), search->soname)) return 0;
  search->found = linkmap_find(&object, search->node, search->symbol);
  return search->found != NULL;
}

void *linkmap_symbol(const char *soname, const char *node, const char *symbol) {
  struct symbol_search search = {.soname = soname, .node = node, .symbol = symbol};
  linkmap_walk(search_symbol, &search);
  return search.found;
}

static bool holds(const struct dl_phdr_info *info, uintptr_t address) {
  for (unsigned i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[i];
    if (header->p_type == PT_LOAD && address - (info->dlpi_addr + header->p_vaddr) < header->p_memsz) return true;
  }
  return false;
}

struct sibling_search {
  uintptr_t address;
  const char *symbol;
  void *found;
};

static int search_sibling(struct dl_phdr_info *info, size_t size, void *data) {
  struct sibling_search *search = data;
  struct linkmap_object object;
  (void)size;
  if (!holds(info, search->address)) return 0;
  if (linkmap_parse(info->dlpi_addr, linkmap_dynamic(info), &object))
    search->found = linkmap_find(&object, NULL, search->symbol);
  return 1;
}

void *linkmap_beside(const void *addr, const char *symbol) {
  struct sibling_search search = {.address = (uintptr_t)addr, .symbol = symbol};
  if (!linkmap_init()) return NULL;
  shim_real.dl_iterate_phdr(search_sibling, &search);
  return search.found;
}

struct address_search {
  uintptr_t address;
  char *path;
  size_t size;
  uint64_t offset;
};

static int search_address(struct dl_phdr_info *info, size_t size, void *data) {
  struct address_search *search = data;
  (void)size;
  if (!holds(info, search->address)) return 0;
  search->offset = search->address - info->dlpi_addr;
  str_copy(search->path, search->size, info->dlpi_name);
  return 1;
}

bool linkmap_object_at(const void *addr, char *path, size_t size, uint64_t *ret_offset) {
  struct address_search search = {.address = (uintptr_t)addr, .path = path, .size = size};
  if (!size || !linkmap_walk(search_address, &search)) return false;
  if (!path[0]) { /* the program itself has no name in the list */
    long n = sys_readlinkat(SYS_AT_FDCWD, "/proc/self/exe", path, size - 1);
    path[n > 0 ? n : 0] = '\0';
  }
  *ret_offset = search.offset;
  return true;
}
