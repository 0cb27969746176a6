// SPDX-License-Identifier: Apache-2.0
// A sampler that takes long to draw the indices of a batch, or those of an epoch before its first batch. It
// is asked on the training thread within next(), with workers as without them: no loader setting helps. Pure
// functions.
#pragma once

#include <optional>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

inline constexpr double kLeastDrawShare = 0.05;
inline constexpr Threshold kDrawShare{
    "drawing the indices of a batch, shorter quarter of the times that next() takes for more than the batch",
    kLeastDrawShare, "of the step", "XProf's lower band"};

// Of the step; 0 where the loader's batches were not recorded. It is part of what training waits for.
double draw_share(const RuleInput& input);
// nullopt where it is less than 5% of the step.
std::optional<Finding> slow_sampler(const Rule& rule, const RuleInput& input);

}  // namespace gpuwatch::advise
