// SPDX-License-Identifier: Apache-2.0
// Stall: each step prints more than its terminal takes in the time of a step.
#include "model.cuh"
#include "options.h"
#include "phase_log.h"
#include "slow_pipe.h"

int main(int argc, char** argv) {
  const Options o(argc, argv, {{"steps", 50}, {"pieces", 4}, {"piece-ms", 3}});
  Model model;
  SlowPipe terminal(o.number("piece-ms"));
  float* input = nullptr;
  cudaStream_t stream;
  CHECK(cudaMalloc(&input, Model::kParameters * sizeof(float)));
  CHECK(cudaStreamCreate(&stream));
  for (long step = 0; step < o.integer("steps"); ++step) {
    phase_log::Scope phase("step", step);
    {
      phase_log::Scope launch("launch", step);
      model.train(input, stream);
    }
    phase_log::Scope write("write", step);
    terminal.put(o.integer("pieces"));
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(input));
}
