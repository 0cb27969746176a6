// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/advise/loader_words.h"
#include "analyzer/advise/location.h"
#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

extern const Rule kDataloaderWorkers;

namespace {

using attribute::Category;
using attribute::Group;

constexpr double kLeastInputShare = 0.05;
constexpr double kWithinBest = 1.01;

constexpr Threshold kThresholds[] = {
    {"share of the step spent waiting for data", kLeastInputShare, "of the step",
     "below it XProf and TensorBoard's profiler do not call a job input bound, and the replay's error is as "
     "large"},
    kLeastGain,
    {"distance from the best worker count", kWithinBest, "times",
     "workers cost memory and start-up: the smallest count within 1 % of the best is named"},
    {"workers", kMostWorkers, "workers",
     "beyond it the replay's assumption of one undisturbed result queue fails"},
};

// The smallest count within 1 % of the best. 0 is a candidate only where it is what was recorded.
int best_workers(const RuleInput& input, const predict::LoaderReplayInput& loader) {
  predict::LoaderSetting setting = loader.setting;
  int most = std::max(input.most_workers(), setting.workers);
  std::vector<double> steps_ms;
  for (setting.workers = 1; setting.workers <= most; ++setting.workers)
    steps_ms.push_back(expected_step_ms(input, loader, setting));
  double best = *std::min_element(steps_ms.begin(), steps_ms.end());
  auto enough =
      std::find_if(steps_ms.begin(), steps_ms.end(), [&](double ms) { return ms <= best * kWithinBest; });
  return int(enough - steps_ms.begin()) + 1;
}

void add_cause_evidence(Finding& finding, const RuleInput& input) {
  for (Category category : {Category::InputTransform, Category::InputIo, Category::InputCollate,
                            Category::InputCpuStarved, Category::InputTransfer, Category::InputUnknown})
    if (input.rank.share(category) >= 0.01) finding.evidence.push_back(share_evidence(input, category));
}

bool settle(Finding& finding, const RuleInput& input, const predict::LoaderReplayInput& loader,
            const predict::ReplayCheck& check, predict::LoaderSetting setting) {
  double now = expected_step_ms(input, loader, loader.setting);
  if (now < expected_step_ms(input, loader, setting) * kLeastSpeedup) return false;
  finding.prediction = loader_prediction(input, loader, check, setting);
  if (!finding.prediction) finding.ceiling_speedup = input.now_ms / std::max(input.input_floor_ms(), 1e-6);
  return true;
}

std::optional<Finding> framework_loader(const RuleInput& input, double lost) {
  const predict::LoaderReplayInput& loader = *input.loader;
  predict::LoaderSetting setting = loader.setting;
  setting.workers = best_workers(input, loader);
  if (setting.workers <= loader.setting.workers) return std::nullopt;

  Finding finding = make_finding(kDataloaderWorkers, input, lost);
  finding.title = loader.setting.workers == 0
                      ? "Batches are made by the training thread itself: the loader has no workers"
                      : fmt::format("{} loader worker{} cannot keep up with training", loader.setting.workers,
                                    loader.setting.workers == 1 ? "" : "s");
  finding.evidence.push_back({"waiting for data", 100 * lost, "% of the step"});
  add_cause_evidence(finding, input);
  finding.evidence.push_back({"CPUs", double(input.process.cpu_count), "cores"});
  propose(finding, input, {LoaderOption::kNumWorkers, setting.workers});
  if (!settle(finding, input, loader, input.loader_check, setting)) return std::nullopt;
  return finding;
}

std::optional<Finding> own_threads(const RuleInput& input, double lost) {
  const predict::ProducerReplayInput& producers = *input.producers;
  constexpr double kBusyProducers = 0.9;
  if (producers.busy_share < kBusyProducers)
    return std::nullopt;  // they wait too: more of them would only wait
  predict::LoaderSetting setting = producers.loader.setting;
  int now = setting.workers;
  double without_wait_ms = std::max(input.input_floor_ms(), 1e-3);
  setting.workers = std::min(int(std::ceil(producers.service_ms / without_wait_ms)),
                             std::max(input.most_workers(), best_workers(input, producers.loader)));
  if (setting.workers <= now) return std::nullopt;

  Finding finding = make_finding(kDataloaderWorkers, input, lost);
  finding.title = fmt::format("{} loader thread{} cannot keep up with training", now, now == 1 ? "" : "s");
  finding.evidence = {{"waiting for data", 100 * lost, "% of the step"},
                      {"loader threads busy", 100 * producers.busy_share, "% of their time"},
                      {"loader time a step's data takes", producers.service_ms, "ms"}};
  finding.fix.change = LoaderChange{LoaderOption::kNumWorkers, setting.workers};
  finding.fix.summary = fmt::format("{} loader threads instead of {}", setting.workers, now);
  finding.fix.location =
      call_location(input.run, input.process, input.process.training_thread, producers.wait_call);
  if (!settle(finding, input, producers.loader, predict::check(producers.loader), setting))
    return std::nullopt;
  if (finding.prediction)
    finding.prediction->assumptions.push_back(
        "loader threads of the program's own: each batch costs the mean");
  return finding;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  double lost = input.rank.steady_input_share();
  if (lost < kLeastInputShare) return std::nullopt;
  if (input.loader) return framework_loader(input, lost);
  return input.producers ? own_threads(input, lost) : std::nullopt;
}

}  // namespace

const Rule kDataloaderWorkers{
    "dataloader-workers",
    "Too few loader workers, or none: training waits for batches that more workers would have ready.",
    "Data wait while the worker that owes the batch is busy, and the replay of the recorded batches with "
    "more "
    "workers is faster within the CPU that can really be had. For programs with loader threads of their own: "
    "those threads are busy all the time while the training thread waits.",
    "`num_workers=N` at the loader's line: the smallest N within 1 % of the best predicted one, at most the "
    "CPUs "
    "of the machine divided by its ranks. For own threads: the number of threads whose work fits into a "
    "step.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
