// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the libcudart stand-in: the entry-point macros, last error, and handles.
#pragma once

#include <cuda_runtime_api.h>

#include "callback_ids.h"
#include "core/api_call.h"
#include "core/config.h"
#include "core/context.h"
#include "core/event.h"
#include "core/graph.h"
#include "core/kernel.h"
#include "core/memory_calls.h"
#include "core/timeline.h"

#define GWSIM_EXPORT extern "C" __attribute__((visibility("default")))

// First statement of an entry point: declares `call`. Logged calls appear in the ground truth; the silent
// ones only answer questions. LAUNCH names the kernel for CUPTI's callbacks.
#define GWSIM_INFO(function)                                                                  \
  static constexpr ::gpuwatch::sim::ApiInfo kInfo {                                           \
    ::gpuwatch::sim::ApiDomain::kRuntime, ::gpuwatch::sim::kRuntimeCbid_##function, #function \
  }
#define GWSIM_CALL(function) \
  GWSIM_INFO(function);      \
  ::gpuwatch::sim::RuntimeCall call(kInfo)
#define GWSIM_SILENT_CALL(function) \
  GWSIM_INFO(function);             \
  ::gpuwatch::sim::RuntimeCall call(kInfo, ::gpuwatch::sim::ApiCall::Truth::kSilent)
#define GWSIM_LAUNCH_CALL(function, symbol) \
  GWSIM_INFO(function);                     \
  ::gpuwatch::sim::RuntimeCall call(kInfo, ::gpuwatch::sim::ApiCall::Truth::kLogged, symbol)

namespace gpuwatch::sim {

extern thread_local cudaError_t t_last_error;

static_assert(int(MemoryError::kInvalidValue) == cudaErrorInvalidValue);
static_assert(int(MemoryError::kOutOfMemory) == cudaErrorMemoryAllocation);
static_assert(int(MemoryError::kInvalidHandle) == cudaErrorInvalidResourceHandle);
static_assert(int(MemoryError::kAlreadyRegistered) == cudaErrorHostMemoryAlreadyRegistered);
static_assert(int(MemoryError::kNotRegistered) == cudaErrorHostMemoryNotRegistered);

class RuntimeCall : public ApiCall {
 public:
  explicit RuntimeCall(const ApiInfo& info, Truth truth = Truth::kLogged, const char* symbol = nullptr)
      : ApiCall((ensure_initialized(), info), truth, symbol) {}

  // `return call.done(error)`: remembers what cudaGetLastError reports.
  cudaError_t done(cudaError_t error = cudaSuccess) {
    if (error != cudaSuccess && error != cudaErrorNotReady) t_last_error = error;
    return ApiCall::done(error);
  }
  cudaError_t done(MemoryError error) { return done(static_cast<cudaError_t>(error)); }
};

// Null for an invalid handle.
inline Stream* resolve(cudaStream_t handle) {
  return stream_of(handle);
}

inline cudaStream_t handle_of(Stream* stream) {
  return reinterpret_cast<cudaStream_t>(stream);
}

inline Event* resolve(cudaEvent_t handle) {
  return reinterpret_cast<Event*>(handle);
}

inline Graph* resolve(cudaGraph_t handle) {
  return reinterpret_cast<Graph*>(handle);
}
inline GraphExec* resolve(cudaGraphExec_t handle) {
  return reinterpret_cast<GraphExec*>(handle);
}

// The kernel behind a host stub's address or a cudaKernel_t; null if unknown.
const Kernel* find_kernel(const void* function_or_handle);

// Address and size of a __device__ variable; false if unknown.
bool find_symbol(const void* symbol, void** address, size_t* size_bytes);

}  // namespace gpuwatch::sim
