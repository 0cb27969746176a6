// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/quick_steps.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

namespace gpuwatch::advise {
namespace {

constexpr size_t kLeastSteps = 20, kPart = 100;

double quick_part_of(const attribute::RankAttribution& rank, const std::function<bool(size_t)>& is_counted) {
  std::vector<double> lengths;
  lengths.reserve(rank.steps.size());
  for (const attribute::StepAttribution& step : rank.steps) {
    double length = 0;
    for (size_t i = 0; i < attribute::kCategoryCount; ++i)
      if (is_counted(i)) length += double(step.times[i]);
    lengths.push_back(length);
  }
  const double mean =
      std::accumulate(lengths.begin(), lengths.end(), 0.0) / double(std::max<size_t>(lengths.size(), 1));
  if (lengths.size() < kLeastSteps || mean <= 0) return 1;
  const auto quick = lengths.begin() + ptrdiff_t(lengths.size() / kPart);
  std::nth_element(lengths.begin(), quick, lengths.end());
  return std::min(1.0, *quick / mean);
}

}  // namespace

double quick_part(const attribute::RankAttribution& rank, attribute::Group removed) {
  return quick_part_of(rank, [&](size_t i) { return attribute::kCategories[i].group != removed; });
}

double quick_part(const attribute::RankAttribution& rank) {
  return quick_part_of(rank, [](size_t) { return true; });
}

}  // namespace gpuwatch::advise
