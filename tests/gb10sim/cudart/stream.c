/* stream.c - streams, events and graphs of the runtime stand-in: each is the driver's. See internal.h. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define PASS(name, parameters, call)             \
  EXPORT cudaError_t CUDARTAPI name parameters { \
    ENTER(#name, 0);                             \
    return DRV(call);                            \
  }

PASS(cudaStreamCreate, (cudaStream_t * s), cuStreamCreate(s, 0))
PASS(cudaStreamCreateWithFlags, (cudaStream_t * s, unsigned flags), cuStreamCreate(s, flags))
PASS(cudaStreamCreateWithPriority, (cudaStream_t * s, unsigned flags, int priority),
     cuStreamCreateWithPriority(s, flags, priority))
PASS(cudaStreamDestroy, (cudaStream_t s), cuStreamDestroy(s))
PASS(cudaStreamSynchronize, (cudaStream_t s), cuStreamSynchronize(s))
PASS(cudaStreamQuery, (cudaStream_t s), cuStreamQuery(s))
PASS(cudaStreamWaitEvent, (cudaStream_t s, cudaEvent_t e, unsigned flags), cuStreamWaitEvent(s, e, flags))
PASS(cudaStreamGetPriority, (cudaStream_t s, int *priority), cuStreamGetPriority(s, priority))
PASS(cudaStreamGetFlags, (cudaStream_t s, unsigned *flags), cuStreamGetFlags(s, flags))
PASS(cudaStreamGetId, (cudaStream_t s, unsigned long long *id), cuStreamGetId(s, id))
PASS(cudaStreamGetDevice, (cudaStream_t s, int *device), cuStreamGetDevice(s, device))
PASS(cudaLaunchHostFunc, (cudaStream_t s, cudaHostFn_t fn, void *data), cuLaunchHostFunc(s, fn, data))
PASS(cudaStreamAddCallback, (cudaStream_t s, cudaStreamCallback_t fn, void *data, unsigned flags),
     cuStreamAddCallback(s, (CUstreamCallback)fn, data, flags))
PASS(cudaStreamBeginCapture, (cudaStream_t s, enum cudaStreamCaptureMode mode),
     cuStreamBeginCapture(s, (CUstreamCaptureMode)mode))
PASS(cudaStreamBeginCaptureToGraph,
     (cudaStream_t s, cudaGraph_t g, const cudaGraphNode_t *after, const cudaGraphEdgeData *edges, size_t n,
      enum cudaStreamCaptureMode mode),
     cuStreamBeginCaptureToGraph(s, g, after, (const CUgraphEdgeData *)edges, n, (CUstreamCaptureMode)mode))
PASS(cudaStreamEndCapture, (cudaStream_t s, cudaGraph_t *g), cuStreamEndCapture(s, g))
PASS(cudaStreamIsCapturing, (cudaStream_t s, enum cudaStreamCaptureStatus *status),
     cuStreamIsCapturing(s, (CUstreamCaptureStatus *)status))
PASS(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode * mode),
     cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode))

#if RUNTIME == 13
#define V3(name) __asm__(name)
#else
#define V3(name) __asm__(name "_v3")
#endif
EXPORT cudaError_t CUDARTAPI rt_capture_info(cudaStream_t s, enum cudaStreamCaptureStatus *status,
                                             unsigned long long *id, cudaGraph_t *g, const cudaGraphNode_t **after,
                                             const cudaGraphEdgeData **edges, size_t *n) V3("cudaStreamGetCaptureInfo");
EXPORT cudaError_t CUDARTAPI rt_capture_info(cudaStream_t s, enum cudaStreamCaptureStatus *status,
                                             unsigned long long *id, cudaGraph_t *g, const cudaGraphNode_t **after,
                                             const cudaGraphEdgeData **edges, size_t *n) {
  ENTER("cudaStreamGetCaptureInfo", 0);
  return DRV(cuStreamGetCaptureInfo(s, (CUstreamCaptureStatus *)status, (cuuint64_t *)id, g, after,
                                    (const CUgraphEdgeData **)edges, n));
}

EXPORT cudaError_t CUDARTAPI rt_update_dependencies(cudaStream_t s, cudaGraphNode_t *after,
                                                    const cudaGraphEdgeData *edges, size_t n, unsigned flags)
    V2("cudaStreamUpdateCaptureDependencies");
EXPORT cudaError_t CUDARTAPI rt_update_dependencies(cudaStream_t s, cudaGraphNode_t *after,
                                                    const cudaGraphEdgeData *edges, size_t n, unsigned flags) {
  ENTER("cudaStreamUpdateCaptureDependencies", 0);
  return DRV(cuStreamUpdateCaptureDependencies(s, after, (const CUgraphEdgeData *)edges, n, flags));
}

#if RUNTIME == 12
EXPORT cudaError_t CUDARTAPI rt_capture_info1(cudaStream_t s, enum cudaStreamCaptureStatus *status,
                                              unsigned long long *id) AS("cudaStreamGetCaptureInfo");
EXPORT cudaError_t CUDARTAPI rt_capture_info1(cudaStream_t s, enum cudaStreamCaptureStatus *status,
                                              unsigned long long *id) {
  ENTER("cudaStreamGetCaptureInfo", 0);
  return DRV(cuStreamGetCaptureInfo(s, (CUstreamCaptureStatus *)status, (cuuint64_t *)id, NULL, NULL, NULL, NULL));
}

EXPORT cudaError_t CUDARTAPI rt_capture_info2(cudaStream_t s, enum cudaStreamCaptureStatus *status,
                                              unsigned long long *id, cudaGraph_t *g, const cudaGraphNode_t **after,
                                              size_t *n) AS("cudaStreamGetCaptureInfo_v2");
EXPORT cudaError_t CUDARTAPI rt_capture_info2(cudaStream_t s, enum cudaStreamCaptureStatus *status,
                                              unsigned long long *id, cudaGraph_t *g, const cudaGraphNode_t **after,
                                              size_t *n) {
  ENTER("cudaStreamGetCaptureInfo", 0);
  return DRV(cuStreamGetCaptureInfo(s, (CUstreamCaptureStatus *)status, (cuuint64_t *)id, g, after, NULL, n));
}

EXPORT cudaError_t CUDARTAPI rt_update_dependencies1(cudaStream_t s, cudaGraphNode_t *after, size_t n, unsigned flags)
    AS("cudaStreamUpdateCaptureDependencies");
EXPORT cudaError_t CUDARTAPI rt_update_dependencies1(cudaStream_t s, cudaGraphNode_t *after, size_t n, unsigned flags) {
  ENTER("cudaStreamUpdateCaptureDependencies", 0);
  return DRV(cuStreamUpdateCaptureDependencies(s, after, NULL, n, flags));
}
#endif

/* ---- events ---- */

PASS(cudaEventCreate, (cudaEvent_t * e), cuEventCreate(e, 0))
PASS(cudaEventCreateWithFlags, (cudaEvent_t * e, unsigned flags), cuEventCreate(e, flags))
PASS(cudaEventDestroy, (cudaEvent_t e), cuEventDestroy(e))
PASS(cudaEventRecord, (cudaEvent_t e, cudaStream_t s), cuEventRecord(e, s))
PASS(cudaEventRecordWithFlags, (cudaEvent_t e, cudaStream_t s, unsigned flags), cuEventRecordWithFlags(e, s, flags))
PASS(cudaEventQuery, (cudaEvent_t e), cuEventQuery(e))
PASS(cudaEventSynchronize, (cudaEvent_t e), cuEventSynchronize(e))
PASS(cudaEventElapsedTime, (float *ms, cudaEvent_t a, cudaEvent_t b), cuEventElapsedTime(ms, a, b))
#if RUNTIME == 12
EXPORT cudaError_t CUDARTAPI rt_elapsed(float *ms, cudaEvent_t a, cudaEvent_t b) AS("cudaEventElapsedTime_v2");
PASS(rt_elapsed, (float *ms, cudaEvent_t a, cudaEvent_t b), cuEventElapsedTime(ms, a, b))
#endif

/* ---- graphs ---- */

PASS(cudaGraphCreate, (cudaGraph_t * g, unsigned flags), cuGraphCreate(g, flags))
PASS(cudaGraphDestroy, (cudaGraph_t g), cuGraphDestroy(g))
PASS(cudaGraphClone, (cudaGraph_t * out, cudaGraph_t g), cuGraphClone(out, g))
PASS(cudaGraphGetNodes, (cudaGraph_t g, cudaGraphNode_t *out, size_t *n), cuGraphGetNodes(g, out, n))
PASS(cudaGraphGetRootNodes, (cudaGraph_t g, cudaGraphNode_t *out, size_t *n), cuGraphGetRootNodes(g, out, n))
PASS(cudaGraphNodeGetType, (cudaGraphNode_t node, enum cudaGraphNodeType *type),
     cuGraphNodeGetType(node, (CUgraphNodeType *)type))
PASS(cudaGraphAddEmptyNode, (cudaGraphNode_t * out, cudaGraph_t g, const cudaGraphNode_t *after, size_t n),
     cuGraphAddEmptyNode(out, g, after, n))
PASS(cudaGraphAddHostNode,
     (cudaGraphNode_t * out, cudaGraph_t g, const cudaGraphNode_t *after, size_t n, const struct cudaHostNodeParams *p),
     cuGraphAddHostNode(out, g, after, n, (const CUDA_HOST_NODE_PARAMS *)p))
PASS(cudaGraphAddChildGraphNode,
     (cudaGraphNode_t * out, cudaGraph_t g, const cudaGraphNode_t *after, size_t n, cudaGraph_t child),
     cuGraphAddChildGraphNode(out, g, after, n, child))
PASS(cudaGraphInstantiateWithFlags, (cudaGraphExec_t * out, cudaGraph_t g, unsigned long long flags),
     cuGraphInstantiateWithFlags(out, g, flags))
EXPORT cudaError_t CUDARTAPI rt_instantiate(cudaGraphExec_t *out, cudaGraph_t g, unsigned long long flags)
    AS("cudaGraphInstantiate");
PASS(rt_instantiate, (cudaGraphExec_t * out, cudaGraph_t g, unsigned long long flags),
     cuGraphInstantiateWithFlags(out, g, flags))
PASS(cudaGraphExecDestroy, (cudaGraphExec_t e), cuGraphExecDestroy(e))
PASS(cudaGraphLaunch, (cudaGraphExec_t e, cudaStream_t s), cuGraphLaunch(e, s))
PASS(cudaGraphUpload, (cudaGraphExec_t e, cudaStream_t s), cuGraphUpload(e, s))
PASS(cudaGraphExecUpdate, (cudaGraphExec_t e, cudaGraph_t g, cudaGraphExecUpdateResultInfo *info),
     cuGraphExecUpdate(e, g, (CUgraphExecUpdateResultInfo *)info))
PASS(cudaGraphRetainUserObject, (cudaGraph_t g, cudaUserObject_t o, unsigned n, unsigned flags),
     cuGraphRetainUserObject(g, o, n, flags))
PASS(cudaGraphReleaseUserObject, (cudaGraph_t g, cudaUserObject_t o, unsigned n), cuGraphReleaseUserObject(g, o, n))
PASS(cudaUserObjectCreate, (cudaUserObject_t * out, void *data, cudaHostFn_t destroy, unsigned n, unsigned flags),
     cuUserObjectCreate(out, data, destroy, n, flags))
PASS(cudaUserObjectRetain, (cudaUserObject_t o, unsigned n), cuUserObjectRetain(o, n))
PASS(cudaUserObjectRelease, (cudaUserObject_t o, unsigned n), cuUserObjectRelease(o, n))
PASS(cudaDeviceGetGraphMemAttribute, (int device, enum cudaGraphMemAttributeType a, void *value),
     cuDeviceGetGraphMemAttribute(device, (CUgraphMem_attribute)a, value))
PASS(cudaDeviceSetGraphMemAttribute, (int device, enum cudaGraphMemAttributeType a, void *value),
     cuDeviceSetGraphMemAttribute(device, (CUgraphMem_attribute)a, value))
PASS(cudaDeviceGraphMemTrim, (int device), cuDeviceGraphMemTrim(device))

EXPORT cudaError_t CUDARTAPI rt_node_dependencies(cudaGraphNode_t node, cudaGraphNode_t *out, cudaGraphEdgeData *edges,
                                                  size_t *n) V2("cudaGraphNodeGetDependencies");
PASS(rt_node_dependencies, (cudaGraphNode_t node, cudaGraphNode_t *out, cudaGraphEdgeData *edges, size_t *n),
     cuGraphNodeGetDependencies(node, out, (CUgraphEdgeData *)edges, n))
#if RUNTIME == 12
EXPORT cudaError_t CUDARTAPI rt_node_dependencies1(cudaGraphNode_t node, cudaGraphNode_t *out, size_t *n)
    AS("cudaGraphNodeGetDependencies");
PASS(rt_node_dependencies1, (cudaGraphNode_t node, cudaGraphNode_t *out, size_t *n),
     cuGraphNodeGetDependencies(node, out, NULL, n))
#endif
