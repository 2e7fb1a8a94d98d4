/* linkmap.h - look-ups in mapped objects, beyond what shim.h declares. */
#ifndef SPARKSHIM_LINKMAP_H
#define SPARKSHIM_LINKMAP_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/* The dynamic section of one mapped object, as addresses. */
struct linkmap_object {
  uintptr_t base;
  const char *soname; /* NULL without DT_SONAME */
  const char *strings;
  const ElfW(Sym) * symbols;
  const uint32_t *gnu_hash;  /* NULL without DT_GNU_HASH */
  const uint32_t *sysv_hash; /* NULL without DT_HASH */
  const ElfW(Half) * versions;
  const ElfW(Verdef) * nodes;
};

/* Reads `dynamic` of an object loaded at `base`. No libc; false when it has no symbol table. */
bool linkmap_parse(uintptr_t base, const ElfW(Dyn) * dynamic, struct linkmap_object *out);
/* The dynamic section behind program headers, or NULL. */
const ElfW(Dyn) * linkmap_dynamic(const struct dl_phdr_info *info);
/* Address of a defined function or variable in one object; `node` as in linkmap_symbol(). */
void *linkmap_find(const struct linkmap_object *object, const char *node, const char *symbol);
/* What the application would have been bound to without this library: the first definition behind ours in the
 * order of the link map; when ours is not in front of libc (dlopened), libc's own. NULL when there is none. Takes no
 * lock: reads the part of the list that is there from the program's start. Safe before any constructor. */
void *linkmap_next(const char *symbol);
/* libc's own definition, or NULL. Safe as linkmap_next(). */
void *linkmap_libc(const char *symbol);
/* Is this library in front of libc, so that its exports are what the application calls? */
bool linkmap_interposing(void);
/* The loader's own definition, or NULL. Safe as linkmap_next(). */
void *linkmap_loader(const char *symbol);
/* The first object of the list. */
const struct link_map *linkmap_first(void);
/* libc's dl_iterate_phdr, made safe against forks (walk.c): shows `see` every object until it says other than 0, and returns
 * that. In a process that was forked at the wrong moment dlpi_adds and dlpi_subs are missing (`size`). Slow path. */
int linkmap_walk(int (*see)(struct dl_phdr_info *, size_t, void *), void *data);
/* Does `p` point into this library? */
bool linkmap_is_ours(const void *p);

#endif
