// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/merged_source.h"

#include <algorithm>
#include <limits>

#include "analyzer/advise/ceiling.h"
#include "analyzer/predict/merged_launches.h"

namespace gpuwatch::advise {

double Merged::speedup() const {
  return input_->assumed_step_ms / predict::replay(expected()).step_ms;
}

std::optional<predict::Prediction> Merged::prediction() const {
  if (source_->is_of_loss) return std::nullopt;
  auto result = stream_prediction(*input_, expected());
  const auto low = stream_prediction(*input_, at_best(gaps_->longest_dispatch_ns()));
  if (!result || !low) return std::nullopt;
  result->value.low = std::min(result->value.low, low->value.low);
  result->speedup.high = std::max(result->speedup.high, low->speedup.high);
  return result;
}

double Merged::bound() const {
  constexpr double kAnyGap = std::numeric_limits<double>::infinity();
  predict::StreamReplayInput best = at_best(kAnyGap);
  predict::merge_launches(best, is_one_of(source_->backward_at_most),
                          {.longest_gap_ns = kAnyGap, .keeps_kernels = false});
  return ceiling_without(*input_, 1 - predict::replay(best).step_ms / input_->assumed_step_ms, best);
}

predict::StreamReplayInput Merged::expected() const {
  predict::StreamReplayInput changed = *input_->assumed_streams;
  predict::merge_launches(
      changed, is_one_of(source_->members),
      {.longest_gap_ns = gaps_->longest_dispatch_ns(), .kept_share = 1 / kTensorsALaunch});
  return changed;
}

predict::StreamReplayInput Merged::at_best(double longest_gap_ns) const {
  predict::StreamReplayInput changed = *input_->assumed_streams;
  predict::merge_launches(
      changed, is_one_of(source_->members),
      {.longest_gap_ns = longest_gap_ns, .kept_share = 1 / kTensorsALaunch, .keeps_kernels = false});
  return changed;
}

std::optional<Merged> best_merged(const RuleInput& input, const HostGaps& gaps,
                                  const std::vector<LaunchSource>& sources) {
  std::optional<Merged> best;
  for (const LaunchSource& source : sources) {
    const Merged merged(input, gaps, source);
    if (!best || merged.speedup() > best->speedup()) best.emplace(merged);
  }
  return best && best->speedup() >= kLeastSpeedup ? best : std::nullopt;
}

}  // namespace gpuwatch::advise
