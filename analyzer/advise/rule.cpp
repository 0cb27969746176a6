// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace gpuwatch::advise {

#define GW_RULE(identifier) extern const Rule identifier;
#include "analyzer/advise/rules.def"
#undef GW_RULE

namespace {

// XProf calls a job highly input-bound from 20%.
constexpr double kMajorLoss = 0.20;

}  // namespace

std::span<const Rule* const> all_rules() {
  static const Rule* const rules[] = {
#define GW_RULE(identifier) &identifier,
#include "analyzer/advise/rules.def"
#undef GW_RULE
  };
  return rules;
}

std::string threshold_words(const Threshold& threshold) {
  const std::string_view unit = threshold.unit;
  if (unit.starts_with("of ")) return fmt::format("{:g}% {}", 100 * threshold.value, unit);
  if (unit.starts_with("times")) return fmt::format("{:g}x{}", threshold.value, unit.substr(5));
  return fmt::format("{:g} {}", threshold.value, unit);
}

const model::Loader* RuleInput::configured_loader() const {
  uint32_t index = predict::main_loader(run, rank);
  return index == model::kNone ? nullptr : &process.loaders[index];
}

// Exposed copies do not count: without waiting for the host they overlap with kernels of another stream.
// Within one stream, work runs one after the other.
double RuleInput::device_floor_ms() const {
  if (!rank.device_observed || !device || rank.steps.empty()) return 0;
  const double computing =
      double(rank.time(attribute::Category::Compute) + rank.time(attribute::Category::CommUnsplit));
  double busiest = computing;
  if (streams) {
    std::vector<double> busy_ns;
    for (const predict::StreamOp& op : streams->ops) {
      if (op.stream >= busy_ns.size()) busy_ns.resize(op.stream + 1);
      busy_ns[op.stream] += op.duration_ns;
    }
    if (!busy_ns.empty()) busiest = std::max(busiest, *std::max_element(busy_ns.begin(), busy_ns.end()));
  }
  return busiest / double(rank.steps.size()) / 1e6;
}

int RuleInput::most_workers() const {
  const int cores = int(std::max(1u, process.cpu_count));
  return std::clamp(cores / std::max(1, ranks_on_host), 1, kMostWorkers);
}

double RuleInput::input_floor_ms() const {
  const predict::LoaderReplayInput* recording = loader ? loader : producers ? &producers->loader : nullptr;
  double host = recording ? predict::step_without_input_ms(*recording)
                          : rank.mean_step_ms() * (1 - rank.share(attribute::Group::Input));
  return std::max(host, device_floor_ms());
}

bool RuleInput::device_hidden() const {
  return rank.time(attribute::Category::DeviceUnobserved) > rank.wall_ns / 50;
}

Finding make_finding(const Rule& rule, const RuleInput& input, double lost_share) {
  Finding finding;
  finding.id = rule.id;
  finding.severity = lost_share >= kMajorLoss ? Severity::kMajor : Severity::kMinor;
  finding.ranks = {input.rank_number()};
  finding.lost_share = lost_share;
  return finding;
}

Evidence share_evidence(const RuleInput& input, attribute::Category category) {
  return {std::string(attribute::info(category).words), 100 * input.rank.share(category), "% of the step"};
}

double batch_variation(const predict::LoaderReplayInput& loader) {
  double sum = 0, squares = 0, count = 0;
  for (const predict::ReplayEpoch& epoch : loader.epochs) {
    for (const predict::BatchCost& batch : epoch.batches) {
      sum += batch.service_ns;
      squares += batch.service_ns * batch.service_ns;
      ++count;
    }
  }
  if (count < 2 || sum <= 0) return 0;
  double mean = sum / count;
  return std::sqrt(std::max(0.0, squares / count - mean * mean)) / mean;
}

double slowest_batch(const predict::LoaderReplayInput& loader) {
  double sum = 0, longest = 0, count = 0;
  for (const predict::ReplayEpoch& epoch : loader.epochs) {
    for (const predict::BatchCost& batch : epoch.batches) {
      sum += batch.service_ns;
      longest = std::max(longest, batch.service_ns);
      ++count;
    }
  }
  return sum > 0 ? longest * count / sum : 0;
}

std::string stall_words(const RuleInput& input, double share) {
  const char* waiting = input.rank.device == model::kNone ? "training waits" : "the GPU idles";
  return fmt::format("{} {:.0f}% of each step", waiting, 100 * share);
}

double expected_step_ms(const RuleInput& input, const predict::LoaderReplayInput& loader,
                        predict::LoaderSetting setting) {
  return std::max(predict::replay(loader, setting).step_ms, input.device_floor_ms());
}

std::optional<predict::Prediction> loader_prediction(const RuleInput& input,
                                                     const predict::LoaderReplayInput& loader,
                                                     const predict::ReplayCheck& check,
                                                     predict::LoaderSetting setting) {
  if (input.device_hidden()) return std::nullopt;
  double busy = input.device_floor_ms();
  predict::Estimate range = predict::replay_estimate(loader, setting);
  for (double* value : {&range.low, &range.expected, &range.high}) *value = std::max(*value, busy);
  auto prediction = predict::step_prediction(check, range, input.now_ms, std::max(busy, 0.0));
  if (prediction) prediction->assumptions = predict::assumptions(loader, setting);
  return prediction;
}

predict::StreamReplayInput with_assumed_input(const RuleInput& input) {
  predict::StreamReplayInput recording = *input.streams;
  // Workers make batches in parallel; for other changes, input_factor tells what remains of the data stalls.
  const int before = input.loader ? input.loader->setting.workers : 0;
  const int after = input.assumed_loader ? input.assumed_loader->workers : before;
  const double making =
      after != before && before > 0 && after > 0 ? double(before) / after : input.input_factor;
  for (predict::SuppliedBatch& batch : recording.batches) batch.made_in_ns *= making;
  for (predict::HostEvent& event : recording.events)
    if (event.is_input && event.batch == model::kNone) {
      const double saved_ns = event.cost_ns * (1 - input.input_factor);
      event.cost_ns -= saved_ns;
      event.supply_ns = std::max(0.0, event.supply_ns - saved_ns);
    }
  return recording;
}

void assume_nothing(RuleInput& input) {
  input.now_ms = input.streams ? input.streams->measured_step_ms : input.rank.mean_step_ms();
  input.input_factor = 1;
  input.assumed_loader.reset();
  input.assumed_streams = input.streams;
  input.assumed_step_ms = input.stream_check.replayed_ms;
}

std::optional<predict::Prediction> stream_prediction(const RuleInput& input,
                                                     const predict::StreamReplayInput& changed) {
  if (input.assumed_step_ms <= 0) return std::nullopt;
  // The model error cancels in the ratio of two replays; step_prediction() still widens the interval by it.
  double scale = input.now_ms / input.assumed_step_ms;
  predict::Estimate range = predict::replay_estimate(changed);
  for (double* value : {&range.low, &range.expected, &range.high}) *value *= scale;
  auto prediction = predict::step_prediction(input.stream_check, range, input.now_ms, 0);
  if (prediction && input.streams->matched_share < 0.98)
    prediction->assumptions.emplace_back("GPU work whose launch was not recorded stays as it is");
  return prediction;
}

}  // namespace gpuwatch::advise
