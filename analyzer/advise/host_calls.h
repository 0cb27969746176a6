// SPDX-License-Identifier: Apache-2.0
// Calls of the training thread that stop a step: how much of the steps they take, and what the step would be
// without them. Nanoseconds and milliseconds; pure functions.
#pragma once

#include <functional>
#include <vector>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

using CallFilter = std::function<bool(const model::HostCall&)>;

struct HostCalls {
  std::vector<double> ns_of_step;  // by recorded step
  size_t calls = 0;                // outermost ones, within recorded steps
  size_t steps = 0;                // recorded steps that hold one
  double total_ns = 0;
  double bytes = 0;               // read or written by them or by calls inside of them
  uint32_t call = model::kNone;   // the longest, of the training thread
  std::vector<uint32_t> members;  // of the training thread's calls, sorted
  double share(const RuleInput& input) const {
    return input.rank.wall_ns > 0 ? total_ns / double(input.rank.wall_ns) : 0;
  }
};

// The same by event of a recorded timeline: how much of the gap before it they fill.
std::vector<double> ns_before_events(const RuleInput& input, const std::vector<predict::HostEvent>& events,
                                     const HostCalls& calls);

// A copy of at most so many bytes to the host is a way of waiting: a loss or a count, not data.
inline constexpr double kFewBytes = 4096;

// A synchronisation, or a copy of few bytes to the host that the host waited for. Needs a device.
bool is_synchronisation(const RuleInput& input, const predict::HostEvent& event);

// Those outside of loaders.
HostCalls training_calls(const RuleInput& input, const CallFilter& which);

// The step when only `kept` of the calls' time is left (0: none of it). On a device the recorded timeline is
// replayed, beside loader workers their replay with a consumer that comes earlier; else steps are shortened.
std::optional<predict::Prediction> prediction_without(const RuleInput& input, const HostCalls& calls,
                                                      double kept = 0);

// Sets the finding's prediction, or, where there is none, its ceiling.
void settle_without(Finding& finding, const RuleInput& input, const HostCalls& calls, double kept = 0);

}  // namespace gpuwatch::advise
