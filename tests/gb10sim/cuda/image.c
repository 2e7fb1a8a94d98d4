/* image.c - fatbins, cubins and PTX, judged for the simulated device. Formats: facts/cuda_images.md.
 *
 * Only headers are read; compressed entries stay compressed. Nothing is trusted beyond the sizes that the
 * headers state, as the driver does: these bytes come from a mapped library.
 */
#include <ctype.h>
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"
#include "internal.h"

enum {
  WRAPPER = 0x466243B1,
  FATBIN = (int)0xBA55ED50,
  KIND_PTX = 1,
  KIND_CUBIN = 2,
  KIND_CUBIN_OLD = 4,
  EM_CUDA_ = 190
};
enum { FLAG_LZ4 = 0x2000, FLAG_ZSTD = 0x8000, FLAG_A = 0x100000, FLAG_F = 0x200000 };

struct entry {
  uint16_t kind, two;
  uint32_t header;
  uint64_t payload;
  uint32_t compressed, options;
  uint16_t minor, major;
  uint32_t arch, name_at, name_length;
  uint64_t flags, reserved, uncompressed;
};

static int device_arch(void) {
  return (int)(driver_world()->scalar[SCALAR_cc_major] * 10 + driver_world()->scalar[SCALAR_cc_minor]);
}

static bool accepted(int arch, char suffix) {
  char word[24];
  snprintf(word, sizeof word, " sm_%d%s%c ", arch, suffix ? (char[]){suffix, 0} : "", ' ');
  word[strlen(word) - 1] = '\0';
  return strstr(driver_world()->accept, word) != NULL;
}

/* SASS: same major, minor not newer; 'a' only for exactly this device; 'f' within the family from that minor on. */
static bool cubin_loads(int arch, char suffix) {
  int device = device_arch();
  if (accepted(arch, suffix)) return true;
  if (suffix == 'a') return arch == device;
  return arch / 10 == device / 10 && arch <= device;
}

static bool ptx_loads(int arch, char suffix) {
  int device = device_arch();
  if (suffix == 'a') return arch == device;
  if (suffix == 'f') return arch / 10 == device / 10 && arch <= device;
  return arch <= device;
}

/* PTX ISA that the driver takes: 9.0 for CUDA 13.0, one more minor for each CUDA minor (PTX ISA release notes). */
static bool ptx_too_new(int major, int minor) {
  int cuda = (int)driver_world()->scalar[SCALAR_driver_cuda];
  int newest_major = cuda >= 13000 ? 9 : 8, newest_minor = cuda >= 13000 ? cuda % 1000 / 10 : cuda % 1000 / 10;
  return major > newest_major || (major == newest_major && minor > newest_minor);
}

static bool environment_on(const char *name) {
  const char *v = getenv(name);
  return v && *v && strcmp(v, "0");
}

static char suffix_of(uint64_t flags) { return flags & FLAG_A ? 'a' : flags & FLAG_F ? 'f' : 0; }
static int rank(int arch, char suffix) { return arch * 4 + (suffix == 'a' ? 2 : suffix == 'f' ? 1 : 0); }

struct choice {
  int cubin_rank, ptx_rank;
  struct image cubin, ptx;
  bool too_new, jit_off;
};

static void consider(struct choice *c, const struct entry *e, const char *payload) {
  char suffix = suffix_of(e->flags);
  bool packed = e->flags & (FLAG_LZ4 | FLAG_ZSTD);
  int r = rank((int)e->arch, suffix);
  struct image found = {
      .arch = (int)e->arch, .ptx = e->kind == KIND_PTX, .at = packed ? NULL : payload, .size = e->payload};
  if ((e->kind == KIND_CUBIN || e->kind == KIND_CUBIN_OLD) && cubin_loads((int)e->arch, suffix) && r > c->cubin_rank &&
      !environment_on("CUDA_FORCE_PTX_JIT")) {
    c->cubin_rank = r;
    c->cubin = found;
  }
  if (e->kind != KIND_PTX || !ptx_loads((int)e->arch, suffix) || r <= c->ptx_rank) return;
  if (environment_on("CUDA_DISABLE_PTX_JIT")) {
    c->jit_off = true;
  } else if (ptx_too_new(e->major, e->minor)) {
    c->too_new = true;
  } else {
    c->ptx_rank = r;
    c->ptx = found;
  }
}

static CUresult choose_fatbin(const char *data, struct image *ret) {
  uint64_t body;
  struct choice c = {0};
  memcpy(&body, data + 8, sizeof body);
  const char *at = data + 16, *end = at + body;
  while (at + sizeof(struct entry) <= end) {
    struct entry e;
    memcpy(&e, at, sizeof e);
    if (e.header < 64 || e.payload > (uint64_t)(end - at) || e.header > (uint64_t)(end - at) - e.payload)
      return CUDA_ERROR_INVALID_IMAGE;
    consider(&c, &e, at + e.header);
    at += e.header + e.payload;
  }
  if (!c.cubin_rank && !c.ptx_rank)
    return c.too_new   ? CUDA_ERROR_UNSUPPORTED_PTX_VERSION
           : c.jit_off ? CUDA_ERROR_JIT_COMPILATION_DISABLED
                       : CUDA_ERROR_NO_BINARY_FOR_GPU;
  *ret = c.cubin_rank ? c.cubin : c.ptx;
  return CUDA_SUCCESS;
}

/* SM and suffix of a bare cubin: e_flags, and .nv.compat's attribute 9 for what nvcc 13 writes. */
static void cubin_target(const char *data, const Elf64_Ehdr *h, int *arch, char *suffix) {
  bool new_form = h->e_ident[EI_OSABI] == 0x41;
  *arch = (int)(new_form ? h->e_flags >> 8 & 0xff : h->e_flags & 0xff);
  *suffix = (new_form && h->e_flags & 0x8) || (!new_form && *arch >= 90 && h->e_flags & 0x800) ? 'a' : 0;
  if (!new_form || !h->e_shoff || h->e_shentsize != sizeof(Elf64_Shdr)) return;
  const Elf64_Shdr *s = (const void *)(data + h->e_shoff);
  const char *names = data + s[h->e_shstrndx].sh_offset;
  for (int i = 0; i < h->e_shnum; i++) {
    if (strcmp(names + s[i].sh_name, ".nv.compat")) continue;
    const unsigned char *p = (const unsigned char *)data + s[i].sh_offset, *end = p + s[i].sh_size;
    for (; p + 4 <= end; p += 4) {
      if (p[0] == 4) {
        p += p[2] | p[3] << 8;
        continue;
      }
      if (p[1] == 9 && p[2] == 1) *suffix = 'a';
    }
  }
}

static CUresult choose_cubin(const char *data, struct image *ret) {
  Elf64_Ehdr h;
  int arch;
  char suffix;
  memcpy(&h, data, sizeof h);
  if (h.e_machine != EM_CUDA_ || h.e_ident[EI_CLASS] != ELFCLASS64) return CUDA_ERROR_INVALID_IMAGE;
  cubin_target(data, &h, &arch, &suffix);
  if (!cubin_loads(arch, suffix)) return CUDA_ERROR_INVALID_IMAGE; /* facts: 200, wrong or broken cubin */
  *ret = (struct image){.arch = arch, .at = data, .size = h.e_shoff + (uint64_t)h.e_shnum * h.e_shentsize};
  return CUDA_SUCCESS;
}

/* Base targets have no FP4 conversion or FP4 matrix product: ptxas refuses them. */
static bool needs_family(const char *text, char suffix) {
  return !suffix && (strstr(text, "e2m1x2") || strstr(text, "kind::mxf4"));
}

static CUresult choose_ptx(const char *text, struct image *ret) {
  const char *version = strstr(text, ".version"), *target = strstr(text, ".target");
  int major = 0, minor = 0, arch = 0;
  char suffix = 0;
  if (!version || !target || sscanf(version, ".version %d.%d", &major, &minor) != 2) return CUDA_ERROR_INVALID_PTX;
  if (sscanf(target, ".target sm_%d%c", &arch, &suffix) < 1) return CUDA_ERROR_INVALID_PTX;
  if (suffix != 'a' && suffix != 'f') suffix = 0;
  if (environment_on("CUDA_DISABLE_PTX_JIT")) return CUDA_ERROR_JIT_COMPILATION_DISABLED;
  if (ptx_too_new(major, minor)) return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
  if (!ptx_loads(arch, suffix) || needs_family(text, suffix)) return CUDA_ERROR_INVALID_PTX;
  *ret = (struct image){.arch = arch, .ptx = true, .at = text};
  return CUDA_SUCCESS;
}

CUresult image_choose(const void *data, struct image *ret) {
  uint32_t magic;
  if (!data) return CUDA_ERROR_INVALID_VALUE;
  const char *text = data;
  memcpy(&magic, data, 4);
  if (magic == (uint32_t)WRAPPER) {
    memcpy(&text, (const char *)data + 8, sizeof text);
    memcpy(&magic, text, 4);
  }
  if (magic == (uint32_t)FATBIN) return choose_fatbin(text, ret);
  if (!memcmp(text, ELFMAG, 4)) return choose_cubin(text, ret);
  while (isspace((unsigned char)*text)) text++;
  return *text == '.' || *text == '/' ? choose_ptx(text, ret) : CUDA_ERROR_INVALID_IMAGE;
}

typedef bool (*visit_fn)(const char *, size_t, size_t, void *);

static bool elf_names(const char *data, size_t size, bool variables, visit_fn visit, void *arg) {
  Elf64_Ehdr h;
  if (size < sizeof h) return false;
  memcpy(&h, data, sizeof h);
  if (h.e_shentsize != sizeof(Elf64_Shdr) || h.e_shoff > size || (size - h.e_shoff) / sizeof(Elf64_Shdr) < h.e_shnum)
    return false;
  const Elf64_Shdr *s = (const void *)(data + h.e_shoff);
  for (int i = 0; i < h.e_shnum; i++) {
    if (s[i].sh_type != SHT_SYMTAB || s[i].sh_link >= h.e_shnum) continue;
    const Elf64_Sym *sym = (const void *)(data + s[i].sh_offset);
    const char *strings = data + s[s[i].sh_link].sh_offset;
    for (uint64_t k = 0; k < s[i].sh_size / sizeof *sym; k++) {
      unsigned char type = ELF64_ST_TYPE(sym[k].st_info);
      bool fits = variables ? type == STT_OBJECT && sym[k].st_shndx != SHN_UNDEF
                            : type == STT_FUNC && sym[k].st_other & 0x10;
      const char *name = strings + sym[k].st_name;
      if (fits && *name && visit(name, strlen(name), sym[k].st_size, arg)) return true;
    }
  }
  return false;
}

/* ".entry NAME(" in PTX text, or the name that ends a ".global" declaration. */
static bool ptx_names(const char *text, bool variables, visit_fn visit, void *arg) {
  if (variables) return false;
  for (const char *p = text; (p = strstr(p, ".entry"));) {
    p += 6;
    while (isspace((unsigned char)*p)) p++;
    size_t n = strcspn(p, " (\t\n\r");
    if (n && visit(p, n, 0, arg)) return true;
  }
  return false;
}

bool image_names(const struct image *image, bool variables, visit_fn visit, void *arg, bool *ret_known) {
  *ret_known = image->at && !(image->ptx && variables);
  if (!*ret_known) return false;
  return image->ptx ? ptx_names(image->at, variables, visit, arg)
                    : elf_names(image->at, image->size, variables, visit, arg);
}
