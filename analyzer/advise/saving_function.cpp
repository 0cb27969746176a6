// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/saving_function.h"

#include <algorithm>
#include <vector>

#include "analyzer/model/script_work.h"
#include "analyzer/model/stacks.h"
#include "analyzer/model/training_stacks.h"

namespace gpuwatch::advise {
namespace {

using model::StackFrame;

std::optional<StackFrame> saving_function(const RuleInput& input, const HostCalls& saves) {
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

bool is_within(const std::vector<StackFrame>& frames, const StackFrame& function) {
  return std::ranges::any_of(frames, [&](const StackFrame& frame) {
    return frame.file == function.file && frame.function == function.function;
  });
}

}  // namespace

std::optional<model::SampledShare> beside_saving(const RuleInput& input, const HostCalls& saves) {
  const auto function = saving_function(input, saves);
  if (!function) return std::nullopt;
  bool trains = false;
  const auto saving = [&](const model::WorkerStack&, const std::vector<StackFrame>& frames) {
    const bool is_there = is_within(frames, *function);
    trains |= is_there && model::runs_in_model(frames) && !takes_state(frames);
    return is_there;
  };
  const auto computing = attribute::times_of(input.rank, attribute::Category::Compute);
  const auto share = model::sampled_share_of(input.run, input.process, computing, saving);
  if (trains || share.share <= 0) return std::nullopt;
  const double of_steps = input.rank.share(attribute::Category::Compute);
  return model::SampledShare{share.share * of_steps, share.low * of_steps, share.high * of_steps};
}

HostCalls with_following(const RuleInput& input, HostCalls saves, double share) {
  const double before_ns = saves.total_ns + saves.total_following_ns;
  if (before_ns <= 0) return saves;
  saves.total_following_ns = share * double(input.rank.wall_ns);
  for (double& ns : saves.ns_of_step) ns *= (saves.total_ns + saves.total_following_ns) / before_ns;
  return saves;
}

}  // namespace gpuwatch::advise
