// SPDX-License-Identifier: Apache-2.0
// Stall: a network of many small operations, each launched on its own: the device finishes a kernel before
// the host has launched the next one. Between launches the host does what a framework's dispatcher does.
// `--graph` is the remedy: the operations are captured once and launched as one graph.
#include <cstdint>

#include "model.cuh"
#include "options.h"
#include "phase_log.h"

static __global__ void pointwise_5us(float* x, float a, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = a * x[i] + 1.0f;
}

static __global__ void optimizer_5us(float* x, float rate, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] -= rate * x[i];
}

// Shapes, strides and keys of an operation, hashed as a dispatcher does to find its kernel.
static uint64_t dispatch(uint64_t key, double us) {
  const int64_t end_ns = phase_log::now_ns() + static_cast<int64_t>(us * 1e3);
  do {
    for (int i = 0; i < 16; ++i) key = (key ^ (key >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
  } while (phase_log::now_ns() < end_ns);
  return key;
}

static cudaGraphExec_t capture(float* x, int elements, int operations, cudaStream_t stream) {
  cudaGraph_t graph;
  cudaGraphExec_t instance;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < operations; ++i) pointwise_5us<<<elements / 256, 256, 0, stream>>>(x, 1.0f, elements);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&instance, graph, 0));
  CHECK(cudaGraphDestroy(graph));
  return instance;
}

int main(int argc, char** argv) {
  const Options o(argc, argv, {{"steps", 50}, {"operations", 400}, {"dispatch-us", 5}, {"graph", 0}});
  constexpr int kElements = 1 << 14;
  float* x = nullptr;
  cudaStream_t stream;
  cudaEvent_t done[2];
  CHECK(cudaMalloc(&x, kElements * sizeof(float)));
  CHECK(cudaStreamCreate(&stream));
  for (cudaEvent_t& event : done) CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  uint64_t key = 1;
  cudaGraphExec_t graph = o.on("graph") ? capture(x, kElements, o.integer("operations"), stream) : nullptr;
  for (long step = 0; step < o.integer("steps"); ++step) {
    phase_log::Scope phase("step", step);
    if (step >= 2) CHECK(cudaEventSynchronize(done[step % 2]));
    if (graph) CHECK(cudaGraphLaunch(graph, stream));
    for (int i = 0; !graph && i < o.integer("operations"); ++i) {
      key = dispatch(key, o.number("dispatch-us"));
      pointwise_5us<<<kElements / 256, 256, 0, stream>>>(x, static_cast<float>(key & 1), kElements);
    }
    optimizer_5us<<<kElements / 256, 256, 0, stream>>>(x, 1e-3f, kElements);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(done[step % 2], stream));
  }
  {
    phase_log::Scope phase("drain", o.integer("steps"));
    CHECK(cudaDeviceSynchronize());
  }
  std::printf("key %llu\n", static_cast<unsigned long long>(key));
  if (graph) CHECK(cudaGraphExecDestroy(graph));
  for (cudaEvent_t event : done) CHECK(cudaEventDestroy(event));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(x));
}
