// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/slow_sampler.h"

#include <fmt/format.h>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/location.h"
#include "analyzer/io/printable.h"
#include "analyzer/model/training_stacks.h"

namespace gpuwatch::advise {

using attribute::Category;

std::optional<Finding> slow_sampler(const Rule& rule, const RuleInput& input) {
  const model::Loader* loader = input.configured_loader();
  if (!loader || !input.loader) return std::nullopt;
  const double ms = input.loader->hand_over.draw_ns * input.loader->batches_per_step / 1e6;
  const double share = ms / std::max(input.rank.mean_step_ms(), 1e-6);
  if (share < kLeastDrawShare) return std::nullopt;
  const bool has_workers = input.loader->setting.workers > 0;
  const Category seen_as = has_workers ? Category::InputWakeup : Category::InputTransform;

  Finding finding = make_finding(rule, input, share);
  finding.bottleneck = attribute::Bottleneck::Input;
  finding.explains = finding.explains | attribute::CategorySet{seen_as};
  finding.title = fmt::format(
      "Sampler: drawing the indices of a batch takes the training thread {:.0f}% of each step", 100 * share);
  finding.evidence = {{"drawing indices", ms, "ms a step"},
                      {"drawing indices", 100 * share, "% of the step"}};
  finding.fix.change = NamedChange{"sampler", ""};
  finding.fix.summary =
      fmt::format("Let {} draw all indices of an epoch at once, as WeightedRandomSampler does",
                  loader->sampler.empty() ? "the sampler" : io::printable(loader->sampler));
  const auto time = attribute::times_of(input.rank, seen_as);
  const auto seen = model::main_training_function(input.run, input.process, time);
  finding.fix.location = seen ? seen->frame.location() : loader->location;
  predict::LoaderSetting setting = input.loader_setting();
  setting.draw_factor = 0;
  finding.prediction = loader_prediction(input, *input.loader, input.loader_check, setting);
  if (!finding.prediction) finding.ceiling_speedup = ceiling_without_input(input, share);
  return finding;
}

}  // namespace gpuwatch::advise
