// SPDX-License-Identifier: Apache-2.0
#include "device_attributes.h"

#include "config.h"

namespace gpuwatch::sim {

namespace {
struct Attribute {
  int number;
  int value;
};

constexpr int kMaxInt = 2147483647;

// Those of a device of compute capability 9.0, as far as programs size their work by them.
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
    {39, kThreadsPerMultiprocessor},
    {40, 2},   // AsyncEngineCount
    {41, 1},   // UnifiedAddressing
    {51, 32},  // TexturePitchAlignment
    {75, kComputeMajor},
    {76, kComputeMinor},
    {78, 1},  // StreamPrioritiesSupported
    {79, 1},  // GlobalL1CacheSupported
    {80, 1},  // LocalL1CacheSupported
    {81, static_cast<int>(kSharedBytesPerMultiprocessor)},
    {82, kRegistersPerMultiprocessor},
    {83, 1},        // ManagedMemory
    {87, 2},        // SingleToDoublePrecisionPerfRatio
    {90, 1},        // ComputePreemptionSupported
    {91, 1},        // CanUseHostPointerForRegisteredMem
    {95, 1},        // CooperativeLaunch
    {97, 232'448},  // MaxSharedMemoryPerBlockOptin
    {99, 1},        // HostRegisterSupported
    {106, 32},      // MaxBlocksPerMultiprocessor
    {111, 1024},    // ReservedSharedMemoryPerBlock
    {115, 1},       // MemoryPoolsSupported
    {120, 1},       // ClusterLaunch
};

}  // namespace

int device_attribute(int attribute, int device) {
  constexpr int kMultiprocessorCount = 16;
  constexpr int kPciDeviceId = 34;
  if (attribute == kMultiprocessorCount) return config().multiprocessors;
  if (attribute == kPciDeviceId) return device;
  for (const Attribute& a : kAttributes) {
    if (a.number == attribute) return a.value;
  }
  return 0;
}

}  // namespace gpuwatch::sim
