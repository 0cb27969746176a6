// SPDX-License-Identifier: Apache-2.0
// Where the fields of CUPTI's activity records lie. The library that runs decides the layout, not the header
// that we were compiled with; but since CUDA 11.2 records only grew at their ends (checked for every version
// of every struct in the vendor's headers), so the fields below are where they are from CUPTI 11.8 to 13.
// Read them through field(); never copy a record whole and never ask for its size.
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>

namespace gpuwatch::cuda::cupti {

template <class T>
inline T field(const void* record, size_t offset) noexcept {
  T value;
  __builtin_memcpy(&value, static_cast<const uint8_t*>(record) + offset, sizeof value);
  return value;
}

namespace kernel {
inline constexpr size_t kRegisters = 6, kStart = 16, kEnd = 24, kDevice = 40, kContext = 44, kStream = 48;
inline constexpr size_t kGrid = 52, kBlock = 64, kStaticShared = 76, kDynamicShared = 80, kCorrelation = 92;
inline constexpr size_t kName = 104;
}  // namespace kernel
namespace copy {
inline constexpr size_t kKind = 4, kSource = 5, kDestination = 6, kBytes = 8, kStart = 16, kEnd = 24;
inline constexpr size_t kDevice = 32, kContext = 36, kStream = 40, kCorrelation = 44, kPeerCorrelation = 60;
}  // namespace copy
namespace fill {  // memset
inline constexpr size_t kBytes = 8, kStart = 16, kEnd = 24, kDevice = 32, kContext = 36, kStream = 40;
inline constexpr size_t kCorrelation = 44;
}  // namespace fill
namespace graph {
inline constexpr size_t kCorrelation = 4, kStart = 8, kEnd = 16, kDevice = 24, kGraph = 28, kContext = 32;
inline constexpr size_t kStream = 36;
}  // namespace graph
namespace overhead {
inline constexpr size_t kOverheadKind = 4, kStart = 24, kEnd = 32;
inline constexpr size_t kCorrelation = 40;  // since CUPTI 12.2
}  // namespace overhead

// The installed header must agree. (Struct names carry a version: these are of CUPTI 13.0.)
#if CUPTI_API_VERSION >= 130000 && CUPTI_API_VERSION < 130100
#define GW_SAME(type, member, offset) \
  static_assert(offsetof(CUpti_Activity##type, member) == (offset), #type "." #member " moved")
GW_SAME(Kernel10, registersPerThread, kernel::kRegisters);
GW_SAME(Kernel10, start, kernel::kStart);
GW_SAME(Kernel10, end, kernel::kEnd);
GW_SAME(Kernel10, deviceId, kernel::kDevice);
GW_SAME(Kernel10, contextId, kernel::kContext);
GW_SAME(Kernel10, streamId, kernel::kStream);
GW_SAME(Kernel10, gridX, kernel::kGrid);
GW_SAME(Kernel10, blockX, kernel::kBlock);
GW_SAME(Kernel10, staticSharedMemory, kernel::kStaticShared);
GW_SAME(Kernel10, dynamicSharedMemory, kernel::kDynamicShared);
GW_SAME(Kernel10, correlationId, kernel::kCorrelation);
GW_SAME(Kernel10, name, kernel::kName);
GW_SAME(Memcpy6, copyKind, copy::kKind);
GW_SAME(Memcpy6, srcKind, copy::kSource);
GW_SAME(Memcpy6, dstKind, copy::kDestination);
GW_SAME(Memcpy6, bytes, copy::kBytes);
GW_SAME(Memcpy6, start, copy::kStart);
GW_SAME(Memcpy6, end, copy::kEnd);
GW_SAME(Memcpy6, deviceId, copy::kDevice);
GW_SAME(Memcpy6, contextId, copy::kContext);
GW_SAME(Memcpy6, streamId, copy::kStream);
GW_SAME(Memcpy6, correlationId, copy::kCorrelation);
GW_SAME(MemcpyPtoP4, start, copy::kStart);
GW_SAME(MemcpyPtoP4, streamId, copy::kStream);
GW_SAME(MemcpyPtoP4, correlationId, copy::kPeerCorrelation);
GW_SAME(Memset4, bytes, fill::kBytes);
GW_SAME(Memset4, start, fill::kStart);
GW_SAME(Memset4, end, fill::kEnd);
GW_SAME(Memset4, deviceId, fill::kDevice);
GW_SAME(Memset4, contextId, fill::kContext);
GW_SAME(Memset4, streamId, fill::kStream);
GW_SAME(Memset4, correlationId, fill::kCorrelation);
GW_SAME(GraphTrace2, correlationId, graph::kCorrelation);
GW_SAME(GraphTrace2, start, graph::kStart);
GW_SAME(GraphTrace2, end, graph::kEnd);
GW_SAME(GraphTrace2, deviceId, graph::kDevice);
GW_SAME(GraphTrace2, graphId, graph::kGraph);
GW_SAME(GraphTrace2, contextId, graph::kContext);
GW_SAME(GraphTrace2, streamId, graph::kStream);
GW_SAME(Overhead3, overheadKind, overhead::kOverheadKind);
GW_SAME(Overhead3, start, overhead::kStart);
GW_SAME(Overhead3, end, overhead::kEnd);
GW_SAME(Overhead3, correlationId, overhead::kCorrelation);
#undef GW_SAME
#endif

}  // namespace gpuwatch::cuda::cupti
