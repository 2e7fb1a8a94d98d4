/* train.cu - the two kernels of train.c: a network of one hidden ReLU layer, y = b2 + sum_j w2[j] max(0, w1[j] x + b1[j]).
 * Parameters lie as w1[HIDDEN] b1[HIDDEN] w2[HIDDEN] b2. train_ptx.h is made from this file by examples/make-ptx. */
enum { HIDDEN = 32 };

extern "C" __global__ void loss_and_gradient(const float *params, float *grads, float *loss, const float *x, const float *y,
                                             int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float *w1 = params, *b1 = params + HIDDEN, *w2 = params + 2 * HIDDEN;
  float out = params[3 * HIDDEN];
  _Pragma("unroll 1") for (int j = 0; j < HIDDEN; j++) out += w2[j] * fmaxf(0.0f, w1[j] * x[i] + b1[j]);
  float error = out - y[i], d = 2.0f * error / (float)n;
  _Pragma("unroll 1") for (int j = 0; j < HIDDEN; j++) {
    float h = w1[j] * x[i] + b1[j];
    if (h <= 0.0f) continue;
    atomicAdd(&grads[j], d * w2[j] * x[i]);
    atomicAdd(&grads[HIDDEN + j], d * w2[j]);
    atomicAdd(&grads[2 * HIDDEN + j], d * h);
  }
  atomicAdd(&grads[3 * HIDDEN], d);
  atomicAdd(loss, error * error / (float)n);
}

extern "C" __global__ void sgd(float *params, float *grads, float rate, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  params[i] -= rate * grads[i];
  grads[i] = 0.0f;
}
