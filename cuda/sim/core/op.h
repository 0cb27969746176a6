// SPDX-License-Identifier: Apache-2.0
// One piece of device work, as a stream holds it and as the ground truth and CUPTI report it.
// Times in ns of CLOCK_MONOTONIC, sizes in bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "clock.h"
#include "kernel.h"

namespace gpuwatch::sim {

// The values are those of CUPTI's memory kinds, so that records need no second table.
enum class MemoryKind : uint8_t {
  kUnknown = 0,
  kPageable = 1,
  kPinned = 2,
  kDevice = 3,
  kArray = 4,
  kManaged = 5
};

enum class OpKind : uint8_t {
  kKernel,
  kCopyH2D,
  kCopyD2H,
  kCopyD2D,
  kCopyP2P,
  kMemset,
  kHostFunction,
  kGraph,
  kMarker
};

const char* to_string(OpKind kind);
const char* to_string(MemoryKind kind);

inline constexpr Ns kPending = std::numeric_limits<Ns>::max();

// A point in a stream: when the device passes it, or kPending while that is not known (the work before it
// contains a host function that is still to run, or a collective whose peers have not arrived).
struct Marker {
  std::atomic<Ns> at{kPending};
};
using MarkerRef = std::shared_ptr<Marker>;

// Ranks that have to meet: each starts alone, all end together, `duration_ns` after the last one arrived.
struct Rendezvous {
  int missing = 0;
  Ns last_start = 0;
  Ns duration_ns = 0;
};

// First start and last end over the nodes of one graph launch.
struct GraphSpan {
  Ns start = kPending;
  Ns end = 0;
};

struct Op {
  OpKind kind = OpKind::kMarker;
  MemoryKind src = MemoryKind::kUnknown;
  MemoryKind dst = MemoryKind::kUnknown;
  bool async = true;
  bool arrived = false;  // a rendezvous or a host function that has been started
  uint32_t device = 0;
  uint32_t stream = 0;
  uint32_t correlation = 0;
  uint32_t graph_id = 0;
  uint64_t graph_node = 0;
  const Kernel* kernel = nullptr;
  uint32_t grid[3] = {1, 1, 1};
  uint32_t block[3] = {1, 1, 1};
  uint32_t shared_bytes = 0;
  uint32_t memset_value = 0;
  uint64_t bytes = 0;
  Ns duration_ns = 0;
  Ns latency_ns = 0;     // added to submit: the earliest start on an idle device
  Ns not_before_ns = 0;  // known dependencies
  Ns submit_ns = 0;
  Ns start_ns = 0;
  Ns end_ns = 0;
  std::vector<MarkerRef> waits;  // dependencies whose time may not be known yet
  MarkerRef signals;             // passed when this op ends
  std::vector<std::shared_ptr<Rendezvous>> meets;
  std::shared_ptr<GraphSpan> span;
  std::function<void()> host_function;
};

}  // namespace gpuwatch::sim
