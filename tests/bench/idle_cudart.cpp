// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime functions that hook_cost calls, each returning at once.
#include <cuda_runtime_api.h>

extern "C" {

cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, size_t, cudaStream_t) {
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t) {
  return cudaSuccess;
}
}
