/* blas_status.h - numbers of cublas_api.h 13.1 that both stand-ins use; the build has no cuBLAS headers. */
#ifndef GB10SIM_BLAS_STATUS_H
#define GB10SIM_BLAS_STATUS_H

#include <cuda.h>

#define BLAS_STATUS(X)                                                \
  X(0, SUCCESS, "the operation completed")                            \
  X(1, NOT_INITIALIZED, "the library was not initialized")            \
  X(3, ALLOC_FAILED, "a resource could not be allocated")             \
  X(7, INVALID_VALUE, "a parameter is not supported or out of range") \
  X(8, ARCH_MISMATCH, "a feature is absent from the device")          \
  X(11, MAPPING_ERROR, "memory could not be accessed")                \
  X(13, EXECUTION_FAILED, "the program on the device failed")         \
  X(14, INTERNAL_ERROR, "an internal operation failed")               \
  X(15, NOT_SUPPORTED, "the function is not supported")               \
  X(16, LICENSE_ERROR, "the license check failed")

enum blas_status {
#define MEMBER(number, name, text) BLAS_##name = number,
  BLAS_STATUS(MEMBER)
#undef MEMBER
};

/* The versions that the wheel's cuBLAS 13.1.1 reports. */
enum { BLAS_MAJOR = 13, BLAS_MINOR = 1, BLAS_PATCH = 1, BLAS_VERSION = 130101, BLAS_CUDART_VERSION = 13000 };

/* "CUBLAS_STATUS_..." and one sentence of our own; both constant. */
const char *blas_status_name(int status);
const char *blas_status_text(int status);

/* cublasGetProperty's answer for type 0 major, 1 minor, 2 patch. */
int blas_property(int type, int *value);

/* What cuBLAS makes of a driver error. */
enum blas_status blas_from_driver(CUresult result);

#endif
