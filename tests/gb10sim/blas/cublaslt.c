/* cublaslt.c - the stand-in for libcublasLt.so.13: descriptors keep their attributes, the heuristic has one
 * algorithm, and a product launches a kernel that holds no instruction. IT COMPUTES NOTHING: outputs keep what they held.
 *
 * Behaviour by cublasLt.h 13.1. A descriptor is its attributes, packed in the order of cublaslt_attributes.def; all
 * fit into the sizes that the header gives to callers who place descriptors themselves. Assumed: the heuristic never
 * says "no algorithm" (the real one does for some types and layouts) and never asks for a workspace.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blas_status.h"
#include "driver_client/driver_client.h"

#define KERNEL_NAME "gb10sim_cublaslt_kernel"

enum descriptor { LAYOUT, MATMUL, TRANSFORM, PREFERENCE, EMULATION, ALGO, CAPABILITY };
enum { SMALL_SIZE = 64, MATMUL_SIZE = 256, ONE_ALGORITHM = 1 };

static const struct attribute {
  enum descriptor descriptor;
  int number;
  size_t size;
  int64_t initial;
} attributes[] = {
#define ATTRIBUTE(descriptor, number, size, initial) {descriptor, number, size, initial},
#include "cublaslt_attributes.def"
#undef ATTRIBUTE
};
enum { ATTRIBUTES = sizeof attributes / sizeof attributes[0] };

struct context {
  int unused;
};

struct algo {
  uint64_t data[8];
};

struct heuristic_result {
  struct algo algo;
  size_t workspace;
  int status;
  float waves;
  int reserved[4];
};

static size_t heuristics_cache_capacity = 8192;

static size_t descriptor_size(enum descriptor descriptor) { return descriptor == MATMUL ? MATMUL_SIZE : SMALL_SIZE; }

/* The attribute and its place in the descriptor, or NULL. */
static const struct attribute *find(enum descriptor descriptor, int number, size_t *offset) {
  size_t at = 0;
  for (int i = 0; i < ATTRIBUTES; i++) {
    if (attributes[i].descriptor != descriptor) continue;
    if (attributes[i].number == number) {
      *offset = at;
      return &attributes[i];
    }
    at += attributes[i].size;
  }
  return NULL;
}

static int set(enum descriptor descriptor, void *object, int number, const void *value, size_t size) {
  size_t at;
  const struct attribute *a = find(descriptor, number, &at);
  if (!object || !value || !a || size < a->size) return BLAS_INVALID_VALUE;
  memcpy((char *)object + at, value, a->size);
  return BLAS_SUCCESS;
}

static int get(enum descriptor descriptor, const void *object, int number, void *value, size_t size, size_t *written) {
  size_t at;
  const struct attribute *a = find(descriptor, number, &at);
  if (!object || !a || (!size && !written) || (size && (!value || size < a->size))) return BLAS_INVALID_VALUE;
  if (written) *written = a->size;
  if (size) memcpy(value, (const char *)object + at, a->size);
  return BLAS_SUCCESS;
}

static int init(enum descriptor descriptor, void *object, size_t size) {
  if (!object || size < descriptor_size(descriptor)) return BLAS_INVALID_VALUE;
  memset(object, 0, descriptor_size(descriptor));
  for (int i = 0; i < ATTRIBUTES; i++)
    if (attributes[i].descriptor == descriptor)
      set(descriptor, object, attributes[i].number, &attributes[i].initial, sizeof attributes[i].initial);
  return BLAS_SUCCESS;
}

static int create(enum descriptor descriptor, void **out) {
  if (!out) return BLAS_INVALID_VALUE;
  void *object = malloc(descriptor_size(descriptor));
  if (!object) return BLAS_ALLOC_FAILED;
  init(descriptor, object, descriptor_size(descriptor));
  *out = object;
  return BLAS_SUCCESS;
}

static int destroy(void *object) {
  if (!object) return BLAS_INVALID_VALUE;
  free(object);
  return BLAS_SUCCESS;
}

int cublasLtCreate(struct context **out);
int cublasLtCreate(struct context **out) {
  const struct driver_client *d = driver_client();
  int fault = driver_client_world("cublasLtCreate", 0);
  if (fault) return fault;
  if (!out) return BLAS_INVALID_VALUE;
  if (!d || driver_client_context(d)) return BLAS_NOT_INITIALIZED;
  *out = calloc(1, sizeof **out);
  return *out ? BLAS_SUCCESS : BLAS_ALLOC_FAILED;
}

int cublasLtDestroy(struct context *context);
int cublasLtDestroy(struct context *context) {
  free(context);
  return context ? BLAS_SUCCESS : BLAS_NOT_INITIALIZED;
}

const char *cublasLtGetStatusName(int status);
const char *cublasLtGetStatusName(int status) { return blas_status_name(status); }

const char *cublasLtGetStatusString(int status);
const char *cublasLtGetStatusString(int status) { return blas_status_text(status); }

size_t cublasLtGetVersion(void);
size_t cublasLtGetVersion(void) { return BLAS_VERSION; }

size_t cublasLtGetCudartVersion(void);
size_t cublasLtGetCudartVersion(void) { return BLAS_CUDART_VERSION; }

int cublasLtGetProperty(int type, int *value);
int cublasLtGetProperty(int type, int *value) { return blas_property(type, value); }

int cublasLtHeuristicsCacheGetCapacity(size_t *capacity);
int cublasLtHeuristicsCacheGetCapacity(size_t *capacity) {
  if (!capacity) return BLAS_INVALID_VALUE;
  *capacity = heuristics_cache_capacity;
  return BLAS_SUCCESS;
}

int cublasLtHeuristicsCacheSetCapacity(size_t capacity);
int cublasLtHeuristicsCacheSetCapacity(size_t capacity) {
  heuristics_cache_capacity = capacity;
  return BLAS_SUCCESS;
}

/* Destroy, set and get: the same for each kind of descriptor. */
#define DESCRIPTOR(name, kind)                                                                            \
  int cublasLt##name##Destroy(void *object);                                                              \
  int cublasLt##name##Destroy(void *object) { return destroy(object); }                                   \
  int cublasLt##name##SetAttribute(void *object, int number, const void *value, size_t size);             \
  int cublasLt##name##SetAttribute(void *object, int number, const void *value, size_t size) {            \
    return set(kind, object, number, value, size);                                                        \
  }                                                                                                       \
  int cublasLt##name##GetAttribute(void *object, int number, void *value, size_t size, size_t *written);  \
  int cublasLt##name##GetAttribute(void *object, int number, void *value, size_t size, size_t *written) { \
    return get(kind, object, number, value, size, written);                                               \
  }

DESCRIPTOR(MatrixLayout, LAYOUT)
DESCRIPTOR(MatmulDesc, MATMUL)
DESCRIPTOR(MatrixTransformDesc, TRANSFORM)
DESCRIPTOR(MatmulPreference, PREFERENCE)
DESCRIPTOR(EmulationDesc, EMULATION)

static void fill_layout(void *layout, int type, uint64_t rows, uint64_t cols, int64_t ld) {
  set(LAYOUT, layout, 0, &type, sizeof type);
  set(LAYOUT, layout, 2, &rows, sizeof rows);
  set(LAYOUT, layout, 3, &cols, sizeof cols);
  set(LAYOUT, layout, 4, &ld, sizeof ld);
}

int cublasLtMatrixLayoutInit_internal(void *layout, size_t size, int type, uint64_t rows, uint64_t cols, int64_t ld);
int cublasLtMatrixLayoutInit_internal(void *layout, size_t size, int type, uint64_t rows, uint64_t cols, int64_t ld) {
  int result = init(LAYOUT, layout, size);
  if (!result) fill_layout(layout, type, rows, cols, ld);
  return result;
}

int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t cols, int64_t ld);
int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t cols, int64_t ld) {
  int result = create(LAYOUT, layout);
  if (!result) fill_layout(*layout, type, rows, cols, ld);
  return result;
}

int cublasLtMatmulDescInit_internal(void *object, size_t size, int compute_type, int scale_type);
int cublasLtMatmulDescInit_internal(void *object, size_t size, int compute_type, int scale_type) {
  int result = init(MATMUL, object, size);
  if (result) return result;
  set(MATMUL, object, 0, &compute_type, sizeof compute_type);
  return set(MATMUL, object, 1, &scale_type, sizeof scale_type);
}

int cublasLtMatmulDescCreate(void **object, int compute_type, int scale_type);
int cublasLtMatmulDescCreate(void **object, int compute_type, int scale_type) {
  int result = create(MATMUL, object);
  return result ? result : cublasLtMatmulDescInit_internal(*object, MATMUL_SIZE, compute_type, scale_type);
}

int cublasLtMatrixTransformDescInit_internal(void *object, size_t size, int scale_type);
int cublasLtMatrixTransformDescInit_internal(void *object, size_t size, int scale_type) {
  int result = init(TRANSFORM, object, size);
  return result ? result : set(TRANSFORM, object, 0, &scale_type, sizeof scale_type);
}

int cublasLtMatrixTransformDescCreate(void **object, int scale_type);
int cublasLtMatrixTransformDescCreate(void **object, int scale_type) {
  int result = create(TRANSFORM, object);
  return result ? result : set(TRANSFORM, *object, 0, &scale_type, sizeof scale_type);
}

int cublasLtMatmulPreferenceInit_internal(void *object, size_t size);
int cublasLtMatmulPreferenceInit_internal(void *object, size_t size) { return init(PREFERENCE, object, size); }

int cublasLtMatmulPreferenceCreate(void **object);
int cublasLtMatmulPreferenceCreate(void **object) { return create(PREFERENCE, object); }

int cublasLtEmulationDescInit_internal(void *object, size_t size);
int cublasLtEmulationDescInit_internal(void *object, size_t size) { return init(EMULATION, object, size); }

int cublasLtEmulationDescCreate(void **object);
int cublasLtEmulationDescCreate(void **object) { return create(EMULATION, object); }

static void fill_result(struct heuristic_result *result, const struct algo *algo) {
  memset(result, 0, sizeof *result);
  if (algo)
    result->algo = *algo;
  else
    init(ALGO, &result->algo, sizeof result->algo);
  result->status = BLAS_SUCCESS;
  result->waves = 1.0F;
}

int cublasLtMatmulAlgoGetHeuristic(struct context *context, void *operation, void *a, void *b, void *c, void *d,
                                   void *preference, int wanted, struct heuristic_result *results, int *found);
int cublasLtMatmulAlgoGetHeuristic(struct context *context, void *operation, void *a, void *b, void *c, void *d,
                                   void *preference, int wanted, struct heuristic_result *results, int *found) {
  if (!context) return BLAS_NOT_INITIALIZED;
  if (!operation || !a || !b || !c || !d || !preference || wanted < 1 || !results || !found) return BLAS_INVALID_VALUE;
  fill_result(&results[0], NULL);
  *found = ONE_ALGORITHM;
  return BLAS_SUCCESS;
}

int cublasLtMatmulAlgoGetIds(struct context *context, int compute, int scale, int a, int b, int c, int d, int wanted,
                             int *ids, int *found);
int cublasLtMatmulAlgoGetIds(struct context *context, int compute, int scale, int a, int b, int c, int d, int wanted,
                             int *ids, int *found) {
  (void)compute, (void)scale, (void)a, (void)b, (void)c, (void)d;
  if (!context) return BLAS_NOT_INITIALIZED;
  if (wanted < 1 || !ids) return BLAS_INVALID_VALUE;
  ids[0] = 0;
  if (found) *found = ONE_ALGORITHM;
  return BLAS_SUCCESS;
}

int cublasLtMatmulAlgoInit(struct context *context, int compute, int scale, int a, int b, int c, int d, int id,
                           struct algo *algo);
int cublasLtMatmulAlgoInit(struct context *context, int compute, int scale, int a, int b, int c, int d, int id,
                           struct algo *algo) {
  (void)compute, (void)scale, (void)a, (void)b, (void)c, (void)d;
  if (!context) return BLAS_NOT_INITIALIZED;
  if (!algo || id != 0) return BLAS_INVALID_VALUE;
  return init(ALGO, algo, sizeof *algo);
}

int cublasLtMatmulAlgoCheck(struct context *context, void *operation, void *a, void *b, void *c, void *d,
                            const struct algo *algo, struct heuristic_result *result);
int cublasLtMatmulAlgoCheck(struct context *context, void *operation, void *a, void *b, void *c, void *d,
                            const struct algo *algo, struct heuristic_result *result) {
  if (!context) return BLAS_NOT_INITIALIZED;
  if (!operation || !a || !b || !c || !d || !algo || !result) return BLAS_INVALID_VALUE;
  struct algo copy = *algo;
  fill_result(result, &copy);
  return BLAS_SUCCESS;
}

int cublasLtMatmulAlgoCapGetAttribute(const struct algo *algo, int number, void *value, size_t size, size_t *written);
int cublasLtMatmulAlgoCapGetAttribute(const struct algo *algo, int number, void *value, size_t size, size_t *written) {
  char capabilities[2 * SMALL_SIZE];
  if (!algo) return BLAS_INVALID_VALUE;
  init(CAPABILITY, capabilities, sizeof capabilities);
  return get(CAPABILITY, capabilities, number, value, size, written);
}

int cublasLtMatmulAlgoConfigSetAttribute(struct algo *algo, int number, const void *value, size_t size);
int cublasLtMatmulAlgoConfigSetAttribute(struct algo *algo, int number, const void *value, size_t size) {
  return set(ALGO, algo, number, value, size);
}

int cublasLtMatmulAlgoConfigGetAttribute(const struct algo *algo, int number, void *value, size_t size,
                                         size_t *written);
int cublasLtMatmulAlgoConfigGetAttribute(const struct algo *algo, int number, void *value, size_t size,
                                         size_t *written) {
  return get(ALGO, algo, number, value, size, written);
}

int cublasLtMatmul(struct context *context, void *operation, const void *alpha, const void *a, void *a_layout,
                   const void *b, void *b_layout, const void *beta, const void *c, void *c_layout, void *d,
                   void *d_layout, const struct algo *algo, void *workspace, size_t workspace_size, CUstream stream);
int cublasLtMatmul(struct context *context, void *operation, const void *alpha, const void *a, void *a_layout,
                   const void *b, void *b_layout, const void *beta, const void *c, void *c_layout, void *d,
                   void *d_layout, const struct algo *algo, void *workspace, size_t workspace_size, CUstream stream) {
  (void)a, (void)b, (void)c, (void)d, (void)algo, (void)workspace, (void)workspace_size;
  if (!context) return BLAS_NOT_INITIALIZED;
  if (!operation || !alpha || !beta || !a_layout || !b_layout || !c_layout || !d_layout) return BLAS_INVALID_VALUE;
  int fault = driver_client_world("cublasLtMatmul", 0);
  if (fault) return fault;
  return (int)blas_from_driver(driver_client_launch(KERNEL_NAME, stream));
}

int cublasLtMatrixTransform(struct context *context, void *operation, const void *alpha, const void *a, void *a_layout,
                            const void *beta, const void *b, void *b_layout, void *c, void *c_layout, CUstream stream);
int cublasLtMatrixTransform(struct context *context, void *operation, const void *alpha, const void *a, void *a_layout,
                            const void *beta, const void *b, void *b_layout, void *c, void *c_layout, CUstream stream) {
  (void)alpha, (void)a, (void)a_layout, (void)beta, (void)b, (void)b_layout, (void)c, (void)c_layout;
  if (!context) return BLAS_NOT_INITIALIZED;
  if (!operation) return BLAS_INVALID_VALUE;
  return (int)blas_from_driver(driver_client_launch(KERNEL_NAME, stream));
}

/* Logging: nothing is logged, every setting is accepted. */
int cublasLtLoggerSetCallback(void (*callback)(int, const char *, const char *));
int cublasLtLoggerSetCallback(void (*callback)(int, const char *, const char *)) {
  (void)callback;
  return BLAS_SUCCESS;
}

int cublasLtLoggerSetFile(FILE *file);
int cublasLtLoggerSetFile(FILE *file) {
  (void)file;
  return BLAS_SUCCESS;
}

int cublasLtLoggerOpenFile(const char *path);
int cublasLtLoggerOpenFile(const char *path) {
  (void)path;
  return BLAS_SUCCESS;
}

int cublasLtLoggerSetLevel(int level);
int cublasLtLoggerSetLevel(int level) {
  (void)level;
  return BLAS_SUCCESS;
}

int cublasLtLoggerSetMask(int mask);
int cublasLtLoggerSetMask(int mask) {
  (void)mask;
  return BLAS_SUCCESS;
}

int cublasLtLoggerForceDisable(void);
int cublasLtLoggerForceDisable(void) { return BLAS_SUCCESS; }
