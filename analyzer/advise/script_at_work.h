// SPDX-License-Identifier: Apache-2.0
// Work of the script on the training thread that stack samples show next to the model's: in libraries that
// compute no model, in hooks, in its own lines (model/script_work.h). Pure functions.
#pragma once

#include <optional>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

// Every script has some own lines around each step: of the step, in milliseconds.
inline constexpr double kLeastOwnMs = 0.2;

// On a CPU job, where the model's compute and the script's are one category; without steps there is none. A
// finding of `rule` where the low end of the sampled share is `least_share` of the step or more.
std::optional<Finding> script_at_work(const Rule& rule, const RuleInput& input, double least_share);

// Where the script's work may move to: the loader's workers, where it has a loader.
const char* another_process(const RuleInput& input);

}  // namespace gpuwatch::advise
