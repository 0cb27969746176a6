// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/saving_function.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "analyzer/model/script_work.h"
#include "analyzer/model/stacks.h"
#include "analyzer/model/training_stacks.h"

namespace gpuwatch::advise {
namespace {

using model::StackFrame;

std::optional<StackFrame> saving_function(const RuleInput& input, const HostCalls& saves) {
  if (saves.call == model::kNone) return std::nullopt;
  const model::Thread& thread = input.process.threads[input.process.training_thread];
  const auto line = model::users_line_of(input.run, thread, thread.calls[saves.call]);
  return line && model::is_users(*line) ? line : std::nullopt;
}

// state_dict() and pickling run in the model's and the optimizer's files, and are no training.
bool takes_state(const std::vector<StackFrame>& frames) {
  return std::ranges::any_of(frames, [](const StackFrame& frame) {
    return frame.function.ends_with("state_dict") || frame.file.ends_with("/torch/serialization.py");
  });
}

enum class Doing { kElse, kSaving, kTraining };

Doing doing(const std::vector<StackFrame>& frames, const StackFrame& function) {
  const bool is_there = std::ranges::any_of(frames, [&](const StackFrame& frame) {
    return frame.file == function.file && frame.function == function.function;
  });
  if (!is_there) return Doing::kElse;
  return model::runs_in_model(frames) && !takes_state(frames) ? Doing::kTraining : Doing::kSaving;
}

}  // namespace

std::optional<model::SampledShare> beside_saving(const RuleInput& input, const HostCalls& saves) {
  const auto function = saving_function(input, saves);
  if (!function) return std::nullopt;
  const auto intervals = attribute::times_of(input.rank, attribute::Category::Compute);
  const auto samples = model::training_samples(input.process, intervals);
  std::unordered_map<uint32_t, Doing> known;
  double all = 0, saving = 0;
  for (const model::WorkerStack* sample : samples) {
    const auto text = input.run.texts.find(sample->text);
    if (text == input.run.texts.end()) continue;
    const auto [place, is_new] = known.try_emplace(sample->text);
    if (is_new) place->second = doing(model::frames_of(text->second), *function);
    if (place->second == Doing::kTraining) return std::nullopt;
    const double weight = double(std::max<model::Ns>(0, sample->weight));
    all += weight;
    if (place->second == Doing::kSaving) saving += weight;
  }
  if (samples.size() < model::kLeastStackSamples || saving <= 0) return std::nullopt;
  const double of_steps = input.rank.share(attribute::Category::Compute);
  const model::SampledShare share = model::sampled_share(saving / all, double(samples.size()));
  return model::SampledShare{share.share * of_steps, share.low * of_steps, share.high * of_steps};
}

HostCalls with_following(const RuleInput& input, HostCalls saves, double share) {
  if (saves.total_ns <= 0) return saves;
  saves.total_following_ns = share * double(input.rank.wall_ns);
  for (double& ns : saves.ns_of_step) ns *= 1 + saves.total_following_ns / saves.total_ns;
  return saves;
}

}  // namespace gpuwatch::advise
