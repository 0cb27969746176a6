// SPDX-License-Identifier: Apache-2.0
// Evaluation of a job whose steps are not seen: stack samples of the training thread within a framework's own
// evaluate() or predict(), called by fit() or by a callback of the script. Pure.
#pragma once

#include <optional>

#include "analyzer/model/sampled_share.h"
#include "analyzer/model/stacks.h"

namespace gpuwatch::model {

struct SampledEvaluation {
  SampledShare share;  // of the samples
  StackFrame line;     // the user's that calls it most often
};

// Within `intervals` (sorted, disjoint). nullopt with fewer than kLeastStackSamples, or without evaluation.
std::optional<SampledEvaluation> sampled_evaluation(const Run& run, const Process& process,
                                                    const std::vector<TimeSpan>& intervals);

}  // namespace gpuwatch::model
