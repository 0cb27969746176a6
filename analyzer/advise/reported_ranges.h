// SPDX-License-Identifier: Apache-2.0
// In whose words a finding can be put: the range that the job itself reported (NVTX) around what the finding
// is about. Nanoseconds; pure functions.
#pragma once

#include <vector>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

// Adds "inside NVTX range 'augment'" with its milliseconds a step to the evidence, where half of the time or
// more was in one range of the training thread that is not the step itself. `intervals` are in order and
// disjoint.
void add_reported_range(Finding& finding, const RuleInput& input,
                        const std::vector<model::TimeSpan>& intervals);

// When the training thread's time went to this cause.
std::vector<model::TimeSpan> time_of(const RuleInput& input, attribute::Category category);

}  // namespace gpuwatch::advise
