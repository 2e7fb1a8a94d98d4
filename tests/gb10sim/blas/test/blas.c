/* blas.c - the cuBLAS stand-ins as programs use them: handles, settings, queries, copies; and that a product is one
 * launch and changes nothing. Prototypes are written out here as the headers have them, not as the stand-in does. */
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct cublas *handle_t;
typedef struct context *lt_t;

#define CALLS(X)                                                                                                       \
  X(int, cublasCreate_v2, (handle_t *))                                                                                \
  X(int, cublasDestroy_v2, (handle_t))                                                                                 \
  X(int, cublasGetVersion_v2, (handle_t, int *))                                                                       \
  X(int, cublasSetMathMode, (handle_t, int))                                                                           \
  X(int, cublasGetMathMode, (handle_t, int *))                                                                         \
  X(int, cublasSetStream_v2, (handle_t, CUstream))                                                                     \
  X(int, cublasGetStream_v2, (handle_t, CUstream *))                                                                   \
  X(const char *, cublasGetStatusName, (int))                                                                          \
  X(int, cublasSetMatrix, (int, int, int, const void *, int, void *, int))                                             \
  X(int, cublasGetVector, (int, int, const void *, int, void *, int))                                                  \
  X(int, cublasSgemm_v2,                                                                                               \
    (handle_t, int, int, int, int, int, const float *, const float *, int, const float *, int, const float *, float *, \
     int))

#define LT_CALLS(X)                                                                                                  \
  X(int, cublasLtCreate, (lt_t *))                                                                                   \
  X(int, cublasLtDestroy, (lt_t))                                                                                    \
  X(size_t, cublasLtGetVersion, (void))                                                                              \
  X(int, cublasLtMatmulDescCreate, (void **, int, int))                                                              \
  X(int, cublasLtMatmulDescSetAttribute, (void *, int, const void *, size_t))                                        \
  X(int, cublasLtMatmulDescGetAttribute, (void *, int, void *, size_t, size_t *))                                    \
  X(int, cublasLtMatrixLayoutCreate, (void **, int, uint64_t, uint64_t, int64_t))                                    \
  X(int, cublasLtMatrixLayoutGetAttribute, (void *, int, void *, size_t, size_t *))                                  \
  X(int, cublasLtMatmulPreferenceCreate, (void **))                                                                  \
  X(int, cublasLtMatmulAlgoGetHeuristic, (lt_t, void *, void *, void *, void *, void *, void *, int, void *, int *)) \
  X(int, cublasLtMatmul,                                                                                             \
    (lt_t, void *, const void *, const void *, void *, const void *, void *, const void *, const void *, void *,     \
     void *, void *, const void *, void *, size_t, CUstream))

static struct {
#define X(type, name, args) type(*name) args;
  CALLS(X)
  LT_CALLS(X)
#undef X
} blas;

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                        \
    }                                                                 \
  } while (0)

static void load(void) {
  void *lib = dlopen("libcublas.so.13", RTLD_NOW), *lt = dlopen("libcublasLt.so.13", RTLD_NOW);
  CHECK(lib && lt);
#define X(type, name, args)                            \
  *(void **)&blas.name = dlvsym(from, #name, version); \
  CHECK(blas.name);
  void *from = lib;
  const char *version = "libcublas.so.13";
  CALLS(X)
  from = lt;
  version = "libcublasLt.so.13";
  LT_CALLS(X)
#undef X
}

static void settings(handle_t h) {
  int mode = -1, version = 0;
  CUstream stream = (CUstream)1, same = NULL;
  CHECK(!blas.cublasSetMathMode(h, 3) && !blas.cublasGetMathMode(h, &mode) && mode == 3);
  CHECK(!blas.cublasSetStream_v2(h, stream) && !blas.cublasGetStream_v2(h, &same) && same == stream);
  CHECK(!blas.cublasSetStream_v2(h, NULL));
  CHECK(!blas.cublasGetVersion_v2(h, &version) && version / 10000 == 13);
  CHECK(blas.cublasGetMathMode(NULL, &mode) == 1 && blas.cublasCreate_v2(NULL) == 7);
  CHECK(!strcmp(blas.cublasGetStatusName(7), "CUBLAS_STATUS_INVALID_VALUE"));
}

/* A 2 x 3 block out of a column-major 4 x 3 matrix, then its second row. */
static void copies(void) {
  const float a[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  float row[3] = {0};
  CUdeviceptr d;
  CHECK(!cuMemAlloc(&d, 1 << 20));
  float *b = (float *)(uintptr_t)d;
  CHECK(!blas.cublasSetMatrix(2, 3, sizeof(float), a, 4, b, 2));
  CHECK(!blas.cublasGetVector(3, sizeof(float), b + 1, 2, row, 1));
  CHECK(row[0] == 1 && row[1] == 5 && row[2] == 9);
  CHECK(blas.cublasSetMatrix(2, 3, sizeof(float), a, 0, b, 2) == 7);
  CHECK(!cuMemFree(d));
}

static void products(handle_t h) {
  CUdeviceptr d;
  float c[4] = {5, 6, 7, 8}, back[4], one = 1;
  CHECK(!cuMemAlloc(&d, sizeof c) && !cuMemcpyHtoD(d, c, sizeof c));
  const float *p = (const float *)(uintptr_t)d;
  CHECK(!blas.cublasSgemm_v2(h, 0, 0, 2, 2, 2, &one, p, 2, p, 2, &one, (float *)(uintptr_t)d, 2));
  CHECK(!cuMemcpyDtoH(back, d, sizeof back));
  for (int i = 0; i < 4; i++) CHECK(back[i] == c[i]);
  CHECK(blas.cublasSgemm_v2(NULL, 0, 0, 2, 2, 2, &one, p, 2, p, 2, &one, (float *)(uintptr_t)d, 2) == 1);
  CHECK(!cuMemFree(d));
}

static void lt(void) {
  struct {
    uint64_t algo[8];
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
  } result;
  lt_t l;
  void *operation, *layout, *preference;
  int transposed = 1, found = 0, back = 0;
  size_t written = 0;
  uint64_t rows = 0;
  CHECK(!blas.cublasLtCreate(&l) && blas.cublasLtGetVersion() / 10000 == 13);
  CHECK(!blas.cublasLtMatmulDescCreate(&operation, 68, 0));
  CHECK(!blas.cublasLtMatmulDescSetAttribute(operation, 3, &transposed, sizeof transposed));
  CHECK(!blas.cublasLtMatmulDescGetAttribute(operation, 3, &back, sizeof back, &written) && back == 1 && written == 4);
  CHECK(!blas.cublasLtMatmulDescGetAttribute(operation, 0, &back, sizeof back, NULL) && back == 68);
  CHECK(!blas.cublasLtMatmulDescGetAttribute(operation, 26, &back, sizeof back, NULL) && back == -1);
  CHECK(blas.cublasLtMatmulDescSetAttribute(operation, 99, &transposed, sizeof transposed) == 7);
  CHECK(!blas.cublasLtMatrixLayoutCreate(&layout, 0, 20, 30, 20));
  CHECK(!blas.cublasLtMatrixLayoutGetAttribute(layout, 2, &rows, sizeof rows, NULL) && rows == 20);
  CHECK(!blas.cublasLtMatmulPreferenceCreate(&preference));
  CHECK(!blas.cublasLtMatmulAlgoGetHeuristic(l, operation, layout, layout, layout, layout, preference, 1, &result,
                                             &found));
  CHECK(found == 1 && result.status == 0 && result.workspace == 0);
  CHECK(!blas.cublasLtMatmul(l, operation, &rows, NULL, layout, NULL, layout, &rows, NULL, layout, NULL, layout,
                             result.algo, NULL, 0, NULL));
  CHECK(!blas.cublasLtDestroy(l));
}

int main(void) {
  handle_t h;
  load();
  CHECK(!blas.cublasCreate_v2(&h)); /* makes the context */
  settings(h);
  copies();
  products(h);
  lt();
  CHECK(!blas.cublasDestroy_v2(h));
  return 0;
}
