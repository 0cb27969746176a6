// SPDX-License-Identifier: Apache-2.0
// The host's time between CUDA calls: the framework on its way to the next launch (`launch-bound`), or the
// script's own work (`host-work`). Each gap is one of them. Pure functions; nanoseconds.
#pragma once

#include <vector>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

class HostGaps {
 public:
  explicit HostGaps(const RuleInput& input);  // requires `input.streams`

  double launches_a_step() const { return launches_a_step_; }
  bool has_graphs() const { return has_graphs_; }            // CUDA graphs, in most steps
  bool launches_graphs() const { return launches_graphs_; }  // and they take the host longer than the rest
  double median_dispatch_ns() const { return median_dispatch_ns_; }

  // A gap that is longer at the same place in most steps is the script's work.
  double longest_dispatch_ns() const { return longest_dispatch_ns_; }

  // By event of the recording: the script's part of the gap before it, without what other rules cover, nor
  // what follows a save.
  const std::vector<double>& own_ns() const { return own_ns_; }

  // Of the step: GPU idle during the script's work, and while kernels are launched.
  double own_share() const { return own_share_; }
  double launch_share() const { return launch_share_; }

 private:
  void note_launches();
  void find_own_work();
  void split_shares(const std::vector<double>& work_ns, double of_saves_ns);

  const RuleInput& input_;
  double launches_a_step_ = 0, median_dispatch_ns_ = 0, longest_dispatch_ns_ = 0;
  bool has_graphs_ = false, launches_graphs_ = false;
  std::vector<double> own_ns_;
  double own_share_ = 0, launch_share_ = 0;
};

// For the rules' thresholds.
inline constexpr double kShortOwnWorkNs = 100e3;
inline constexpr double kLongDispatchNs = 1e6;
inline constexpr double kStandsOut = 5;
inline constexpr double kFewLaunches = 20;
inline constexpr double kRecurs = 0.5;

}  // namespace gpuwatch::advise
