// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/reported_ranges.h"

#include <fmt/format.h>

#include "analyzer/io/printable.h"
#include "analyzer/model/ranges.h"

namespace gpuwatch::advise {

void add_reported_range(Finding& finding, const RuleInput& input,
                        const std::vector<model::TimeSpan>& intervals) {
  constexpr double kLeastInside = 0.5;
  const uint32_t thread = input.process.training_thread;
  if (thread >= input.process.threads.size() || input.rank.steps.empty()) return;
  const auto inside = model::innermost_range(input.run, input.process.threads[thread], intervals);
  if (!inside || model::meaning_of(inside->name) == model::RangeMeaning::kStep) return;
  model::Ns all = 0;
  for (const model::TimeSpan& interval : intervals) all += interval.length();
  if (double(inside->ns) < kLeastInside * double(all)) return;
  const std::string category =
      inside->category.empty() ? "" : fmt::format(" of category '{}'", io::printable(inside->category));
  finding.evidence.push_back({fmt::format("time in NVTX range '{}'{}", io::printable(inside->name), category),
                              double(inside->ns) / 1e6 / double(input.rank.steps.size()), "ms a step"});
}

std::vector<model::TimeSpan> time_of(const RuleInput& input, attribute::CategorySet categories) {
  std::vector<model::TimeSpan> intervals;
  for (const attribute::Slice& slice : input.rank.slices)
    if (categories.contains(slice.category) && slice.thread == input.process.training_thread)
      intervals.push_back({slice.begin, slice.end});
  return intervals;
}

}  // namespace gpuwatch::advise
