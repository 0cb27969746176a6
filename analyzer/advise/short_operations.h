// SPDX-License-Identifier: Apache-2.0
// A job without a GPU whose operations are so short that the training thread spends the step executing the
// framework's Python between them. Stack samples tell how much that is, not what is left with fewer or larger
// operations: no prediction, no upper bound. Pure functions.
#pragma once

#include <optional>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

inline constexpr double kLeastPythonShare = 0.25;
inline constexpr Threshold kPythonShare{
    "without a GPU: stack samples that execute the framework's Python between operations, low end",
    kLeastPythonShare, "of the step",
    "any PyTorch step has some: 5 to 15% of one of 10 ms; 95% interval: a few samples say nothing"};

// nullopt where it is less than that.
std::optional<Finding> short_operations(const Rule& rule, const RuleInput& input);

}  // namespace gpuwatch::advise
