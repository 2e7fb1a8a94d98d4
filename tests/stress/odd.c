/* odd.c - companions in LD_PRELOAD and LD_AUDIT. HOOKER: stands in front of dlsym, as overlays and profilers do; AUDITOR: an
 * auditing library that sees every binding. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stddef.h>

#ifdef HOOKER
void *dlsym(void *restrict handle, const char *restrict name) {
  static void *(*real)(void *, const char *);
  static const char *const nodes[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
  for (unsigned i = 0; !real && i < sizeof nodes / sizeof nodes[0]; i++)
    *(void **)&real = dlvsym(RTLD_NEXT, "dlsym", nodes[i]);
  return real ? real(handle, name) : NULL;
}
#else
unsigned la_version(unsigned version) { return version; }

unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie) {
  (void)map, (void)space, (void)cookie;
  return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to, unsigned *flags,
                       const char *name) {
  (void)index, (void)from, (void)to, (void)flags, (void)name;
  return symbol->st_value;
}
#endif
