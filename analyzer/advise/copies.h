// SPDX-License-Identifier: Apache-2.0
// The host-to-device copies of a rank's recorded steps, by where they come from. Nanoseconds and bytes.
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
  std::vector<uint64_t> members;                        // of the events: thread and call, sorted

  // The copies, and a synchronisation that directly follows one (a blocking `.to()` is copy, then sync).
  predict::EventFilter filter() const;
};

CopyFacts copy_facts(const RuleInput& input, CopySource source);

using CopyFilter = std::function<bool(const predict::HostEvent&, const model::DeviceOp&)>;
CopyFacts copy_facts(const RuleInput& input, const CopyFilter& which);  // asked of host-to-device copies

// Bytes a nanosecond (GB/s) of recorded copies from pinned memory; 0 where there are none worth measuring.
double pinned_bandwidth(const model::Device& device);

// What an asynchronous call costs the host in this run: the median launch.
double enqueue_cost_ns(const predict::StreamReplayInput& recording);

}  // namespace gpuwatch::advise
