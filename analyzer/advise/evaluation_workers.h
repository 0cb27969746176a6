// SPDX-License-Identifier: Apache-2.0
// Loader workers that are started and ended for each evaluation. Pure functions.
#pragma once

#include <optional>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

// As a finding of `rule`, where waiting for the first batch of the second and later evaluations of a loader
// takes `least_share` of the run or more.
std::optional<Finding> restarts_for_evaluations(const Rule& rule, const RuleInput& input, double least_share);

}  // namespace gpuwatch::advise
