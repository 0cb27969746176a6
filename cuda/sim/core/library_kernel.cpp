// SPDX-License-Identifier: Apache-2.0
#include "library_kernel.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "config.h"

namespace gpuwatch::sim {

LaunchShape shape_for_bytes(uint64_t bytes) {
  constexpr uint64_t kBlockBytes = 512 * 16;  // 512 threads with a vector of 16 bytes each
  constexpr uint64_t kMostBlocks = std::numeric_limits<int32_t>::max();  // CUDA's limit of grid x
  return {{static_cast<uint32_t>(std::min(bytes / kBlockBytes + 1, kMostBlocks)), 1, 1}, {512, 1, 1}, 0};
}

LibraryKernel memory_kernel(std::string name, uint64_t bytes, double arithmetic_ns) {
  const double traffic_ns = static_cast<double>(bytes) / config().d2d_bytes_per_ns;
  return {std::move(name), shape_for_bytes(bytes),
          config().default_kernel_ns + static_cast<Ns>(std::max(arithmetic_ns, traffic_ns))};
}

}  // namespace gpuwatch::sim
