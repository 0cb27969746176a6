// SPDX-License-Identifier: Apache-2.0
// What attribution found in the gaps of a recorded timeline: between two CUDA calls of a thread, while the
// GPU was idle. A gap that the GPU's work hides has nothing in it. Nanoseconds.
#pragma once

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

struct IdleGap {
  double script_ns = 0;  // the script's own work, or its sleep
  double delay_ns = 0;   // waiting for a CPU core
  double other_ns = 0;   // of the host
};

// Events must be asked for in order of time.
class IdleGaps {
 public:
  explicit IdleGaps(const RuleInput& input) : input_(input) {}
  IdleGap before(const predict::HostEvent& event);

 private:
  const RuleInput& input_;
  size_t next_ = 0;
};

// The recorded timeline as it were if the training thread had got a core whenever it needed one.
predict::StreamReplayInput without_run_delay(const RuleInput& input);

}  // namespace gpuwatch::advise
