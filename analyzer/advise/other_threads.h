// SPDX-License-Identifier: Apache-2.0
// Threads of the script that compute next to the training thread: Python's threads share the GIL, and all
// share the cores. What training waits for them says little of what they do, so one finding tells the line
// that they were seen at. Pure functions.
#pragma once

#include <optional>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

inline constexpr double kLeastOtherThreads = 0.05;
inline constexpr Threshold kOtherThreads{
    "another thread with the GIL, low end of the 95% interval, and training waiting for the GIL or a "
    "core",
    kLeastOtherThreads, "of the step", "the lower of XProf's two bands"};

// Of a job without a loader their work mostly is making data: title and fix say what was seen.
std::optional<Finding> other_threads_finding(const Rule& rule, const RuleInput& input);

// "39% of the time in make (train.py:12)", empty where none was seen.
std::string other_threads_words(const RuleInput& input);

}  // namespace gpuwatch::advise
