// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/ceiling.h"

#include <algorithm>
#include <utility>

#include "analyzer/advise/quick_steps.h"

namespace gpuwatch::advise {
namespace {

constexpr double kMostShare = 0.99;  // a step is never nothing

double bounded(double share, double now_ms, double least_ms) {
  double ceiling = 1 / (1 - std::clamp(share, 0.0, kMostShare));
  if (least_ms > 0) ceiling = std::min(ceiling, now_ms / least_ms);
  return std::max(1.0, ceiling);
}

// Of the step as it is after other changes, where `share` is of the recorded one: a loader's took some of it.
double share_left(const RuleInput& input, double share) {
  const double recorded_ms = input.rank.mean_step_ms();
  if (input.now_ms <= 0 || input.now_ms >= recorded_ms) return share;
  return std::clamp(share * input.input_factor * recorded_ms / input.now_ms, 0.0, kMostShare);
}

}  // namespace

double ceiling_without(const RuleInput& input, double share) {
  return bounded(share, input.now_ms, input.device_floor_ms());
}

double ceiling_without_input(const RuleInput& input, double recorded_share) {
  const double share = share_left(input, recorded_share);
  const double rest = (1 - std::min(share, 1.0)) * quick_part(input.rank, attribute::Group::Input);
  return ceiling_without(input, 1 - rest);
}

double ceiling_without(const RuleInput& input, double share, const predict::StreamReplayInput& changed) {
  // Both of the same timeline: what its replay is off by cancels out.
  return bounded(share, input.assumed_step_ms, predict::critical_path_ms(changed));
}

double loader_floor_ms(const RuleInput& input, const predict::LoaderReplayInput& loader, int most_workers) {
  const predict::BatchCost demand = predict::mean_batch(loader);
  const double think_cores = loader.think_cores_known ? loader.think_cores : 0;
  const double cpu_ns = (demand.cpu_ns + think_cores * demand.think_ns) / std::max(loader.cores, 0.25);
  const double workers_ns = demand.service_ns / std::max(most_workers, 1);
  const double hand_over_ns = loader.hand_over.measured && !loader.setting.pin
                                  ? loader.hand_over.take_ns + loader.hand_over.finish_ns
                                  : 0;
  const double think_ns = demand.think_ns * quick_part(input.rank, attribute::Group::Input);
  const double floor_ms =
      std::max({cpu_ns, workers_ns, think_ns + hand_over_ns}) * loader.batches_per_step / 1e6;
  return std::max(floor_ms, input.device_floor_ms());
}

double loader_ceiling(const RuleInput& input, const predict::LoaderReplayInput& loader, double share,
                      int most_workers) {
  const double floor_ms = loader_floor_ms(input, loader, most_workers);
  const double ceiling = ceiling_without_input(input, share);
  return std::max(1.0, floor_ms > 0 ? std::min(ceiling, input.now_ms / floor_ms) : ceiling);
}

void give_as_bound(Finding& finding) {
  if (!finding.prediction) return;
  finding.ceiling_speedup = finding.prediction->speedup.high;
  finding.too_wide = std::exchange(finding.prediction, std::nullopt);
}

void bound_what_is_open(Finding& finding) {
  if (!finding.prediction) return;
  const predict::Estimate& value = finding.prediction->value;
  if (value.high - value.low > kWidestPrediction.value * value.expected) give_as_bound(finding);
}

}  // namespace gpuwatch::advise
