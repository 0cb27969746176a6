// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/slow_sampler.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/left_epochs.h"
#include "analyzer/advise/location.h"
#include "analyzer/io/printable.h"
#include "analyzer/model/training_stacks.h"
#include "analyzer/predict/restart.h"

namespace gpuwatch::advise {

using attribute::Category;

namespace {

// What the loader draws, summed over its epochs in the recorded steps.
struct Draws {
  double batch_ms = 0, epoch_ms = 0;  // a step: for each batch, and more for the first one of an epoch
  double epochs = 0;

  bool is_of_epochs() const { return epoch_ms > batch_ms; }
  double ms() const { return std::max(batch_ms, epoch_ms); }
};

Draws find_draws(const RuleInput& input, const model::Loader& loader) {
  Draws draws;
  const double usual_ns = input.loader->hand_over.draw_ns, steps = double(input.rank.steps.size());
  draws.batch_ms = usual_ns * input.loader->batches_per_step / 1e6;
  const model::Ns begin = input.rank.steps.front().step.begin, end = input.rank.steps.back().step.end;
  for (const model::LoaderEpoch& epoch : input.process.epochs) {
    const model::Ns first = predict::first_next(epoch);
    if (&input.process.loaders[epoch.loader] != &loader || first < begin || first >= end) continue;
    ++draws.epochs;
    draws.epoch_ms += predict::first_draw_ns(epoch, usual_ns) / steps / 1e6;
  }
  return draws;
}

// As if the epochs of the replay began without it.
predict::LoaderReplayInput without_first_draws(const predict::LoaderReplayInput& loader, double ms,
                                               double steps) {
  predict::LoaderReplayInput changed = loader;
  const auto counted = std::ranges::count_if(changed.epochs, &predict::ReplayEpoch::is_counted);
  const double each_ns = counted > 0 ? ms * 1e6 * steps / double(counted) : 0;
  for (predict::ReplayEpoch& epoch : changed.epochs) epoch.own_ns = std::max(0.0, epoch.own_ns - each_ns);
  return changed;
}

std::string fix_words(const RuleInput& input, const model::Loader& loader, const Draws& draws) {
  const std::string sampler = loader.sampler.empty() ? "the sampler" : io::printable(loader.sampler);
  if (leaves_epochs(input.process, loader))
    return fmt::format(
        "{}: here each step calls iter(), which lets {} draw the indices of all {} batches again",
        kKeepIterator, sampler, loader.batches);
  if (draws.is_of_epochs())
    return fmt::format(
        "Draw the indices less often: longer epochs (num_samples of {}), so that one draw serves more "
        "batches",
        sampler);
  return fmt::format("Let {} draw all indices of an epoch at once, as WeightedRandomSampler does", sampler);
}

std::string title_words(const Draws& draws, double share, size_t steps) {
  if (!draws.is_of_epochs())
    return fmt::format(
        "Sampler: drawing the indices of a batch takes the training thread {:.0f}% of each step",
        100 * share);
  return fmt::format(
      "Sampler: drawing the indices of an epoch takes the training thread {:.3g} ms before its first batch, "
      "{:.0f}% of the steps",
      draws.epoch_ms * double(steps) / draws.epochs, 100 * share);
}

}  // namespace

double draw_share(const RuleInput& input) {
  const model::Loader* loader = input.configured_loader();
  if (!loader || !input.loader || input.rank.steps.empty()) return 0;
  return find_draws(input, *loader).ms() / std::max(input.rank.mean_step_ms(), 1e-6);
}

std::optional<Finding> slow_sampler(const Rule& rule, const RuleInput& input) {
  const model::Loader* loader = input.configured_loader();
  if (!loader || !input.loader || input.rank.steps.empty()) return std::nullopt;
  const Draws draws = find_draws(input, *loader);
  const double share = draws.ms() / std::max(input.rank.mean_step_ms(), 1e-6);
  if (share < kLeastDrawShare) return std::nullopt;
  const bool has_workers = input.loader->setting.workers > 0;
  const Category seen_as = has_workers ? Category::InputWakeup : Category::InputTransform;

  Finding finding = make_finding(rule, input, share);
  finding.bottleneck = attribute::Bottleneck::Input;
  finding.explains = finding.explains | attribute::CategorySet{seen_as};
  finding.title = title_words(draws, share, input.rank.steps.size());
  finding.evidence = {{"drawing indices", draws.ms(), "ms a step"},
                      {"drawing indices", 100 * share, "% of the step"}};
  finding.fix.change = NamedChange{leaves_epochs(input.process, *loader) ? "iter" : "sampler", ""};
  finding.fix.summary = fix_words(input, *loader, draws);
  const auto time = attribute::times_of(input.rank, seen_as);
  const auto seen = model::main_training_function(input.run, input.process, time);
  finding.fix.location = seen ? seen->frame.location() : loader->location;
  predict::LoaderSetting setting = input.loader_setting();
  if (!draws.is_of_epochs()) setting.draw_factor = 0;
  const predict::LoaderReplayInput changed =
      draws.is_of_epochs()
          ? without_first_draws(*input.loader, draws.epoch_ms, double(input.rank.steps.size()))
          : *input.loader;
  const double ceiling = ceiling_without_input(input, share);
  if (leaves_epochs(input.process, *loader)) {
    finding.ceiling_speedup = std::max(ceiling, ceiling_with_one_iterator(input));
    return finding;
  }
  finding.prediction = loader_prediction(input, changed, input.loader_check, setting);
  finding.ceiling_speedup = ceiling;
  // What a long draw leaves to the batches after it, cold caches and threads that sleep, goes with it: 2.7 ms
  // (2.5-3.0) were predicted, 2.0 achieved.
  if (draws.is_of_epochs()) give_as_bound(finding, ceiling);
  return finding;
}

}  // namespace gpuwatch::advise
