// SPDX-License-Identifier: Apache-2.0
// Steps that take many times as long as the others: an evaluation, a rollout, a log that is written every
// N-th time. Pure; nanoseconds.
#pragma once

#include <optional>
#include <vector>

#include "analyzer/attribute/attribution.h"

namespace gpuwatch::advise {

struct LongSteps {
  std::vector<size_t> members;        // indices into RankAttribution::steps
  size_t every = 0;                   // the usual distance between two of them, in steps; 0: none
  model::Ns usual_ns = 0;             // median of all steps, without waiting for a CPU
  attribute::CategoryTimes excess{};  // of the members over the mean of the others, by category; may be < 0
  model::Ns excess_ns() const;        // sum
};

// Nullopt where no step, or fewer than three, is that long.
std::optional<LongSteps> find_long_steps(const attribute::RankAttribution& rank);

}  // namespace gpuwatch::advise
