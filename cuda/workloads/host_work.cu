// SPDX-License-Identifier: Apache-2.0
// Stall: the program computes its metrics on the thread that launches, longer than the device needs
// for a step. It never waits for the device: a step's launches are made when the metrics of the one
// before are done.
#include <vector>

#include "metrics.h"
#include "model.cuh"
#include "options.h"
#include "phase_log.h"

int main(int argc, char** argv) {
  const Options o(argc, argv, {{"steps", 50}, {"metrics-ms", 10}});
  Model model;
  float* input = nullptr;
  cudaStream_t stream;
  CHECK(cudaMalloc(&input, Model::kParameters * sizeof(float)));
  CHECK(cudaStreamCreate(&stream));
  std::vector<float> window;
  float mean = 0;
  for (long step = 0; step < o.integer("steps"); ++step) {
    phase_log::Scope phase("step", step);
    {
      phase_log::Scope launch("launch", step);
      model.train(input, stream);
    }
    phase_log::Scope metrics("metrics", step);
    mean = update_metrics(window, 1, o.number("metrics-ms"));
  }
  CHECK(cudaDeviceSynchronize());
  std::printf("mean %g\n", static_cast<double>(mean));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(input));
}
