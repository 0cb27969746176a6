// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/quick_steps.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "analyzer/model/phases.h"

namespace gpuwatch::advise {
namespace {

constexpr size_t kLeastSteps = 20, kPart = 100;

using Counts = std::function<bool(size_t)>;  // a category

// Of what `is_counted`, in the mean step, the quickest steps without what `may_go`.
double quick_part_of(const attribute::RankAttribution& rank, const Counts& is_counted, const Counts& may_go) {
  std::vector<double> lengths;  // of what stays
  lengths.reserve(rank.steps.size());
  double counted = 0;
  for (const attribute::StepAttribution& step : rank.steps) {
    double length = 0;
    for (size_t i = 0; i < attribute::kCategoryCount; ++i) {
      if (!is_counted(i)) continue;
      counted += double(step.times[i]);
      if (!may_go(i)) length += double(step.times[i]);
    }
    lengths.push_back(length);
  }
  if (counted <= 0) return 1;
  const double count = double(lengths.size());
  if (lengths.size() < kLeastSteps)
    return std::min(1.0, std::accumulate(lengths.begin(), lengths.end(), 0.0) / counted);
  const auto quick = lengths.begin() + ptrdiff_t(lengths.size() / kPart);
  std::nth_element(lengths.begin(), quick, lengths.end());
  return std::min(1.0, *quick * count / counted);
}

}  // namespace

double quick_part(const attribute::RankAttribution& rank, attribute::Group removed) {
  return quick_part_of(
      rank, [&](size_t i) { return attribute::kCategories[i].group != removed; },
      [](size_t i) { return i == size_t(attribute::Category::Sched); });
}

double quick_part(const attribute::RankAttribution& rank) {
  return quick_part_of(
      rank, [](size_t) { return true; }, [](size_t) { return false; });
}

double part_of_steps(const model::Process& process, const attribute::RankAttribution& rank) {
  const double beside_ns = double(model::beside_steps(rank.series, model::find_phases(process, rank.series)));
  return beside_ns > 0 ? double(rank.wall_ns) / (double(rank.wall_ns) + beside_ns) : 1;
}

}  // namespace gpuwatch::advise
