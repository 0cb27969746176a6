// SPDX-License-Identifier: Apache-2.0
// Batches of many tensors, as a dict of columns makes them: a worker puts each into a file of its own in
// shared memory, and the trainer maps each. Pure functions.
#pragma once

#include <optional>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

inline constexpr double kManyTensors = 8;
inline constexpr Threshold kTensorsOfBatch{
    "tensors of a batch, where their transfer takes more than collating: at least", kManyTensors, "tensors",
    "images, boxes, masks and labels are fewer"};

// Of a loader with workers whose transfer takes `least_share` of the step, and more than collating.
std::optional<Finding> many_tensors(const Rule& rule, const RuleInput& input, double least_share);

}  // namespace gpuwatch::advise
