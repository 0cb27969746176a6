// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/long_steps.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "analyzer/model/quantile.h"

namespace gpuwatch::advise {
namespace {

using attribute::StepAttribution;
using model::Ns;

constexpr double kLong = 3;        // times the median: a disturbed step takes up to twice as long
constexpr size_t kFewest = 3;      // two may have any distance
constexpr double kRegular = 0.75;  // of the distances are the usual one

// Without the time that the training thread waited for a CPU: others' work lengthens any step.
Ns length(const StepAttribution& step) {
  return step.step.end - step.step.begin - step.times[static_cast<size_t>(attribute::Category::Sched)];
}

// Within a tenth: the last minibatch of an epoch, a log that counts samples. Of few steps, exactly: any
// distance is near to two or three.
size_t usual_distance(const std::vector<size_t>& members) {
  std::vector<Ns> distances;
  for (size_t i = 1; i < members.size(); ++i) distances.push_back(Ns(members[i] - members[i - 1]));
  const Ns usual = model::median(distances);
  const auto near = std::count_if(distances.begin(), distances.end(), [&](Ns distance) {
    return double(std::abs(distance - usual)) <= 0.1 * double(usual);
  });
  const bool is_regular = usual > 1 && double(near) >= kRegular * double(distances.size());
  return is_regular ? size_t(usual) : 0;
}

// Over what the other steps take in the mean.
void count_excess(const std::vector<StepAttribution>& steps, LongSteps& result) {
  attribute::CategoryTimes in_long{}, in_others{};
  size_t next = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool is_member = next < result.members.size() && result.members[next] == i;
    next += is_member;
    attribute::CategoryTimes& sum = is_member ? in_long : in_others;
    for (size_t c = 0; c < sum.size(); ++c) sum[c] += steps[i].times[c];
  }
  const double members = double(result.members.size()), others = double(steps.size()) - members;
  for (size_t c = 0; c < in_long.size(); ++c)
    result.excess[c] = in_long[c] - Ns(double(in_others[c]) * members / others);
}

}  // namespace

Ns LongSteps::excess_ns() const {
  return std::accumulate(excess.begin(), excess.end(), Ns{0});
}

std::optional<LongSteps> find_long_steps(const attribute::RankAttribution& rank) {
  LongSteps result;
  std::vector<Ns> lengths;
  for (const StepAttribution& step : rank.steps) lengths.push_back(length(step));
  if (lengths.size() <= kFewest) return std::nullopt;
  result.usual_ns = model::median(lengths);
  if (result.usual_ns <= 0)
    return std::nullopt;  // the CPU was taken for whole steps: nothing to compare with
  for (size_t i = 0; i < lengths.size(); ++i)
    if (double(lengths[i]) > kLong * double(result.usual_ns)) result.members.push_back(i);
  if (result.members.size() < kFewest) return std::nullopt;  // and fewer than half, by the median
  result.every = usual_distance(result.members);
  count_excess(rank.steps, result);
  return result;
}

}  // namespace gpuwatch::advise
