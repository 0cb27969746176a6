// SPDX-License-Identifier: Apache-2.0
// The calling thread's device, and what happens when a process first touches one. Thread-safe.
#pragma once

#include <cstdint>

#include "timeline.h"

namespace gpuwatch::sim {

uint32_t current_device();
// False if there is no such device.
bool set_current_device(int device);

// On the first call of a process: loads the library named by CUDA_INJECTION64_PATH and calls its
// InitializeInjection, as the driver does in cuInit.
void ensure_initialized();

}  // namespace gpuwatch::sim
