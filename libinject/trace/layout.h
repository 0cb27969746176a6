// SPDX-License-Identifier: Apache-2.0
// The page grid of a trace file: sizes, identifiers and flag bits that trace.fbs cannot express. Shared by
// the recorder and the analyzer; constants only. Grammar: docs/trace-format.md.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuwatch::trace {

inline constexpr uint16_t kMajorVersion = 1;   // a reader refuses a newer major
inline constexpr uint16_t kMinorVersion = 12;  // additions that an older reader may ignore

inline constexpr size_t kPageBytes = 4096;
inline constexpr size_t kSegmentBytes = 4u << 20;  // the file grows, and is mapped, in steps of this size
inline constexpr size_t kPagesPerSegment = kSegmentBytes / kPageBytes;
// The first segment grows in smaller steps: 13 processes of a loader with spawned workers left 53 MiB.
inline constexpr size_t kFirstStepPages = 32;
inline constexpr size_t kFirstStepBytes = kFirstStepPages * kPageBytes;
// A frame never crosses a segment, so that a process maps only the segments it writes to.
inline constexpr size_t kMaxFramePages = 64;

// A thread's first chunk is small, because most threads of a job record a handful of waits; the
// next ones grow.
inline constexpr uint32_t kFirstChunkPages = 1;
inline constexpr uint32_t kChunkPages = 16;
inline constexpr uint32_t kTableChunkPages = 4;

inline constexpr char kHeaderIdentifier[] = "GWTH";
inline constexpr char kChunkIdentifier[] = "GWTC";
inline constexpr char kTableChunkIdentifier[] = "GWTT";

inline constexpr uint8_t kDetailSlots = 3;  // mask
inline constexpr uint8_t kLongSpan = 4;     // span counts 1024 ticks (or ns)
inline constexpr uint8_t kFailed = 8;
inline constexpr uint8_t kScaledBytes = 16;  // b counts KiB
inline constexpr uint8_t kSourcePageable = 32;
inline constexpr uint8_t kDestinationPageable = 64;
// 128 is reserved: until 1.2 it meant "nested", and nothing set it.

inline constexpr uint32_t kNoParent = 0xffffffff;

// Field `b` of a Collate record: 8 bits for the number of tensors in the batch, 24 for their KiB, both
// rounded up or cut to what fits; 0: unknown.
constexpr uint32_t batch_size(uint32_t tensors, uint64_t bytes) noexcept {
  constexpr uint64_t kMostKib = 0xffffff;
  const uint64_t kib = (bytes + 1023) / 1024;
  return (tensors < 0xff ? tensors : 0xff) << 24 | static_cast<uint32_t>(kib < kMostKib ? kib : kMostKib);
}
constexpr uint32_t batch_tensors(uint32_t packed) noexcept {
  return packed >> 24;
}
constexpr uint64_t batch_bytes(uint32_t packed) noexcept {
  return uint64_t{packed & 0xffffff} << 10;
}

// GW_TRACE_TABLES(X): X(table, identifier) for every cold table. The tail (a string, or none) is
// the last field.
#define GW_TRACE_TABLES(X) \
  X(Text, "TEXT")          \
  X(Operation, "OPER")     \
  X(Process, "PROC")       \
  X(ThreadName, "THRD")    \
  X(ClockSample, "CLOK")   \
  X(Module, "MODL")        \
  X(KernelInfo, "KERN")    \
  X(StreamInfo, "STRM")    \
  X(DeviceInfo, "DEVC")    \
  X(LoaderInfo, "LOAD")    \
  X(WorkerInfo, "WORK")    \
  X(Loss, "LOSS")          \
  X(Source, "SRCE")        \
  X(Fact, "FACT")          \
  X(Sample, "SAMP")        \
  X(ProcessEnd, "ENDP")    \
  X(Mount, "MONT")         \
  X(DeviceSample, "DSMP")  \
  X(PipelineStage, "STGE")

}  // namespace gpuwatch::trace
