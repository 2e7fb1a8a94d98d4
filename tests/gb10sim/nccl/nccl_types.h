/* nccl_types.h - the types of NCCL's public interface, by nccl.h 2.30.7; the build has no NCCL headers.
 *
 * NCCL_API defines an entry point as NCCL does: a global pncclX, and ncclX as a weak alias of it.
 */
#ifndef GB10SIM_NCCL_TYPES_H
#define GB10SIM_NCCL_TYPES_H

#include <cuda.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#define NCCL_EXPORT __attribute__((visibility("default")))
#define NCCL_API(type, name, ...)                                             \
  NCCL_EXPORT type p##name(__VA_ARGS__);                                      \
  NCCL_EXPORT type name(__VA_ARGS__) __attribute__((weak, alias("p" #name))); \
  type p##name(__VA_ARGS__)

enum { NCCL_VERSION = 23007, NCCL_UNDEFINED = INT_MIN, NCCL_NO_COLOR = -1, NCCL_SHRINK_WITH_ABORT = 1 };

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
  ncclTimeout = 8,
} ncclResult_t;

typedef enum { ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg, ncclNumOps } ncclRedOp_t;

typedef enum {
  ncclInt8,
  ncclUint8,
  ncclInt32,
  ncclUint32,
  ncclInt64,
  ncclUint64,
  ncclFloat16,
  ncclFloat32,
  ncclFloat64,
  ncclBfloat16,
  ncclFloat8e4m3,
  ncclFloat8e5m2,
  ncclNumTypes,
} ncclDataType_t;

typedef enum { ncclScalarDevice, ncclScalarHostImmediate } ncclScalarResidence_t;

typedef struct {
  char internal[128];
} ncclUniqueId;

/* The fields that the stand-in reads; longer versions of the struct begin with them. */
typedef struct {
  size_t size;
  unsigned magic, version;
  int blocking;
} ncclConfig_t;

typedef struct {
  size_t size;
  unsigned magic, version;
  float estimated_time;
} ncclSimInfo_t;

typedef struct ncclComm *ncclComm_t;

#endif
