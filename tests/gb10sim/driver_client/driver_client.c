/* driver_client.c - see the header. Plain calling code: allocates, locks, may be called from any thread.
 *
 * The kernel's image is the smallest ELF file that a 12.1 device takes for a cubin: one function symbol, no
 * instruction. Layout as nvcc 13.0 writes it: OS ABI 0x41, ABI version 8, SM number in bits 8 to 15 of e_flags,
 * kernels marked by st_other 0x10.
 */
#define _GNU_SOURCE
#include "driver_client.h"

#include <dlfcn.h>
#include <elf.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* 12.9: every name in use has the same form as in 13.0, but cuCtxGetDevice, which takes a context from 13.0 on. */
enum { ASKED_VERSION = 12090, NAME_MAX_LEN = 48, IMAGE_SM = 121, EM_CUDA_MACHINE = 190, ELFOSABI_CUDA = 0x41 };
enum section { SEC_NULL, SEC_TEXT, SEC_SYMTAB, SEC_STRTAB, SEC_COUNT };

struct image { /* the section table comes last, as in files of nvcc */
  Elf64_Ehdr head;
  Elf64_Sym symbol[2];
  char text[16];
  char names[3 * NAME_MAX_LEN];
  Elf64_Shdr section[SEC_COUNT];
};

static struct driver_client entries;
static bool usable;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static pthread_mutex_t kernel_lock = PTHREAD_MUTEX_INITIALIZER;
static struct image image;
static CUkernel kernel;

static void load(void) {
  void *lib = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (!lib) return;
  CUresult (*get)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
  *(void **)&get = dlsym(lib, "cuGetProcAddress_v2");
  if (!get) return;
  CUdriverProcAddressQueryResult status;
  usable = true;
#define FETCH(name)                                                                                             \
  if (get(#name, (void **)&entries.name, ASKED_VERSION, CU_GET_PROC_ADDRESS_DEFAULT, &status) || !entries.name) \
    usable = false;
  DRIVER_CLIENT_ENTRIES(FETCH)
#undef FETCH
}

const struct driver_client *driver_client(void) {
  pthread_once(&once, load);
  return usable ? &entries : NULL;
}

CUresult driver_client_context(const struct driver_client *d) {
  CUcontext context = NULL;
  CUdevice device;
  CUresult result = d->cuInit(0);
  if (!result) result = d->cuCtxGetCurrent(&context);
  if (result || context) return result;
  result = d->cuDeviceGet(&device, 0);
  if (!result) result = d->cuDevicePrimaryCtxRetain(&context, device);
  return result ? result : d->cuCtxSetCurrent(context);
}

static uint32_t add_name(size_t *used, const char *prefix, const char *name) {
  uint32_t at = (uint32_t)*used;
  *used += (size_t)snprintf(image.names + at, sizeof image.names - at, "%s%s", prefix, name) + 1;
  return at;
}

static void build_image(const char *name) {
  size_t used = 1;
  uint32_t kernel_name = add_name(&used, "", name);
  image.head = (Elf64_Ehdr){
      .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT, ELFOSABI_CUDA, 8},
      .e_type = ET_EXEC,
      .e_machine = EM_CUDA_MACHINE,
      .e_version = EV_CURRENT,
      .e_flags = IMAGE_SM << 8,
      .e_shoff = offsetof(struct image, section),
      .e_ehsize = sizeof(Elf64_Ehdr),
      .e_shentsize = sizeof(Elf64_Shdr),
      .e_shnum = SEC_COUNT,
      .e_shstrndx = SEC_STRTAB,
  };
  image.section[SEC_TEXT] = (Elf64_Shdr){.sh_name = add_name(&used, ".text.", name),
                                         .sh_type = SHT_PROGBITS,
                                         .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                                         .sh_offset = offsetof(struct image, text),
                                         .sh_size = sizeof image.text,
                                         .sh_addralign = 16};
  image.section[SEC_SYMTAB] = (Elf64_Shdr){.sh_name = add_name(&used, "", ".symtab"),
                                           .sh_type = SHT_SYMTAB,
                                           .sh_offset = offsetof(struct image, symbol),
                                           .sh_size = sizeof image.symbol,
                                           .sh_link = SEC_STRTAB,
                                           .sh_info = 1,
                                           .sh_addralign = 8,
                                           .sh_entsize = sizeof(Elf64_Sym)};
  image.section[SEC_STRTAB] = (Elf64_Shdr){.sh_name = add_name(&used, "", ".strtab"),
                                           .sh_type = SHT_STRTAB,
                                           .sh_offset = offsetof(struct image, names),
                                           .sh_size = sizeof image.names,
                                           .sh_addralign = 1};
  image.symbol[1] = (Elf64_Sym){.st_name = kernel_name,
                                .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                                .st_other = 0x10,
                                .st_shndx = SEC_TEXT,
                                .st_size = sizeof image.text};
}

static CUresult load_kernel(const struct driver_client *d, const char *name) {
  CUlibrary library;
  build_image(name);
  CUresult result = d->cuLibraryLoadData(&library, &image, NULL, NULL, 0, NULL, NULL, 0);
  return result ? result : d->cuLibraryGetKernel(&kernel, library, name);
}

CUresult driver_client_launch(const char *name, CUstream stream) {
  const struct driver_client *d = driver_client();
  if (!d) return CUDA_ERROR_NOT_INITIALIZED;
  CUresult result = driver_client_context(d);
  pthread_mutex_lock(&kernel_lock);
  if (!result && !kernel) result = load_kernel(d, name);
  pthread_mutex_unlock(&kernel_lock);
  if (result) return result;
  return d->cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL);
}

typedef int (*world_call_fn)(const char *name, uint64_t size);
static world_call_fn world_call;
static pthread_once_t world_once = PTHREAD_ONCE_INIT;

static void find_world(void) { *(void **)&world_call = dlsym(RTLD_DEFAULT, "world_call"); }

int driver_client_world(const char *name, uint64_t size) {
  pthread_once(&world_once, find_world);
  return world_call ? world_call(name, size) : 0;
}
