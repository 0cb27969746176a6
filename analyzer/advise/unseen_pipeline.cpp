// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/unseen_pipeline.h"

#include <algorithm>
#include <string_view>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/machine.h"
#include "analyzer/advise/worker_bound.h"

namespace gpuwatch::advise {

namespace {

bool runs_python(const model::Loader& loader) {
  constexpr std::string_view kPython[] = {"from_generator", "py_function", "numpy_function"};
  return loader.class_name.find("PyDataset") != std::string::npos ||
         std::ranges::any_of(kPython, [&](std::string_view words) {
           return loader.dataset.find(words) != std::string::npos;
         });
}

// While training waits, at least one thread of the pipeline is at work: what the job uses beside that, it
// uses while training computes. A pipeline of one thread and a small model used 1.5 of 2 cores, 1.7 of them
// then.
MachineUse while_training_computes(MachineUse use, double wait_share) {
  const double computes = 1 - wait_share;
  if (computes > 0) use.job_cores = std::max(use.job_cores, (use.job_cores - wait_share) / computes);
  return use;
}

double all_cores(const RuleInput& input) {
  return cores_of_rank(input) * input.ranks_on_host;
}

model::TimeSpan recorded_steps(const RuleInput& input) {
  const auto& steps = input.rank.steps;
  return steps.empty() ? model::TimeSpan{} : model::TimeSpan{steps.front().step.begin, steps.back().step.end};
}

// Of the step, at least what the job's other work takes on all cores.
double ceiling_without_work(const RuleInput& input, const UnseenPipeline& pipeline) {
  const double rest = pipeline.cores - pipeline.work_cores();
  return ceiling_without_input(input, 1 - std::min(1.0, rest / all_cores(input)));
}

}  // namespace

std::optional<UnseenPipeline> unseen_pipeline(const RuleInput& input) {
  const model::Loader* loader = input.configured_loader();
  if (!loader || input.loader) return std::nullopt;
  UnseenPipeline pipeline;
  pipeline.wait_share = input.rank.steady_input_share();
  pipeline.runs_python = runs_python(*loader);
  if (pipeline.runs_python) pipeline.gil_share = input.rank.share(attribute::Category::Gil);
  if (const auto use = machine_use(input)) {
    pipeline.cores = use->job_cores;
    pipeline.fills_cores = fills_cores(input, while_training_computes(*use, pipeline.wait_share));
    const double cores = all_cores(input);
    pipeline.leaves_no_core = pipeline.cores > std::max(cores - 1, UnseenPipeline::kBusyCores * cores);
  }
  pipeline.work = model::pipeline_work(input.process, loader->id, recorded_steps(input));
  return pipeline;
}

double ceiling_without_pipeline(const RuleInput& input, const UnseenPipeline& pipeline) {
  constexpr double kLeastLeft = 0.5;
  const double rest = 1 - std::min(1.0, pipeline.wait_share + pipeline.gil_share);
  if (pipeline.competes() && !pipeline.holds_gil())
    return std::max(ceiling_without_input(input, 1 - rest), ceiling_without_work(input, pipeline));
  const bool competes = input.rank.device == model::kNone && pipeline.is_at_its_limit();
  return ceiling_without_input(input, 1 - rest * (competes ? kLeastLeft : 1));
}

double ceiling_on_all_cores(const RuleInput& input, const UnseenPipeline& pipeline) {
  const double ceiling = ceiling_without_input(input, pipeline.wait_share);
  return pipeline.cores > 0 ? std::clamp(all_cores(input) / pipeline.cores, 1.0, ceiling) : ceiling;
}

}  // namespace gpuwatch::advise
