// SPDX-License-Identifier: Apache-2.0
// Stall: every few steps the weights are copied to the host and written to a store that takes its time, while
// the device has nothing to do.
#include "model.cuh"
#include "options.h"
#include "phase_log.h"
#include "slow_pipe.h"

int main(int argc, char** argv) {
  const Options o(argc, argv, {{"steps", 50}, {"every", 10}, {"pieces", 20}, {"piece-ms", 3}});
  Model model;
  SlowPipe store(o.number("piece-ms"));
  float *input = nullptr, *weights = nullptr;
  cudaStream_t stream;
  CHECK(cudaMalloc(&input, Model::kParameters * sizeof(float)));
  CHECK(cudaMallocHost(&weights, Model::kParameters * sizeof(float)));
  CHECK(cudaStreamCreate(&stream));
  for (long step = 0; step < o.integer("steps"); ++step) {
    phase_log::Scope phase("step", step);
    {
      phase_log::Scope launch("launch", step);
      model.train(input, stream);
    }
    if (step % o.integer("every") != o.integer("every") - 1) continue;
    {
      phase_log::Scope copy("copy", step);
      CHECK(cudaMemcpyAsync(weights, model.output(), Model::kParameters * sizeof(float),
                            cudaMemcpyDeviceToHost, stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    phase_log::Scope write("write", step);
    store.put(o.integer("pieces"));
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFreeHost(weights));
  CHECK(cudaFree(input));
}
