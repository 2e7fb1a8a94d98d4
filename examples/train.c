/* train.c - a training job without PyTorch: the smallest program that uses the GPU the way a trainer does.
 *
 * It fits a network of one hidden layer to a sine by gradient descent, through the driver's API alone: libcuda.so.1
 * is opened with dlopen, so that the program builds and starts on a machine without a driver. The kernels are PTX text
 * (train.cu, train_ptx.h), compiled by the driver for whatever GPU is there. On the simulated Spark kernels compute
 * nothing unless they have a host version: the two of this program register theirs below, in plain C.
 *
 *   train [--steps N] [--grow]     --grow: afterwards doubles the batch until memory is refused, as people do to
 *                                  find the largest one. Ends with status 1 then. Do not do that to a real Spark
 *                                  that others use: it takes all of its memory.
 */
#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train_ptx.h"

enum { HIDDEN = 32, PARAMS = 3 * HIDDEN + 1, SAMPLES = 256, BLOCK = 64, ACTIVATIONS_PER_SAMPLE = 1 << 20 };

/* The part of cuda.h that is used here; the driver's ABI does not change. */
typedef int CUresult;
typedef uint64_t CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
enum { CUDA_ERROR_OUT_OF_MEMORY = 2 };

#define DRIVER_CALLS(X)                                                                                           \
  X(cuInit, (unsigned))                                                                                           \
  X(cuDeviceGet, (int *, int))                                                                                    \
  X(cuDeviceGetName, (char *, int, int))                                                                          \
  X(cuDevicePrimaryCtxRetain, (CUcontext *, int))                                                                 \
  X(cuCtxSetCurrent, (CUcontext))                                                                                 \
  X(cuCtxSynchronize, (void))                                                                                     \
  X(cuModuleLoadData, (CUmodule *, const void *))                                                                 \
  X(cuModuleGetFunction, (CUfunction *, CUmodule, const char *))                                                  \
  X(cuMemGetInfo_v2, (size_t *, size_t *))                                                                        \
  X(cuMemAlloc_v2, (CUdeviceptr *, size_t))                                                                       \
  X(cuMemFree_v2, (CUdeviceptr))                                                                                  \
  X(cuMemsetD8_v2, (CUdeviceptr, unsigned char, size_t))                                                          \
  X(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t))                                                         \
  X(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t))                                                               \
  X(cuLaunchKernel,                                                                                               \
    (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **)) \
  X(cuGetErrorString, (CUresult, const char **))

static struct {
#define X(name, args) CUresult(*name) args;
  DRIVER_CALLS(X)
#undef X
} cuda;

static void check(CUresult result, const char *what) {
  const char *text = "unknown error";
  if (!result) return;
  cuda.cuGetErrorString(result, &text);
  fprintf(stderr, "train: %s: %s (%d)\n", what, text, result);
  exit(1);
}

/* ---- host versions of the kernels, called only by the simulated Spark ---------------------------------------- */

struct gb10sim_launch { /* as in the simulator's gb10sim.h */
  unsigned grid[3], block[3];
  unsigned shared_bytes;
  void **args;
};

static void *argument(const struct gb10sim_launch *launch, int i) {
  void *p;
  memcpy(&p, launch->args[i], sizeof p);
  return p;
}

static void host_loss_and_gradient(const struct gb10sim_launch *launch) {
  const float *params = argument(launch, 0), *x = argument(launch, 3), *y = argument(launch, 4);
  float *grads = argument(launch, 1), *loss = argument(launch, 2);
  int n;
  memcpy(&n, launch->args[5], sizeof n);
  const float *w1 = params, *b1 = params + HIDDEN, *w2 = params + 2 * HIDDEN;
  for (int i = 0; i < n; i++) {
    float out = params[3 * HIDDEN];
    for (int j = 0; j < HIDDEN; j++) out += w2[j] * fmaxf(0.0f, w1[j] * x[i] + b1[j]);
    float error = out - y[i], d = 2.0f * error / (float)n;
    for (int j = 0; j < HIDDEN; j++) {
      float h = w1[j] * x[i] + b1[j];
      if (h <= 0.0f) continue;
      grads[j] += d * w2[j] * x[i];
      grads[HIDDEN + j] += d * w2[j];
      grads[2 * HIDDEN + j] += d * h;
    }
    grads[3 * HIDDEN] += d;
    *loss += error * error / (float)n;
  }
}

static void host_sgd(const struct gb10sim_launch *launch) {
  float *params = argument(launch, 0), *grads = argument(launch, 1), rate;
  int count;
  memcpy(&rate, launch->args[2], sizeof rate);
  memcpy(&count, launch->args[3], sizeof count);
  for (int i = 0; i < count; i++) {
    params[i] -= rate * grads[i];
    grads[i] = 0.0f;
  }
}

/* True on the simulated Spark. */
static bool register_host_kernels(void) {
  int (*add)(const char *, void (*)(const struct gb10sim_launch *));
  *(void **)&add = dlsym(RTLD_DEFAULT, "gb10sim_register_kernel");
  return add && !add("loss_and_gradient", host_loss_and_gradient) && !add("sgd", host_sgd);
}

/* ---- the job ------------------------------------------------------------------------------------------------- */

static void open_driver(void) {
  void *libcuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!libcuda) {
    fprintf(stderr, "train: no NVIDIA driver: %s\n", dlerror());
    exit(1);
  }
#define X(name, args)                                     \
  *(void **)&cuda.name = dlsym(libcuda, #name);           \
  if (!cuda.name) {                                       \
    fprintf(stderr, "train: driver without %s\n", #name); \
    exit(1);                                              \
  }
  DRIVER_CALLS(X)
#undef X
}

static CUdeviceptr upload(const void *data, size_t size) {
  CUdeviceptr p;
  check(cuda.cuMemAlloc_v2(&p, size), "allocating a buffer");
  if (data)
    check(cuda.cuMemcpyHtoD_v2(p, data, size), "copying to the device");
  else
    check(cuda.cuMemsetD8_v2(p, 0, size), "clearing a buffer");
  return p;
}

static void launch(CUfunction f, unsigned threads, void **args) {
  check(cuda.cuLaunchKernel(f, (threads + BLOCK - 1) / BLOCK, 1, 1, BLOCK, 1, 1, 0, NULL, args, NULL), "launching");
}

/* The initial kinks of the hidden units are spread over the interval: the same start, and so the same losses, every time. */
static void initial_values(float params[PARAMS], float x[SAMPLES], float y[SAMPLES]) {
  memset(params, 0, PARAMS * sizeof *params);
  for (int j = 0; j < HIDDEN; j++) {
    float kink = -3.0f + 6.0f * (float)j / HIDDEN;
    params[j] = j % 2 ? 1.0f : -1.0f;
    params[HIDDEN + j] = -params[j] * kink;
    params[2 * HIDDEN + j] = 0.05f * (float)(j % 5 - 2);
  }
  for (int i = 0; i < SAMPLES; i++) {
    x[i] = -3.0f + 6.0f * (float)i / SAMPLES;
    y[i] = sinf(x[i]);
  }
}

static void train(CUmodule module, long steps) {
  CUfunction loss_and_gradient, sgd;
  float params[PARAMS], x[SAMPLES], y[SAMPLES], loss = 0.0f, rate = 0.02f;
  int n = SAMPLES, count = PARAMS;
  check(cuda.cuModuleGetFunction(&loss_and_gradient, module, "loss_and_gradient"), "looking up a kernel");
  check(cuda.cuModuleGetFunction(&sgd, module, "sgd"), "looking up a kernel");
  initial_values(params, x, y);
  CUdeviceptr d_params = upload(params, sizeof params), d_grads = upload(NULL, sizeof params);
  CUdeviceptr d_x = upload(x, sizeof x), d_y = upload(y, sizeof y), d_loss = upload(NULL, sizeof loss);
  void *gradient_args[] = {&d_params, &d_grads, &d_loss, &d_x, &d_y, &n};
  void *sgd_args[] = {&d_params, &d_grads, &rate, &count};

  for (long step = 0; step <= steps; step++) {
    check(cuda.cuMemsetD8_v2(d_loss, 0, sizeof loss), "clearing the loss");
    launch(loss_and_gradient, SAMPLES, gradient_args);
    launch(sgd, PARAMS, sgd_args);
    if (step % 50 && step != steps) continue;
    check(cuda.cuMemcpyDtoH_v2(&loss, d_loss, sizeof loss), "reading the loss");
    printf("step %4ld  loss %.5f\n", step, (double)loss);
  }
  check(cuda.cuCtxSynchronize(), "waiting for the device");
  CUdeviceptr all[] = {d_params, d_grads, d_x, d_y, d_loss};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) check(cuda.cuMemFree_v2(all[i]), "freeing a buffer");
}

static void print_memory(void) {
  size_t free_bytes, total;
  check(cuda.cuMemGetInfo_v2(&free_bytes, &total), "asking for free memory");
  printf("device memory: %.1f GiB free of %.1f GiB, says the driver\n", (double)free_bytes / 0x1p30,
         (double)total / 0x1p30);
}

/* Doubles the batch until its activations get no memory; never returns. */
static void grow(void) {
  for (unsigned batch = 1024;; batch *= 2) {
    CUdeviceptr activations;
    size_t bytes = (size_t)batch * ACTIVATIONS_PER_SAMPLE;
    CUresult result = cuda.cuMemAlloc_v2(&activations, bytes);
    printf("batch %6u: %5.1f GiB of activations: %s\n", batch, (double)bytes / 0x1p30, result ? "refused" : "ok");
    fflush(stdout);
    check(result, "allocating activations");
    check(cuda.cuMemFree_v2(activations), "freeing activations");
  }
}

int main(int argc, char **argv) {
  long steps = 200;
  bool want_grow = false;
  for (int i = 1; i < argc; i++) {
    char *end = NULL;
    if (!strcmp(argv[i], "--grow"))
      want_grow = true;
    else if (strcmp(argv[i], "--steps") || !argv[++i] || (steps = strtol(argv[i], &end, 10)) < 1 || *end) {
      fprintf(stderr, "usage: train [--steps N] [--grow]\n");
      return 2;
    }
  }

  open_driver();
  char name[96];
  int device;
  CUcontext context;
  CUmodule module;
  check(cuda.cuInit(0), "starting CUDA");
  check(cuda.cuDeviceGet(&device, 0), "looking for a GPU");
  check(cuda.cuDeviceGetName(name, sizeof name, device), "asking for the GPU's name");
  check(cuda.cuDevicePrimaryCtxRetain(&context, device), "making a context");
  check(cuda.cuCtxSetCurrent(context), "making a context");
  printf("GPU: %s%s\n", name, register_host_kernels() ? " (simulated: the figures below are not results)" : "");
  check(cuda.cuModuleLoadData(&module, train_ptx), "loading the kernels");
  print_memory();
  train(module, steps);
  if (want_grow) grow();
  return 0;
}
