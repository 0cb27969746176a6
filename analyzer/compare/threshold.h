// SPDX-License-Identifier: Apache-2.0
// `gpuwatch diff --fail-on`: what may get worse by how much, for use in continuous integration.
#pragma once

#include <optional>
#include <string>

#include "analyzer/compare/comparison.h"

namespace gpuwatch::compare {

struct Threshold {
  std::string name;  // "step", or a row of the step with dashes: "data-loading"
  double most = 0;   // "step": percent longer (per sample where batches differ); a row: points of its share
};

// "step=5", "data-loading=3". Throws io::UserError with the names that there are.
Threshold parse_threshold(const std::string& text);

// "data loading grew from 4% to 21% of a step, by more than 3 points"; none: it did not. Runs that cannot be
// compared exceed every threshold: a job that trained nothing must not pass.
std::optional<std::string> exceeded(const Threshold& threshold, const Comparison& comparison);

}  // namespace gpuwatch::compare
