/* module.c - modules, libraries, kernels and launches of the libcuda stand-in. See internal.h.
 *
 * A module is the judged image. A kernel is its name: a launch counts it in the world ("kernel:NAME") and runs
 * the host version that the job registered, or nothing. ASSUMED: the figures of cuFuncGetAttribute (32
 * registers, no static shared memory); an image whose names cannot be read here, because it is compressed, is
 * believed to hold any name, and its variables to have 64 KiB.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image.h"
#include "internal.h"

enum { SHARED_DEFAULT = 49152, SHARED_OPTIN = 101376, UNKNOWN_VARIABLE = 65536 };

struct variable {
  struct variable *next;
  CUdeviceptr at;
  size_t size;
  char name[];
};

struct module {
  uint32_t magic;
  struct image image;
  void *own; /* a copy of the file or of the text, freed with the module */
  pthread_mutex_t lock;
  CUfunction *functions;
  size_t n_functions, room;
  struct variable *variables;
};

static struct module *module_get(void *handle) {
  struct module *m = handle;
  return m && m->magic == MAGIC_MODULE ? m : NULL;
}

CUfunction function_get(void *handle) {
  CUfunction f = handle;
  return f && f->magic == MAGIC_FUNCTION ? f : NULL;
}

/* PTX text and cubins may go away after the call, fatbins of a library stay mapped: text is copied. */
static void *keep(struct image *image) {
  size_t n = image->ptx && image->at && !image->size ? strlen(image->at) + 1 : image->at ? image->size : 0;
  void *copy = n ? malloc(n) : NULL;
  if (copy) image->at = memcpy(copy, image->at, n);
  return copy;
}

static CUresult load(void **out, const void *data) {
  struct image image = {0};
  if (!out || !data) return CUDA_ERROR_INVALID_VALUE;
  CUresult r = image_choose(data, &image);
  if (r) return r;
  struct module *m = calloc(1, sizeof *m);
  if (!m) return CUDA_ERROR_OUT_OF_MEMORY;
  *m = (struct module){.magic = MAGIC_MODULE, .own = keep(&image), .image = image};
  pthread_mutex_init(&m->lock, NULL);
  *out = m;
  return CUDA_SUCCESS;
}

static CUresult read_file(const char *path, void **ret) {
  struct stat st;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &st)) {
    if (fd >= 0) close(fd);
    return CUDA_ERROR_FILE_NOT_FOUND;
  }
  char *text = calloc(1, (size_t)st.st_size + 64);
  ssize_t n = text ? read(fd, text, (size_t)st.st_size) : -1;
  close(fd);
  if (n != st.st_size) {
    free(text);
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  *ret = text;
  return CUDA_SUCCESS;
}

static CUresult load_file(void **out, const char *path) {
  void *data = NULL;
  if (!out || !path) return CUDA_ERROR_INVALID_VALUE;
  CUresult r = read_file(path, &data);
  if (!r) r = load(out, data);
  free(data);
  return r;
}

static CUresult unload(struct module *m) {
  if (!m) return CUDA_ERROR_INVALID_HANDLE;
  m->magic = 0;
  for (size_t i = 0; i < m->n_functions; i++) {
    m->functions[i]->magic = 0;
    free(m->functions[i]);
  }
  for (struct variable *v = m->variables, *next; v; v = next) {
    next = v->next;
    block_free(v->at, BLOCK_DEVICE, BLOCK_DEVICE);
    free(v);
  }
  free(m->functions);
  free(m->own);
  free(m);
  return CUDA_SUCCESS;
}

struct search {
  const char *name;
  size_t size;
};

static bool same_name(const char *name, size_t length, size_t size, void *arg) {
  struct search *s = arg;
  if (strlen(s->name) != length || memcmp(s->name, name, length)) return false;
  s->size = size;
  return true;
}

static bool image_has(const struct image *image, bool variable, struct search *s) {
  bool known;
  bool found = image_names(image, variable, same_name, s, &known);
  return found || !known;
}

static CUfunction add_function(struct module *m, const char *name) {
  if (m->n_functions == m->room) {
    size_t more = m->room ? 2 * m->room : 16;
    CUfunction *bigger = realloc(m->functions, more * sizeof(CUfunction));
    if (!bigger) return NULL;
    m->functions = bigger;
    m->room = more;
  }
  CUfunction f = calloc(1, sizeof *f + strlen(name) + 1);
  if (!f) return NULL;
  f->magic = MAGIC_FUNCTION;
  f->module = m;
  f->attribute[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 1024;
  f->attribute[CU_FUNC_ATTRIBUTE_NUM_REGS] = 32;
  f->attribute[CU_FUNC_ATTRIBUTE_PTX_VERSION] = m->image.arch;
  f->attribute[CU_FUNC_ATTRIBUTE_BINARY_VERSION] = m->image.ptx ? (int)(driver_world()->scalar[SCALAR_cc_major] * 10 +
                                                                        driver_world()->scalar[SCALAR_cc_minor])
                                                                : m->image.arch;
  f->attribute[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = SHARED_DEFAULT;
  f->attribute[CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT] = -1;
  strcpy(f->name, name);
  return m->functions[m->n_functions++] = f;
}

static CUresult find_function(CUfunction *out, struct module *m, const char *name) {
  if (!m) return CUDA_ERROR_INVALID_HANDLE;
  if (!out || !name || !*name) return CUDA_ERROR_INVALID_VALUE;
  CUfunction f = NULL;
  pthread_mutex_lock(&m->lock);
  for (size_t i = 0; i < m->n_functions && !f; i++)
    if (!strcmp(m->functions[i]->name, name)) f = m->functions[i];
  if (!f && image_has(&m->image, false, &(struct search){name, 0})) f = add_function(m, name);
  pthread_mutex_unlock(&m->lock);
  if (!f) return CUDA_ERROR_NOT_FOUND;
  *out = f;
  return CUDA_SUCCESS;
}

static struct variable *add_variable(struct module *m, const char *name) {
  struct search s = {name, 0};
  if (!image_has(&m->image, true, &s)) return NULL;
  struct variable *v = calloc(1, sizeof *v + strlen(name) + 1);
  if (!v) return NULL;
  v->size = s.size ? s.size : UNKNOWN_VARIABLE;
  strcpy(v->name, name);
  if (block_allocate(BLOCK_DEVICE, v->size, 0, NULL, &v->at)) {
    free(v);
    return NULL;
  }
  v->next = m->variables;
  return m->variables = v;
}

static CUresult find_variable(CUdeviceptr *p, size_t *size, struct module *m, const char *name) {
  if (!m) return CUDA_ERROR_INVALID_HANDLE;
  if (!name || !*name) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&m->lock);
  struct variable *v = m->variables;
  while (v && strcmp(v->name, name)) v = v->next;
  if (!v) v = add_variable(m, name);
  pthread_mutex_unlock(&m->lock);
  if (!v) return CUDA_ERROR_NOT_FOUND;
  if (p) *p = v->at;
  if (size) *size = v->size;
  return CUDA_SUCCESS;
}

/* ---- modules ---- */

EXPORT CUresult CUDAAPI cuModuleLoad(CUmodule *out, const char *path) {
  ENTER_CONTEXT("cuModuleLoad", 0);
  return load_file((void **)out, path);
}
EXPORT CUresult CUDAAPI cuModuleLoadData(CUmodule *out, const void *image) {
  ENTER_CONTEXT("cuModuleLoadData", 0);
  return load((void **)out, image);
}
EXPORT CUresult CUDAAPI cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned n, CUjit_option *options,
                                           void **values) {
  ENTER_CONTEXT("cuModuleLoadDataEx", 0);
  (void)n, (void)options, (void)values;
  return load((void **)out, image);
}
EXPORT CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule *out, const void *image) {
  ENTER_CONTEXT("cuModuleLoadFatBinary", 0);
  return load((void **)out, image);
}
EXPORT CUresult CUDAAPI cuModuleUnload(CUmodule m) {
  ENTER("cuModuleUnload", 0);
  return unload(module_get(m));
}
EXPORT CUresult CUDAAPI cuModuleGetLoadingMode(CUmoduleLoadingMode *mode) {
  ENTER("cuModuleGetLoadingMode", 0);
  if (!mode) return CUDA_ERROR_INVALID_VALUE;
  const char *v = getenv("CUDA_MODULE_LOADING");
  *mode = v && !strcmp(v, "EAGER") ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name) {
  ENTER_CONTEXT("cuModuleGetFunction", 0);
  return find_function(out, module_get(m), name);
}
EXPORT CUresult CUDAAPI cuModuleGetGlobal_v2(CUdeviceptr *p, size_t *size, CUmodule m, const char *name) {
  ENTER_CONTEXT("cuModuleGetGlobal_v2", 0);
  return find_variable(p, size, module_get(m), name);
}

/* ---- libraries: CUlibrary is the module, CUkernel the function ---- */

EXPORT CUresult CUDAAPI cuLibraryLoadData(CUlibrary *out, const void *code, CUjit_option *jo, void **jv, unsigned nj,
                                          CUlibraryOption *lo, void **lv, unsigned nl) {
  ENTER("cuLibraryLoadData", 0);
  (void)jo, (void)jv, (void)nj, (void)lo, (void)lv, (void)nl;
  return load((void **)out, code);
}
EXPORT CUresult CUDAAPI cuLibraryLoadFromFile(CUlibrary *out, const char *path, CUjit_option *jo, void **jv,
                                              unsigned nj, CUlibraryOption *lo, void **lv, unsigned nl) {
  ENTER("cuLibraryLoadFromFile", 0);
  (void)jo, (void)jv, (void)nj, (void)lo, (void)lv, (void)nl;
  return load_file((void **)out, path);
}
EXPORT CUresult CUDAAPI cuLibraryUnload(CUlibrary l) {
  ENTER("cuLibraryUnload", 0);
  return unload(module_get(l));
}
EXPORT CUresult CUDAAPI cuLibraryGetKernel(CUkernel *out, CUlibrary l, const char *name) {
  ENTER("cuLibraryGetKernel", 0);
  return find_function((CUfunction *)out, module_get(l), name);
}
EXPORT CUresult CUDAAPI cuLibraryGetModule(CUmodule *out, CUlibrary l) {
  ENTER_CONTEXT("cuLibraryGetModule", 0);
  if (!module_get(l)) return CUDA_ERROR_INVALID_HANDLE;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUmodule)l;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuLibraryGetGlobal(CUdeviceptr *p, size_t *size, CUlibrary l, const char *name) {
  ENTER_CONTEXT("cuLibraryGetGlobal", 0);
  return find_variable(p, size, module_get(l), name);
}
EXPORT CUresult CUDAAPI cuLibraryGetManaged(CUdeviceptr *p, size_t *size, CUlibrary l, const char *name) {
  ENTER("cuLibraryGetManaged", 0);
  return find_variable(p, size, module_get(l), name);
}

struct listing {
  struct module *m;
  unsigned n, max;
  CUfunction *out;
};

static bool list_one(const char *name, size_t length, size_t size, void *arg) {
  struct listing *l = arg;
  char copy[4096];
  (void)size;
  if (l->out && l->n < l->max && length < sizeof copy) {
    memcpy(copy, name, length);
    copy[length] = '\0';
    if (find_function(&l->out[l->n], l->m, copy)) return true;
  }
  l->n++;
  return l->out && l->n == l->max;
}

static CUresult list(struct listing *l) {
  bool known;
  if (!l->m) return CUDA_ERROR_INVALID_HANDLE;
  image_names(&l->m->image, false, list_one, l, &known);
  return known ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult count(unsigned *n, struct module *m) {
  struct listing l = {.m = m};
  if (!n) return CUDA_ERROR_INVALID_VALUE;
  CUresult r = list(&l);
  if (!r) *n = l.n;
  return r;
}

EXPORT CUresult CUDAAPI cuModuleGetFunctionCount(unsigned *n, CUmodule m) {
  ENTER("cuModuleGetFunctionCount", 0);
  return count(n, module_get(m));
}
EXPORT CUresult CUDAAPI cuLibraryGetKernelCount(unsigned *n, CUlibrary l) {
  ENTER("cuLibraryGetKernelCount", 0);
  return count(n, module_get(l));
}
EXPORT CUresult CUDAAPI cuModuleEnumerateFunctions(CUfunction *out, unsigned n, CUmodule m) {
  ENTER("cuModuleEnumerateFunctions", 0);
  struct listing l = {.m = module_get(m), .max = n, .out = out};
  return out && n ? list(&l) : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult CUDAAPI cuLibraryEnumerateKernels(CUkernel *out, unsigned n, CUlibrary lib) {
  ENTER("cuLibraryEnumerateKernels", 0);
  struct listing l = {.m = module_get(lib), .max = n, .out = (CUfunction *)out};
  return out && n ? list(&l) : CUDA_ERROR_INVALID_VALUE;
}

/* ---- functions ---- */

#define FUNCTION(f, handle)            \
  CUfunction f = function_get(handle); \
  if (!f) return CUDA_ERROR_INVALID_HANDLE

static CUresult get_attribute(int *value, CUfunction_attribute a, void *handle) {
  FUNCTION(f, handle);
  if (!value || a < 0 || a >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  *value = f->attribute[a];
  return CUDA_SUCCESS;
}

static CUresult set_attribute(CUfunction_attribute a, int value, void *handle) {
  FUNCTION(f, handle);
  if (a < CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || a >= CU_FUNC_ATTRIBUTE_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  if (a == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES &&
      (value < 0 || value + f->attribute[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES] > SHARED_OPTIN))
    return CUDA_ERROR_INVALID_VALUE;
  f->attribute[a] = value;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuFuncGetAttribute(int *value, CUfunction_attribute a, CUfunction f) {
  ENTER_CONTEXT("cuFuncGetAttribute", 0);
  return get_attribute(value, a, f);
}
EXPORT CUresult CUDAAPI cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int value) {
  ENTER_CONTEXT("cuFuncSetAttribute", 0);
  return set_attribute(a, value, f);
}
EXPORT CUresult CUDAAPI cuKernelGetAttribute(int *value, CUfunction_attribute a, CUkernel k, CUdevice d) {
  ENTER("cuKernelGetAttribute", 0);
  return d ? CUDA_ERROR_INVALID_DEVICE : get_attribute(value, a, k);
}
EXPORT CUresult CUDAAPI cuKernelSetAttribute(CUfunction_attribute a, int value, CUkernel k, CUdevice d) {
  ENTER("cuKernelSetAttribute", 0);
  return d ? CUDA_ERROR_INVALID_DEVICE : set_attribute(a, value, k);
}
EXPORT CUresult CUDAAPI cuKernelGetFunction(CUfunction *out, CUkernel k) {
  ENTER_CONTEXT("cuKernelGetFunction", 0);
  FUNCTION(f, k);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = f;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuKernelGetLibrary(CUlibrary *out, CUkernel k) {
  ENTER("cuKernelGetLibrary", 0);
  FUNCTION(f, k);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUlibrary)f->module;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuKernelGetName(const char **name, CUkernel k) {
  ENTER("cuKernelGetName", 0);
  FUNCTION(f, k);
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  *name = f->name;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuFuncGetName(const char **name, CUfunction h) {
  ENTER("cuFuncGetName", 0);
  FUNCTION(f, h);
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  *name = f->name;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuFuncGetModule(CUmodule *out, CUfunction h) {
  ENTER("cuFuncGetModule", 0);
  FUNCTION(f, h);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUmodule)f->module;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction h) {
  ENTER("cuFuncIsLoaded", 0);
  FUNCTION(f, h);
  if (!state) return CUDA_ERROR_INVALID_VALUE;
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuFuncLoad(CUfunction h) {
  ENTER("cuFuncLoad", 0);
  FUNCTION(f, h);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuFuncSetCacheConfig(CUfunction h, CUfunc_cache config) {
  ENTER_CONTEXT("cuFuncSetCacheConfig", 0);
  FUNCTION(f, h);
  return config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuKernelSetCacheConfig(CUkernel k, CUfunc_cache config, CUdevice d) {
  ENTER("cuKernelSetCacheConfig", 0);
  FUNCTION(f, k);
  return d || config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuFuncSetSharedMemConfig(CUfunction h, CUsharedconfig config) {
  ENTER_CONTEXT("cuFuncSetSharedMemConfig", 0);
  FUNCTION(f, h);
  return config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* ---- occupancy, from the limits of compute capability 12.x (CUDA C programming guide) ---- */

static int blocks_per_sm(const struct CUfunc_st *f, int block, size_t shared) {
  int by_threads = 1536 / ((block + 31) / 32 * 32);
  int by_registers = 65536 / (f->attribute[CU_FUNC_ATTRIBUTE_NUM_REGS] * ((block + 31) / 32 * 32));
  size_t one = shared + (size_t)f->attribute[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES] + 1024;
  int by_shared = (int)(102400 / one);
  int n = by_threads < by_registers ? by_threads : by_registers;
  if (by_shared < n) n = by_shared;
  return n < 24 ? n : 24;
}

static CUresult occupancy(int *n, void *handle, int block, size_t shared) {
  FUNCTION(f, handle);
  if (!n || block <= 0) return CUDA_ERROR_INVALID_VALUE;
  *n = block > 1024 ? 0 : blocks_per_sm(f, block, shared);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, CUfunction f, int block, size_t shared) {
  ENTER_CONTEXT("cuOccupancyMaxActiveBlocksPerMultiprocessor", 0);
  return occupancy(n, f, block, shared);
}
EXPORT CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, CUfunction f, int block,
                                                                             size_t shared, unsigned flags) {
  ENTER_CONTEXT("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", 0);
  return flags & ~1u ? CUDA_ERROR_INVALID_VALUE : occupancy(n, f, block, shared);
}
EXPORT CUresult CUDAAPI cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction h, int blocks, int block) {
  ENTER_CONTEXT("cuOccupancyAvailableDynamicSMemPerBlock", 0);
  FUNCTION(f, h);
  if (!bytes || blocks <= 0 || block <= 0) return CUDA_ERROR_INVALID_VALUE;
  size_t each = 102400 / (size_t)blocks;
  *bytes = each > 1024 ? each - 1024 : 0;
  if (*bytes > SHARED_OPTIN) *bytes = SHARED_OPTIN;
  return CUDA_SUCCESS;
}

static CUresult best_block(int *grid, int *block, void *handle, CUoccupancyB2DSize size_of, size_t shared, int limit) {
  FUNCTION(f, handle);
  if (!grid || !block) return CUDA_ERROR_INVALID_VALUE;
  int best = 0, best_threads = 0;
  for (int b = limit > 0 && limit < 1024 ? limit : 1024; b >= 32; b -= 32) {
    int n = blocks_per_sm(f, b, size_of ? size_of(b) : shared);
    if (n * b > best_threads) best_threads = n * b, best = b;
  }
  *block = best;
  *grid = best ? best_threads / best * (int)driver_world()->scalar[SCALAR_sms] : 0;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction f,
                                                         CUoccupancyB2DSize size_of, size_t shared, int limit) {
  ENTER_CONTEXT("cuOccupancyMaxPotentialBlockSize", 0);
  return best_block(grid, block, f, size_of, shared, limit);
}
EXPORT CUresult CUDAAPI cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction f,
                                                                  CUoccupancyB2DSize size_of, size_t shared, int limit,
                                                                  unsigned flags) {
  ENTER_CONTEXT("cuOccupancyMaxPotentialBlockSizeWithFlags", 0);
  return flags & ~1u ? CUDA_ERROR_INVALID_VALUE : best_block(grid, block, f, size_of, shared, limit);
}
EXPORT CUresult CUDAAPI cuOccupancyMaxActiveClusters(int *n, CUfunction h, const CUlaunchConfig *c) {
  ENTER_CONTEXT("cuOccupancyMaxActiveClusters", 0);
  FUNCTION(f, h);
  if (!n || !c) return CUDA_ERROR_INVALID_VALUE;
  *n = blocks_per_sm(f, (int)(c->blockDimX * c->blockDimY * c->blockDimZ), c->sharedMemBytes) *
       (int)driver_world()->scalar[SCALAR_sms];
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuOccupancyMaxPotentialClusterSize(int *n, CUfunction h, const CUlaunchConfig *c) {
  ENTER_CONTEXT("cuOccupancyMaxPotentialClusterSize", 0);
  FUNCTION(f, h);
  if (!n || !c) return CUDA_ERROR_INVALID_VALUE;
  *n = 8; /* the portable cluster size of the programming guide */
  return CUDA_SUCCESS;
}

/* ---- launches ---- */

static CUresult launch(void *handle, const unsigned grid[3], const unsigned block[3], unsigned shared, CUstream stream,
                       void **params) {
  FUNCTION(f, handle);
  CUstream s = stream_get(stream);
  if (!s) return CUDA_ERROR_INVALID_HANDLE;
  for (int i = 0; i < 3; i++)
    if (!grid[i] || !block[i]) return CUDA_ERROR_INVALID_VALUE;
  if (block[0] > 1024 || block[1] > 1024 || block[2] > 64 || block[0] * block[1] * block[2] > 1024)
    return CUDA_ERROR_INVALID_VALUE;
  if (grid[1] > 65535 || grid[2] > 65535) return CUDA_ERROR_INVALID_VALUE;
  if (shared > (unsigned)f->attribute[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES]) return CUDA_ERROR_INVALID_VALUE;
  struct op op = {.kind = OP_KERNEL, .u.kernel = {.f = f, .shared = shared, .params = params}};
  memcpy(op.u.kernel.grid, grid, sizeof op.u.kernel.grid);
  memcpy(op.u.kernel.block, block, sizeof op.u.kernel.block);
  return op_enqueue(s, &op);
}

EXPORT CUresult CUDAAPI cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                       unsigned bz, unsigned shared, CUstream s, void **params, void **extra) {
  ENTER_CONTEXT("cuLaunchKernel", 0);
  (void)extra; /* a packed buffer: without the kernel's layout a host version cannot be given it */
  return launch(f, (unsigned[]){gx, gy, gz}, (unsigned[]){bx, by, bz}, shared, s, params);
}
EXPORT CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params, void **extra) {
  ENTER_CONTEXT("cuLaunchKernelEx", 0);
  (void)extra;
  if (!c) return CUDA_ERROR_INVALID_VALUE;
  return launch(f, (unsigned[]){c->gridDimX, c->gridDimY, c->gridDimZ},
                (unsigned[]){c->blockDimX, c->blockDimY, c->blockDimZ}, c->sharedMemBytes, c->hStream, params);
}
EXPORT CUresult CUDAAPI cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                                  unsigned by, unsigned bz, unsigned shared, CUstream s,
                                                  void **params) {
  ENTER_CONTEXT("cuLaunchCooperativeKernel", 0);
  FUNCTION(k, f);
  int threads = (int)(bx * by * bz);
  if (threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  int most = blocks_per_sm(k, threads, shared) * (int)driver_world()->scalar[SCALAR_sms];
  if (gx * gy * gz > (unsigned)most) return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  return launch(f, (unsigned[]){gx, gy, gz}, (unsigned[]){bx, by, bz}, shared, s, params);
}

/* ---- linking: the joined PTX text stands for the linked image, and loads as it would ---- */

struct CUlinkState_st {
  uint32_t magic;
  char *text;
  size_t n;
};

static CUresult link_add(CUlinkState l, CUjitInputType type, const void *data, size_t n) {
  struct image image;
  if (!l || l->magic != MAGIC_LINK) return CUDA_ERROR_INVALID_HANDLE;
  if (!data || !n) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_JIT_INPUT_PTX && type != CU_JIT_INPUT_CUBIN) return CUDA_ERROR_NOT_SUPPORTED;
  if (l->n) return CUDA_ERROR_NOT_SUPPORTED; /* joining several images is not imitated */
  char *copy = calloc(1, n + 64);
  if (!copy) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult r = image_choose(memcpy(copy, data, n), &image);
  if (r) {
    free(copy);
    return r;
  }
  l->text = copy;
  l->n = n;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuLinkCreate_v2(unsigned n, CUjit_option *options, void **values, CUlinkState *out) {
  ENTER_CONTEXT("cuLinkCreate_v2", 0);
  (void)n, (void)options, (void)values;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  CUlinkState l = calloc(1, sizeof *l);
  if (!l) return CUDA_ERROR_OUT_OF_MEMORY;
  l->magic = MAGIC_LINK;
  *out = l;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuLinkAddData_v2(CUlinkState l, CUjitInputType type, void *data, size_t size, const char *name,
                                         unsigned n, CUjit_option *options, void **values) {
  ENTER_CONTEXT("cuLinkAddData_v2", size);
  (void)name, (void)n, (void)options, (void)values;
  return link_add(l, type, data, size);
}
EXPORT CUresult CUDAAPI cuLinkComplete(CUlinkState l, void **out, size_t *size) {
  ENTER_CONTEXT("cuLinkComplete", 0);
  if (!l || l->magic != MAGIC_LINK || !l->n) return CUDA_ERROR_INVALID_HANDLE;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = l->text;
  if (size) *size = l->n;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuLinkDestroy(CUlinkState l) {
  ENTER("cuLinkDestroy", 0);
  if (!l || l->magic != MAGIC_LINK) return CUDA_ERROR_INVALID_HANDLE;
  l->magic = 0;
  free(l->text);
  free(l);
  return CUDA_SUCCESS;
}

/* ASSUMED: the descriptor is opaque; here it is zero, since nothing reads it. */
EXPORT CUresult CUDAAPI cuTensorMapEncodeTiled(CUtensorMap *out, CUtensorMapDataType type, cuuint32_t rank,
                                               void *address, const cuuint64_t *dim, const cuuint64_t *strides,
                                               const cuuint32_t *box, const cuuint32_t *element_strides,
                                               CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                               CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  ENTER_CONTEXT("cuTensorMapEncodeTiled", 0);
  (void)type, (void)strides, (void)interleave, (void)swizzle, (void)promotion, (void)fill;
  if (!out || !rank || rank > 5 || (uintptr_t)address % 16 || !dim || !box || !element_strides)
    return CUDA_ERROR_INVALID_VALUE;
  memset(out, 0, sizeof *out);
  return CUDA_SUCCESS;
}
