/* blas_status.c - see the header. Pure functions. */
#include "blas_status.h"

#include <stddef.h>

static const struct {
  int number;
  const char *name, *text;
} statuses[] = {
#define ROW(number, name, text) {number, "CUBLAS_STATUS_" #name, text},
    BLAS_STATUS(ROW)
#undef ROW
};

const char *blas_status_name(int status) {
  for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
    if (statuses[i].number == status) return statuses[i].name;
  return "CUBLAS_STATUS_UNKNOWN";
}

const char *blas_status_text(int status) {
  for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
    if (statuses[i].number == status) return statuses[i].text;
  return "unknown status";
}

int blas_property(int type, int *value) {
  static const int numbers[] = {BLAS_MAJOR, BLAS_MINOR, BLAS_PATCH};
  if (!value || type < 0 || type > 2) return BLAS_INVALID_VALUE;
  *value = numbers[type];
  return BLAS_SUCCESS;
}

enum blas_status blas_from_driver(CUresult result) {
  switch (result) {
  case CUDA_SUCCESS: return BLAS_SUCCESS;
  case CUDA_ERROR_OUT_OF_MEMORY: return BLAS_ALLOC_FAILED;
  case CUDA_ERROR_NOT_INITIALIZED:
  case CUDA_ERROR_NO_DEVICE:
  case CUDA_ERROR_INVALID_DEVICE: return BLAS_NOT_INITIALIZED;
  case CUDA_ERROR_NO_BINARY_FOR_GPU: return BLAS_ARCH_MISMATCH;
  default: return BLAS_EXECUTION_FAILED;
  }
}
