// SPDX-License-Identifier: Apache-2.0
// Ids of kernels: one for each name and shape (grid, block, shared memory, registers), written to the trace
// as a KernelInfo the first time it is seen. Shapes are bounded and shared out, because jobs with dynamic
// shapes launch with new ones for hours; names have a bound of their own, so that shapes cannot use them up.
// Thread safety: any (CUPTI completes buffers on its own thread and on whoever flushes); no lock when already
// known. Errors: past the bound of shapes a launch keeps its name and gets a KernelInfo without a shape (all
// 0); past that of names it gets id 0, "unknown", and is counted.
#pragma once

#include <cstdint>

namespace gpuwatch::cuda::cupti {

struct KernelShape {
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t shared_bytes;
  uint32_t registers;
};

uint32_t kernel_id(const char* name, const KernelShape& shape) noexcept;

}  // namespace gpuwatch::cuda::cupti
