// SPDX-License-Identifier: Apache-2.0
#include "device_attributes.h"

#include <algorithm>
#include <iterator>

#include "config.h"

namespace gpuwatch::sim {

namespace {
struct Attribute {
  int number;
  int value;
};

constexpr int kMaxInt = 2147483647;

// Those of an H100, whatever compute capability is configured, as far as programs size their work by them.
constexpr Attribute kAttributes[] = {
    {1, kThreadsPerBlock},  // MaxThreadsPerBlock
    {2, 1024},              // MaxBlockDimX
    {3, 1024},              // MaxBlockDimY
    {4, 64},                // MaxBlockDimZ
    {5, kMaxInt},           // MaxGridDimX
    {6, 65535},             // MaxGridDimY
    {7, 65535},             // MaxGridDimZ
    {8, static_cast<int>(kSharedBytesPerBlock)},
    {9, 65536},        // TotalConstantMemory
    {10, 32},          // WarpSize
    {11, kMaxInt},     // MaxPitch
    {12, 65536},       // MaxRegistersPerBlock
    {13, 1'980'000},   // ClockRate, kHz
    {14, 512},         // TextureAlignment
    {15, 1},           // GpuOverlap
    {19, 1},           // CanMapHostMemory
    {30, 512},         // SurfaceAlignment
    {31, 1},           // ConcurrentKernels
    {36, 2'619'000},   // MemoryClockRate, kHz
    {37, 5120},        // GlobalMemoryBusWidth
    {38, 52'428'800},  // L2CacheSize
    {40, 2},           // AsyncEngineCount
    {41, 1},           // UnifiedAddressing
    {51, 32},          // TexturePitchAlignment
    {78, 1},           // StreamPrioritiesSupported
    {79, 1},           // GlobalL1CacheSupported
    {80, 1},           // LocalL1CacheSupported
    {82, kRegistersPerMultiprocessor},
    {83, 1},   // ManagedMemory
    {87, 2},   // SingleToDoublePrecisionPerfRatio
    {90, 1},   // ComputePreemptionSupported
    {91, 1},   // CanUseHostPointerForRegisteredMem
    {95, 1},   // CooperativeLaunch
    {99, 1},   // HostRegisterSupported
    {115, 1},  // MemoryPoolsSupported
    {120, 1},  // ClusterLaunch
};

}  // namespace

const ComputeLimits& compute_limits() {
  static constexpr ComputeLimits kLimits[] = {
      {90, 233'472, 232'448, 1024, 2048, 32}, {89, 102'400, 101'376, 1024, 1536, 24},
      {86, 102'400, 101'376, 1024, 1536, 16}, {80, 167'936, 166'912, 1024, 2048, 32},
      {75, 65'536, 65'536, 0, 1024, 16},
  };
  const int capability = config().compute_major * 10 + config().compute_minor;
  for (const ComputeLimits& limits : kLimits) {
    if (limits.capability <= capability) return limits;
  }
  return kLimits[std::size(kLimits) - 1];
}

int device_attribute(int attribute, int device) {
  const ComputeLimits& limits = compute_limits();
  switch (attribute) {
    case 16:  // MultiProcessorCount
      return config().multiprocessors;
    case 34:  // PciDeviceId
      return device;
    case 39:  // MaxThreadsPerMultiProcessor
      return limits.threads_per_multiprocessor;
    case 75:  // ComputeCapabilityMajor
      return config().compute_major;
    case 76:  // ComputeCapabilityMinor
      return config().compute_minor;
    case 81:  // MaxSharedMemoryPerMultiprocessor
      return limits.shared_bytes_per_multiprocessor;
    case 97:  // MaxSharedMemoryPerBlockOptin
      return limits.shared_bytes_per_block_optin;
    case 106:  // MaxBlocksPerMultiprocessor
      return limits.blocks_per_multiprocessor;
    case 111:  // ReservedSharedMemoryPerBlock
      return limits.reserved_shared_bytes_per_block;
  }
  for (const Attribute& a : kAttributes) {
    if (a.number == attribute) return a.value;
  }
  return 0;
}

int active_blocks_per_multiprocessor(int block_size, size_t dynamic_shared_bytes) {
  if (block_size <= 0) return 0;
  const ComputeLimits& limits = compute_limits();
  int blocks = std::min(limits.blocks_per_multiprocessor, limits.threads_per_multiprocessor / block_size);
  if (dynamic_shared_bytes > 0) {
    blocks = std::min(blocks, static_cast<int>(static_cast<size_t>(limits.shared_bytes_per_multiprocessor) /
                                               (dynamic_shared_bytes + 1024)));
  }
  return blocks;
}

}  // namespace gpuwatch::sim
