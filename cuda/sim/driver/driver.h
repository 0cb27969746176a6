// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the libcuda stand-in: what programs reach through the driver API (Triton-like
// launchers, extension modules, cuGetProcAddress), on the same timeline and with the same streams and
// events as the runtime's stand-in. Contexts are names for devices; modules are not looked at, a function
// is its name.
#pragma once

#include <cuda.h>

#include "callback_ids.h"
#include "core/api_call.h"
#include "core/config.h"
#include "core/context.h"
#include "core/event.h"
#include "core/graph.h"
#include "core/memory_calls.h"

#define GWSIM_EXPORT extern "C" __attribute__((visibility("default")))

// First statement of an entry point: declares `call`. Functions are named as they are
// exported: cuMemAlloc_v2.
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

static_assert(int(MemoryError::kInvalidValue) == CUDA_ERROR_INVALID_VALUE);
static_assert(int(MemoryError::kOutOfMemory) == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(int(MemoryError::kInvalidHandle) == CUDA_ERROR_INVALID_HANDLE);
static_assert(int(MemoryError::kAlreadyRegistered) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
static_assert(int(MemoryError::kNotRegistered) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);

class DriverCall : public ApiCall {
 public:
  explicit DriverCall(const ApiInfo& info, Truth truth = Truth::kLogged, const char* symbol = nullptr)
      : ApiCall((ensure_initialized(), info), truth, symbol) {}

  CUresult done(CUresult error = CUDA_SUCCESS) { return ApiCall::done(error); }
  CUresult done(MemoryError error) { return done(static_cast<CUresult>(error)); }
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

}  // namespace gpuwatch::sim
