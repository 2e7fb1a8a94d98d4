/* reduce.h - data types and reductions, on host-readable memory. Pure functions.
 * Assumed: half types are added up in double and rounded once; the real library rounds at each hop. */
#ifndef GB10SIM_NCCL_REDUCE_H
#define GB10SIM_NCCL_REDUCE_H

#include "nccl_types.h"

/* How values are combined: `scale` multiplies every input first (PreMulSum). */
struct reduction {
  ncclRedOp_t op; /* one of the built-in five */
  double scale;
  int nranks; /* divisor of ncclAvg */
};

/* Bytes of one element, 0 for a number that is no type. */
size_t type_size(ncclDataType_t type);
/* Whether values of the type can be combined: all but the two 8-bit float types. */
int type_reduces(ncclDataType_t type);
double type_to_double(ncclDataType_t type, const void *value);

/* out[i] = in[0][i] op in[1][i] ... for count elements; out may be one of the inputs. */
void reduce(const struct reduction *how, ncclDataType_t type, void *out, const void *const *in, int n, size_t count);

#endif
