// SPDX-License-Identifier: Apache-2.0
// Training loops of other shapes than "many kernels a step, one by one": a whole step in one CUDA graph, few
// kernels a step, very many equal ones, micro-steps. Each step is logged as a phase, so that the steps found
// can be compared.
//   --kernels N      equal kernels a step, launched one by one (0: none)
//   --graph          the whole step (forward, backward, optimizer) is one graph
//   --eager N        steps launched one by one before the graph is captured
//   --micro N        micro-steps a step: forward and backward each, one optimizer at the end
//   --host-us N      host work after each step
//   --sync-every N   the host waits for the device every N steps, as for a log line
#include <cstdint>

#include "model.cuh"
#include "options.h"
#include "phase_log.h"

static __global__ void cell_5us(float* x, float a, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = a * x[i] + 1.0f;
}

static __global__ void forward_50us(float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = fmaxf(x[i], 0.0f);
}

static __global__ void backward_90us(float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] > 0.0f ? 1.0f : 0.0f;
}

static __global__ void update_20us(float* x, float rate, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] -= rate * x[i];
}

namespace {

constexpr int kElements = 1 << 12, kThreads = 256;

void train(float* x, int micro_steps, cudaStream_t stream) {
  for (int i = 0; i < micro_steps; ++i) {
    forward_50us<<<kElements / kThreads, kThreads, 0, stream>>>(x, kElements);
    backward_90us<<<kElements / kThreads, kThreads, 0, stream>>>(x, kElements);
  }
  update_20us<<<kElements / kThreads, kThreads, 0, stream>>>(x, 1e-3f, kElements);
}

cudaGraphExec_t capture(float* x, int micro_steps, cudaStream_t stream) {
  cudaGraph_t graph;
  cudaGraphExec_t instance;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  train(x, micro_steps, stream);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&instance, graph, 0));
  CHECK(cudaGraphDestroy(graph));
  return instance;
}

void work_on_host(double us) {
  const int64_t end_ns = phase_log::now_ns() + static_cast<int64_t>(us * 1e3);
  while (us > 0 && phase_log::now_ns() < end_ns) {
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options o(argc, argv,
                  {{"steps", 200},
                   {"kernels", 0},
                   {"graph", 0},
                   {"eager", 0},
                   {"micro", 1},
                   {"host-us", 0},
                   {"sync-every", 0}});
  float* x = nullptr;
  cudaStream_t stream;
  CHECK(cudaMalloc(&x, kElements * sizeof(float)));
  CHECK(cudaStreamCreate(&stream));
  cudaGraphExec_t graph = nullptr;
  for (int step = 0; step < o.integer("steps"); ++step) {
    if (o.on("graph") && step == o.integer("eager")) graph = capture(x, o.integer("micro"), stream);
    phase_log::Scope phase("step", step);
    for (int i = 0; i < o.integer("kernels"); ++i)
      cell_5us<<<kElements / kThreads, kThreads, 0, stream>>>(x, 0.5f, kElements);
    if (graph)
      CHECK(cudaGraphLaunch(graph, stream));
    else if (o.integer("kernels") == 0)
      train(x, o.integer("micro"), stream);
    CHECK(cudaGetLastError());
    if (o.on("sync-every") && step % o.integer("sync-every") == 0) CHECK(cudaStreamSynchronize(stream));
    work_on_host(o.number("host-us"));
  }
  CHECK(cudaStreamSynchronize(stream));
  if (graph) CHECK(cudaGraphExecDestroy(graph));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(x));
}
