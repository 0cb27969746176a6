// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/ceiling.h"

#include <algorithm>
#include <utility>

#include "analyzer/advise/machine.h"
#include "analyzer/advise/quick_steps.h"
#include "analyzer/advise/worker_bound.h"
#include "analyzer/predict/late_helpers.h"

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
  const bool is_changed = input.now_ms > 0 && input.now_ms < input.rank.mean_step_ms();
  return is_changed ? share_of_now(input, share * input.input_factor) : share;
}

// Of an operation on several threads, what it takes at least where they are awake. They fall asleep while
// training waits or makes a batch on one thread, and every step then begins with waking them: 4.3 ms became
// 11.7 after a sleep of 40 ms (late_helpers.h). Pixels of compressed scenes, 119 ms a step, were followed by
// 12.6 ms of training, 9.4 in the quickest steps; with the scenes in memory it was 5. 284 ms of opening a ZIP
// were followed by 26, and the whole step was 7 with the ZIP kept open.
double awake_part(const RuleInput& input, double slept_ms) {
  constexpr double kLeastOfIt = 0.25;  // as the replay, which takes off three quarters at most
  const bool has_helpers = input.rank.device == model::kNone && !input.device_hidden() &&
                           number_fact(input.process, "torch_threads") > 1 && cores_of_rank(input) > 1;
  return has_helpers ? 1 - (1 - kLeastOfIt) * predict::helpers_asleep(slept_ms * 1e6) : 1;
}

}  // namespace

double share_of_now(const RuleInput& input, double share) {
  const double recorded_ms = input.rank.mean_step_ms();
  if (input.now_ms <= 0 || input.now_ms >= recorded_ms) return share;
  return std::clamp(share * recorded_ms / input.now_ms, 0.0, kMostShare);
}

double rest_without_input(const RuleInput& input, double removed) {
  const double slept_ms = std::max(removed, 0.0) * input.rank.mean_step_ms();
  return quick_part(input.process, input.rank, attribute::Group::Input) * awake_part(input, slept_ms);
}

double ceiling_without(const RuleInput& input, double share) {
  return bounded(share, input.now_ms, input.device_floor_ms());
}

double ceiling_without_input(const RuleInput& input, double recorded_share) {
  const double share = share_left(input, recorded_share);
  const double rest = (1 - std::min(share, 1.0)) * rest_without_input(input, recorded_share);
  return ceiling_without(input, 1 - rest);
}

double ceiling_without(const RuleInput& input, double share, const predict::StreamReplayInput& changed) {
  // Both of the same timeline: what its replay is off by cancels out.
  return bounded(share, input.assumed_step_ms, predict::critical_path_ms(changed));
}

double loader_floor_ms(const RuleInput& input, const predict::LoaderReplayInput& loader, int most_workers) {
  const predict::BatchCost demand = predict::mean_batch(loader);
  const double think_cores = loader.think_cores_known ? loader.think_cores : 0;
  const double think_ns =
      demand.think_ns * rest_without_input(input, input.rank.share(attribute::Group::Input));
  // Those that others had in this run may be free in the next. And training is not slow only where it is on
  // the way: the CPU time of steps that wake their threads bounded 8 workers by 5.6, and they gained 7.4
  // times.
  const double cores = std::max({loader.cores, cores_of_rank(input), 0.25});
  const double cpu_ns = (demand.cpu_ns + think_cores * think_ns) / cores;
  const double workers_ns = demand.service_ns / std::max(most_workers, 1);
  const double hand_over_ns = loader.hand_over.measured && !loader.setting.pin
                                  ? loader.hand_over.take_ns + loader.hand_over.finish_ns
                                  : 0;
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

double ceiling_by_replay(const RuleInput& input, const predict::LoaderSetting& setting) {
  const double low_ms = predict::replay_estimate(*input.loader, setting).low;
  const double now_ms = expected_step_ms(input, *input.loader, input.loader_setting());
  return low_ms > 0 ? now_ms / std::max(low_ms, input.least_step_ms()) : 1;
}

void give_as_bound(Finding& finding, double at_least) {
  if (!finding.prediction) return;
  finding.ceiling_speedup = std::max(finding.prediction->speedup.high, at_least);
  finding.too_wide = std::exchange(finding.prediction, std::nullopt);
}

void bound_what_is_open(Finding& finding) {
  if (!finding.prediction) return;
  const predict::Estimate& value = finding.prediction->value;
  const std::optional<double> known = std::exchange(finding.ceiling_speedup, std::nullopt);
  if (value.high - value.low <= kWidestPrediction.value * value.expected) return;
  give_as_bound(finding, known.value_or(1));
  finding.is_wide_range = true;
}

}  // namespace gpuwatch::advise
