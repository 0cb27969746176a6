// SPDX-License-Identifier: Apache-2.0
// The host-to-device copies of a rank's recorded steps, by source memory. Nanoseconds and bytes.
#pragma once

#include <functional>
#include <vector>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

enum class CopySource { kPageable, kPinned };

struct CopyFacts {
  size_t calls = 0;
  double bytes = 0;
  double time_share = 0;                                // of the device time of all host-to-device copies
  uint32_t thread = model::kNone, call = model::kNone;  // the longest
  std::vector<uint64_t> members;                        // events of these copies: thread and call, sorted

  // The copies, and a synchronization that directly follows one (a blocking `.to()` is copy, then sync).
  predict::EventFilter filter() const;
};

CopyFacts copy_facts(const RuleInput& input, CopySource source);

using CopyFilter = std::function<bool(const predict::HostEvent&, const model::DeviceOp&)>;
CopyFacts copy_facts(const RuleInput& input, const CopyFilter& which);  // called for host-to-device copies

// Bytes a nanosecond (GB/s) of recorded copies from pinned memory; 0 without copies that are large enough.
double pinned_bandwidth(const model::Device& device);

// Host time of an asynchronous call in this run: that of the median kernel launch.
double enqueue_cost_ns(const predict::StreamReplayInput& recording);

}  // namespace gpuwatch::advise
