// SPDX-License-Identifier: Apache-2.0
// Stall: a batch so small that every kernel has a few blocks for 132 multiprocessors and takes little more
// than its fixed time; a larger batch costs hardly more a step. `--batch` is the setting to change.
#include "model.cuh"
#include "options.h"
#include "phase_log.h"

static __global__ void layer(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = fmaxf(0.0f, in[i] * 0.99f + 0.01f);
}

static __global__ void layer_gradient(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] += in[i] > 0.0f ? 0.99f : 0.0f;
}

static __global__ void optimizer_step(float* weights, const float* gradient, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) weights[i] -= 1e-3f * gradient[i];
}

int main(int argc, char** argv) {
  const Options o(argc, argv, {{"steps", 100}, {"batch", 8}, {"layers", 24}});
  constexpr int kBlocksPerSample = 2;
  constexpr int kThreads = 256;
  constexpr int kAhead = 4;  // steps: with two, a host that lost its CPU for 2 ms let the device run dry
  const int batch = o.integer("batch");
  const int blocks = batch * kBlocksPerSample;
  const int n = blocks * kThreads;
  float *x, *y, *host;
  cudaStream_t stream;
  cudaEvent_t done[kAhead];
  CHECK(cudaMalloc(&x, n * sizeof(float)));
  CHECK(cudaMalloc(&y, n * sizeof(float)));
  CHECK(cudaMallocHost(&host, n * sizeof(float)));
  CHECK(cudaStreamCreate(&stream));
  for (cudaEvent_t& event : done) CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  const int64_t begin_ns = phase_log::now_ns();
  for (long step = 0; step < o.integer("steps"); ++step) {
    phase_log::Scope phase("step", step);
    if (step >= kAhead) CHECK(cudaEventSynchronize(done[step % kAhead]));
    CHECK(cudaMemcpyAsync(x, host, n * sizeof(float), cudaMemcpyHostToDevice, stream));
    for (int i = 0; i < o.integer("layers"); ++i) layer<<<blocks, kThreads, 0, stream>>>(x, y, n);
    for (int i = 0; i < o.integer("layers"); ++i) layer_gradient<<<blocks, kThreads, 0, stream>>>(y, x, n);
    optimizer_step<<<blocks, kThreads, 0, stream>>>(x, y, n);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(done[step % kAhead], stream));
  }
  CHECK(cudaDeviceSynchronize());
  const double seconds = static_cast<double>(phase_log::now_ns() - begin_ns) / 1e9;
  std::printf("batch %d: %.3f ms a step, %.1f samples/s\n", batch, seconds * 1e3 / o.integer("steps"),
              o.integer("steps") * batch / seconds);
  for (cudaEvent_t event : done) CHECK(cudaEventDestroy(event));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFreeHost(host));
  CHECK(cudaFree(y));
  CHECK(cudaFree(x));
}
