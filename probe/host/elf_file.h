/* elf_file.h - what the dynamic section of an ELF file says. Command line only: maps the file, allocates nothing.
 *
 * Every offset is checked against the file's size: a torn or hostile file gives -ENOEXEC, never a crash.
 */
#ifndef SPARKSHIM_ELF_FILE_H
#define SPARKSHIM_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>

struct elf_file {
  const unsigned char *data; /* the mapped file, until elf_close() */
  size_t size;
  bool native;        /* of this machine, class and byte order: what stands below is filled only then */
  unsigned machine;   /* e_machine */
  unsigned bits;      /* 32 or 64 */
  unsigned type;      /* e_type: ET_EXEC, ET_DYN, ... */
  const char *interp; /* PT_INTERP or NULL */
  const char *soname; /* DT_SONAME or NULL */
  bool dynamic;       /* has a PT_DYNAMIC with a string table */
  const void *dyn;    /* its entries */
  size_t dyns;
  const char *strings;
  size_t strings_size;
};

/* 0, or negative errno: -ENOEXEC when it is no ELF file. On success the caller calls elf_close(). */
int elf_open(const char *path, struct elf_file *ret);
void elf_close(struct elf_file *elf);

/* The i-th DT_NEEDED, or NULL behind the last. */
const char *elf_needed(const struct elf_file *elf, size_t i);

#endif
