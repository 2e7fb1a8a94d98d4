/* nccl_types.h - the types in NCCL's signatures, as far as a wrapper passes them on. nccl.h is not needed to build;
 * where it is found, tests/unit/prototypes_nccl.c compares. Source: nccl.h 2.30, unchanged since 2.14 but for added
 * values. */
#ifndef SPARKSHIM_NCCL_TYPES_H
#define SPARKSHIM_NCCL_TYPES_H

#include <stddef.h>

typedef struct CUstream_st *cudaStream_t;
typedef struct ncclComm *ncclComm_t;
typedef struct ncclConfig_v21700 ncclConfig_t; /* passed by address only */
enum { NCCL_UNIQUE_ID_BYTES = 128 };
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;
typedef enum { ncclSuccess = 0, ncclSystemError = 2, ncclInProgress = 7 } ncclResult_t;
typedef enum {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11
} ncclDataType_t;
typedef enum { ncclSum = 0 } ncclRedOp_t;

#endif
