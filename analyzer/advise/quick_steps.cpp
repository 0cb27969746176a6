// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/quick_steps.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "analyzer/model/phases.h"

namespace gpuwatch::advise {
namespace {

constexpr size_t kLeastSteps = 20, kPart = 100;

using Counts = std::function<bool(size_t)>;  // a category

// The bytes of the batches that each step took, 0 where those of one are not known: the recorder asks for
// them of some batches only.
std::vector<double> batch_bytes(const model::Process& process, const attribute::RankAttribution& rank) {
  std::vector<double> bytes(rank.steps.size());
  std::vector<bool> is_unknown(rank.steps.size());
  for (const model::LoaderEpoch& epoch : process.epochs)
    for (const model::Batch& batch : epoch.batches) {
      const auto after = std::ranges::upper_bound(rank.steps, batch.next.end, {},
                                                  [](const auto& step) { return step.step.begin; });
      if (after == rank.steps.begin() || batch.next.end >= (after - 1)->step.end) continue;
      const size_t step = size_t(after - rank.steps.begin()) - 1;
      bytes[step] += double(batch.bytes);
      if (batch.bytes == 0) is_unknown[step] = true;
    }
  for (size_t i = 0; i < bytes.size(); ++i)
    if (is_unknown[i]) bytes[i] = 0;
  return bytes;
}

// The lengths of the steps with a known batch, each as if that had the mean size: by the mean of the steps
// with batches most like its own. All lengths as they are, where that says less than half of why they differ.
std::vector<double> at_mean_size(const std::vector<double>& lengths, const std::vector<double>& bytes) {
  constexpr size_t kAlike = 10, kLeastKnown = 4 * kAlike;  // as many with smaller and with larger ones
  constexpr double kLeastExplained = 0.5;
  std::vector<size_t> order;
  for (size_t i = 0; i < lengths.size(); ++i)
    if (bytes[i] > 0 && lengths[i] > 0) order.push_back(i);
  if (order.size() < kLeastKnown) return lengths;
  // Of one size in any order but that of the run: its slow minutes are no matter of the size.
  std::ranges::sort(order, {}, [&](size_t i) { return std::pair(bytes[i], uint32_t(i * 2654435761)); });
  if (bytes[order.front()] == bytes[order.back()]) return lengths;
  const double mean = std::accumulate(lengths.begin(), lengths.end(), 0.0) / double(lengths.size());
  std::vector<double> scaled;
  double left = 0, all = 0;
  for (size_t at = 0; at < order.size(); ++at) {
    const size_t around = std::min({kAlike, at, order.size() - 1 - at});
    double alike = 0;
    for (size_t other = at - around; other <= at + around; ++other) alike += lengths[order[other]];
    alike /= double(2 * around + 1);
    const double length = lengths[order[at]];
    scaled.push_back(length * mean / alike);
    left += (length - alike) * (length - alike);
    all += (length - mean) * (length - mean);
  }
  return left <= (1 - kLeastExplained) * all ? scaled : lengths;
}

// Of what `is_counted`, in the mean step, the quickest steps without what `may_go`.
double quick_part_of(const model::Process& process, const attribute::RankAttribution& rank,
                     const Counts& is_counted, const Counts& may_go) {
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
  lengths = at_mean_size(lengths, batch_bytes(process, rank));
  const auto quick = lengths.begin() + ptrdiff_t(lengths.size() / kPart);
  std::nth_element(lengths.begin(), quick, lengths.end());
  return std::min(1.0, *quick * count / counted);
}

}  // namespace

double quick_part(const model::Process& process, const attribute::RankAttribution& rank,
                  attribute::Group removed) {
  return quick_part_of(
      process, rank, [&](size_t i) { return attribute::kCategories[i].group != removed; },
      [](size_t i) { return i == size_t(attribute::Category::Sched); });
}

double quick_part(const model::Process& process, const attribute::RankAttribution& rank) {
  return quick_part_of(
      process, rank, [](size_t) { return true; }, [](size_t) { return false; });
}

double part_of_steps(const model::Process& process, const attribute::RankAttribution& rank) {
  const double beside_ns = double(model::beside_steps(rank.series, model::find_phases(process, rank.series)));
  return beside_ns > 0 ? double(rank.wall_ns) / (double(rank.wall_ns) + beside_ns) : 1;
}

}  // namespace gpuwatch::advise
