// SPDX-License-Identifier: Apache-2.0
// No stall to find: the next batch is copied and augmented on a second stream while the first one trains.
// What overlaps must be counted once.
#include "loader.h"
#include "model.cuh"
#include "options.h"
#include "phase_log.h"

static __global__ void augment_1500us(float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * 1.1f - 0.05f;
}

int main(int argc, char** argv) {
  const Options o(argc, argv, {{"steps", 50}, {"batch-mib", 64}});
  const size_t batch_bytes = static_cast<size_t>(o.integer("batch-mib")) << 20;
  Model model;
  float* batch = nullptr;
  float* input[2];
  cudaStream_t compute, side;
  cudaEvent_t filled[2], trained[2];
  CHECK(cudaMallocHost(&batch, batch_bytes));
  CHECK(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  for (int i = 0; i < 2; ++i) {
    CHECK(cudaMalloc(&input[i], batch_bytes));
    CHECK(cudaEventCreateWithFlags(&filled[i], cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&trained[i], cudaEventDisableTiming));
  }
  for (long step = 0; step < o.integer("steps"); ++step) {
    phase_log::Scope phase("step", step);
    const int slot = static_cast<int>(step % 2);
    if (step >= 2) CHECK(cudaEventSynchronize(trained[slot]));
    CHECK(cudaMemcpyAsync(input[slot], batch, batch_bytes, cudaMemcpyHostToDevice, side));
    augment_1500us<<<Model::kParameters / 256, 256, 0, side>>>(input[slot], Model::kParameters);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(filled[slot], side));
    CHECK(cudaStreamWaitEvent(compute, filled[slot], 0));
    model.train(input[slot], compute);
    CHECK(cudaEventRecord(trained[slot], compute));
  }
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < 2; ++i) {
    CHECK(cudaEventDestroy(filled[i]));
    CHECK(cudaEventDestroy(trained[i]));
    CHECK(cudaFree(input[i]));
  }
  CHECK(cudaStreamDestroy(side));
  CHECK(cudaStreamDestroy(compute));
  CHECK(cudaFreeHost(batch));
}
