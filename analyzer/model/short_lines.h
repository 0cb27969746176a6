// SPDX-License-Identifier: Apache-2.0
// The script's own lines in a model's forward that call short operations one after another, as a loop over
// time steps or tags does: the training thread was seen there, and moved on within 25 us three times
// (WorkerStack::interprets). The backward pass goes through each of these operations. Pure.
#pragma once

#include <optional>
#include <vector>

#include "analyzer/model/sampled_share.h"
#include "analyzer/model/stacks.h"

namespace gpuwatch::model {

// Of the function with most of them.
struct ShortLines {
  size_t samples = 0;     // of the training thread
  SampledShare share;     // of them, in its lines
  double of_forward = 0;  // of the samples in the model's forward
  double backward = 0;    // of all samples, in the backward pass
  StackFrame line;        // that most of them show

  // With the backward pass as far as it is this function's.
  double with_backward() const { return share.share + backward * of_forward; }
};

// Within `intervals` (sorted, disjoint). nullopt with fewer than kLeastStackSamples, or where the function's
// operations are mostly longer.
std::optional<ShortLines> short_lines(const Run& run, const Process& process,
                                      const std::vector<TimeSpan>& intervals);

}  // namespace gpuwatch::model
