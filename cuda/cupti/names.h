// SPDX-License-Identifier: Apache-2.0
// What device records refer to by number: streams and their devices; kernels are in kernels.h. Each is
// written to the trace as a table the first time it is seen. Thread safety: any (CUPTI completes buffers on
// its own thread and on whoever flushes); no lock when already known. Errors: a full table is counted as a
// loss and gives id 0, "unknown".
#pragma once

#include <cstdint>

namespace gpuwatch::cuda::cupti {

// Index of a stream for Slot.op. Contexts are numbered per process, so context and stream alone
// tell streams apart.
uint16_t stream_index(uint32_t device, uint32_t context, uint32_t stream) noexcept;

// Describes the devices that were seen since the last call. Calls the CUDA driver: not from a CUPTI callback.
void describe_new_devices() noexcept;

}  // namespace gpuwatch::cuda::cupti
