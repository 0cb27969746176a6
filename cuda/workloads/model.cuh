// SPDX-License-Identifier: Apache-2.0
// A small network's training step on one device: forward, backward, optimizer. The kernels compute something
// real; their names carry the duration they have on the simulated device.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                                        \
  do {                                                                                                     \
    const cudaError_t check_error = (call);                                                                \
    if (check_error != cudaSuccess) {                                                                      \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(check_error)); \
      std::exit(1);                                                                                        \
    }                                                                                                      \
  } while (0)

static __global__ void forward_2ms(const float* input, const float* weights, float* output, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) output[i] = fmaxf(0.0f, input[i] * weights[i]);
}

static __global__ void backward_4ms(const float* input, const float* output, float* gradient, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) gradient[i] = output[i] > 0.0f ? input[i] : 0.0f;
}

static __global__ void optimizer_500us(const float* gradient, float* weights, float rate, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) weights[i] -= rate * gradient[i];
}

class Model {
 public:
  static constexpr int kParameters = 1 << 20;
  static constexpr int kThreads = 256;

  Model() {
    for (float** p : {&weights_, &gradient_, &output_}) {
      CHECK(cudaMalloc(p, kParameters * sizeof(float)));
      CHECK(cudaMemset(*p, 0, kParameters * sizeof(float)));
    }
  }
  ~Model() {
    for (float* p : {weights_, gradient_, output_}) cudaFree(p);
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // 6.5 ms of device time on the simulated device.
  void train(const float* input, cudaStream_t stream) {
    const int blocks = (kParameters + kThreads - 1) / kThreads;
    forward_2ms<<<blocks, kThreads, 0, stream>>>(input, weights_, output_, kParameters);
    backward_4ms<<<blocks, kThreads, 0, stream>>>(input, output_, gradient_, kParameters);
    optimizer_500us<<<blocks, kThreads, 0, stream>>>(gradient_, weights_, 1e-3f, kParameters);
    CHECK(cudaGetLastError());
  }

  const float* output() const { return output_; }

 private:
  float* weights_ = nullptr;
  float* gradient_ = nullptr;
  float* output_ = nullptr;
};
