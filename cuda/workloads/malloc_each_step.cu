// SPDX-License-Identifier: Apache-2.0
// Stall: a workspace is allocated and freed in every step; freeing waits for the device, and allocating takes
// the host time in which the device has nothing to do. With `--keep` nothing is freed, and memory runs out.
#include "model.cuh"
#include "options.h"
#include "phase_log.h"

int main(int argc, char** argv) {
  const Options o(argc, argv, {{"steps", 50}, {"workspaces", 4}, {"workspace-mib", 256}, {"keep", 0}});
  constexpr int kMaxWorkspaces = 64;
  const int workspaces = o.integer("workspaces") < kMaxWorkspaces ? o.integer("workspaces") : kMaxWorkspaces;
  Model model;
  float* input = nullptr;
  cudaStream_t stream;
  CHECK(cudaMalloc(&input, Model::kParameters * sizeof(float)));
  CHECK(cudaStreamCreate(&stream));
  for (long step = 0; step < o.integer("steps"); ++step) {
    phase_log::Scope phase("step", step);
    void* workspace[kMaxWorkspaces] = {};
    {
      phase_log::Scope allocate("allocate", step);
      for (int i = 0; i < workspaces; ++i) {
        CHECK(cudaMalloc(&workspace[i], static_cast<size_t>(o.integer("workspace-mib")) << 20));
      }
    }
    {
      phase_log::Scope launch("launch", step);
      model.train(input, stream);
    }
    if (o.on("keep")) {
      CHECK(cudaStreamSynchronize(stream));
      continue;
    }
    phase_log::Scope release("release", step);
    for (int i = 0; i < workspaces; ++i) CHECK(cudaFree(workspace[i]));
  }
  {
    phase_log::Scope phase("drain", o.integer("steps"));
    CHECK(cudaDeviceSynchronize());
  }
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(input));
}
