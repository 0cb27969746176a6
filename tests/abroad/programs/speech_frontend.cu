// SPDX-License-Identifier: Apache-2.0
// A speech trainer in C++: utterances of different lengths, and device buffers made and dropped for each of
// them.
//   speech_frontend [--pool 1] [--steps N] [--layers N]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CUDA(call)                                                                 \
  if (cudaError_t e = (call)) {                                                    \
    std::fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e)); \
    std::exit(1);                                                                  \
  }

__global__ void filterbank_300us(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] * 0.5f;
}
__global__ void layer_forward_200us(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] > 0 ? in[i] : 0;
}
__global__ void layer_backward_400us(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] += in[i];
}

static int option(int argc, char** argv, const char* name, int value) {
  for (int i = 1; i + 1 < argc; ++i)
    if (!std::strcmp(argv[i], name)) value = std::atoi(argv[i + 1]);
  return value;
}

// With a pool a buffer of the longest utterance is made once; without, each is as long as it must be.
struct Buffers {
  bool pooled;
  std::vector<float*> ready;
  float* take(size_t bytes) {
    float* p = nullptr;
    if (pooled && !ready.empty()) {
      p = ready.back();
      ready.pop_back();
      return p;
    }
    CUDA(cudaMalloc(&p, pooled ? size_t{32} << 20 : bytes));
    return p;
  }
  void drop(float* p) {
    if (pooled) {
      ready.push_back(p);
    } else {
      CUDA(cudaFree(p));
    }
  }
};

int main(int argc, char** argv) {
  const int steps = option(argc, argv, "--steps", 500), layers = option(argc, argv, "--layers", 8);
  Buffers buffers{option(argc, argv, "--pool", 0) != 0, {}};
  constexpr int warmup = 20;
  float* host;
  CUDA(cudaMallocHost(&host, size_t{32} << 20));
  std::memset(host, 0, size_t{32} << 20);
  auto began = std::chrono::steady_clock::now();
  for (int step = 0; step < steps; ++step) {
    if (step == warmup) {
      CUDA(cudaDeviceSynchronize());
      began = std::chrono::steady_clock::now();
    }
    const int n = (1 << 18) + step * 7919 % (1 << 20);
    const size_t bytes = n * sizeof(float);
    float* wave = buffers.take(bytes);
    CUDA(cudaMemcpyAsync(wave, host, bytes, cudaMemcpyHostToDevice));
    std::vector<float*> activations{buffers.take(bytes)};
    filterbank_300us<<<(n + 255) / 256, 256>>>(wave, activations[0], n);
    for (int layer = 0; layer < layers; ++layer) {
      activations.push_back(buffers.take(bytes));
      layer_forward_200us<<<(n + 255) / 256, 256>>>(activations[layer], activations[layer + 1], n);
    }
    for (int layer = layers; layer > 0; --layer) {
      layer_backward_400us<<<(n + 255) / 256, 256>>>(activations[layer], activations[layer - 1], n);
      buffers.drop(activations[layer]);
    }
    buffers.drop(activations[0]);
    buffers.drop(wave);
    CUDA(cudaGetLastError());
  }
  CUDA(cudaDeviceSynchronize());
  const double ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count() /
      (steps - warmup);
  std::printf("{\"step_ms\": %.4f, \"steps\": %d, \"samples_per_s\": %.3f}\n", ms, steps - warmup, 1e3 / ms);
}
