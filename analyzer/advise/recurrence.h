// SPDX-License-Identifier: Apache-2.0
// Something that ought to happen once and keeps coming back (a compilation, a search for an algorithm): how
// often, and how much of the recorded steps it fills. Pure functions; nanoseconds.
#pragma once

#include <vector>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

struct Recurrence {
  size_t spans = 0;                   // that begin within recorded steps
  size_t steps = 0, later_steps = 0;  // recorded steps with one; of those, in the second half of them
  double share = 0;                   // of the recorded wall time
  double idle_share = 0;              // of it too: within the spans, the GPU (if any) had nothing to run
  // Warm-up ends; what comes back in the second half of the run is none.
  bool goes_on() const { return steps >= kLeastSteps && later_steps >= kLeastLaterSteps; }

  static constexpr size_t kLeastSteps = 3, kLeastLaterSteps = 2;
};

inline constexpr Threshold kGoesOn{"steps in which it happens", double(Recurrence::kLeastSteps),
                                   "in the run, 2 of them in its second half",
                                   "what happens earlier is warm-up"};

// The spans may overlap and come in any order.
Recurrence recurrence_of(const RuleInput& input, std::vector<model::TimeSpan> spans);

}  // namespace gpuwatch::advise
