// SPDX-License-Identifier: Apache-2.0
// The copies between host and device in a rank's recorded steps, by the host's memory. Nanoseconds and bytes.
#pragma once

#include <functional>
#include <vector>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

enum class CopySource { kPageable, kPinned };  // the host's memory, of D2H copies their destination

using CopyKind = trace::RecordKind;  // CopyH2D or CopyD2H

struct CopyFacts {
  size_t calls = 0;
  double bytes = 0;
  double time_share = 0;                                // of the device time of all copies of this direction
  uint32_t thread = model::kNone, call = model::kNone;  // the longest
  std::vector<uint64_t> members;                        // events of these copies: thread and call, sorted

  // The copies, and a synchronization that directly follows one (a blocking `.to()` is copy, then sync).
  predict::EventFilter filter() const;
};

CopyFacts copy_facts(const RuleInput& input, CopySource source, CopyKind kind = CopyKind::CopyH2D);

using CopyFilter = std::function<bool(const predict::HostEvent&, const model::DeviceOp&)>;
CopyFacts copy_facts(const RuleInput& input, const CopyFilter& which, CopyKind kind = CopyKind::CopyH2D);

// Bytes a nanosecond (GB/s) of recorded copies from (of D2H copies: to) pinned memory; 0 without copies that
// are large enough.
double pinned_bandwidth(const model::Device& device, CopyKind kind = CopyKind::CopyH2D);

// Settles a finding whose copies will be from or to pinned memory. `changed` gives the timeline with these
// copies at a speed in GB/s, 0: as recorded. Where none from or to pinned memory were recorded, the
// prediction spans what their speed may be, or is an upper bound.
using AtSpeed = std::function<predict::StreamReplayInput(double)>;
void settle_at_speed(Finding& finding, const RuleInput& input, CopyKind kind, const AtSpeed& changed,
                     double removed);

inline constexpr Threshold kFastestCopies{
    "speed of copies from or to pinned memory, where none were recorded: up to", 64, "GB/s",
    "PCIe 5.0 with 16 lanes; they are at least as fast as the recorded pageable copies"};

// Host time of an asynchronous call in this run: that of the median kernel launch.
double enqueue_cost_ns(const predict::StreamReplayInput& recording);

}  // namespace gpuwatch::advise
