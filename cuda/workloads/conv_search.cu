// SPDX-License-Identifier: Apache-2.0
// Stall: as cuDNN's benchmark mode does for a shape that it has not met, the program runs a convolution by
// one algorithm after the other and waits for each to take its time. `--every` N: each Nth step brings a new
// shape; 0: only the first step does.
#include "model.cuh"
#include "options.h"
#include "phase_log.h"

#define CONVOLUTION(name)                                                 \
  static __global__ void name(const float* input, float* output, int n) { \
    const int i = blockIdx.x * blockDim.x + threadIdx.x;                  \
    if (i < n) output[i] = input[i];                                      \
  }
CONVOLUTION(sm80_xmma_fprop_implicit_gemm_a_700us)
CONVOLUTION(sm80_xmma_fprop_implicit_gemm_b_900us)
CONVOLUTION(cudnn_winograd_fprop_400us)
CONVOLUTION(implicit_convolve_sgemm_2ms)

int main(int argc, char** argv) {
  const Options o(argc, argv, {{"steps", 50}, {"every", 1}});
  using Kernel = void (*)(const float*, float*, int);
  const Kernel algorithms[] = {sm80_xmma_fprop_implicit_gemm_a_700us, sm80_xmma_fprop_implicit_gemm_b_900us,
                               cudnn_winograd_fprop_400us, implicit_convolve_sgemm_2ms};
  constexpr int kBlocks = Model::kParameters / Model::kThreads;
  Model model;
  float *input = nullptr, *output = nullptr;
  cudaStream_t stream;
  cudaEvent_t begin, end;
  CHECK(cudaMalloc(&input, Model::kParameters * sizeof(float)));
  CHECK(cudaMalloc(&output, Model::kParameters * sizeof(float)));
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  for (long step = 0; step < o.integer("steps"); ++step) {
    phase_log::Scope phase("step", step);
    const bool is_new_shape = step == 0 || (o.integer("every") && step % o.integer("every") == 0);
    if (is_new_shape) {
      phase_log::Scope search("search", step);
      for (const Kernel algorithm : algorithms) {
        CHECK(cudaEventRecord(begin, stream));
        algorithm<<<kBlocks, Model::kThreads, 0, stream>>>(input, output, Model::kParameters);
        CHECK(cudaEventRecord(end, stream));
        CHECK(cudaEventSynchronize(end));
      }
    }
    phase_log::Scope launch("launch", step);
    cudnn_winograd_fprop_400us<<<kBlocks, Model::kThreads, 0, stream>>>(input, output, Model::kParameters);
    model.train(input, stream);
  }
  {
    phase_log::Scope phase("drain", o.integer("steps"));
    CHECK(cudaDeviceSynchronize());
  }
  CHECK(cudaEventDestroy(end));
  CHECK(cudaEventDestroy(begin));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(output));
  CHECK(cudaFree(input));
}
