// SPDX-License-Identifier: Apache-2.0
// The runtime's way to driver functions: asks the driver stand-in, as the real runtime asks the driver.
#include <cuda.h>
#include <dlfcn.h>

#include "runtime.h"

using namespace gpuwatch::sim;

namespace {

using GetProcAddress = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

cudaError_t look_up(RuntimeCall& call, const char* symbol, void** function, unsigned version,
                    unsigned long long flags, cudaDriverEntryPointQueryResult* status) {
  static void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  static const auto get =
      driver ? reinterpret_cast<GetProcAddress>(dlsym(driver, "cuGetProcAddress_v2")) : nullptr;
  if (!symbol || !function) return call.done(cudaErrorInvalidValue);
  if (!get) return call.done(cudaErrorInsufficientDriver);
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  get(symbol, function, static_cast<int>(version), flags, &found);
  if (status) *status = static_cast<cudaDriverEntryPointQueryResult>(found);
  return call.done();
}

}  // namespace

GWSIM_EXPORT cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function,
                                                          unsigned version, unsigned long long flags,
                                                          cudaDriverEntryPointQueryResult* status) {
  GWSIM_SILENT_CALL(cudaGetDriverEntryPointByVersion);
  return look_up(call, symbol, function, version, flags, status);
}
GWSIM_EXPORT cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function,
                                                 unsigned long long flags,
                                                 cudaDriverEntryPointQueryResult* status) {
  GWSIM_SILENT_CALL(cudaGetDriverEntryPoint);
  return look_up(call, symbol, function, CUDART_VERSION, flags, status);
}
