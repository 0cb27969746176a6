// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/read_scaling.h"

namespace gpuwatch::advise {

#define GW_RULE(identifier) extern const Rule identifier;
#include "analyzer/advise/rules.def"
#undef GW_RULE

namespace {

// XProf calls a job highly input-bound from 20%.
constexpr double kMajorLoss = 0.20;

// By what the recording tells and leaves open of reads beside each other.
void widen(predict::Estimate& range, const ReadOutlook& reads) {
  if (reads.independent_ms <= 0) return;
  range.low *= std::min(1.0, reads.step_ms.low / reads.independent_ms);
  range.expected *= reads.step_ms.expected / reads.independent_ms;
  range.high = std::max({range.high, range.expected, reads.step_ms.high});
}

std::string reads_words(const ReadOutlook& reads, const predict::LoaderReplayInput& loader,
                        const predict::LoaderSetting& setting) {
  if (reads.is_measured) return "reads slow each other down as they did in this run";
  return fmt::format("storage serves {} readers as fast as {} (assumed: this run had no more)",
                     setting.workers, std::max(loader.setting.workers, 1));
}

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

// Exposed copies do not count where they can overlap with kernels of another stream: within one stream, and
// across those that wait for each other, work runs one after the other.
double RuleInput::device_floor_ms() const {
  if (!rank.device_observed || !device || rank.steps.empty()) return 0;
  const double computing_ns =
      double(rank.time(attribute::Category::Compute) + rank.time(attribute::Category::CommUnsplit));
  return std::max(computing_ns / double(rank.steps.size()) / 1e6, device_path_ms);
}

double RuleInput::least_step_ms() const {
  return std::max(device_floor_ms(), data_ready_ms);
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

// The largest bottleneck among the categories that a finding explains.
std::optional<attribute::Bottleneck> largest_part(const attribute::RankAttribution& rank,
                                                  attribute::CategorySet explains) {
  std::array<model::Ns, attribute::kBottleneckCount> times{};
  for (size_t i = 0; i < attribute::kCategoryCount; ++i) {
    const auto category = static_cast<attribute::Category>(i);
    if (explains.contains(category))
      times[size_t(attribute::info(category).bottleneck)] += rank.time(category);
  }
  const auto largest = std::ranges::max_element(times);
  if (*largest <= 0) return std::nullopt;
  return static_cast<attribute::Bottleneck>(largest - times.begin());
}

Finding make_finding(const Rule& rule, const RuleInput& input, double lost_share) {
  Finding finding;
  finding.id = rule.id;
  finding.severity = lost_share >= kMajorLoss ? Severity::kMajor : Severity::kMinor;
  finding.ranks = {input.rank_number()};
  finding.lost_share = lost_share;
  finding.explains = rule.explains;
  finding.bottleneck = largest_part(input.rank, rule.explains);
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

namespace {

// Those whose beginning is recorded, and so the wait for what is made ahead, where there is one.
void count_whole_epochs(predict::LoaderReplayInput& loader) {
  if (std::ranges::none_of(loader.epochs, &predict::ReplayEpoch::is_counted)) return;
  for (predict::ReplayEpoch& epoch : loader.epochs)
    for (predict::BatchCost& batch : epoch.batches) batch.counted = batch.counted && epoch.is_counted;
}

}  // namespace

predict::LoaderReplayInput in_the_long_run(const predict::LoaderReplayInput& loader,
                                           const predict::LoaderSetting& setting) {
  constexpr size_t kLong = 8;  // times the batches ahead: what is begun before and left over after is small
  constexpr size_t kMostAhead = 1024;
  predict::LoaderReplayInput result = loader;
  if (loader.epochs.empty()) return result;
  const std::vector<predict::BatchCost>& recorded = loader.epochs[0].batches;
  const size_t ahead = std::min(
      size_t(std::max(setting.workers, 0)) * size_t(std::max(setting.prefetch_factor, 1)), kMostAhead);
  if (loader.epochs.size() > 1) {
    if (kLong * ahead > recorded.size()) count_whole_epochs(result);
    return result;
  }
  if (recorded.empty() || kLong * ahead <= recorded.size()) return result;
  // Where some workers run out of data before others, the end of each epoch is the slow part of it.
  if (loader.epochs[0].is_whole && !loader.parts.empty()) return result;
  std::vector<predict::BatchCost>& batches = result.epochs[0].batches;
  const size_t more = (ahead + recorded.size() - 1) / recorded.size();  // before, and after
  batches.clear();
  for (size_t round = 0; round <= 2 * more; ++round) {
    for (predict::BatchCost batch : recorded) {
      batch.counted = round == more;
      batches.push_back(batch);
    }
  }
  return result;
}

double expected_step_ms(const RuleInput& input, const predict::LoaderReplayInput& loader,
                        predict::LoaderSetting setting) {
  return std::max(predict::replay(in_the_long_run(loader, setting), setting).step_ms, input.least_step_ms());
}

std::optional<predict::Prediction> loader_prediction(const RuleInput& input,
                                                     const predict::LoaderReplayInput& loader,
                                                     const predict::ReplayCheck& check,
                                                     predict::LoaderSetting setting) {
  if (input.device_hidden()) return std::nullopt;
  const double busy = input.least_step_ms();
  predict::Estimate range = predict::replay_estimate(in_the_long_run(loader, setting), setting);
  const auto reads = Reads(input, loader).outlook(setting);
  if (reads && reads->is_open()) return std::nullopt;
  if (reads) widen(range, *reads);
  for (double* value : {&range.low, &range.expected, &range.high}) *value = std::max(*value, busy);
  auto prediction = predict::step_prediction(check, range, input.now_ms, busy);
  if (!prediction) return prediction;
  prediction->assumptions = predict::assumptions(loader, setting);
  if (reads) prediction->assumptions.push_back(reads_words(*reads, loader, setting));
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

namespace {

// Where the training thread fetches itself, the GPU catches up meanwhile: the loader's replay does not know
// what copies and launches cost once it no longer can. The timeline knows, if it holds the waiting that
// attribution saw.
double data_ready_ms(const RuleInput& input, const predict::StreamReplayInput& streams) {
  constexpr double kMostOfIt = 0.8;
  if (!input.loader || input.stream_check.trust() != predict::Trust::kPredict || input.assumed_step_ms <= 0)
    return 0;
  predict::StreamReplayInput ready = streams;
  for (predict::SuppliedBatch& batch : ready.batches) batch.made_in_ns = 0;
  for (predict::HostEvent& event : ready.events)
    if (event.is_input) event.cost_ns = event.supply_ns = 0;
  const double ready_ms = predict::replay(ready).step_ms, waiting_ms = input.assumed_step_ms - ready_ms;
  const double seen_ms =
      input.rank.share(attribute::Group::Input) * input.input_factor * input.rank.mean_step_ms();
  if (waiting_ms < kMostOfIt * seen_ms) return 0;
  return ready_ms * input.now_ms / input.assumed_step_ms;
}

}  // namespace

void assume_streams(RuleInput& input, const predict::StreamReplayInput& streams) {
  input.assumed_streams = &streams;
  input.assumed_step_ms = predict::replay(streams).step_ms;
  input.device_path_ms = predict::critical_path_ms(streams);
  input.data_ready_ms = data_ready_ms(input, streams);
}

void assume_nothing(RuleInput& input) {
  input.now_ms = input.streams ? input.streams->measured_step_ms : input.rank.mean_step_ms();
  input.input_factor = 1;
  input.assumed_loader.reset();
  if (input.streams) assume_streams(input, *input.streams);
}

std::optional<predict::Prediction> stream_prediction(const RuleInput& input,
                                                     const predict::StreamReplayInput& changed) {
  if (input.assumed_step_ms <= 0) return std::nullopt;
  // The model error cancels in the ratio of two replays; step_prediction() still widens the interval by it.
  double scale = input.now_ms / input.assumed_step_ms;
  predict::Estimate range = predict::replay_estimate(changed);
  for (double* value : {&range.low, &range.expected, &range.high}) *value *= scale;
  // The replayed launches hold what recording them costs, which the job without gpuwatch does not pay: one
  // whose step it made 11% longer was predicted 1.38x (1.31-1.45) and gained 1.52x.
  range.low *= 1 - std::clamp(input.recording_share, 0.0, 1.0);
  const double path_ms = std::min(predict::critical_path_ms(changed), input.now_ms);
  auto prediction = predict::step_prediction(input.stream_check, range, input.now_ms, path_ms);
  if (prediction && input.streams->matched_share < 0.98)
    prediction->assumptions.emplace_back("GPU work whose launch was not recorded stays as it is");
  return prediction;
}

void settle_with(Finding& finding, const RuleInput& input, predict::StreamReplayInput changed,
                 double removed) {
  finding.prediction = stream_prediction(input, changed);
  if (!finding.prediction) finding.ceiling_speedup = ceiling_without(input, removed, changed);
  finding.timeline = std::make_shared<const predict::StreamReplayInput>(std::move(changed));
}

}  // namespace gpuwatch::advise
