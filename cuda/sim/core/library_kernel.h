// SPDX-License-Identifier: Apache-2.0
// Kernels that a library's stand-in launches: unlike a program's own kernels they know what they compute, so
// the stand-in gives their duration. A "kernel" line of the configuration that matches the name overrules.
#pragma once

#include <cstdint>
#include <string>

#include "launch.h"

namespace gpuwatch::sim {

struct LibraryKernel {
  std::string name;
  LaunchShape shape;
  Ns duration_ns;
};

// Of a kernel that works on this much memory.
LaunchShape shape_for_bytes(uint64_t bytes);

// Takes the longer of its arithmetic and of moving these bytes at d2d_gbs, after default_kernel_us.
LibraryKernel memory_kernel(std::string name, uint64_t bytes, double arithmetic_ns = 0);

}  // namespace gpuwatch::sim
