// SPDX-License-Identifier: Apache-2.0
// The part of a recording that stands for a long training run. Pure functions.
#pragma once

#include <vector>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

// The recorded steps or, of a job whose steps were not seen, the time of the second half of its training
// thread's stack samples: importing, the first compilation and warm-up are over then, and the end of the
// interpreter is not part of it. Empty where there is neither.
std::vector<model::TimeSpan> steady_time(const RuleInput& input);

// Of the steps, too, the second half only: for what is warm-up at first.
std::vector<model::TimeSpan> later_time(const RuleInput& input);

}  // namespace gpuwatch::advise
