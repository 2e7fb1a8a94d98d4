/* stream.c - streams and events of the libcuda stand-in. See internal.h.
 *
 * Work is done when it is enqueued, so every query answers "done" and every synchronisation returns at once,
 * unless the scenario blocks or fails the call. Events take the simulated time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

static struct CUstream_st legacy = {.magic = MAGIC_STREAM, .id = 1};
static __thread struct CUstream_st per_thread;

CUstream stream_get(CUstream handle) {
  if (!handle || handle == CU_STREAM_LEGACY) return &legacy;
  if (handle == CU_STREAM_PER_THREAD) {
    if (!per_thread.magic) per_thread = (struct CUstream_st){.magic = MAGIC_STREAM, .id = next_id()};
    return &per_thread;
  }
  if (handle->magic != MAGIC_STREAM) return NULL;
  if (handle->capture && capture_ended(handle->capture)) handle->capture = NULL;
  return handle;
}

static CUresult create(CUstream *out, unsigned flags, int priority) {
  if (!out || flags & ~1u) return CUDA_ERROR_INVALID_VALUE;
  CUstream s = calloc(1, sizeof *s);
  if (!s) return CUDA_ERROR_OUT_OF_MEMORY;
  *s = (struct CUstream_st){.magic = MAGIC_STREAM,
                            .flags = flags,
                            .priority = priority > 0    ? 0
                                        : priority < -5 ? -5
                                                        : priority,
                            .id = next_id()};
  *out = s;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuStreamCreate(CUstream *out, unsigned flags) {
  ENTER_CONTEXT("cuStreamCreate", 0);
  return create(out, flags, 0);
}

EXPORT CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority) {
  ENTER_CONTEXT("cuStreamCreateWithPriority", 0);
  return create(out, flags, priority);
}

EXPORT CUresult CUDAAPI cuStreamDestroy_v2(CUstream s) {
  ENTER_CONTEXT("cuStreamDestroy_v2", 0);
  if (!s || s == CU_STREAM_LEGACY || s == CU_STREAM_PER_THREAD || s->magic != MAGIC_STREAM)
    return CUDA_ERROR_INVALID_HANDLE;
  s->magic = 0;
  free(s);
  return CUDA_SUCCESS;
}

#define STREAM(s, handle)          \
  CUstream s = stream_get(handle); \
  if (!s) return CUDA_ERROR_INVALID_HANDLE

EXPORT CUresult CUDAAPI cuStreamSynchronize(CUstream handle) {
  ENTER_CONTEXT("cuStreamSynchronize", 0);
  STREAM(s, handle);
  return s->capture ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuStreamQuery(CUstream handle) {
  ENTER_CONTEXT("cuStreamQuery", 0);
  STREAM(s, handle);
  return s->capture ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuStreamGetPriority(CUstream handle, int *priority) {
  ENTER_CONTEXT("cuStreamGetPriority", 0);
  STREAM(s, handle);
  if (!priority) return CUDA_ERROR_INVALID_VALUE;
  *priority = s->priority;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuStreamGetFlags(CUstream handle, unsigned *flags) {
  ENTER_CONTEXT("cuStreamGetFlags", 0);
  STREAM(s, handle);
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = s->flags;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuStreamGetId(CUstream handle, unsigned long long *id) {
  ENTER_CONTEXT("cuStreamGetId", 0);
  STREAM(s, handle);
  if (!id) return CUDA_ERROR_INVALID_VALUE;
  *id = s->id;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuStreamGetDevice(CUstream handle, CUdevice *d) {
  ENTER_CONTEXT("cuStreamGetDevice", 0);
  STREAM(s, handle);
  if (!d) return CUDA_ERROR_INVALID_VALUE;
  *d = 0;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuStreamGetCtx(CUstream handle, CUcontext *c) {
  ENTER_CONTEXT("cuStreamGetCtx", 0);
  STREAM(s, handle);
  if (!c) return CUDA_ERROR_INVALID_VALUE;
  *c = context_current();
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuStreamGetAttribute(CUstream handle, CUstreamAttrID a, CUstreamAttrValue *value) {
  ENTER_CONTEXT("cuStreamGetAttribute", 0);
  STREAM(s, handle);
  (void)a;
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  memset(value, 0, sizeof *value);
  if (a == CU_LAUNCH_ATTRIBUTE_PRIORITY) value->priority = s->priority;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuStreamSetAttribute(CUstream handle, CUstreamAttrID a, const CUstreamAttrValue *value) {
  ENTER_CONTEXT("cuStreamSetAttribute", 0);
  STREAM(s, handle);
  (void)a;
  return value ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult CUDAAPI cuStreamCopyAttributes(CUstream dst, CUstream src) {
  ENTER_CONTEXT("cuStreamCopyAttributes", 0);
  return stream_get(dst) && stream_get(src) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult CUDAAPI cuStreamAttachMemAsync(CUstream handle, CUdeviceptr p, size_t n, unsigned flags) {
  ENTER_CONTEXT("cuStreamAttachMemAsync", n);
  STREAM(s, handle);
  struct block b;
  (void)flags;
  return block_find(p, &b) && b.kind == BLOCK_MANAGED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult host_function(CUstream handle, CUhostFn fn, void *data) {
  STREAM(s, handle);
  if (!fn) return CUDA_ERROR_INVALID_VALUE;
  struct op op = {.kind = OP_HOST, .u.host = {fn, data}};
  return op_enqueue(s, &op);
}

EXPORT CUresult CUDAAPI cuLaunchHostFunc(CUstream handle, CUhostFn fn, void *data) {
  ENTER_CONTEXT("cuLaunchHostFunc", 0);
  return host_function(handle, fn, data);
}

EXPORT CUresult CUDAAPI cuStreamAddCallback(CUstream handle, CUstreamCallback fn, void *data, unsigned flags) {
  ENTER_CONTEXT("cuStreamAddCallback", 0);
  STREAM(s, handle);
  if (!fn || flags) return CUDA_ERROR_INVALID_VALUE;
  if (s->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  fn(handle, CUDA_SUCCESS, data);
  return CUDA_SUCCESS;
}

/* Memory operations of a stream: done at once on memory that the CPU sees too. */
EXPORT CUresult CUDAAPI cuStreamWriteValue32_v2(CUstream handle, CUdeviceptr p, cuuint32_t value, unsigned flags) {
  ENTER_CONTEXT("cuStreamWriteValue32_v2", 4);
  STREAM(s, handle);
  (void)flags;
  if (!p || p % 4) return CUDA_ERROR_INVALID_VALUE;
  if (s->capture) return CUDA_ERROR_NOT_SUPPORTED;
  __atomic_store_n((cuuint32_t *)(uintptr_t)p, value, __ATOMIC_RELEASE);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuStreamWriteValue64_v2(CUstream handle, CUdeviceptr p, cuuint64_t value, unsigned flags) {
  ENTER_CONTEXT("cuStreamWriteValue64_v2", 8);
  STREAM(s, handle);
  (void)flags;
  if (!p || p % 8) return CUDA_ERROR_INVALID_VALUE;
  if (s->capture) return CUDA_ERROR_NOT_SUPPORTED;
  __atomic_store_n((cuuint64_t *)(uintptr_t)p, value, __ATOMIC_RELEASE);
  return CUDA_SUCCESS;
}

/* ---- events ---- */

static bool valid(CUevent e) { return e && e->magic == MAGIC_EVENT; }

EXPORT CUresult CUDAAPI cuEventCreate(CUevent *out, unsigned flags) {
  ENTER_CONTEXT("cuEventCreate", 0);
  if (!out || flags & ~7u || (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING)))
    return CUDA_ERROR_INVALID_VALUE;
  CUevent e = calloc(1, sizeof *e);
  if (!e) return CUDA_ERROR_OUT_OF_MEMORY;
  *e = (struct CUevent_st){.magic = MAGIC_EVENT, .flags = flags, .ipc = -1};
  *out = e;
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuEventDestroy_v2(CUevent e) {
  ENTER("cuEventDestroy_v2", 0);
  if (!valid(e)) return CUDA_ERROR_INVALID_HANDLE;
  e->magic = 0;
  free(e);
  return CUDA_SUCCESS;
}

static void note_interprocess(CUevent e) {
  struct world *w = driver_world();
  if (e->ipc < 0) return;
  world_lock(w);
  if (w->ipc_event[e->ipc].id == e->ipc_id) w->ipc_event[e->ipc].recorded_us = world_now(w) + 1;
  world_unlock(w);
}

static CUresult record(CUevent e, CUstream handle) {
  STREAM(s, handle);
  if (!valid(e)) return CUDA_ERROR_INVALID_HANDLE;
  if (s->capture) {
    e->capture = s->capture;
    e->n_last = s->n_last;
    memcpy(e->last, s->last, sizeof e->last);
    return CUDA_SUCCESS;
  }
  e->capture = NULL;
  e->recorded = true;
  e->at_us = world_now(driver_world());
  note_interprocess(e);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuEventRecord(CUevent e, CUstream s) {
  ENTER_CONTEXT("cuEventRecord", 0);
  return record(e, s);
}

EXPORT CUresult CUDAAPI cuEventRecordWithFlags(CUevent e, CUstream handle, unsigned flags) {
  ENTER_CONTEXT("cuEventRecordWithFlags", 0);
  if (flags & ~1u) return CUDA_ERROR_INVALID_VALUE;
  STREAM(s, handle);
  if (!(flags & CU_EVENT_RECORD_EXTERNAL) || !s->capture) return record(e, handle);
  if (!valid(e)) return CUDA_ERROR_INVALID_HANDLE;
  struct op op = {.kind = OP_EVENT, .u.event = {e}};
  return op_enqueue(s, &op);
}

EXPORT CUresult CUDAAPI cuEventQuery(CUevent e) {
  ENTER("cuEventQuery", 0);
  if (!valid(e)) return CUDA_ERROR_INVALID_HANDLE;
  return e->capture ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuEventSynchronize(CUevent e) {
  ENTER("cuEventSynchronize", 0);
  if (!valid(e)) return CUDA_ERROR_INVALID_HANDLE;
  return e->capture ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
}

static CUresult elapsed(float *ms, CUevent a, CUevent b) {
  if (!valid(a) || !valid(b)) return CUDA_ERROR_INVALID_HANDLE;
  if (!ms) return CUDA_ERROR_INVALID_VALUE;
  if (!a->recorded || !b->recorded || (a->flags | b->flags) & CU_EVENT_DISABLE_TIMING) return CUDA_ERROR_INVALID_HANDLE;
  *ms = (float)((double)(int64_t)(b->at_us - a->at_us) / 1000.0);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuEventElapsedTime(float *ms, CUevent a, CUevent b) {
  ENTER("cuEventElapsedTime", 0);
  return elapsed(ms, a, b);
}

EXPORT CUresult CUDAAPI cuEventElapsedTime_v2(float *ms, CUevent a, CUevent b) {
  ENTER("cuEventElapsedTime_v2", 0);
  return elapsed(ms, a, b);
}

EXPORT CUresult CUDAAPI cuStreamWaitEvent(CUstream handle, CUevent e, unsigned flags) {
  ENTER_CONTEXT("cuStreamWaitEvent", 0);
  STREAM(s, handle);
  if (!valid(e)) return CUDA_ERROR_INVALID_HANDLE;
  if (flags & ~1u) return CUDA_ERROR_INVALID_VALUE;
  return e->capture ? capture_wait(s, e) : CUDA_SUCCESS;
}

struct ipc_event {
  uint32_t magic;
  int32_t index;
  uint64_t id;
};

EXPORT CUresult CUDAAPI cuIpcGetEventHandle(CUipcEventHandle *out, CUevent e) {
  ENTER_CONTEXT("cuIpcGetEventHandle", 0);
  if (!out || !valid(e)) return CUDA_ERROR_INVALID_HANDLE;
  if (!(e->flags & CU_EVENT_INTERPROCESS)) return CUDA_ERROR_INVALID_HANDLE;
  struct world *w = driver_world();
  world_lock(w);
  if (e->ipc < 0) {
    e->ipc_id = ++w->next_id;
    e->ipc = (int)(e->ipc_id % WORLD_IPC_EVENTS); /* the oldest of 256 gives way */
    w->ipc_event[e->ipc] = (struct world_ipc_event){.recorded_us = e->recorded ? e->at_us + 1 : 0, .id = e->ipc_id};
  }
  world_unlock(w);
  struct ipc_event h = {MAGIC_EVENT, e->ipc, e->ipc_id};
  memset(out, 0, sizeof *out);
  memcpy(out, &h, sizeof h);
  return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuIpcOpenEventHandle(CUevent *out, CUipcEventHandle handle) {
  ENTER_CONTEXT("cuIpcOpenEventHandle", 0);
  struct ipc_event h;
  memcpy(&h, &handle, sizeof h);
  if (!out || h.magic != MAGIC_EVENT || h.index < 0 || h.index >= WORLD_IPC_EVENTS) return CUDA_ERROR_INVALID_VALUE;
  CUevent e = calloc(1, sizeof *e);
  if (!e) return CUDA_ERROR_OUT_OF_MEMORY;
  *e = (struct CUevent_st){
      .magic = MAGIC_EVENT, .flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING, .ipc = h.index, .ipc_id = h.id};
  *out = e;
  return CUDA_SUCCESS;
}
