// SPDX-License-Identifier: Apache-2.0
// The traits of each OpClass, from op_class.def: which detail slot its records carry, and what a call of it
// does. All constexpr; a test of a trait is one load from a table of 1 KiB.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "libinject/trace/trace_generated.h"

namespace gpuwatch::trace {

// Which struct of trace.fbs a record's first detail slot is.
enum class DetailKind : uint8_t { kNone, kCall, kEvent, kCpu, kIo, kRange, kShape };

template <class Detail>
inline constexpr DetailKind kKindOfDetail = DetailKind::kNone;
template <>
inline constexpr DetailKind kKindOfDetail<CallDetail> = DetailKind::kCall;
template <>
inline constexpr DetailKind kKindOfDetail<EventDetail> = DetailKind::kEvent;
template <>
inline constexpr DetailKind kKindOfDetail<CpuDetail> = DetailKind::kCpu;
template <>
inline constexpr DetailKind kKindOfDetail<IoDetail> = DetailKind::kIo;
template <>
inline constexpr DetailKind kKindOfDetail<RangeDetail> = DetailKind::kRange;
template <>
inline constexpr DetailKind kKindOfDetail<ShapeDetail> = DetailKind::kShape;

namespace op_class_traits {

enum Trait : uint16_t {
  kCuda = 1 << 0,      // a function of the CUDA runtime or driver
  kEnqueues = 1 << 1,  // puts work on a stream, for which a device record with its correlation id follows
  kLaunchesKernels = 1 << 2,  // of these, kernels: what training does many times a step
  kStallsOnDevice = 1 << 3,   // may return only when the device has done something
  kWantsCallback = 1 << 4,    // is worth a CUPTI callback. Events and streams are not: a training loop uses
                              // them thousands of times a second, and the symbols show them
  kCommunicates = 1 << 5,     // a function of NCCL; of the host, not the collective on the device
  kManagesMemory = 1 << 6,    // allocates or frees device or pinned memory
  kOffCpu = 1 << 7,           // the thread is off its CPU inside, or waits for the device
  kWaitsForThread = 1 << 8,   // until another thread or process does something
  kPauses = 1 << 9,         // until a time or a child process that the script chose: neither input nor output
  kReadsInput = 1 << 10,    // asks a file or a peer for data
  kWritesOutput = 1 << 11,  // to a file
  kTakesBatch = 1 << 12,    // the training thread asks a loader for data: next() and the start of an epoch
  kNamesLoader = 1 << 13,   // `a` is a LoaderInfo.id, of which iterators beside each other have several.
                            // BatchShape has one, too, but is found through the Fetch that it lies in
  kTransparent =
      1 << 14,  // says nothing of what a thread that launches does: the call around it, or its own code, does
  kIsRange = 1 << 15,  // what the job marked: no call, and no cause of what happens inside
};

struct Row {
  uint16_t traits = 0;
  DetailKind detail = DetailKind::kCall;
};

inline constexpr OpClass kListed[] = {
#define GW_OP_CLASS(name, detail, traits) OpClass::name,
#include "libinject/trace/op_class.def"
#undef GW_OP_CLASS
};

inline constexpr auto kRows = [] {
  std::array<Row, 256> rows{};  // an OpClass is a byte of a file
#define GW_OP_CLASS(name, kind, traits) \
  rows[static_cast<size_t>(OpClass::name)] = {static_cast<uint16_t>(traits), DetailKind::k##kind};
#include "libinject/trace/op_class.def"
#undef GW_OP_CLASS
  return rows;
}();

constexpr bool are_listed_once() {
  for (size_t i = 0; i < std::size(kListed); ++i)
    for (size_t j = 0; j < i; ++j)
      if (kListed[i] == kListed[j]) return false;
  return true;
}
// Each row names a value of the schema and none twice: as many rows as values are all of them.
static_assert(are_listed_once());
static_assert(std::size(kListed) == std::extent_v<std::remove_reference_t<decltype(EnumValuesOpClass())>>,
              "op_class.def and the OpClass of trace.fbs differ");

constexpr bool has(OpClass op_class, Trait trait) noexcept {
  return (kRows[static_cast<uint8_t>(op_class)].traits & trait) != 0;
}

}  // namespace op_class_traits

constexpr DetailKind detail_kind(OpClass op_class) noexcept {
  return op_class_traits::kRows[static_cast<uint8_t>(op_class)].detail;
}

#define GW_OP_CLASS_PREDICATE(name, trait)                            \
  constexpr bool name(OpClass op_class) noexcept {                    \
    return op_class_traits::has(op_class, op_class_traits::k##trait); \
  }
GW_OP_CLASS_PREDICATE(is_cuda, Cuda)
GW_OP_CLASS_PREDICATE(enqueues, Enqueues)
GW_OP_CLASS_PREDICATE(launches_kernels, LaunchesKernels)
GW_OP_CLASS_PREDICATE(stalls_on_device, StallsOnDevice)
GW_OP_CLASS_PREDICATE(wants_callback, WantsCallback)
GW_OP_CLASS_PREDICATE(communicates, Communicates)
GW_OP_CLASS_PREDICATE(manages_memory, ManagesMemory)
GW_OP_CLASS_PREDICATE(is_off_cpu, OffCpu)
GW_OP_CLASS_PREDICATE(waits_for_thread, WaitsForThread)
GW_OP_CLASS_PREDICATE(pauses, Pauses)
GW_OP_CLASS_PREDICATE(reads_input, ReadsInput)
GW_OP_CLASS_PREDICATE(writes_output, WritesOutput)
GW_OP_CLASS_PREDICATE(takes_batch, TakesBatch)
GW_OP_CLASS_PREDICATE(names_loader, NamesLoader)
GW_OP_CLASS_PREDICATE(is_transparent, Transparent)
GW_OP_CLASS_PREDICATE(is_range, IsRange)
#undef GW_OP_CLASS_PREDICATE

}  // namespace gpuwatch::trace
