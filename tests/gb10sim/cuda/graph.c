/* graph.c - stream capture and graphs of the libcuda stand-in. See internal.h.
 *
 * A graph is a list of nodes with what each depends on; nodes are added behind what they depend on, so running
 * them in the order of the list is right. Copies, fills and host functions run again at each launch; kernels are
 * counted again, but a host version of a kernel is not called from a graph: the argument values are not kept.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct CUgraphNode_st {
  uint32_t magic;
  CUgraphNodeType type;
  CUgraph graph;
  struct op op;
  CUgraphNode *after;
  size_t n_after;
};

struct CUgraph_st {
  uint32_t magic;
  bool child; /* destroyed with its parent */
  CUgraphNode *node;
  size_t n, room;
  CUuserObject object[16];
  unsigned references[16];
};

struct CUgraphExec_st {
  uint32_t magic;
  CUgraph graph;
};

struct CUuserObject_st {
  int references; /* atomic */
  CUhostFn destroy;
  void *data;
};

struct capture {
  CUgraph graph;
  CUstream origin;
  unsigned long long id;
  CUstreamCaptureMode mode;
  bool invalid, ended;
};

bool capture_ended(const struct capture *c) { return c->ended; }

static CUgraph graph_new(void) {
  CUgraph g = calloc(1, sizeof *g);
  if (g) g->magic = MAGIC_GRAPH;
  return g;
}

static bool graph_valid(CUgraph g) { return g && g->magic == MAGIC_GRAPH; }
static bool node_valid(CUgraphNode n) { return n && n->magic == MAGIC_NODE; }

static void object_put(CUuserObject o, unsigned n) {
  if (__atomic_sub_fetch(&o->references, (int)n, __ATOMIC_ACQ_REL) > 0) return;
  o->destroy(o->data);
  free(o);
}

static void graph_free(CUgraph g) {
  for (size_t i = 0; i < g->n; i++) {
    if (g->node[i]->op.kind == OP_CHILD) graph_free(g->node[i]->op.u.child.graph);
    g->node[i]->magic = 0;
    free(g->node[i]->after);
    free(g->node[i]);
  }
  for (int i = 0; i < 16; i++)
    if (g->object[i]) object_put(g->object[i], g->references[i]);
  g->magic = 0;
  free(g->node);
  free(g);
}

static CUgraphNodeType type_of(const struct op *op) {
  switch (op->kind) {
  case OP_COPY: return CU_GRAPH_NODE_TYPE_MEMCPY;
  case OP_SET: return CU_GRAPH_NODE_TYPE_MEMSET;
  case OP_HOST: return CU_GRAPH_NODE_TYPE_HOST;
  case OP_KERNEL: return CU_GRAPH_NODE_TYPE_KERNEL;
  case OP_EVENT: return CU_GRAPH_NODE_TYPE_EVENT_RECORD;
  case OP_WAIT: return CU_GRAPH_NODE_TYPE_WAIT_EVENT;
  case OP_CHILD: return CU_GRAPH_NODE_TYPE_GRAPH;
  default: return CU_GRAPH_NODE_TYPE_EMPTY;
  }
}

static CUgraphNode node_add(CUgraph g, const struct op *op, const CUgraphNode *after, size_t n) {
  if (g->n == g->room) {
    size_t more = g->room ? 2 * g->room : 32;
    CUgraphNode *bigger = realloc(g->node, more * sizeof(CUgraphNode));
    if (!bigger) return NULL;
    g->node = bigger;
    g->room = more;
  }
  CUgraphNode node = calloc(1, sizeof *node);
  if (!node) return NULL;
  *node = (struct CUgraphNode_st){.magic = MAGIC_NODE, .type = type_of(op), .graph = g, .op = *op, .n_after = n};
  if (node->op.kind == OP_KERNEL) node->op.u.kernel.params = NULL;
  node->after = n ? malloc(n * sizeof(CUgraphNode)) : NULL;
  if (n && !node->after) return free(node), NULL;
  if (n) memcpy(node->after, after, n * sizeof(CUgraphNode));
  return g->node[g->n++] = node;
}

CUresult capture_add(CUstream s, const struct op *op) {
  if (s->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  CUgraphNode node = node_add(s->capture->graph, op, s->last, s->n_last);
  if (!node) return CUDA_ERROR_OUT_OF_MEMORY;
  s->last[0] = node;
  s->n_last = 1;
  return CUDA_SUCCESS;
}

CUresult capture_wait(CUstream s, CUevent e) {
  if (e->capture->ended) return CUDA_ERROR_CAPTURED_EVENT;
  if (s->capture && s->capture != e->capture) return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  if (!s->capture) {
    s->capture = e->capture;
    s->n_last = 0;
  }
  for (size_t i = 0; i < e->n_last; i++) {
    bool there = false;
    for (size_t k = 0; k < s->n_last; k++) there |= s->last[k] == e->last[i];
    if (!there && s->n_last < 8) s->last[s->n_last++] = e->last[i];
  }
  return CUDA_SUCCESS;
}

static CUresult begin(CUstream handle, CUgraph g, CUstreamCaptureMode mode, const CUgraphNode *after, size_t n) {
  CUstream s = stream_get(handle);
  if (!s) return CUDA_ERROR_INVALID_HANDLE;
  if (!handle || handle == CU_STREAM_LEGACY) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (mode > CU_STREAM_CAPTURE_MODE_RELAXED || n > 8) return CUDA_ERROR_INVALID_VALUE;
  if (s->capture) return CUDA_ERROR_ILLEGAL_STATE;
  struct capture *c = calloc(1, sizeof *c);
  if (!c || !g) return free(c), CUDA_ERROR_OUT_OF_MEMORY;
  *c = (struct capture){.graph = g, .origin = s, .id = next_id(), .mode = mode};
  s->capture = c;
  s->n_last = n;
  if (n) memcpy(s->last, after, n * sizeof(CUgraphNode));
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuStreamBeginCapture_v2(CUstream s, CUstreamCaptureMode mode) {
  ENTER_CONTEXT("cuStreamBeginCapture_v2", 0);
  return begin(s, graph_new(), mode, NULL, 0);
}

EXPORT CUresult CUDAAPI cuStreamBeginCaptureToGraph(CUstream s, CUgraph g, const CUgraphNode *after,
                                                    const CUgraphEdgeData *edges, size_t n, CUstreamCaptureMode mode) {
  ENTER_CONTEXT("cuStreamBeginCaptureToGraph", 0);
  (void)edges;
  if (!graph_valid(g)) return CUDA_ERROR_INVALID_VALUE;
  return begin(s, g, mode, after, n);
}

/* Streams that joined by events leave the capture with it: stream_get() notices at their next call. The struct stays,
 * since events may still point at it. */
EXPORT CUresult CUDAAPI cuStreamEndCapture(CUstream handle, CUgraph *out) {
  ENTER_CONTEXT("cuStreamEndCapture", 0);
  CUstream s = stream_get(handle);
  if (!s) return CUDA_ERROR_INVALID_HANDLE;
  if (!s->capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (s->capture->origin != s) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  struct capture *c = s->capture;
  s->capture = NULL;
  c->ended = true;
  if (out) *out = c->invalid ? NULL : c->graph;
  return c->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status) {
  ENTER_CONTEXT("cuStreamIsCapturing", 0);
  CUstream s = stream_get(handle);
  if (!s) return CUDA_ERROR_INVALID_HANDLE;
  if (!status) return CUDA_ERROR_INVALID_VALUE;
  struct capture *c = s->capture;
  *status = !c           ? CU_STREAM_CAPTURE_STATUS_NONE
            : c->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                         : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

static CUresult capture_info(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                             const CUgraphNode **after, size_t *n) {
  CUstream s = stream_get(handle);
  if (!s) return CUDA_ERROR_INVALID_HANDLE;
  if (!status) return CUDA_ERROR_INVALID_VALUE;
  struct capture *c = s->capture;
  *status = !c           ? CU_STREAM_CAPTURE_STATUS_NONE
            : c->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                         : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (!c) return CUDA_SUCCESS;
  if (id) *id = c->id;
  if (graph) *graph = c->graph;
  if (after) *after = s->last;
  if (n) *n = s->n_last;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id,
                                                  CUgraph *graph, const CUgraphNode **after, size_t *n) {
  ENTER_CONTEXT("cuStreamGetCaptureInfo_v2", 0);
  return capture_info(s, status, id, graph, after, n);
}

EXPORT CUresult CUDAAPI cuStreamGetCaptureInfo_v3(CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id,
                                                  CUgraph *graph, const CUgraphNode **after,
                                                  const CUgraphEdgeData **edges, size_t *n) {
  ENTER_CONTEXT("cuStreamGetCaptureInfo_v3", 0);
  if (edges) *edges = NULL;
  return capture_info(s, status, id, graph, after, n);
}

static CUresult update_dependencies(CUstream handle, CUgraphNode *after, size_t n, unsigned flags) {
  CUstream s = stream_get(handle);
  if (!s) return CUDA_ERROR_INVALID_HANDLE;
  if (!s->capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
  size_t have = flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES ? s->n_last : 0;
  if (have + n > 8) return CUDA_ERROR_NOT_SUPPORTED;
  if (n) memcpy(s->last + have, after, n * sizeof(CUgraphNode));
  s->n_last = have + n;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuStreamUpdateCaptureDependencies(CUstream s, CUgraphNode *after, size_t n, unsigned flags) {
  ENTER_CONTEXT("cuStreamUpdateCaptureDependencies", 0);
  return update_dependencies(s, after, n, flags);
}

EXPORT CUresult CUDAAPI cuStreamUpdateCaptureDependencies_v2(CUstream s, CUgraphNode *after,
                                                             const CUgraphEdgeData *edges, size_t n, unsigned flags) {
  ENTER_CONTEXT("cuStreamUpdateCaptureDependencies_v2", 0);
  (void)edges;
  return update_dependencies(s, after, n, flags);
}

EXPORT CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  static __thread CUstreamCaptureMode mine = CU_STREAM_CAPTURE_MODE_GLOBAL;
  ENTER("cuThreadExchangeStreamCaptureMode", 0);
  if (!mode) return CUDA_ERROR_INVALID_VALUE;
  CUstreamCaptureMode before = mine;
  mine = *mode;
  *mode = before;
  return CUDA_SUCCESS;
}

/* ---- graphs built by hand ---- */

EXPORT CUresult CUDAAPI cuGraphCreate(CUgraph *out, unsigned flags) {
  ENTER("cuGraphCreate", 0);
  if (!out || flags) return CUDA_ERROR_INVALID_VALUE;
  *out = graph_new();
  return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult CUDAAPI cuGraphDestroy(CUgraph g) {
  ENTER("cuGraphDestroy", 0);
  if (!graph_valid(g)) return CUDA_ERROR_INVALID_VALUE;
  graph_free(g);
  return CUDA_SUCCESS;
}

static CUresult add(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n, const struct op *op) {
  if (!out || !graph_valid(g) || (n && !after)) return CUDA_ERROR_INVALID_VALUE;
  *out = node_add(g, op, after, n);
  return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult CUDAAPI cuGraphAddEmptyNode(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n) {
  ENTER("cuGraphAddEmptyNode", 0);
  return add(out, g, after, n, &(struct op){.kind = OP_EMPTY});
}

static CUresult kernel_op(struct op *op, CUfunction f, CUkernel k, const unsigned grid[3], const unsigned block[3],
                          unsigned shared) {
  CUfunction found = function_get(f ? (void *)f : (void *)k);
  if (!found) return CUDA_ERROR_INVALID_HANDLE;
  *op = (struct op){.kind = OP_KERNEL, .u.kernel = {.f = found, .shared = shared}};
  memcpy(op->u.kernel.grid, grid, sizeof op->u.kernel.grid);
  memcpy(op->u.kernel.block, block, sizeof op->u.kernel.block);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuGraphAddKernelNode_v2(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n,
                                                const CUDA_KERNEL_NODE_PARAMS *p) {
  ENTER_CONTEXT("cuGraphAddKernelNode_v2", 0);
  struct op op;
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  CUresult r = kernel_op(&op, p->func, p->kern, (unsigned[]){p->gridDimX, p->gridDimY, p->gridDimZ},
                         (unsigned[]){p->blockDimX, p->blockDimY, p->blockDimZ}, p->sharedMemBytes);
  return r ? r : add(out, g, after, n, &op);
}

EXPORT CUresult CUDAAPI cuGraphAddHostNode(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n,
                                           const CUDA_HOST_NODE_PARAMS *p) {
  ENTER_CONTEXT("cuGraphAddHostNode", 0);
  if (!p || !p->fn) return CUDA_ERROR_INVALID_VALUE;
  return add(out, g, after, n, &(struct op){.kind = OP_HOST, .u.host = {p->fn, p->userData}});
}

EXPORT CUresult CUDAAPI cuGraphAddMemsetNode(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n,
                                             const CUDA_MEMSET_NODE_PARAMS *p, CUcontext c) {
  ENTER_CONTEXT("cuGraphAddMemsetNode", 0);
  (void)c;
  if (!p || !p->dst || (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4))
    return CUDA_ERROR_INVALID_VALUE;
  struct op op = {.kind = OP_SET,
                  .u.set = {.dst = (char *)(uintptr_t)p->dst,
                            .pitch = p->pitch,
                            .width = p->width * p->elementSize,
                            .height = p->height,
                            .value = p->value,
                            .element = p->elementSize}};
  return add(out, g, after, n, &op);
}

EXPORT CUresult CUDAAPI cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n,
                                                 CUgraph child);

static CUgraph graph_copy(CUgraph from) {
  CUgraph g = graph_new();
  for (size_t i = 0; g && i < from->n; i++) {
    const CUgraphNode old = from->node[i];
    struct op op = old->op;
    CUgraphNode after[8];
    size_t n = 0;
    for (size_t k = 0; k < old->n_after && n < 8; k++)
      for (size_t j = 0; j < i; j++)
        if (from->node[j] == old->after[k]) after[n++] = g->node[j];
    if (op.kind == OP_CHILD) op.u.child.graph = graph_copy(op.u.child.graph);
    CUgraphNode node = node_add(g, &op, after, n);
    if (node) node->type = old->type;
  }
  return g;
}

EXPORT CUresult CUDAAPI cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n,
                                                 CUgraph child) {
  ENTER("cuGraphAddChildGraphNode", 0);
  if (!graph_valid(child)) return CUDA_ERROR_INVALID_VALUE;
  return add(out, g, after, n, &(struct op){.kind = OP_CHILD, .u.child = {graph_copy(child)}});
}

EXPORT CUresult CUDAAPI cuGraphClone(CUgraph *out, CUgraph from) {
  ENTER("cuGraphClone", 0);
  if (!out || !graph_valid(from)) return CUDA_ERROR_INVALID_VALUE;
  *out = graph_copy(from);
  return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult CUDAAPI cuGraphGetNodes(CUgraph g, CUgraphNode *out, size_t *n) {
  ENTER("cuGraphGetNodes", 0);
  if (!graph_valid(g) || !n) return CUDA_ERROR_INVALID_VALUE;
  if (!out) return *n = g->n, CUDA_SUCCESS;
  for (size_t i = 0; i < *n; i++) out[i] = i < g->n ? g->node[i] : NULL;
  if (*n > g->n) *n = g->n;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuGraphGetRootNodes(CUgraph g, CUgraphNode *out, size_t *n) {
  ENTER("cuGraphGetRootNodes", 0);
  if (!graph_valid(g) || !n) return CUDA_ERROR_INVALID_VALUE;
  size_t found = 0;
  for (size_t i = 0; i < g->n; i++) {
    if (g->node[i]->n_after) continue;
    if (out && found < *n) out[found] = g->node[i];
    found++;
  }
  if (!out || *n > found) *n = found;
  return CUDA_SUCCESS;
}

static CUresult dependencies(CUgraphNode node, CUgraphNode *out, size_t *n) {
  if (!node_valid(node) || !n) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; out && i < *n; i++) out[i] = i < node->n_after ? node->after[i] : NULL;
  if (!out || *n > node->n_after) *n = node->n_after;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *out, size_t *n) {
  ENTER("cuGraphNodeGetDependencies", 0);
  return dependencies(node, out, n);
}

EXPORT CUresult CUDAAPI cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *edges,
                                                      size_t *n) {
  ENTER("cuGraphNodeGetDependencies_v2", 0);
  CUresult r = dependencies(node, out, n);
  if (!r && edges && out) memset(edges, 0, *n * sizeof *edges);
  return r;
}

EXPORT CUresult CUDAAPI cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
  ENTER("cuGraphNodeGetType", 0);
  if (!node_valid(node) || !type) return CUDA_ERROR_INVALID_VALUE;
  *type = node->type;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *p) {
  ENTER("cuGraphKernelNodeGetParams_v2", 0);
  if (!node_valid(node) || node->op.kind != OP_KERNEL || !p) return CUDA_ERROR_INVALID_VALUE;
  const struct op *op = &node->op;
  *p = (CUDA_KERNEL_NODE_PARAMS){.func = op->u.kernel.f,
                                 .gridDimX = op->u.kernel.grid[0],
                                 .gridDimY = op->u.kernel.grid[1],
                                 .gridDimZ = op->u.kernel.grid[2],
                                 .blockDimX = op->u.kernel.block[0],
                                 .blockDimY = op->u.kernel.block[1],
                                 .blockDimZ = op->u.kernel.block[2],
                                 .sharedMemBytes = op->u.kernel.shared};
  return CUDA_SUCCESS;
}

/* ---- instances ---- */

static CUresult instantiate(CUgraphExec *out, CUgraph g) {
  if (!out || !graph_valid(g)) return CUDA_ERROR_INVALID_VALUE;
  CUgraphExec e = calloc(1, sizeof *e);
  if (!e) return CUDA_ERROR_OUT_OF_MEMORY;
  e->magic = MAGIC_EXEC;
  e->graph = graph_copy(g);
  *out = e;
  return e->graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult CUDAAPI cuGraphInstantiate_v2(CUgraphExec *out, CUgraph g, CUgraphNode *bad, char *log, size_t n) {
  ENTER_CONTEXT("cuGraphInstantiate_v2", 0);
  if (bad) *bad = NULL;
  if (log && n) *log = '\0';
  return instantiate(out, g);
}

EXPORT CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph g, unsigned long long flags) {
  ENTER_CONTEXT("cuGraphInstantiateWithFlags", 0);
  if (flags & ~(unsigned long long)(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                    CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY))
    return CUDA_ERROR_NOT_SUPPORTED;
  return instantiate(out, g);
}

EXPORT CUresult CUDAAPI cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS *p) {
  ENTER_CONTEXT("cuGraphInstantiateWithParams", 0);
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  CUresult r = instantiate(out, g);
  p->hErrNode_out = NULL;
  p->result_out = r ? CUDA_GRAPH_INSTANTIATE_ERROR : CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return r;
}

static bool exec_valid(CUgraphExec e) { return e && e->magic == MAGIC_EXEC; }

EXPORT CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec e) {
  ENTER("cuGraphExecDestroy", 0);
  if (!exec_valid(e)) return CUDA_ERROR_INVALID_VALUE;
  graph_free(e->graph);
  e->magic = 0;
  free(e);
  return CUDA_SUCCESS;
}

static void run_graph(CUgraph g) {
  for (size_t i = 0; i < g->n; i++) {
    if (g->node[i]->op.kind == OP_CHILD)
      run_graph(g->node[i]->op.u.child.graph);
    else if (g->node[i]->op.kind == OP_KERNEL)
      op_count_kernel(&g->node[i]->op);
    else
      op_run(&g->node[i]->op);
  }
}

EXPORT CUresult CUDAAPI cuGraphLaunch(CUgraphExec e, CUstream handle) {
  ENTER_CONTEXT("cuGraphLaunch", 0);
  CUstream s = stream_get(handle);
  if (!s) return CUDA_ERROR_INVALID_HANDLE;
  if (!exec_valid(e)) return CUDA_ERROR_INVALID_VALUE;
  if (s->capture) return capture_add(s, &(struct op){.kind = OP_CHILD, .u.child = {graph_copy(e->graph)}});
  run_graph(e->graph);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuGraphUpload(CUgraphExec e, CUstream s) {
  ENTER_CONTEXT("cuGraphUpload", 0);
  return !exec_valid(e) ? CUDA_ERROR_INVALID_VALUE : stream_get(s) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult CUDAAPI cuGraphExecUpdate_v2(CUgraphExec e, CUgraph g, CUgraphExecUpdateResultInfo *info) {
  ENTER_CONTEXT("cuGraphExecUpdate_v2", 0);
  if (!exec_valid(e) || !graph_valid(g) || !info) return CUDA_ERROR_INVALID_VALUE;
  bool same = e->graph->n == g->n;
  for (size_t i = 0; same && i < g->n; i++) same = e->graph->node[i]->type == g->node[i]->type;
  memset(info, 0, sizeof *info);
  info->result = same ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  if (!same) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  graph_free(e->graph);
  e->graph = graph_copy(g);
  return e->graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- user objects ---- */

EXPORT CUresult CUDAAPI cuUserObjectCreate(CUuserObject *out, void *data, CUhostFn destroy, unsigned references,
                                           unsigned flags) {
  ENTER("cuUserObjectCreate", 0);
  if (!out || !destroy || !references || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) return CUDA_ERROR_INVALID_VALUE;
  CUuserObject o = calloc(1, sizeof *o);
  if (!o) return CUDA_ERROR_OUT_OF_MEMORY;
  *o = (struct CUuserObject_st){(int)references, destroy, data};
  *out = o;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuUserObjectRetain(CUuserObject o, unsigned n) {
  ENTER("cuUserObjectRetain", 0);
  if (!o || !n) return CUDA_ERROR_INVALID_VALUE;
  __atomic_fetch_add(&o->references, (int)n, __ATOMIC_ACQ_REL);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuUserObjectRelease(CUuserObject o, unsigned n) {
  ENTER("cuUserObjectRelease", 0);
  if (!o || !n) return CUDA_ERROR_INVALID_VALUE;
  object_put(o, n);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuGraphRetainUserObject(CUgraph g, CUuserObject o, unsigned n, unsigned flags) {
  ENTER("cuGraphRetainUserObject", 0);
  if (!graph_valid(g) || !o || !n || flags & ~1u) return CUDA_ERROR_INVALID_VALUE;
  for (int i = 0; i < 16; i++) {
    if (g->object[i] && g->object[i] != o) continue;
    g->object[i] = o;
    g->references[i] += n;
    if (!(flags & CU_GRAPH_USER_OBJECT_MOVE)) __atomic_fetch_add(&o->references, (int)n, __ATOMIC_ACQ_REL);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_SUPPORTED;
}

EXPORT CUresult CUDAAPI cuGraphReleaseUserObject(CUgraph g, CUuserObject o, unsigned n) {
  ENTER("cuGraphReleaseUserObject", 0);
  for (int i = 0; graph_valid(g) && i < 16; i++) {
    if (g->object[i] != o || g->references[i] < n) continue;
    g->references[i] -= n;
    if (!g->references[i]) g->object[i] = NULL;
    object_put(o, n);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

/* Memory that graphs themselves allocate is not imitated: always none. */
EXPORT CUresult CUDAAPI cuDeviceGetGraphMemAttribute(CUdevice d, CUgraphMem_attribute a, void *value) {
  ENTER("cuDeviceGetGraphMemAttribute", 0);
  if (d || !value || a > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) return CUDA_ERROR_INVALID_VALUE;
  *(cuuint64_t *)value = 0;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDeviceSetGraphMemAttribute(CUdevice d, CUgraphMem_attribute a, void *value) {
  ENTER("cuDeviceSetGraphMemAttribute", 0);
  if (d || !value || (a != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH && a != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH))
    return CUDA_ERROR_INVALID_VALUE;
  return *(cuuint64_t *)value ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDeviceGraphMemTrim(CUdevice d) {
  ENTER("cuDeviceGraphMemTrim", 0);
  return d ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}
