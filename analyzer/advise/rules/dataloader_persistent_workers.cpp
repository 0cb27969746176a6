// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

extern const Rule kDataloaderPersistentWorkers;

namespace {

using attribute::Category;

constexpr double kLeastShare = 0.02;

constexpr Threshold kThresholds[] = {
    {"waiting for workers to start and end, after the first pass", kLeastShare, "of the step",
     "half of what a job must lose to be called input bound: the change is one word"},
    kLeastGain,
};

struct Restarts {
  size_t count = 0;
  double start_ms = 0;  // a pass: from its iterator's construction to its first batch
};

Restarts restarts(const RuleInput& input, const model::Loader& loader) {
  Restarts result;
  bool is_first = true;
  for (const model::LoaderPass& pass : input.process.passes) {
    if (&input.process.loaders[pass.loader] != &loader || pass.batches.empty()) continue;
    const model::Ns first = pass.batches.front().next.end;
    if (!is_first && first > pass.start.begin) {
      ++result.count;
      result.start_ms += double(first - pass.start.begin) / 1e6;
    }
    is_first = false;
  }
  if (result.count > 0) result.start_ms /= double(result.count);
  return result;
}

void name_fix(Finding& finding, const model::Loader& loader) {
  finding.fix.setting = "persistent_workers";
  finding.fix.value = "True";
  finding.fix.summary = "persistent_workers=True";
  if (loader.start_method == "spawn" || loader.start_method == "forkserver")
    finding.fix.summary += fmt::format(" ({} imports the script anew in each worker)", loader.start_method);
  finding.fix.snippet = "DataLoader(..., persistent_workers=True)";
  finding.fix.location = loader.location;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  const model::Loader* loader = input.configured_loader();
  if (!loader || !input.loader || loader->persistent_workers == 1) return std::nullopt;
  predict::LoaderSetting setting = input.loader_setting();
  if (setting.workers < 1 || setting.persistent) return std::nullopt;
  const Restarts seen = restarts(input, *loader);
  const double lost = input.rank.share(Category::InputStartup);
  if (seen.count == 0 || lost < kLeastShare) return std::nullopt;
  const double now = expected_step_ms(input, *input.loader, setting);
  setting.persistent = true;
  const double after = expected_step_ms(input, *input.loader, setting);

  Finding finding = make_finding(kDataloaderPersistentWorkers, input, lost);
  finding.title = "Loader workers are started anew for each epoch";
  finding.evidence = {share_evidence(input, Category::InputStartup),
                      {"epochs that started workers again", double(seen.count), "epochs"},
                      {"from the start of an epoch to its first batch", seen.start_ms, "ms"}};
  name_fix(finding, *loader);
  finding.prediction = loader_prediction(input, *input.loader, input.loader_check, setting);
  if (finding.prediction && now < after * kLeastSpeedup) return std::nullopt;
  if (!finding.prediction) finding.ceiling_speedup = 1 / (1 - std::min(lost, 0.99));
  return finding;
}

}  // namespace

const Rule kDataloaderPersistentWorkers{
    "dataloader-persistent-workers",
    "Loader workers are started anew for each epoch, and training waits until they are up.",
    "Waits for workers to start (`input.startup`) in the second and later passes over the same loader, and a "
    "replay with workers that live on that is faster. A long first pass only is a matter of `startup-share`.",
    "`persistent_workers=True` at the loader's line; with the start methods spawn and forkserver, which "
    "import "
    "the script again in each worker, it saves most.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
