// SPDX-License-Identifier: Apache-2.0
// A tool as CUDA_INJECTION64_PATH names one: says that it was called, and may itself use CUDA.
#include <cuda_runtime_api.h>

#include <cstdio>

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  int devices = 0;
  cudaGetDeviceCount(&devices);
  std::printf("injected, %d devices\n", devices);
  return 1;
}
