// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/recurrence.h"

#include <algorithm>

namespace gpuwatch::advise {
namespace {

using model::Ns;
using model::TimeSpan;

std::vector<TimeSpan> merged(std::vector<TimeSpan> spans) {
  std::ranges::sort(spans, {}, &TimeSpan::begin);
  std::vector<TimeSpan> result;
  for (const TimeSpan& span : spans) {
    if (!result.empty() && span.begin <= result.back().end)
      result.back().end = std::max(result.back().end, span.end);
    else
      result.push_back(span);
  }
  return result;
}

// When the device had something to run, disjoint and in order.
std::vector<TimeSpan> busy_spans(const RuleInput& input) {
  std::vector<TimeSpan> spans;
  if (!input.device) return spans;
  for (const model::DeviceOp& op : input.device->operations) spans.push_back({op.begin, op.end});
  return merged(std::move(spans));
}

// Overlap with spans that are disjoint and in order, asked for in order of time.
class Overlap {
 public:
  explicit Overlap(const std::vector<TimeSpan>& spans) : spans_(spans) {}

  Ns of(TimeSpan with) {
    Ns sum = 0;
    while (next_ < spans_.size() && spans_[next_].end <= with.begin) ++next_;
    for (size_t i = next_; i < spans_.size() && spans_[i].begin < with.end; ++i)
      sum += std::min(spans_[i].end, with.end) - std::max(spans_[i].begin, with.begin);
    return sum;
  }

 private:
  const std::vector<TimeSpan>& spans_;
  size_t next_ = 0;
};

}  // namespace

Recurrence recurrence_of(const RuleInput& input, std::vector<TimeSpan> spans) {
  Recurrence found;
  if (spans.empty()) return found;
  const auto& steps = input.rank.steps;
  const std::vector<TimeSpan> disjoint = merged(spans), busy = busy_spans(input);
  Overlap within_busy(busy);
  Ns covered = 0, idle = 0;
  size_t step = 0, counted = steps.size();
  for (const TimeSpan& span : disjoint) {
    while (step < steps.size() && steps[step].step.end <= span.begin) ++step;
    for (size_t i = step; i < steps.size() && steps[i].step.begin < span.end; ++i) {
      const TimeSpan part{std::max(span.begin, steps[i].step.begin), std::min(span.end, steps[i].step.end)};
      covered += part.length();
      idle += part.length() - within_busy.of(part);
      if (i == counted) continue;
      counted = i;
      ++found.steps;
      found.later_steps += i >= steps.size() / 2;
    }
  }
  if (!steps.empty()) {
    const TimeSpan all{steps.front().step.begin, steps.back().step.end};
    found.spans = size_t(std::ranges::count_if(
        spans, [&](const TimeSpan& span) { return span.begin >= all.begin && span.begin < all.end; }));
  }
  if (input.rank.wall_ns > 0) {
    found.share = double(covered) / double(input.rank.wall_ns);
    found.idle_share = double(idle) / double(input.rank.wall_ns);
  }
  return found;
}

}  // namespace gpuwatch::advise
