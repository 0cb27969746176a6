// SPDX-License-Identifier: Apache-2.0
// Calls that block the training thread during a step: how much of the steps they take, and the step time
// without them. Nanoseconds and milliseconds; pure functions.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

using CallFilter = std::function<bool(const model::HostCall&)>;

struct HostCalls {
  std::vector<double> ns_of_step;  // by recorded step
  size_t calls = 0;                // outermost calls within recorded steps
  size_t steps = 0;                // recorded steps with at least one call
  double total_ns = 0;
  double bytes = 0;               // read or written by the calls and by calls nested in them
  uint32_t call = model::kNone;   // the longest; index into the training thread's calls
  std::vector<uint32_t> members;  // indices into the training thread's calls, ascending
  std::vector<uint32_t> fetches;  // as add_fetches() found them, ascending
  // As add_what_follows() found it, by event of a recorded timeline; empty: nothing.
  std::vector<double> following_ns;
  double total_following_ns = 0;
  double share(const RuleInput& input) const {
    return input.rank.wall_ns > 0 ? (total_ns + total_following_ns) / double(input.rank.wall_ns) : 0;
  }
};

// What is written in a step that writes: at least 1 MiB in the mean. A model is larger, log output is
// smaller.
bool write_models(const HostCalls& writes);

// For each event of a recorded timeline: the part of the gap before it that the calls fill.
std::vector<double> ns_before_events(const RuleInput& input, const std::vector<predict::HostEvent>& events,
                                     const HostCalls& calls);

// The calls that fetch from the device what `calls` write: those that wait for it before a write, with
// nothing launched in between. Requires `input.streams` and `device`.
void add_fetches(const RuleInput& input, HostCalls& calls);

// What the training thread does between such a call, which few steps have, and its next CUDA call, as far as
// that is longer than any gap of the other steps: a saved file is given its name, older ones are removed, and
// the calls for it are not recorded. Requires `input.streams`.
void add_what_follows(const RuleInput& input, HostCalls& calls);

// Events that are parts of the calls: torch.save() copies each tensor to the host. Keeps references to both.
predict::EventFilter events_within(const RuleInput& input, const HostCalls& calls);

// A synchronization call, or a D2H copy that the host waited for. Requires `input.device`.
bool is_sync_point(const RuleInput& input, const predict::HostEvent& event);

// "once a step", "3 times a step"
std::string times_a_step(double calls);

// The calls that `which` accepts, except those inside a loader's calls.
HostCalls training_calls(const RuleInput& input, const CallFilter& which);

// The step time when the share `kept` of the calls' time remains (0: none). With a device timeline that is
// replayed; without one, but with loader workers, their replay with a training thread that asks for batches
// earlier; else the recorded steps are shortened.
std::optional<predict::Prediction> prediction_without(const RuleInput& input, const HostCalls& calls,
                                                      double kept = 0);

// Sets the finding's prediction or, if none can be made, its ceiling.
void settle_without(Finding& finding, const RuleInput& input, const HostCalls& calls, double kept = 0);

}  // namespace gpuwatch::advise
