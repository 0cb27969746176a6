// SPDX-License-Identifier: Apache-2.0
// Which steps the HTML report shows in full. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "analyzer/attribute/attribution.h"

namespace gpuwatch::page {

struct ChosenSteps {
  size_t begin = 0, end = 0;  // indices into RankAttribution::steps; end is not included
  std::string why;            // "typical"
};

// All steps of a short run; else the first, the one of median length, that with its neighbors, one at the
// 95th percentile and the slowest. Of a rank that is not the one that the report is about, the typical one.
std::vector<ChosenSteps> choose_steps(const attribute::RankAttribution& rank, bool is_shown_rank);

}  // namespace gpuwatch::page
