// SPDX-License-Identifier: Apache-2.0
// What a launch puts into a stream, whichever API it came by. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>

#include "kernel.h"
#include "timeline.h"

namespace gpuwatch::sim {

struct LaunchShape {
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t shared_bytes;
  const void* const* arguments = nullptr;  // as the call gave them, where the API has them so
};

// The duration is that of the kernel's own rules, and where it has none, the caller's.
inline constexpr Ns kByKernel = -1;

// Returns when the call that began at `call_begin_ns` has taken its time. False, and nothing launched, where
// no device has room for such a block or there is none.
bool launch(const Kernel& kernel, const LaunchShape& shape, Stream& stream, uint32_t correlation,
            Ns call_begin_ns, Ns duration_ns = kByKernel);

void launch_host_function(std::function<void()> function, Stream& stream, uint32_t correlation);

}  // namespace gpuwatch::sim
