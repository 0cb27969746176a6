// SPDX-License-Identifier: Apache-2.0
// Stall: the host waits for the device in every step to look at the loss, and only then works on its metrics,
// during which the device has nothing to do. `--every` N, the remedy, looks only in each Nth step.
#include <vector>

#include "metrics.h"
#include "model.cuh"
#include "options.h"
#include "phase_log.h"

int main(int argc, char** argv) {
  const Options o(argc, argv, {{"steps", 50}, {"metrics-ms", 3}, {"every", 1}});
  Model model;
  float* input = nullptr;
  float* loss = nullptr;
  cudaStream_t stream;
  CHECK(cudaMalloc(&input, Model::kParameters * sizeof(float)));
  CHECK(cudaMallocHost(&loss, sizeof(float)));
  CHECK(cudaStreamCreate(&stream));
  std::vector<float> window;
  float mean = 0;
  for (long step = 0; step < o.integer("steps"); ++step) {
    phase_log::Scope phase("step", step);
    const bool looks = step % o.integer("every") == 0;
    {
      phase_log::Scope launch("launch", step);
      model.train(input, stream);
      if (looks) CHECK(cudaMemcpyAsync(loss, model.output(), sizeof(float), cudaMemcpyDeviceToHost, stream));
    }
    if (looks) {
      phase_log::Scope sync("sync", step);
      CHECK(cudaStreamSynchronize(stream));
    }
    phase_log::Scope metrics("metrics", step);
    mean = update_metrics(window, *loss, o.number("metrics-ms"));
  }
  {
    phase_log::Scope phase("drain", o.integer("steps"));
    CHECK(cudaDeviceSynchronize());
  }
  std::printf("mean loss %g\n", static_cast<double>(mean));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFreeHost(loss));
  CHECK(cudaFree(input));
}
