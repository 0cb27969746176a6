// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/evaluation_workers.h"
#include "analyzer/advise/left_epochs.h"
#include "analyzer/advise/loader_words.h"
#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

extern const Rule kDataloaderPersistentWorkers;

namespace {

using attribute::Category;

constexpr double kLeastShare = 0.02, kLeastOfRun = 0.05;

constexpr Threshold kThresholds[] = {
    {"waiting for workers to start and end, after the first epoch", kLeastShare, "of the step",
     "less than half of what makes a job input-bound, because the change is a single argument"},
    {"waiting for the workers of evaluations to start, after the first", kLeastOfRun, "of the run",
     "XProf's lower band"},
    kLeastGain,
};

struct Restarts {
  size_t count = 0;
  double first_batch_ms = 0;  // from the start of an epoch to its first batch, mean
};

Restarts restarts(const RuleInput& input, const model::Loader& loader) {
  Restarts result;
  bool is_first = true;
  for (const model::LoaderEpoch& epoch : input.process.epochs) {
    if (&input.process.loaders[epoch.loader] != &loader || epoch.batches.empty()) continue;
    const model::Ns first = epoch.batches.front().next.end;
    if (!is_first && first > epoch.start.begin) {
      ++result.count;
      result.first_batch_ms += double(first - epoch.start.begin) / 1e6;
    }
    is_first = false;
  }
  if (result.count > 0) result.first_batch_ms /= double(result.count);
  return result;
}

void name_fix(Finding& finding, const RuleInput& input, const model::Loader& loader) {
  propose(finding, input, {LoaderOption::kPersistentWorkers, true});
  if (leaves_epochs(input.process, loader)) {
    finding.fix.summary =
        fmt::format("{}: here each step calls iter(), which starts the workers for one batch", kKeepIterator);
    finding.fix.change = NamedChange{"iter", "once"};
    return;
  }
  if (loader.remade > 0)
    finding.fix.summary = "Make each DataLoader once and keep it, with persistent_workers=True";
  if (loader.persistent_workers == 1) {
    finding.fix.summary =
        "Make the DataLoader once and keep it: persistent_workers=True keeps the workers of one DataLoader, "
        "and here each epoch has a new one (Lightning: reload_dataloaders_every_n_epochs=0)";
    finding.fix.change = NamedChange{"DataLoader", "once"};
  }
  if (loader.start_method == "spawn" || loader.start_method == "forkserver")
    finding.fix.summary +=
        fmt::format(", because {} imports the script again in each worker", loader.start_method);
}

std::optional<Finding> in_training(const RuleInput& input) {
  const model::Loader* loader = input.configured_loader();
  if (!loader || !input.loader) return std::nullopt;
  predict::LoaderSetting setting = input.loader_setting();
  if (setting.workers < 1 || setting.persistent) return std::nullopt;
  const Restarts seen = restarts(input, *loader);
  // A run without workers waited for none to start: what the replay starts for it is known, no share of it.
  const bool had_workers = input.loader->setting.workers > 0;
  double lost = input.rank.share(Category::InputStartup);
  if (seen.count == 0 || (lost < kLeastShare && had_workers)) return std::nullopt;
  if (leaves_epochs(input.process, *loader) && !had_workers) return std::nullopt;  // host-work says it
  const double now = expected_step_ms(input, *input.loader, setting);
  setting.persistent = true;
  const double after = expected_step_ms(input, *input.loader, setting);
  if (!had_workers) lost = std::max(0.0, 1 - after / now);

  Finding finding = make_finding(kDataloaderPersistentWorkers, input, lost);
  finding.title = "Worker restarts: loader workers start again for each epoch, " + stall_words(input, lost);
  finding.evidence = {share_evidence(input, Category::InputStartup),
                      {"worker restarts", double(seen.count), "in the run"},
                      {"time to the first batch of an epoch", seen.first_batch_ms, "ms"}};
  name_fix(finding, input, *loader);
  if (leaves_epochs(input.process, *loader)) {
    finding.ceiling_speedup = ceiling_with_one_iterator(input);
    return finding;
  }
  finding.prediction = loader_prediction(input, *input.loader, input.loader_check, setting);
  if ((finding.prediction || !had_workers) && now < after * kLeastSpeedup) return std::nullopt;
  if (!finding.prediction) {
    // Workers also take time to end, which is no wait for data: 16 restarts of 4 took half of the run, a
    // third of it start-up.
    finding.ceiling_speedup = std::max(ceiling_by_replay(input, setting),
                                       loader_ceiling(input, *input.loader, lost, setting.workers));
  }
  return finding;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (auto finding = in_training(input)) return finding;
  return restarts_for_evaluations(kDataloaderPersistentWorkers, input, kLeastOfRun);
}

}  // namespace

const Rule kDataloaderPersistentWorkers{
    "dataloader-persistent-workers",
    "Loader workers are started again for each epoch or each evaluation, and training waits until they are "
    "ready.",
    "Training waits for workers to start (`input.startup`) in the second and later epochs of the same "
    "DataLoader, and the simulated replay with persistent workers is faster. If only the first epoch starts "
    "slowly, the finding is `startup-share`. Of an evaluation: the time from its start to its first batch, "
    "in "
    "the second and later ones of the same loader, against the run.",
    "Set `persistent_workers=True`, and make the DataLoader once: a new one starts new workers. It saves "
    "most with the start methods spawn and forkserver, which import "
    "the script again in each worker. Where each step calls `next(iter(loader))`, call `iter()` once and "
    "keep "
    "the iterator.",
    kThresholds,
    evaluate,
    {attribute::Category::InputStartup}};

}  // namespace gpuwatch::advise
