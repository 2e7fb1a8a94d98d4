/* elf_file.c - see elf_file.h. Only files of the machine's own class are read beyond the header: nothing else
 * can be preloaded or run here without an emulator. */
#include "elf_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { NATIVE_MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { NATIVE_MACHINE = EM_AARCH64 };
#else
#error "sparkshim supports x86_64 and aarch64"
#endif

static bool inside(const struct elf_file *elf, size_t offset, size_t size) {
  return offset <= elf->size && size <= elf->size - offset;
}

/* A NUL-ended string of at most `room` bytes at `offset` of the file, or NULL. */
static const char *string_at(const struct elf_file *elf, size_t offset, size_t room) {
  if (!inside(elf, offset, room)) return NULL;
  const char *s = (const char *)elf->data + offset;
  return memchr(s, '\0', room) ? s : NULL;
}

/* File offset of a virtual address by the PT_LOAD that holds it, or SIZE_MAX. */
static size_t offset_of(const ElfW(Phdr) * ph, size_t n, ElfW(Addr) address) {
  for (size_t i = 0; i < n; i++)
    if (ph[i].p_type == PT_LOAD && address >= ph[i].p_vaddr && address - ph[i].p_vaddr < ph[i].p_filesz)
      return ph[i].p_offset + (address - ph[i].p_vaddr);
  return SIZE_MAX;
}

static const char *string_of(const struct elf_file *elf, size_t offset) {
  if (offset >= elf->strings_size) return NULL;
  return memchr(elf->strings + offset, '\0', elf->strings_size - offset) ? elf->strings + offset : NULL;
}

static void read_dynamic(struct elf_file *elf, const ElfW(Phdr) * ph, size_t n, const ElfW(Phdr) * dynamic) {
  size_t strings = SIZE_MAX, soname = SIZE_MAX;
  if (!inside(elf, dynamic->p_offset, dynamic->p_filesz) || dynamic->p_offset % sizeof(ElfW(Addr))) return;
  const ElfW(Dyn) *dyn = (const void *)(elf->data + dynamic->p_offset);
  size_t count = dynamic->p_filesz / sizeof *dyn;
  for (size_t i = 0; i < count && dyn[i].d_tag != DT_NULL; i++) {
    if (dyn[i].d_tag == DT_STRTAB) strings = offset_of(ph, n, dyn[i].d_un.d_ptr);
    if (dyn[i].d_tag == DT_STRSZ) elf->strings_size = dyn[i].d_un.d_val;
    if (dyn[i].d_tag == DT_SONAME) soname = dyn[i].d_un.d_val;
  }
  if (strings == SIZE_MAX || !inside(elf, strings, elf->strings_size)) return;
  elf->strings = (const char *)elf->data + strings;
  elf->dyn = dyn;
  elf->dyns = count;
  elf->dynamic = true;
  elf->soname = string_of(elf, soname);
}

static void read_native(struct elf_file *elf, const ElfW(Ehdr) * eh) {
  const ElfW(Phdr) *ph = (const void *)(elf->data + eh->e_phoff);
  size_t n = eh->e_phnum;
  if (eh->e_phentsize != sizeof *ph || eh->e_phoff % sizeof(ElfW(Addr)) || !inside(elf, eh->e_phoff, n * sizeof *ph))
    return;
  for (size_t i = 0; i < n; i++) {
    if (ph[i].p_type == PT_INTERP) elf->interp = string_at(elf, ph[i].p_offset, ph[i].p_filesz);
    if (ph[i].p_type == PT_DYNAMIC) read_dynamic(elf, ph, n, &ph[i]);
  }
}

int elf_open(const char *path, struct elf_file *ret) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return -errno;
  struct stat st;
  struct elf_file elf = {0};
  if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(ElfW(Ehdr))) {
    close(fd);
    return -ENOEXEC;
  }
  elf.size = (size_t)st.st_size;
  elf.data = mmap(NULL, elf.size, PROT_READ, MAP_PRIVATE, fd, 0);
  int error = errno;
  close(fd);
  if (elf.data == MAP_FAILED) return -error;
  const ElfW(Ehdr) *eh = (const void *)elf.data;
  if (memcmp(eh->e_ident, ELFMAG, SELFMAG)) {
    munmap((void *)elf.data, elf.size);
    return -ENOEXEC;
  }
  elf.machine = eh->e_machine; /* same place in both classes */
  elf.type = eh->e_type;
  elf.bits = eh->e_ident[EI_CLASS] == ELFCLASS64 ? 64 : 32;
  elf.native = elf.bits == 8 * sizeof(void *) && eh->e_ident[EI_DATA] == ELFDATA2LSB && elf.machine == NATIVE_MACHINE;
  if (elf.native) read_native(&elf, eh);
  *ret = elf;
  return 0;
}

void elf_close(struct elf_file *elf) {
  if (elf->data) munmap((void *)elf->data, elf->size);
  elf->data = NULL;
}

const char *elf_needed(const struct elf_file *elf, size_t i) {
  const ElfW(Dyn) *dyn = elf->dyn;
  for (size_t at = 0; at < elf->dyns && dyn[at].d_tag != DT_NULL; at++)
    if (dyn[at].d_tag == DT_NEEDED && i-- == 0) return string_of(elf, dyn[at].d_un.d_val);
  return NULL;
}
