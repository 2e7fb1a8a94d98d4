/* cublas.c - the stand-in for libcublas.so.13: handles, settings, queries and host copies are real, the computing
 * functions launch a kernel that holds no instruction. IT COMPUTES NOTHING: outputs keep what they held before.
 *
 * Behaviour by cublas_api.h 13.1. Where the real library allocates a workspace of its own or picks a kernel by
 * shape, the stand-in does neither (assumed harmless for what is tested here: PyTorch hands its own workspace in).
 * Runs in ordinary user code; settings of a handle are unsynchronised, as in the real library.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blas_status.h"
#include "driver_client/driver_client.h"

#define KERNEL_NAME "gb10sim_cublas_kernel"

struct handle {
  CUstream stream;
  int pointer_mode, atomics_mode, math_mode, sm_count_target;
  int emulation_strategy, special_values, mantissa_control, max_mantissa_bits, mantissa_offset;
  int *mantissa_bits;
};

typedef void (*log_callback)(const char *);
static log_callback user_log;

int cublasCreate_v2(struct handle **out);
int cublasCreate_v2(struct handle **out) {
  const struct driver_client *d = driver_client();
  int fault = driver_client_world("cublasCreate", 0);
  if (fault) return fault;
  if (!out) return BLAS_INVALID_VALUE;
  if (!d || driver_client_context(d)) return BLAS_NOT_INITIALIZED;
  struct handle *handle = calloc(1, sizeof *handle);
  if (!handle) return BLAS_ALLOC_FAILED;
  handle->special_values = 0xFFFF;
  *out = handle;
  return BLAS_SUCCESS;
}

int cublasDestroy_v2(struct handle *handle);
int cublasDestroy_v2(struct handle *handle) {
  if (!handle) return BLAS_NOT_INITIALIZED;
  free(handle);
  return BLAS_SUCCESS;
}

int cublasGetVersion_v2(struct handle *handle, int *version);
int cublasGetVersion_v2(struct handle *handle, int *version) {
  (void)handle;
  if (!version) return BLAS_INVALID_VALUE;
  *version = BLAS_VERSION;
  return BLAS_SUCCESS;
}

int cublasGetProperty(int type, int *value);
int cublasGetProperty(int type, int *value) { return blas_property(type, value); }

size_t cublasGetCudartVersion(void);
size_t cublasGetCudartVersion(void) { return BLAS_CUDART_VERSION; }

const char *cublasGetStatusName(int status);
const char *cublasGetStatusName(int status) { return blas_status_name(status); }

const char *cublasGetStatusString(int status);
const char *cublasGetStatusString(int status) { return blas_status_text(status); }

int cublasSetWorkspace_v2(struct handle *handle, void *workspace, size_t size);
int cublasSetWorkspace_v2(struct handle *handle, void *workspace, size_t size) {
  (void)workspace, (void)size;
  return handle ? BLAS_SUCCESS : BLAS_NOT_INITIALIZED;
}

/* One setter and one getter per setting. */
#define SETTING(set, get, type, field)          \
  int set(struct handle *handle, type value);   \
  int set(struct handle *handle, type value) {  \
    if (!handle) return BLAS_NOT_INITIALIZED;   \
    handle->field = value;                      \
    return BLAS_SUCCESS;                        \
  }                                             \
  int get(struct handle *handle, type *value);  \
  int get(struct handle *handle, type *value) { \
    if (!handle) return BLAS_NOT_INITIALIZED;   \
    if (!value) return BLAS_INVALID_VALUE;      \
    *value = handle->field;                     \
    return BLAS_SUCCESS;                        \
  }

SETTING(cublasSetStream_v2, cublasGetStream_v2, CUstream, stream)
SETTING(cublasSetPointerMode_v2, cublasGetPointerMode_v2, int, pointer_mode)
SETTING(cublasSetAtomicsMode, cublasGetAtomicsMode, int, atomics_mode)
SETTING(cublasSetMathMode, cublasGetMathMode, int, math_mode)
SETTING(cublasSetSmCountTarget, cublasGetSmCountTarget, int, sm_count_target)
SETTING(cublasSetEmulationStrategy, cublasGetEmulationStrategy, int, emulation_strategy)
SETTING(cublasSetEmulationSpecialValuesSupport, cublasGetEmulationSpecialValuesSupport, int, special_values)
SETTING(cublasSetFixedPointEmulationMantissaControl, cublasGetFixedPointEmulationMantissaControl, int, mantissa_control)
SETTING(cublasSetFixedPointEmulationMaxMantissaBitCount, cublasGetFixedPointEmulationMaxMantissaBitCount, int,
        max_mantissa_bits)
SETTING(cublasSetFixedPointEmulationMantissaBitOffset, cublasGetFixedPointEmulationMantissaBitOffset, int,
        mantissa_offset)
SETTING(cublasSetFixedPointEmulationMantissaBitCountPointer, cublasGetFixedPointEmulationMantissaBitCountPointer, int *,
        mantissa_bits)

/* Undocumented; cuSOLVER binds it. */
int cublasSetEnvironmentMode(struct handle *handle, int mode);
int cublasSetEnvironmentMode(struct handle *handle, int mode) {
  (void)handle, (void)mode;
  return BLAS_SUCCESS;
}

int cublasLoggerConfigure(int on, int to_stdout, int to_stderr, const char *file);
int cublasLoggerConfigure(int on, int to_stdout, int to_stderr, const char *file) {
  (void)on, (void)to_stdout, (void)to_stderr, (void)file;
  return BLAS_SUCCESS;
}

int cublasSetLoggerCallback(log_callback callback);
int cublasSetLoggerCallback(log_callback callback) {
  user_log = callback;
  return BLAS_SUCCESS;
}

int cublasGetLoggerCallback(log_callback *callback);
int cublasGetLoggerCallback(log_callback *callback) {
  if (!callback) return BLAS_INVALID_VALUE;
  *callback = user_log;
  return BLAS_SUCCESS;
}

void cublasXerbla(const char *routine, int info);
void cublasXerbla(const char *routine, int info) {
  fprintf(stderr, " ** On entry to %s parameter number %d had an illegal value\n", routine, info);
}

/* Copies `columns` runs of rows * size bytes; strides are counted in elements. */
static int copy_runs(int64_t rows, int64_t columns, int64_t size, const void *from, int64_t from_stride, void *to,
                     int64_t to_stride, CUstream stream, bool wait) {
  const struct driver_client *d = driver_client();
  if (rows < 0 || columns < 0 || size <= 0 || from_stride <= 0 || to_stride <= 0) return BLAS_INVALID_VALUE;
  if (!d || driver_client_context(d)) return BLAS_NOT_INITIALIZED;
  for (int64_t i = 0; i < columns; i++) {
    CUdeviceptr source = (CUdeviceptr)(uintptr_t)from + (CUdeviceptr)(i * from_stride * size);
    CUdeviceptr target = (CUdeviceptr)(uintptr_t)to + (CUdeviceptr)(i * to_stride * size);
    if (d->cuMemcpyAsync(target, source, (size_t)(rows * size), stream)) return BLAS_MAPPING_ERROR;
  }
  if (wait && d->cuStreamSynchronize(stream)) return BLAS_MAPPING_ERROR;
  return BLAS_SUCCESS;
}

#define VECTOR_COPY(name, integer)                                                        \
  int name(integer n, integer size, const void *x, integer incx, void *y, integer incy);  \
  int name(integer n, integer size, const void *x, integer incx, void *y, integer incy) { \
    return copy_runs(1, n, size, x, incx, y, incy, NULL, true);                           \
  }
#define VECTOR_COPY_ASYNC(name, integer)                                                                   \
  int name(integer n, integer size, const void *x, integer incx, void *y, integer incy, CUstream stream);  \
  int name(integer n, integer size, const void *x, integer incx, void *y, integer incy, CUstream stream) { \
    return copy_runs(1, n, size, x, incx, y, incy, stream, false);                                         \
  }
#define MATRIX_COPY(name, integer)                                                                          \
  int name(integer rows, integer columns, integer size, const void *a, integer lda, void *b, integer ldb);  \
  int name(integer rows, integer columns, integer size, const void *a, integer lda, void *b, integer ldb) { \
    return copy_runs(rows, columns, size, a, lda, b, ldb, NULL, true);                                      \
  }
#define MATRIX_COPY_ASYNC(name, integer)                                                                  \
  int name(integer rows, integer columns, integer size, const void *a, integer lda, void *b, integer ldb, \
           CUstream stream);                                                                              \
  int name(integer rows, integer columns, integer size, const void *a, integer lda, void *b, integer ldb, \
           CUstream stream) {                                                                             \
    return copy_runs(rows, columns, size, a, lda, b, ldb, stream, false);                                 \
  }

VECTOR_COPY(cublasSetVector, int)
VECTOR_COPY(cublasSetVector_64, int64_t)
VECTOR_COPY(cublasGetVector, int)
VECTOR_COPY(cublasGetVector_64, int64_t)
VECTOR_COPY_ASYNC(cublasSetVectorAsync, int)
VECTOR_COPY_ASYNC(cublasSetVectorAsync_64, int64_t)
VECTOR_COPY_ASYNC(cublasGetVectorAsync, int)
VECTOR_COPY_ASYNC(cublasGetVectorAsync_64, int64_t)
MATRIX_COPY(cublasSetMatrix, int)
MATRIX_COPY(cublasSetMatrix_64, int64_t)
MATRIX_COPY(cublasGetMatrix, int)
MATRIX_COPY(cublasGetMatrix_64, int64_t)
MATRIX_COPY_ASYNC(cublasSetMatrixAsync, int)
MATRIX_COPY_ASYNC(cublasSetMatrixAsync_64, int64_t)
MATRIX_COPY_ASYNC(cublasGetMatrixAsync, int)
MATRIX_COPY_ASYNC(cublasGetMatrixAsync_64, int64_t)

static int compute(struct handle *handle, const char *name) {
  if (!handle) return BLAS_NOT_INITIALIZED;
  int fault = driver_client_world(name, 0);
  if (fault) return fault;
  return (int)blas_from_driver(driver_client_launch(KERNEL_NAME, handle->stream));
}

/* Only the first argument is read. By the calling conventions of both CPUs the caller owns the rest, so one
 * prototype serves every routine. */
#define COMPUTE(name)              \
  int name(struct handle *handle); \
  int name(struct handle *handle) { return compute(handle, #name); }
#include "cublas.def"
