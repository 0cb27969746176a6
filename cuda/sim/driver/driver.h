// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the libcuda stand-in: what programs reach through the driver API (Triton-like
// launchers, extension modules, cuGetProcAddress), on the same timeline and with the same streams and events
// as the runtime's stand-in. Contexts are names for devices; modules are not looked at, a function is its
// name.
#pragma once

#include <cuda.h>

#include "callback_ids.h"
#include "core/api_call.h"
#include "core/config.h"
#include "core/context.h"
#include "core/event.h"
#include "core/graph.h"

#define GWSIM_EXPORT extern "C" __attribute__((visibility("default")))

// First statement of an entry point: declares `call`. Functions are named as they are exported:
// cuMemAlloc_v2.
#define GWSIM_INFO(function)                                                                \
  static constexpr ::gpuwatch::sim::ApiInfo kInfo {                                         \
    ::gpuwatch::sim::ApiDomain::kDriver, ::gpuwatch::sim::kDriverCbid_##function, #function \
  }
#define GWSIM_CALL(function) \
  GWSIM_INFO(function);      \
  ::gpuwatch::sim::DriverCall call(kInfo)
#define GWSIM_SILENT_CALL(function) \
  GWSIM_INFO(function);             \
  ::gpuwatch::sim::DriverCall call(kInfo, ::gpuwatch::sim::ApiCall::Truth::kSilent)
#define GWSIM_LAUNCH_CALL(function, symbol) \
  GWSIM_INFO(function);                     \
  ::gpuwatch::sim::DriverCall call(kInfo, ::gpuwatch::sim::ApiCall::Truth::kLogged, symbol)

namespace gpuwatch::sim {

class DriverCall : public ApiCall {
 public:
  explicit DriverCall(const ApiInfo& info, Truth truth = Truth::kLogged, const char* symbol = nullptr)
      : ApiCall((ensure_initialized(), info), truth, symbol) {}

  CUresult done(CUresult error = CUDA_SUCCESS) { return ApiCall::done(error); }
};

inline Stream* resolve(CUstream handle) {
  return stream_of(handle);
}
inline Event* resolve(CUevent handle) {
  return reinterpret_cast<Event*>(handle);
}
inline void* at(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

inline bool exists(CUdevice device) {
  return device >= 0 && device < config().devices;
}

// When everything on the calling thread's device is done; blocks until then.
Ns wait_for_device();

}  // namespace gpuwatch::sim
