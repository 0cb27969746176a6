// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/evaluation_workers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "analyzer/advise/loader_words.h"
#include "analyzer/advise/quick_steps.h"
#include "analyzer/model/phases.h"
#include "analyzer/predict/restart.h"

namespace gpuwatch::advise {
namespace {

struct Restarts {
  size_t count = 0;
  double start_s = 0;  // up to the first batch
  double end_s =
      0;  // from the last batch to the end of the evaluation; goes at best, as part of it is the workers'
};

// In order, without overlaps.
std::vector<model::TimeSpan> evaluations_of(const std::vector<model::Phase>& phases) {
  std::vector<model::TimeSpan> evaluations;
  for (const model::Phase& phase : phases)
    if (phase.kind == model::PhaseKind::kEvaluation) evaluations.push_back(phase.time);
  return evaluations;
}

const model::TimeSpan* evaluation_at(const std::vector<model::TimeSpan>& evaluations, model::Ns time) {
  const auto after = std::ranges::upper_bound(evaluations, time, {}, &model::TimeSpan::begin);
  return after == evaluations.begin() || time >= (after - 1)->end ? nullptr : &*(after - 1);
}

// By loader, without the first evaluation of each.
std::map<uint32_t, Restarts> restarts_by_loader(const model::Process& process,
                                                const std::vector<model::TimeSpan>& evaluations) {
  std::map<uint32_t, Restarts> result;
  std::map<uint32_t, bool> has_begun;
  for (const model::LoaderEpoch& epoch : process.epochs) {
    if (epoch.batches.empty() || process.loaders[epoch.loader].num_workers < 1) continue;
    const auto taken = [](const model::Batch& batch) { return batch.next.end; };
    const model::Ns first = std::ranges::min(epoch.batches, {}, taken).next.end;
    const model::Ns last = std::ranges::max(epoch.batches, {}, taken).next.end;
    const model::TimeSpan* evaluation = evaluation_at(evaluations, first);
    if (!evaluation || first <= epoch.start.begin || last < first) continue;
    if (!std::exchange(has_begun[epoch.loader], true)) continue;
    Restarts& restarts = result[epoch.loader];
    ++restarts.count;
    restarts.start_s += double(first - epoch.start.begin) / 1e9;
    restarts.end_s += double(evaluation->end - std::min(last, evaluation->end)) / 1e9;
  }
  return result;
}

Finding describe(const Rule& rule, const RuleInput& input, const model::Loader& loader,
                 const Restarts& restarts, double run_s) {
  const double share = restarts.start_s / run_s;
  Finding finding = make_finding(rule, input, share);
  finding.title = fmt::format(
      "Worker restarts: loader workers start again for each evaluation, training waits {:.0f}% of the time "
      "for them",
      100 * share);
  finding.evidence = {
      {"from the start of an evaluation to its first batch", 100 * share, "% of training and evaluation"},
      {"worker restarts", double(restarts.count), "in the run"},
      {"time to the first batch", 1e3 * restarts.start_s / double(restarts.count), "ms"}};
  const SettingWords words = setting_words({LoaderOption::kPersistentWorkers, true}, &loader);
  finding.fix.change = NamedChange{"persistent_workers", "True, of the evaluation's loader"};
  finding.fix.summary = fmt::format("Set {} for the loader of the evaluation", words.setting);
  if (loader.remade > 0) finding.fix.summary += ", and make it once";
  finding.fix.snippet = words.snippet;
  finding.fix.location = loader.location;
  const double gone = std::min(0.99, (restarts.start_s + restarts.end_s) / run_s);
  finding.ceiling_speedup = 1 / ((1 - gone) * quick_part(input.process, input.rank));
  finding.is_of_the_run = true;
  return finding;
}

}  // namespace

std::optional<Finding> restarts_for_evaluations(const Rule& rule, const RuleInput& input,
                                                double least_share) {
  if (input.rank.steps.empty()) return std::nullopt;
  const auto phases = model::find_phases(input.process, input.rank.series);
  const double run_s = double(model::training_span(input.rank.series, phases).length()) / 1e9;
  const auto by_loader = restarts_by_loader(input.process, evaluations_of(phases));
  const auto most =
      std::ranges::max_element(by_loader, {}, [](const auto& entry) { return entry.second.start_s; });
  if (run_s <= 0 || most == by_loader.end() || most->second.start_s < least_share * run_s)
    return std::nullopt;
  const model::Loader& loader = input.process.loaders[most->first];
  if (predict::keeps_workers(input.process, most->first)) return std::nullopt;
  return describe(rule, input, loader, most->second, run_s);
}

}  // namespace gpuwatch::advise
