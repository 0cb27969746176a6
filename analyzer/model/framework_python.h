// SPDX-License-Identifier: Apache-2.0
// Python of the framework itself that calls short operations one after another: the training thread was seen
// in a module's forward, a layer, an optimizer or TensorFlow's eager execution, and moved on within 25 us
// three times (WorkerStack::interprets). What each call costs is the same for any batch; where much of a step
// is such code, its operations are too short. Pure.
#pragma once

#include <optional>
#include <vector>

#include "analyzer/model/sampled_share.h"
#include "analyzer/model/stacks.h"

namespace gpuwatch::model {

struct FrameworkPython {
  size_t samples = 0;    // of the training thread
  SampledShare share;    // of them, in such code
  double optimizer = 0;  // of that time, in an optimizer
  double in_graph = 0;   // of that time, on the way to a TensorFlow graph
  StackFrame caller;     // the script's line with most of it; without a file where no stack shows one
};

// Within `intervals` (sorted, disjoint). nullopt with fewer than kLeastStackSamples, or without such code.
std::optional<FrameworkPython> framework_python(const Run& run, const Process& process,
                                                const std::vector<TimeSpan>& intervals);

}  // namespace gpuwatch::model
