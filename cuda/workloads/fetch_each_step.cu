// SPDX-License-Identifier: Apache-2.0
// Stall: each step's output is copied into ordinary memory (`.cpu()`, `.tolist()`, `print(loss)`), and the
// program then works on it while the device has nothing to do. The copy and the synchronization behind it
// wait for the same work, as does `--workspaces` N: memory that is freed at the end of each step.
// `--late`, a remedy, copies into page-locked memory and looks at what was copied two steps before; with
// `--own-stream` the device copies while it trains on.
#include <vector>

#include "metrics.h"
#include "model.cuh"
#include "options.h"
#include "phase_log.h"

int main(int argc, char** argv) {
  const Options o(argc, argv,
                  {{"steps", 100},
                   {"metrics-ms", 3},
                   {"fetch-kib", 256},
                   {"fetches", 1},
                   {"synchronizes", 1},
                   {"late", 0},
                   {"own-stream", 0},
                   {"workspaces", 0}});
  constexpr int kMaxWorkspaces = 16, kBuffers = 3;
  const int workspaces = o.integer("workspaces") < kMaxWorkspaces ? o.integer("workspaces") : kMaxWorkspaces;
  const size_t bytes = static_cast<size_t>(o.integer("fetch-kib")) << 10;
  const bool fetches = o.on("fetches"), late = o.on("late"), synchronizes = o.on("synchronizes");
  Model model;
  float* input = nullptr;
  float* pinned[kBuffers] = {};
  std::vector<float> pageable(bytes / sizeof(float));
  cudaEvent_t copied[kBuffers], trained;
  cudaStream_t stream, copies;
  CHECK(cudaMalloc(&input, Model::kParameters * sizeof(float)));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&trained, cudaEventDisableTiming));
  for (int i = 0; i < kBuffers; ++i) {
    CHECK(cudaMallocHost(&pinned[i], bytes));
    CHECK(cudaEventCreateWithFlags(&copied[i], cudaEventDisableTiming));
    CHECK(cudaEventRecord(copied[i], stream));
  }
  std::vector<float> window;
  float mean = 0;
  CHECK(cudaDeviceSynchronize());
  const int64_t begin_ns = phase_log::now_ns();
  for (long step = 0; step < o.integer("steps"); ++step) {
    phase_log::Scope phase("step", step);
    void* workspace[kMaxWorkspaces] = {};
    for (int i = 0; i < workspaces; ++i) CHECK(cudaMalloc(&workspace[i], 1 << 20));
    {
      phase_log::Scope launch("launch", step);
      model.train(input, stream);
    }
    if (fetches) {
      phase_log::Scope fetch("fetch", step);
      void* to = late ? static_cast<void*>(pinned[step % kBuffers]) : static_cast<void*>(pageable.data());
      const cudaStream_t by = o.on("own-stream") ? copies : stream;
      if (by != stream) CHECK(cudaEventRecord(trained, stream));
      if (by != stream) CHECK(cudaStreamWaitEvent(by, trained, 0));
      CHECK(cudaMemcpyAsync(to, model.output(), bytes, cudaMemcpyDeviceToHost, by));
      if (late) CHECK(cudaEventRecord(copied[step % kBuffers], by));
    }
    if (synchronizes) CHECK(cudaStreamSynchronize(stream));
    if (fetches && late) CHECK(cudaEventSynchronize(copied[(step + 1) % kBuffers]));
    for (int i = 0; i < workspaces; ++i) CHECK(cudaFree(workspace[i]));
    phase_log::Scope metrics("metrics", step);
    mean =
        update_metrics(window, late ? *pinned[(step + 1) % kBuffers] : pageable[0], o.number("metrics-ms"));
  }
  {
    phase_log::Scope phase("drain", o.integer("steps"));
    CHECK(cudaDeviceSynchronize());
  }
  const double ms = static_cast<double>(phase_log::now_ns() - begin_ns) / 1e6;
  std::printf("mean %g\n{\"step_ms\": %.3f}\n", static_cast<double>(mean), ms / o.integer("steps"));
  for (int i = 0; i < kBuffers; ++i) {
    CHECK(cudaFreeHost(pinned[i]));
    CHECK(cudaEventDestroy(copied[i]));
  }
  CHECK(cudaEventDestroy(trained));
  CHECK(cudaStreamDestroy(copies));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(input));
}
