// SPDX-License-Identifier: Apache-2.0
// Answers to "what is this device": the numbering is that of CUdevice_attribute and cudaDeviceAttr, which
// agree. Any thread; unknown attributes are 0.
#pragma once

#include <cstddef>

namespace gpuwatch::sim {

int device_attribute(int attribute, int device);

// What differs between compute capabilities and programs size their work by (CUDA C++ Programming Guide,
// "Technical Specifications per Compute Capability"). Profilers compute occupancy from these and complain
// where they do not fit together.
struct ComputeLimits {
  int capability;  // major * 10 + minor
  int shared_bytes_per_multiprocessor;
  int shared_bytes_per_block_optin;
  int reserved_shared_bytes_per_block;
  int threads_per_multiprocessor;
  int blocks_per_multiprocessor;
};

// Of the configured compute capability; of the newest known one below it where that is not known.
const ComputeLimits& compute_limits();

// Of so many threads each; registers are not counted.
int active_blocks_per_multiprocessor(int block_size, size_t dynamic_shared_bytes);

inline constexpr int kCudaVersion = 13000;
inline constexpr size_t kSharedBytesPerBlock = 48 << 10;
inline constexpr int kThreadsPerBlock = 1024;
inline constexpr int kRegistersPerMultiprocessor = 65536;

}  // namespace gpuwatch::sim
