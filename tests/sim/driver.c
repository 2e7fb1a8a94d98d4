/* driver.c - the driver stand-in by its documented behaviour: look-ups, memory, rules, clock, images. */
#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include "check.h"
#include "gb10sim.h"

static const size_t MIB = 1 << 20, GIB = 1 << 30;

static void look_ups(void) {
  void *p = NULL, *old = NULL, *twin = NULL;
  CUdriverProcAddressQueryResult s;
  EQUAL(cuGetProcAddress("cuMemAlloc", &p, 13000, 0, &s), 0);
  EQUAL(s, CU_GET_PROC_ADDRESS_SUCCESS);
  EQUAL(p == (void *)cuMemAlloc, 1); /* the header's name is the newest form */
  EQUAL(cuGetProcAddress("cuMemAlloc", &old, 2000, 0, &s), 0);
  EQUAL(old && old != p, 1);
  EQUAL(cuGetProcAddress("cuLibraryLoadData", &p, 11080, 0, &s), 0);
  EQUAL(s, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EQUAL(p == NULL, 1);
  EQUAL(cuGetProcAddress("cuNoSuchCall", &p, 13000, 0, &s), 0);
  EQUAL(s, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EQUAL(cuGetProcAddress("cuMemcpyAsync", &p, 13000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &s), 0);
  EQUAL(cuGetProcAddress("cuMemcpyAsync", &twin, 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &s), 0);
  EQUAL(p != twin, 1);
  EQUAL(twin == dlsym(RTLD_DEFAULT, "cuMemcpyAsync_ptsz"), 1);
  EQUAL(cuGetProcAddress("cuMemAlloc", &p, 13000, 3, &s), CUDA_ERROR_INVALID_VALUE);
  EQUAL(cuGetProcAddress("cuMemAlloc", NULL, 13000, 0, &s), CUDA_ERROR_INVALID_VALUE);
}

/* Every route takes from MemFree, and the file says so before the call returns. */
static void memory(void) {
  CUdeviceptr d, m, async;
  void *host;
  size_t free_bytes, total;
  long long before = meminfo("MemFree"), available = meminfo("MemAvailable");
  EQUAL(cuMemGetInfo(&free_bytes, &total), 0);
  EQUAL(free_bytes / 1024, before);
  EQUAL(total / 1024, meminfo("MemTotal"));
  EQUAL(cuMemAlloc(&d, 4 * GIB), 0);
  EQUAL(meminfo("MemFree"), before - 4 * 1048576);
  EQUAL(meminfo("MemAvailable"), available - 4 * 1048576);
  EQUAL(cuMemAllocManaged(&m, GIB, CU_MEM_ATTACH_GLOBAL), 0);
  EQUAL(cuMemHostAlloc(&host, GIB, 0), 0);
  EQUAL(cuMemAllocAsync(&async, GIB, NULL), 0);
  EQUAL(meminfo("MemFree"), before - 7 * 1048576);
  EQUAL(cuMemFree(d) | cuMemFree(m) | cuMemFreeHost(host) | cuMemFreeAsync(async, NULL), 0);
  EQUAL(meminfo("MemFree"), before);
  EQUAL(cuMemFree(d), CUDA_ERROR_INVALID_VALUE);
}

/* More than MemFree: page cache goes. More than there is: error 2, and nothing has moved. */
static void running_out(void) {
  CUdeviceptr d, e;
  long long cached = meminfo("Cached"), available = meminfo("MemAvailable");
  size_t more = ((size_t)meminfo("MemFree") + 4 * 1048576) * 1024;
  EQUAL(cuMemAlloc(&d, more), 0);
  EQUAL(meminfo("Cached") < cached, 1);
  EQUAL(meminfo("MemFree") >= 0, 1);
  long long left = meminfo("MemAvailable");
  EQUAL(cuMemAlloc(&e, (size_t)left * 1024 + GIB), CUDA_ERROR_OUT_OF_MEMORY);
  EQUAL(meminfo("MemAvailable"), left);
  EQUAL(cuMemFree(d), 0);
  EQUAL(meminfo("MemAvailable"), available);
}

static void contents(void) {
  CUdeviceptr d;
  char out[64] = "", zero[64] = "";
  EQUAL(cuMemAlloc(&d, 8 * GIB), 0);
  EQUAL(cuMemcpyHtoD(d + 7 * GIB, "far out", 8), 0);
  EQUAL(cuMemcpyDtoH(out, d + 7 * GIB, 8), 0);
  EQUAL(strcmp(out, "far out"), 0);
  EQUAL(cuMemsetD8(d, 0, 8 * GIB), 0);
  EQUAL(cuMemcpyDtoH(out, d + 7 * GIB, 8), 0);
  EQUAL(memcmp(out, zero, 8), 0);
  EQUAL(cuMemcpyHtoD(d + 8 * GIB - 4, "too far", 8), CUDA_ERROR_INVALID_VALUE);
  EQUAL(cuMemFree(d), 0);
}

static void virtual_memory(void) {
  CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                              .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
  CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemGenericAllocationHandle h;
  CUdeviceptr va;
  size_t granule = 0;
  int word = 7, back = 0;
  long long before = meminfo("MemFree");
  EQUAL(cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM), 0);
  EQUAL(cuMemAddressReserve(&va, 64 * granule, 0, 0, 0), 0);
  EQUAL(meminfo("MemFree"), before);
  EQUAL(cuMemCreate(&h, 10 * granule, &prop, 0), 0);
  EQUAL(meminfo("MemFree"), before - (long long)(10 * granule / 1024));
  EQUAL(cuMemMap(va + granule, 10 * granule, 0, h, 0), 0);
  EQUAL(cuMemSetAccess(va + granule, 10 * granule, &access, 1), 0);
  EQUAL(cuMemcpyHtoD(va + 5 * granule, &word, 4) | cuMemcpyDtoH(&back, va + 5 * granule, 4), 0);
  EQUAL(back, 7);
  EQUAL(cuMemRelease(h), 0); /* the mapping keeps it */
  EQUAL(meminfo("MemFree"), before - (long long)(10 * granule / 1024));
  EQUAL(cuMemUnmap(va + granule, 10 * granule), 0);
  EQUAL(meminfo("MemFree"), before);
  EQUAL(cuMemAddressFree(va, 64 * granule), 0);
}

/* driver.scn: the third request of 100 MiB or more is refused twice; the first query of a stream waits 300 s. */
static void rules(void) {
  CUdeviceptr d[6];
  CUevent a, b;
  float ms = 0;
  for (int i = 0; i < 6; i++) EQUAL(cuMemAlloc(&d[i], (i == 1 ? 1 : 200) * MIB), i == 3 || i == 4 ? 2 : 0);
  EQUAL(cuMemFree(d[0]) | cuMemFree(d[1]) | cuMemFree(d[2]) | cuMemFree(d[5]), 0);
  EQUAL(cuEventCreate(&a, 0) | cuEventCreate(&b, 0) | cuEventRecord(a, NULL), 0);
  gb10sim_mark("fast");
  EQUAL(cuStreamQuery(NULL), 0);
  gb10sim_mark("slow");
  usleep(50000); /* a jump of the old pace may be under way */
  EQUAL(cuEventRecord(b, NULL) | cuEventElapsedTime(&ms, a, b), 0);
  EQUAL(ms >= 300e3f, 1);
}

static void timeline(void) {
  gb10sim_mark("load");
  EQUAL(meminfo("Dirty"), 0);
  gb10sim_advance(5000000);
  EQUAL(meminfo("Dirty"), 4096);
  gb10sim_mark("resume");
  gb10sim_advance(1000000);
  long long half = meminfo("Writeback");
  EQUAL(half >= 500 && half < 560, 1);
  gb10sim_advance(3600000000u);
  EQUAL(meminfo("Writeback"), 1000);
}

static CUresult load_ptx(const char *target, const char *version) {
  CUmodule m;
  char text[256];
  snprintf(
      text, sizeof text,
      "// made by hand\n.version %s\n.target %s\n.address_size 64\n.visible .entry twice(.param .u64 p)\n{ ret; }\n",
      version, target);
  CUresult r = cuModuleLoadData(&m, text);
  return r ? r : cuModuleUnload(m);
}

/* facts/cuda_images.md, "What loads on compute capability 12.1". */
static void images(void) {
  EQUAL(load_ptx("sm_80", "8.0"), 0);
  EQUAL(load_ptx("sm_121", "9.0"), 0);
  EQUAL(load_ptx("sm_120f", "9.0"), 0);
  EQUAL(load_ptx("sm_121a", "9.0"), 0);
  EQUAL(load_ptx("sm_120a", "9.0"), CUDA_ERROR_INVALID_PTX);
  EQUAL(load_ptx("sm_90a", "8.0"), CUDA_ERROR_INVALID_PTX);
  EQUAL(load_ptx("sm_121", "9.1"), CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
}

static int doubled;
static void twice(const struct gb10sim_launch *launch) { doubled = 2 * **(int **)launch->args * (int)launch->grid[0]; }

static void launches(void) {
  CUmodule m;
  CUfunction f;
  int word = 21;
  void *args[] = {&word};
  EQUAL(cuModuleLoadData(&m, ".version 9.0\n.target sm_121\n.visible .entry twice(\n)\n{ ret; }\n"), 0);
  EQUAL(cuModuleGetFunction(&f, m, "thrice"), CUDA_ERROR_NOT_FOUND);
  EQUAL(cuModuleGetFunction(&f, m, "twice"), 0);
  EQUAL(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, args, NULL), 0);
  EQUAL(doubled, 0);
  EQUAL(gb10sim_register_kernel("twice", twice), 0);
  EQUAL(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, args, NULL), 0);
  EQUAL(doubled, 42);
  EQUAL(cuLaunchKernel(f, 1, 1, 1, 2048, 1, 1, 0, NULL, args, NULL), CUDA_ERROR_INVALID_VALUE);
  EQUAL(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 101376), 0);
  EQUAL(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 101377), CUDA_ERROR_INVALID_VALUE);
}

static void graphs(void) {
  CUstream s;
  CUgraph g;
  CUgraphExec e;
  CUdeviceptr d;
  unsigned word = 0;
  EQUAL(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) | cuMemAlloc(&d, 64), 0);
  EQUAL(cuMemsetD32(d, 1, 16), 0);
  EQUAL(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
  EQUAL(cuMemsetD32Async(d, 5, 16, s), 0);
  EQUAL(cuStreamQuery(s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EQUAL(cuStreamEndCapture(s, &g), 0);
  EQUAL(cuMemcpyDtoH(&word, d, 4), 0);
  EQUAL(word, 1);
  EQUAL(cuGraphInstantiate(&e, g, 0) | cuGraphLaunch(e, s) | cuStreamSynchronize(s) | cuMemcpyDtoH(&word, d, 4), 0);
  EQUAL(word, 5);
}

/* A stream that joins by an event takes part, and is free again when the capture has ended. */
static void forked_capture(void) {
  CUstream a, b;
  CUevent fork_point, join_point;
  CUgraph g;
  CUdeviceptr d;
  size_t nodes = 0;
  unsigned word = 0;
  EQUAL(cuStreamCreate(&a, 1) | cuStreamCreate(&b, 1) | cuEventCreate(&fork_point, 2) | cuEventCreate(&join_point, 2) |
            cuMemAlloc(&d, 64),
        0);
  EQUAL(cuMemsetD32(d, 1, 1), 0);
  EQUAL(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
  EQUAL(cuEventRecord(fork_point, a) | cuStreamWaitEvent(b, fork_point, 0) | cuMemsetD32Async(d, 9, 1, b), 0);
  EQUAL(cuEventRecord(join_point, b) | cuStreamWaitEvent(a, join_point, 0) | cuStreamEndCapture(a, &g), 0);
  EQUAL(cuGraphGetNodes(g, NULL, &nodes), 0);
  EQUAL(nodes, 1);
  EQUAL(cuMemcpyDtoHAsync(&word, d, 4, b), 0);
  EQUAL(word, 1);
  EQUAL(cuStreamWaitEvent(b, join_point, 0), CUDA_ERROR_CAPTURED_EVENT);
}

/* An error that breaks the context stays. Last: nothing works behind it. */
static void sticky(void) {
  CUdeviceptr d;
  EQUAL(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  EQUAL(cuMemAlloc(&d, 64), CUDA_ERROR_ILLEGAL_ADDRESS);
}

int main(void) {
  CUcontext c;
  CUdeviceptr d;
  int value = 0;
  EQUAL(cuMemAlloc(&d, 64), CUDA_ERROR_NOT_INITIALIZED);
  EQUAL(cuInit(0), 0);
  EQUAL(cuMemAlloc(&d, 64), CUDA_ERROR_INVALID_CONTEXT);
  EQUAL(cuDevicePrimaryCtxRetain(&c, 0) | cuCtxSetCurrent(c), 0);
  EQUAL(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_INTEGRATED, 0), 0);
  EQUAL(value, 1);
  look_ups();
  memory();
  contents();
  virtual_memory();
  running_out();
  rules();
  timeline();
  images();
  launches();
  graphs();
  forked_capture();
  sticky();
  return check_failures != 0;
}
