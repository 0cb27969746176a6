// SPDX-License-Identifier: Apache-2.0
// Puts a finding in the job's own words: the NVTX range around the time that the finding is about.
// Nanoseconds; pure functions.
#pragma once

#include <vector>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

// Adds "time in NVTX range 'augment'" with its milliseconds a step to the evidence if at least half of the
// time lies in one range of the training thread that is not the step itself. `intervals` are sorted and
// disjoint.
void add_reported_range(Finding& finding, const RuleInput& input,
                        const std::vector<model::TimeSpan>& intervals);

// The intervals in which the training thread's time is attributed to these categories.
std::vector<model::TimeSpan> time_of(const RuleInput& input, attribute::CategorySet categories);

}  // namespace gpuwatch::advise
