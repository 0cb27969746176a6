// SPDX-License-Identifier: Apache-2.0
// Answers to "what is this device": the numbering is that of CUdevice_attribute and cudaDeviceAttr, which
// agree. Any thread; unknown attributes are 0.
#pragma once

#include <cstddef>

namespace gpuwatch::sim {

int device_attribute(int attribute, int device);

inline constexpr int kComputeMajor = 9;
inline constexpr int kComputeMinor = 0;
inline constexpr int kCudaVersion = 13000;
inline constexpr size_t kSharedBytesPerBlock = 48 << 10;
inline constexpr size_t kSharedBytesPerMultiprocessor = 228 << 10;
inline constexpr int kThreadsPerBlock = 1024;
inline constexpr int kThreadsPerMultiprocessor = 2048;
inline constexpr int kRegistersPerMultiprocessor = 65536;

}  // namespace gpuwatch::sim
