// SPDX-License-Identifier: Apache-2.0
// A network of many small operators on particles, each launched by an interpreter of the model's graph.
//   particle_net [--graph 1] [--batch N] [--steps N]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#define CUDA(call)                                                                 \
  if (cudaError_t e = (call)) {                                                    \
    std::fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e)); \
    std::exit(1);                                                                  \
  }

__global__ void operator_4us(float* x, float a, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = a * x[i] + 1;
}

static int option(int argc, char** argv, const char* name, int value) {
  for (int i = 1; i + 1 < argc; ++i)
    if (!std::strcmp(argv[i], name)) value = std::atoi(argv[i + 1]);
  return value;
}

// Looks each operator up by name, as an interpreter does.
struct Interpreter {
  std::map<std::string, float> operators;
  double sum = 0;
  void run(float* x, int n, int count, cudaStream_t stream) {
    for (int i = 0; i < count; ++i) {
      for (int attribute = 0; attribute < 40; ++attribute)
        sum += operators["layer" + std::to_string(i) + ".attribute" + std::to_string(attribute)];
      operator_4us<<<n / 128, 128, 0, stream>>>(x, 1.0f, n);
    }
  }
};

int main(int argc, char** argv) {
  const int steps = option(argc, argv, "--steps", 500), count = option(argc, argv, "--operators", 300);
  const bool as_graph = option(argc, argv, "--graph", 0) != 0;
  constexpr int n = 1 << 13, warmup = 20;
  float* x;
  cudaStream_t stream;
  CUDA(cudaMalloc(&x, n * sizeof(float)));
  CUDA(cudaStreamCreate(&stream));
  Interpreter interpreter;
  cudaGraphExec_t instance = nullptr;
  if (as_graph) {
    cudaGraph_t graph;
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    interpreter.run(x, n, count, stream);
    CUDA(cudaStreamEndCapture(stream, &graph));
    CUDA(cudaGraphInstantiate(&instance, graph, 0));
  }
  auto began = std::chrono::steady_clock::now();
  for (int step = 0; step < steps; ++step) {
    if (step == warmup) {
      CUDA(cudaDeviceSynchronize());
      began = std::chrono::steady_clock::now();
    }
    if (as_graph) {
      CUDA(cudaGraphLaunch(instance, stream));
    } else {
      interpreter.run(x, n, count, stream);
    }
    if (step % 10 == 9) CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaGetLastError());
  }
  CUDA(cudaDeviceSynchronize());
  const double ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count() /
      (steps - warmup);
  std::printf("{\"step_ms\": %.4f, \"steps\": %d, \"samples_per_s\": %.3f}\n", ms, steps - warmup, 1e3 / ms);
}
