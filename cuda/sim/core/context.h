// SPDX-License-Identifier: Apache-2.0
// The calling thread's device, and what happens when a process first touches one. Thread-safe.
#pragma once

#include <cstdint>

#include "api_call.h"
#include "timeline.h"

namespace gpuwatch::sim {

uint32_t current_device();
// False if there is no such device.
bool set_current_device(int device);

// Blocks until everything on the calling thread's device is done, and returns when that was.
Ns wait_for_device();

// The stream behind a handle of the runtime or the driver, null for an invalid handle. 0 is the default
// stream (the thread's own inside a per-thread entry point), 1 the legacy and 2 the per-thread one, in both.
Stream* stream_of(const void* handle);

// Tells CUPTI of a synchronization. `stream` may be null.
void report_sync(SyncKind kind, const Stream* stream, uint32_t event, const ApiCall& call, Ns end_ns);

// On the first call of a process into the runtime or the driver: cuInit's part that a tool can see. The
// runtime goes through libcuda.so.1 for it, as the real one does.
void ensure_initialized();

}  // namespace gpuwatch::sim
