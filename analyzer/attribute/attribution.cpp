// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/attribution.h"

namespace gpuwatch::attribute {

model::Ns RankAttribution::time(Group group) const {
  model::Ns sum = 0;
  for (size_t i = 0; i < kCategoryCount; ++i) {
    if (kCategories[i].group == group) sum += times[i];
  }
  return sum;
}

model::Ns RankAttribution::time(Bottleneck bottleneck) const {
  model::Ns sum = 0;
  for (size_t i = 0; i < kCategoryCount; ++i) {
    if (kCategories[i].bottleneck == bottleneck) sum += times[i];
  }
  return sum;
}

std::vector<model::TimeSpan> times_of(const RankAttribution& rank, Category category) {
  std::vector<model::TimeSpan> times;
  for (const Slice& slice : rank.slices)
    if (slice.category == category) times.push_back({slice.begin, slice.end});
  return times;
}

double RankAttribution::mean_step_ms() const {
  return steps.empty() ? 0 : static_cast<double>(wall_ns) / static_cast<double>(steps.size()) / 1e6;
}

}  // namespace gpuwatch::attribute
