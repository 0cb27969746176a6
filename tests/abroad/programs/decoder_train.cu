// SPDX-License-Identifier: Apache-2.0
// A language model trained in plain CUDA, one file: every launch is checked, and checked well, since a wrong
// index was hard to find once.
//   decoder_train [--check 0] [--loss-every N] [--layers N] [--steps N]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define CUDA(call)                                                                 \
  if (cudaError_t e = (call)) {                                                    \
    std::fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e)); \
    std::exit(1);                                                                  \
  }

static bool check_kernels = true;

// After each launch: errors of the launch at once, errors of the kernel when it has ended.
#define CHECK_KERNEL()             \
  CUDA(cudaGetLastError());        \
  if (check_kernels) {             \
    CUDA(cudaDeviceSynchronize()); \
  }

__global__ void embed_8us(const int* tokens, const float* table, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = table[tokens[i / 768] * 768 + i % 768];
}
__global__ void layernorm_forward_7us(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i];
}
__global__ void matmul_forward_24us(const float* in, const float* weights, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] * weights[i];
}
__global__ void attention_forward_30us(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i];
}
__global__ void gelu_forward_9us(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i];
}
__global__ void residual_forward_6us(const float* a, const float* b, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] + b[i];
}
__global__ void classifier_60us(const float* in, float* loss, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) loss[i % 1024] = in[i];
}
__global__ void matmul_backward_46us(const float* in, const float* weights, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] * weights[i];
}
__global__ void attention_backward_70us(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i];
}
__global__ void gelu_backward_11us(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i];
}
__global__ void layernorm_backward_12us(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i];
}
__global__ void adamw_150us(float* weights, const float* gradients, float* m, float* v, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) weights[i] -= 1e-4f * (m[i] = 0.9f * m[i] + 0.1f * gradients[i]) + v[i];
}

static int option(int argc, char** argv, const char* name, int value) {
  for (int i = 1; i + 1 < argc; ++i)
    if (!std::strcmp(argv[i], name)) value = std::atoi(argv[i + 1]);
  return value;
}

struct Decoder {
  static constexpr int n = 4 * 256 * 768;
  int layers;
  int* tokens;
  float *weights, *gradients, *m, *v, *a, *b, *loss;

  explicit Decoder(int count) : layers(count) {
    CUDA(cudaMalloc(&tokens, n * sizeof(int)));
    for (float** p : {&weights, &gradients, &m, &v, &a, &b, &loss}) CUDA(cudaMalloc(p, n * sizeof(float)));
  }
  void forward() {
    embed_8us<<<n / 256, 256>>>(tokens, weights, a, n);
    CHECK_KERNEL();
    for (int layer = 0; layer < layers; ++layer) {
      layernorm_forward_7us<<<n / 256, 256>>>(a, b, n);
      CHECK_KERNEL();
      matmul_forward_24us<<<n / 256, 256>>>(b, weights, a, n);
      CHECK_KERNEL();
      attention_forward_30us<<<n / 256, 256>>>(a, b, n);
      CHECK_KERNEL();
      residual_forward_6us<<<n / 256, 256>>>(a, b, a, n);
      CHECK_KERNEL();
      matmul_forward_24us<<<n / 256, 256>>>(a, weights, b, n);
      CHECK_KERNEL();
      gelu_forward_9us<<<n / 256, 256>>>(b, a, n);
      CHECK_KERNEL();
      residual_forward_6us<<<n / 256, 256>>>(a, b, a, n);
      CHECK_KERNEL();
    }
    classifier_60us<<<n / 256, 256>>>(a, loss, n);
    CHECK_KERNEL();
  }
  void backward() {
    for (int layer = 0; layer < layers; ++layer) {
      matmul_backward_46us<<<n / 256, 256>>>(a, weights, b, n);
      CHECK_KERNEL();
      gelu_backward_11us<<<n / 256, 256>>>(b, a, n);
      CHECK_KERNEL();
      attention_backward_70us<<<n / 256, 256>>>(a, b, n);
      CHECK_KERNEL();
      matmul_backward_46us<<<n / 256, 256>>>(b, weights, gradients, n);
      CHECK_KERNEL();
      layernorm_backward_12us<<<n / 256, 256>>>(b, a, n);
      CHECK_KERNEL();
    }
  }
  void update() {
    adamw_150us<<<n / 256, 256>>>(weights, gradients, m, v, n);
    CHECK_KERNEL();
  }
};

int main(int argc, char** argv) {
  const int steps = option(argc, argv, "--steps", 2500), loss_every = option(argc, argv, "--loss-every", 1);
  check_kernels = option(argc, argv, "--check", 1) != 0;
  Decoder model(option(argc, argv, "--layers", 12));
  constexpr int warmup = 20, tokens = 4 * 256;
  int* batch;
  CUDA(cudaMallocHost(&batch, tokens * sizeof(int)));
  std::memset(batch, 0, tokens * sizeof(int));
  float loss = 0;
  auto began = std::chrono::steady_clock::now();
  for (int step = 0; step < steps; ++step) {
    if (step == warmup) {
      CUDA(cudaDeviceSynchronize());
      began = std::chrono::steady_clock::now();
    }
    CUDA(cudaMemcpyAsync(model.tokens, batch, tokens * sizeof(int), cudaMemcpyHostToDevice));
    model.forward();
    model.backward();
    model.update();
    if (step % loss_every == 0) CUDA(cudaMemcpy(&loss, model.loss, sizeof(float), cudaMemcpyDeviceToHost));
    if (step % 500 == 0) std::printf("step %d loss %.3f\n", step, loss);
  }
  CUDA(cudaDeviceSynchronize());
  const double ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count() /
      (steps - warmup);
  std::printf("{\"step_ms\": %.4f, \"steps\": %d, \"samples_per_s\": %.3f}\n", ms, steps - warmup, 4e3 / ms);
}
