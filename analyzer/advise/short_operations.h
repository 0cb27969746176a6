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
    "without a GPU: stack samples among operations of the framework shorter than 10 us, low end",
    kLeastPythonShare, "of the step",
    "measured: 1 to 7% of the samples with convolutions, an MLP and a transformer (steps of 22 ms and more), "
    "55% "
    "with layers of 32 units (3.4 ms); 95% interval: a few samples say nothing"};

// nullopt where it is less than that.
std::optional<Finding> short_operations(const Rule& rule, const RuleInput& input);

}  // namespace gpuwatch::advise
