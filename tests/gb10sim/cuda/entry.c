/* entry.c - cuInit, versions, error texts and cuGetProcAddress of the libcuda stand-in. See internal.h. */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

static int state;  /* atomic: 0 before cuInit, 1 after, 2 in a child forked after cuInit */
static int sticky; /* atomic: CUresult that every call now returns */

static void forked_child(void) {
  if (__atomic_load_n(&state, __ATOMIC_ACQUIRE)) __atomic_store_n(&state, 2, __ATOMIC_RELEASE);
}

struct world *driver_world(void) {
  return world_get();
}

CUresult driver_state(void) {
  if (__atomic_load_n(&state, __ATOMIC_ACQUIRE) != 1) return CUDA_ERROR_NOT_INITIALIZED;
  return (CUresult)__atomic_load_n(&sticky, __ATOMIC_ACQUIRE);
}

CUresult driver_fault(CUresult error) {
  switch ((int)error) {
  case CUDA_ERROR_ILLEGAL_ADDRESS:
  case CUDA_ERROR_LAUNCH_TIMEOUT:
  case CUDA_ERROR_ASSERT:
  case CUDA_ERROR_HARDWARE_STACK_ERROR:
  case CUDA_ERROR_ILLEGAL_INSTRUCTION:
  case CUDA_ERROR_MISALIGNED_ADDRESS:
  case CUDA_ERROR_INVALID_ADDRESS_SPACE:
  case CUDA_ERROR_INVALID_PC:
  case CUDA_ERROR_LAUNCH_FAILED: __atomic_store_n(&sticky, (int)error, __ATOMIC_RELEASE); break;
  default: break;
  }
  return error;
}

void driver_fault_clear(void) { __atomic_store_n(&sticky, 0, __ATOMIC_RELEASE); }

/* A tool's library named by the environment: the driver loads it while it starts, and calls one function. */
static void load_injection(void) {
  const char *path = getenv("CUDA_INJECTION64_PATH");
  void *library = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  int (*initialize)(void) = NULL;
  if (library) *(void **)&initialize = dlsym(library, "InitializeInjection");
  if (initialize) initialize();
}

EXPORT CUresult CUDAAPI cuInit(unsigned flags) {
  int rule = world_call("cuInit", 0);
  if (rule) return (CUresult)rule;
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  struct world *w = driver_world();
  if (!w || !w->scalar[SCALAR_devices]) return CUDA_ERROR_NO_DEVICE;
  int expected = 0;
  if (__atomic_compare_exchange_n(&state, &expected, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    pthread_atfork(NULL, NULL, forked_child);
    load_injection();
  }
  return expected == 2 ? CUDA_ERROR_NOT_INITIALIZED : CUDA_SUCCESS;
}

/* Works before cuInit, as the header says. */
EXPORT CUresult CUDAAPI cuDriverGetVersion(int *version) {
  int rule = world_call("cuDriverGetVersion", 0);
  if (rule) return (CUresult)rule;
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  struct world *w = driver_world();
  *version = w ? (int)w->scalar[SCALAR_driver_cuda] : CUDA_VERSION;
  return CUDA_SUCCESS;
}

static const struct {
  int code;
  const char *name, *text;
} errors[] = {
#define ERROR(code, name, text) {code, name, text},
#include "errors.def"
};

static const char *error_text(CUresult code, bool name) {
  for (unsigned i = 0; i < sizeof errors / sizeof errors[0]; i++)
    if (errors[i].code == (int)code) return name ? errors[i].name : errors[i].text;
  return NULL;
}

EXPORT CUresult CUDAAPI cuGetErrorString(CUresult error, const char **text) {
  if (!text) return CUDA_ERROR_INVALID_VALUE;
  *text = error_text(error, false);
  return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult CUDAAPI cuGetErrorName(CUresult error, const char **text) {
  if (!text) return CUDA_ERROR_INVALID_VALUE;
  *text = error_text(error, true);
  return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

struct entry_point {
  const char *name;
  int version;
  void *symbol, *twin;
};

#define ENTRY(symbol) extern char symbol##_address __asm__(#symbol);
#define TWIN(symbol, twin) ENTRY(twin)
#include "driver_api.def"

static const struct entry_point table[] = {
#define PROC(name, version, symbol) {#name, version, &symbol##_address, NULL},
#define PROC_TWIN(name, version, symbol, twin) {#name, version, &symbol##_address, &twin##_address},
#include "driver_api.def"
};

/* Index of the first row of `name`; rows of one name stand together, oldest first. -1 when there is none. */
static int first_row(const char *name) {
  int low = 0, high = (int)(sizeof table / sizeof table[0]);
  while (low < high) {
    int middle = (low + high) / 2;
    if (strcmp(table[middle].name, name) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low < (int)(sizeof table / sizeof table[0]) && !strcmp(table[low].name, name) ? low : -1;
}

/* The newest form that both the asked version and the driver have. */
static CUdriverProcAddressQueryResult look_up(const char *name, int version, bool per_thread, void **ret) {
  struct world *w = driver_world();
  int driver = w ? (int)w->scalar[SCALAR_driver_cuda] : CUDA_VERSION;
  CUdriverProcAddressQueryResult result = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  *ret = NULL;
  for (int i = first_row(name); i >= 0 && i < (int)(sizeof table / sizeof table[0]) && !strcmp(table[i].name, name);
       i++) {
    if (table[i].version > driver) break;
    if (table[i].version > version) {
      if (!*ret) result = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
      break;
    }
    *ret = per_thread && table[i].twin ? table[i].twin : table[i].symbol;
    result = CU_GET_PROC_ADDRESS_SUCCESS;
  }
  return result;
}

static bool flags_valid(cuuint64_t flags) {
  const cuuint64_t both = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  return !(flags & ~both) && (flags & both) != both;
}

/* ASSUMED: with a place for the status, an unknown name or version is answered with success, NULL and the
 * status; without one, with CUDA_ERROR_NOT_FOUND. Works before cuInit. */
EXPORT CUresult CUDAAPI cuGetProcAddress_v2(const char *symbol, void **pfn, int version, cuuint64_t flags,
                                            CUdriverProcAddressQueryResult *status) {
  int rule = world_call("cuGetProcAddress", 0);
  if (rule) return (CUresult)rule;
  if (!symbol || !pfn || !flags_valid(flags)) return CUDA_ERROR_INVALID_VALUE;
  CUdriverProcAddressQueryResult found = look_up(symbol, version, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
                                                 pfn);
  if (status) *status = found;
  return found == CU_GET_PROC_ADDRESS_SUCCESS || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(symbol, pfn, version, flags, NULL);
}

/* The private tables that NVIDIA's own runtime asks for are not imitated: that check is to be left alone. */
EXPORT CUresult CUDAAPI cuGetExportTable(const void **table_out, const CUuuid *id) {
  ENTER("cuGetExportTable", 0);
  if (!table_out || !id) return CUDA_ERROR_INVALID_VALUE;
  *table_out = NULL;
  return CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult CUDAAPI cuProfilerStart(void); /* of cudaProfiler.h */
EXPORT CUresult CUDAAPI cuProfilerStop(void);

EXPORT CUresult CUDAAPI cuProfilerStart(void) {
  ENTER("cuProfilerStart", 0);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuProfilerStop(void) {
  ENTER("cuProfilerStop", 0);
  return CUDA_SUCCESS;
}
