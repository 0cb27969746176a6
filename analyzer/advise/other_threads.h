// SPDX-License-Identifier: Apache-2.0
// Threads of the script that compute next to the training thread: Python's threads share the GIL, and all
// share the cores. Training's waits do not tell for whom: the finding names the line that such a thread was
// seen at. Pure functions.
#pragma once

#include <optional>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

inline constexpr double kLeastOtherThreads = 0.05;
inline constexpr Threshold kOtherThreads{
    "another thread with the GIL, low end of the 95% interval, and training waiting for the GIL or a "
    "core",
    kLeastOtherThreads, "of the step", "the lower of XProf's two bands"};

// For any rule whose jobs have such threads: title and fix say what was seen, and not what it is for.
std::optional<Finding> other_threads_finding(const Rule& rule, const RuleInput& input);

}  // namespace gpuwatch::advise
