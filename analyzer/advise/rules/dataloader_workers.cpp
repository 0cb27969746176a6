// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/advise/input_facts.h"
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
    {"data stall", kLeastInputShare, "of the step",
     "below it XProf does not call a job input-bound, and the model error is as large"},
    kLeastGain,
    {"step time, against that of the best worker count", kWithinBest, "times",
     "workers take memory and start-up time, so the smallest count within 1% of the best is proposed"},
    {"workers", kMostWorkers, "workers",
     "with more of them, contention on the result queue, which the replay does not model, matters"},
};

// The smallest count within 1% of the best, at least 1.
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

std::string workers_title(const RuleInput& input, int workers, double lost) {
  if (workers > 0)
    return fmt::format("Data loading: {} worker{} cannot keep up, {}", workers, workers == 1 ? "" : "s",
                       stall_words(input, lost));
  if (input.rank.device == model::kNone)
    return fmt::format(
        "Data loading: no workers, the training thread spends {:.0f}% of each step preparing batches",
        100 * lost);
  return fmt::format("Data loading: no workers, {} while the training thread prepares batches",
                     stall_words(input, lost));
}

void add_evidence(Finding& finding, const RuleInput& input, double lost) {
  finding.evidence.push_back({"data stall", 100 * lost, "% of the step"});
  if (input.facts && input.facts->batches > 0)
    finding.evidence.push_back(
        {"time to make a batch", input.facts->per_batch(input.facts->fetch_ns) / 1e6, "ms"});
  finding.evidence.push_back({"step time without data stalls", input.input_floor_ms(), "ms"});
  add_cause_evidence(finding, input);
  finding.evidence.push_back({"CPU available to this job", double(input.process.cpu_count), "cores"});
}

std::optional<Finding> framework_loader(const RuleInput& input, double lost) {
  const predict::LoaderReplayInput& loader = *input.loader;
  predict::LoaderSetting setting = loader.setting;
  setting.workers = best_workers(input, loader);
  if (setting.workers <= loader.setting.workers) return std::nullopt;

  Finding finding = make_finding(kDataloaderWorkers, input, lost);
  finding.title = workers_title(input, loader.setting.workers, lost);
  add_evidence(finding, input, lost);
  propose(finding, input, {LoaderOption::kNumWorkers, setting.workers});
  if (!settle(finding, input, loader, input.loader_check, setting)) return std::nullopt;
  return finding;
}

std::optional<Finding> program_threads(const RuleInput& input, double lost) {
  const predict::ProducerReplayInput& producers = *input.producers;
  constexpr double kBusyProducers = 0.9;
  if (producers.busy_share < kBusyProducers)
    return std::nullopt;  // they wait themselves, for something that more of them would wait for too
  predict::LoaderSetting setting = producers.loader.setting;
  int now = setting.workers;
  double without_wait_ms = std::max(input.input_floor_ms(), 1e-3);
  setting.workers = std::min(int(std::ceil(producers.service_ms / without_wait_ms)),
                             std::max(input.most_workers(), best_workers(input, producers.loader)));
  if (setting.workers <= now) return std::nullopt;

  Finding finding = make_finding(kDataloaderWorkers, input, lost);
  finding.title = fmt::format("Data loading: {} loader thread{} cannot keep up, {}", now, now == 1 ? "" : "s",
                              stall_words(input, lost));
  finding.evidence = {{"data stall", 100 * lost, "% of the step"},
                      {"loader threads busy", 100 * producers.busy_share, "% of the time"},
                      {"loader thread time for the data", producers.service_ms, "ms a step"}};
  finding.fix.change = LoaderChange{LoaderOption::kNumWorkers, setting.workers};
  finding.fix.summary = fmt::format("Use {} loader threads instead of {}", setting.workers, now);
  finding.fix.location =
      call_location(input.run, input.process, input.process.training_thread, producers.wait_call);
  if (!settle(finding, input, producers.loader, predict::check(producers.loader), setting))
    return std::nullopt;
  if (finding.prediction)
    finding.prediction->assumptions.emplace_back(
        "each batch takes the program's loader threads the mean time");
  return finding;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  double lost = input.rank.steady_input_share();
  if (lost < kLeastInputShare) return std::nullopt;
  if (input.loader) return framework_loader(input, lost);
  return input.producers ? program_threads(input, lost) : std::nullopt;
}

}  // namespace

const Rule kDataloaderWorkers{
    "dataloader-workers",
    "Too few loader workers, or none: training waits for data that more workers would have ready.",
    "Training waits for a batch while the worker that makes it is busy, and the simulated replay with more "
    "workers is faster on the CPU cores that the job gets. In programs that load data with threads instead "
    "of a DataLoader: those threads are busy all the time while the training thread waits.",
    "Set `num_workers=N`. The report gives the smallest N within 1% of the best predicted one, at most the "
    "CPU cores of the machine divided by its ranks. For loader threads: as many as can prepare a step's "
    "data within a step.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
