// SPDX-License-Identifier: Apache-2.0
// Conjugate gradients inside a learned solver: each iteration looks at the residual on the host.
//   spmv_solver [--check-every N] [--steps N] [--iterations N]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define CUDA(call)                                                                 \
  if (cudaError_t e = (call)) {                                                    \
    std::fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e)); \
    std::exit(1);                                                                  \
  }

__global__ void multiply_120us(const float* matrix, const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 4 * x[i] - (i ? x[i - 1] : 0) - (i + 1 < n ? x[i + 1] : 0) + matrix[i];
}
__global__ void update_30us(float* x, const float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += 0.1f * y[i];
}
__global__ void residual_20us(const float* y, float* out, int n) {
  if (threadIdx.x == 0 && blockIdx.x == 0) *out = y[n / 2];
}
__global__ void learn_1ms(float* weights, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) weights[i] *= 0.999f;
}

static int option(int argc, char** argv, const char* name, int value) {
  for (int i = 1; i + 1 < argc; ++i)
    if (!std::strcmp(argv[i], name)) value = std::atoi(argv[i + 1]);
  return value;
}

int main(int argc, char** argv) {
  const int steps = option(argc, argv, "--steps", 600), every = option(argc, argv, "--check-every", 1);
  const int iterations = option(argc, argv, "--iterations", 20);
  constexpr int n = 1 << 22, warmup = 20;
  float *matrix, *x, *y, *residual, host = 0;
  for (float** p : {&matrix, &x, &y}) {
    CUDA(cudaMalloc(p, n * sizeof(float)));
    CUDA(cudaMemset(*p, 0, n * sizeof(float)));
  }
  CUDA(cudaMalloc(&residual, sizeof(float)));
  auto began = std::chrono::steady_clock::now();
  for (int step = 0; step < steps; ++step) {
    if (step == warmup) {
      CUDA(cudaDeviceSynchronize());
      began = std::chrono::steady_clock::now();
    }
    for (int k = 1; k <= iterations; ++k) {
      multiply_120us<<<n / 256, 256>>>(matrix, x, y, n);
      update_30us<<<n / 256, 256>>>(x, y, n);
      if (k % every) continue;
      residual_20us<<<1, 32>>>(y, residual, n);
      CUDA(cudaMemcpy(&host, residual, sizeof(float), cudaMemcpyDeviceToHost));
      if (host > 1e6f) std::printf("diverges\n");
    }
    learn_1ms<<<n / 256, 256>>>(matrix, n);
    CUDA(cudaGetLastError());
  }
  CUDA(cudaDeviceSynchronize());
  const double ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count() /
      (steps - warmup);
  std::printf("{\"step_ms\": %.4f, \"steps\": %d, \"samples_per_s\": %.3f}\n", ms, steps - warmup, 1e3 / ms);
}
