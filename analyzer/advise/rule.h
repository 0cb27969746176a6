// SPDX-License-Identifier: Apache-2.0
// A rule recognizes one cause: its evidence, thresholds with unit and reason, fix and prediction, all in one
// file of rules/. The texts are the documentation: `gpuwatch explain` prints them, docs/findings.md is
// generated from them.
//
// Rules are pure functions of RuleInput; they may throw only std::bad_alloc.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "analyzer/advise/finding.h"
#include "analyzer/attribute/attribution.h"
#include "analyzer/attribute/category_set.h"
#include "analyzer/attribute/step_group.h"
#include "analyzer/predict/loader_replay.h"
#include "analyzer/predict/producer_replay.h"
#include "analyzer/predict/stream_replay.h"

namespace gpuwatch::advise {

struct InputFacts;  // advise/input_facts.h
struct OwnData;     // advise/own_data.h

inline constexpr int kMostWorkers = 64;

struct Threshold {
  std::string_view name;
  double value;
  std::string_view unit;
  std::string_view reason;
};

std::string threshold_words(const Threshold& threshold);  // "1.03x", "5% of the step", "64 workers"

// What a rule may look at: one rank, its attribution, and the replays prepared from its recording.
struct RuleInput {
  const model::Run& run;
  const attribute::RankAttribution& rank;
  const model::Process& process;
  const model::Device* device = nullptr;  // null: none, or none observed
  int ranks_on_host = 1;
  const attribute::StepGroup* group = nullptr;  // ranks that it takes its steps with; null: none known

  const predict::LoaderReplayInput* loader = nullptr;       // null: no loader with known fetches
  const predict::ProducerReplayInput* producers = nullptr;  // null: the program has no loader threads
  const predict::StreamReplayInput* streams = nullptr;      // null: no device timeline
  predict::ReplayCheck loader_check{}, stream_check{};
  const InputFacts* facts = nullptr;  // null: no loader feeds the steps
  const OwnData* own_data = nullptr;  // null: the training loop was not seen making its data

  // What findings ranked before this one change; a prediction is made on top of it.
  std::optional<predict::LoaderSetting> assumed_loader{};
  double now_ms = 0;        // step time that a prediction starts from
  double input_factor = 1;  // remaining data stalls, against the recorded ones
  const predict::StreamReplayInput* assumed_streams = nullptr;  // what a rule changes and replays
  double assumed_step_ms = 0;                                   // replayed without a change
  double device_path_ms = 0;   // of assumed_streams: the step, were the host never late; 0 without them
  double data_ready_ms = 0;    // the same, were the data never late; 0 where it does not hold the waits
  double recording_share = 0;  // of the steps' time, that gpuwatch itself takes; an estimate

  predict::LoaderSetting loader_setting() const {
    return assumed_loader ? *assumed_loader : loader ? loader->setting : predict::LoaderSetting{};
  }
  double device_floor_ms() const;  // the step if only the device had to work; 0 without a device timeline
  double input_floor_ms() const;   // the step without data stalls
  double least_step_ms() const;    // what no setting of the loader can pass
  bool device_hidden() const;      // CUDA was used, and what the device did is not known
  uint32_t rank_number() const { return process.rank >= 0 ? uint32_t(process.rank) : 0; }
  const model::Loader* configured_loader() const;  // the loader that feeds the steps, null if none
};

struct Rule {
  std::string_view id;        // stable
  std::string_view wrong;     // what is wrong
  std::string_view evidence;  // what distinguishes it from similar causes
  std::string_view fix;
  std::span<const Threshold> thresholds;
  std::optional<Finding> (*evaluate)(const RuleInput&);
  attribute::CategorySet explains{};  // categories whose time its finding is about, as far as its lost_share
  bool without_steps = false;  // also asked about a rank with too few steps for shares: no replays then
};

std::span<const Rule* const> all_rules();

// A finding with the fields that all rules fill the same way. `lost_share` sets the severity.
Finding make_finding(const Rule& rule, const RuleInput& input, double lost_share);

Evidence share_evidence(const RuleInput& input, attribute::Category category);

// Predictions from replays, on top of the findings ranked before; nullopt if the model error is too large, or
// if it is open whether storage serves more readers (advise/read_scaling.h).
std::optional<predict::Prediction> loader_prediction(const RuleInput& input,
                                                     const predict::LoaderReplayInput& loader,
                                                     const predict::ReplayCheck& check,
                                                     predict::LoaderSetting setting);
std::optional<predict::Prediction> stream_prediction(const RuleInput& input,
                                                     const predict::StreamReplayInput& changed);
// Predicts the step with `changed` for its timeline, on which later findings are then predicted. Without a
// prediction: the ceiling for a change that removes the share `removed` of the step.
void settle_with(Finding& finding, const RuleInput& input, predict::StreamReplayInput changed,
                 double removed);

// The recorded timeline with `input_factor` and the workers of `assumed_loader`.
predict::StreamReplayInput with_assumed_input(const RuleInput& input);
// Makes predictions start from the recorded step again.
void assume_nothing(RuleInput& input);
// ... from a step of this timeline.
void assume_streams(RuleInput& input, const predict::StreamReplayInput& streams);

// A short epoch as a long one has it: batches that workers make while the first one is waited for are a stock
// that the rest of few batches lives on, whatever the setting. The same recording where it is long enough.
predict::LoaderReplayInput in_the_long_run(const predict::LoaderReplayInput& loader,
                                           const predict::LoaderSetting& setting);

double expected_step_ms(const RuleInput& input, const predict::LoaderReplayInput& loader,
                        predict::LoaderSetting setting);

// Spread of the batches' times, of their mean: what a longer buffer or another order evens out.
double batch_variation(const predict::LoaderReplayInput& loader);
// Time to make the slowest batch, against the mean.
double slowest_batch(const predict::LoaderReplayInput& loader);

// "the GPU idles 62% of each step", of a job without a GPU "training waits 62% of each step".
std::string stall_words(const RuleInput& input, double share);

// A smaller gain is not worth a change, so it is not reported.
inline constexpr double kLeastSpeedup = 1.03;
inline constexpr Threshold kLeastGain{"predicted speedup", kLeastSpeedup, "times",
                                      "smaller gains disappear in the variation from run to run"};
// What so wide a range allows at best is an upper bound.
inline constexpr Threshold kWidestPrediction{
    "range of a prediction", 0.30, "of its value",
    "a wider one is given as an upper bound: of programs not seen before, 3 of 7 such ranges held, and 5 of "
    "their best ends"};

}  // namespace gpuwatch::advise
