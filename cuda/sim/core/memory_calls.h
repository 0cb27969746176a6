// SPDX-License-Identifier: Apache-2.0
// The memory calls that the runtime and the driver both offer: what each does, and how long it holds the
// caller. The two differ in the names and types of their entry points, and in what they take for a mistake
// where that is a parameter here. Sizes in bytes. Thread-safe.
#pragma once

#include "api_call.h"
#include "copy.h"
#include "memory.h"

namespace gpuwatch::sim {

// cudaError_t and CUresult have the same numbers for these (runtime.h and driver.h check that).
enum class MemoryError {
  kNone = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kInvalidHandle = 400,
  kAlreadyRegistered = 712,
  kNotRegistered = 713,
};

MemoryError allocate(const ApiCall& call, void** pointer, size_t size_bytes, MemoryKind kind);
// Waits for the device first, as the real ones do in practice.
void hold_for_free(ApiCall& call);
MemoryError release(ApiCall& call, void* pointer, bool host_kinds);

MemoryError register_host(const ApiCall& call, void* pointer, size_t size_bytes);
MemoryError unregister_host(void* pointer);
MemoryError device_pointer_of(void** device_pointer, void* host_pointer);
MemoryError memory_info(size_t* free_bytes, size_t* total_bytes);

// `stream` is null for an invalid handle; `fits` is false where the caller was told another
// kind of memory.
MemoryError run_copy(ApiCall& call, void* dst, const void* src, const CopyShape& shape, Stream* stream,
                     bool async, bool fits = true);
MemoryError run_fill(ApiCall& call, void* dst, int value, const CopyShape& shape, Stream* stream, bool async);

}  // namespace gpuwatch::sim
