// SPDX-License-Identifier: Apache-2.0
// Launches as the real libraries make them, which contain a runtime of their own: CUPTI sees a launch, a hook
// of the program's runtime does not.
#pragma once

#include "api_call.h"
#include "callback_ids.h"
#include "context.h"
#include "library_kernel.h"

namespace gpuwatch::sim {

// False, and nothing launched, if there is no such stream or the kernel does not fit.
inline bool launch_from_library(const LibraryKernel& kernel, const void* stream_handle) {
  static constexpr ApiInfo kLaunch{ApiDomain::kRuntime, kRuntimeCbid_cudaLaunchKernel, "cudaLaunchKernel"};
  Stream* stream = stream_of(stream_handle);
  if (!stream) return false;
  ensure_initialized();
  const ApiCall call(kLaunch, ApiCall::Truth::kLogged, kernel.name.c_str());
  return launch(*Kernel::find_or_add(kernel.name.c_str()), kernel.shape, *stream, call.correlation(),
                call.begin_ns(), kernel.duration_ns);
}

// One after the other.
template <class Kernels>
bool launch_all_from_library(const Kernels& kernels, const void* stream_handle) {
  if (!stream_of(stream_handle)) return false;
  for (const LibraryKernel& kernel : kernels)
    if (!launch_from_library(kernel, stream_handle)) return false;
  return true;
}

}  // namespace gpuwatch::sim
