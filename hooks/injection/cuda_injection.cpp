// SPDX-License-Identifier: Apache-2.0
// What the CUDA driver calls in cuInit() where CUDA_INJECTION64_PATH names this library.
#include "hooks/cudart/cudart.h"
#include "libinject/base/compiler.h"
#include "libinject/base/errno_guard.h"
#include "libinject/runtime/own_library.h"

extern "C" GW_EXPORT void gpuwatch_on_driver_start() {
  const gpuwatch::base::ErrnoGuard keep_errno;
  gpuwatch::hooks::cudart::on_driver_start();
}

// In the middle of cuInit, on the job's thread and before there is a context; the driver takes 1 for success.
extern "C" GW_EXPORT int InitializeInjection() {
  const auto own = reinterpret_cast<const void*>(&gpuwatch_on_driver_start);
  void* first = gpuwatch::runtime::find_in_preloaded_copy("gpuwatch_on_driver_start", own);
  first ? reinterpret_cast<void (*)()>(first)() : gpuwatch_on_driver_start();
  return 1;
}
