// SPDX-License-Identifier: Apache-2.0
// A job without a GPU whose operations are so short that calling them one by one from Python is a large part
// of them. Stack samples tell how much time they take, not what is left with fewer or larger ones: no
// prediction, no upper bound. Pure functions.
#pragma once

#include <optional>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

inline constexpr double kLeastPythonShare = 0.25;
inline constexpr Threshold kPythonShare{
    "without a GPU: stack samples among operations of the framework shorter than 25 us, low end",
    kLeastPythonShare, "of the step",
    "measured: 21% of the samples with an MLP (19 ms a step), within 10 us 55% with layers of 32 units (3.4 "
    "ms); 95% interval: a few samples say nothing"};

inline constexpr double kLeastOwnShare = 0.15;
inline constexpr Threshold kOwnShare{"or in lines of one of the script's functions in the model, low end",
                                     kLeastOwnShare, "of the step",
                                     "less is what any model with functions of the script has; the backward "
                                     "pass adds as much again, and more"};

// nullopt where it is less than that.
std::optional<Finding> short_operations(const Rule& rule, const RuleInput& input);

}  // namespace gpuwatch::advise
