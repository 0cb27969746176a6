// SPDX-License-Identifier: Apache-2.0
// cuInit, the tool that it lets in, versions and errors.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "core/device_attributes.h"
#include "driver.h"

using namespace gpuwatch::sim;

// Called once, by whoever is first in a process: the library that CUDA_INJECTION64_PATH names is loaded and
// its InitializeInjection called. "none" names no library.
GWSIM_EXPORT void gwsim_inject() {
  const char* path = std::getenv("CUDA_INJECTION64_PATH");
  if (!path || !*path || std::string_view(path) == "none") return;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  using Initialize = int (*)();
  const auto initialize =
      library ? reinterpret_cast<Initialize>(dlsym(library, "InitializeInjection")) : nullptr;
  if (initialize) {
    initialize();
  } else {
    std::fprintf(stderr, "[gpuwatch simulated device] CUDA_INJECTION64_PATH: cannot use %s\n", path);
  }
}

GWSIM_EXPORT CUresult cuInit(unsigned) {
  GWSIM_CALL(cuInit);
  return call.done(config().devices > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE);
}
GWSIM_EXPORT CUresult cuDriverGetVersion(int* version) {
  *version = kCudaVersion;
  return CUDA_SUCCESS;
}
GWSIM_EXPORT CUresult cuGetErrorName(CUresult error, const char** name) {
  for (const ErrorName& entry : kDriverErrorNames) {
    if (entry.code == static_cast<int>(error)) return *name = entry.name, CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}
GWSIM_EXPORT CUresult cuGetErrorString(CUresult error, const char** text) {
  for (const ErrorName& entry : kDriverErrorNames) {
    if (entry.code == static_cast<int>(error)) return *text = entry.text, CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}
