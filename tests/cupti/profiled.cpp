// SPDX-License-Identifier: Apache-2.0
// A training loop with a profiler in it: profiled <way> <steps> <pause in ms>...
// Steps without the profiler, with it, without it; after each profiled part a pause of the given length, in
// which the program goes on with steps. Two threads give the device work.
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "profiler.h"
#include "tests/sim/device_program.h"

namespace {

const FakeKernel kForward("forward_300us"), kBackward("backward_500us"), kUpdate("update_20us");

void step(cudaStream_t stream, void* memory, const char* host) {
  if (cudaMemcpyAsync(memory, host, 1 << 16, cudaMemcpyHostToDevice, stream) != cudaSuccess) std::_Exit(3);
  kForward.launch(stream, 4);
  std::thread autograd([&] { kBackward.launch(stream, 8); });
  autograd.join();
  for (int i = 0; i < 10; ++i) kUpdate.launch(stream);
  cudaMemsetAsync(memory, 0, 4096, stream);
  if (cudaStreamSynchronize(stream) != cudaSuccess) std::_Exit(3);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const int steps = std::atoi(argv[2]);
  void* memory = nullptr;
  char* host = nullptr;
  if (cudaMalloc(&memory, 1 << 16) != cudaSuccess ||
      cudaMallocHost(reinterpret_cast<void**>(&host), 1 << 16) != cudaSuccess)
    return 3;
  TestStream stream;
  for (int i = 0; i < steps; ++i) step(stream, memory, host);
  for (int part = 3; part < argc; ++part) {
    other_profiler_start(argv[1]);
    for (int i = 0; i < steps; ++i) step(stream, memory, host);
    other_profiler_stop();
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(std::atoi(argv[part]));
    do {
      step(stream, memory, host);
    } while (std::chrono::steady_clock::now() < until);
  }
  std::printf("done\n");
}
