// SPDX-License-Identifier: Apache-2.0
#include "analyzer/trial/trial_result.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "analyzer/advise/diagnose.h"
#include "analyzer/advise/rule.h"
#include "analyzer/io/printable.h"
#include "analyzer/io/user_error.h"
#include "analyzer/model/build.h"
#include "analyzer/predict/loader_replay.h"
#include "analyzer/report/facts.h"
#include "analyzer/trial/applicable.h"

namespace gpuwatch::trial {
namespace {

using advise::Finding;

std::string file_and_line(const std::string& place) {
  return place.substr(place.find_last_of('/') + 1);
}

// What GPUWATCH_APPLY can hold.
std::string applicable_place(const std::string& place) {
  constexpr size_t kMost = 255;
  const auto is_good = [](const std::string& text) {
    return text.size() <= kMost && text.find_first_of(",@=") == std::string::npos;
  };
  if (is_good(place)) return place;
  return is_good(file_and_line(place)) ? file_and_line(place) : "";
}

// The finding's change in the library's names; empty where it cannot be applied, or would change results. A
// program's own loader threads have a number, too, but no DataLoader takes it.
std::vector<std::string> settings_of(const Finding& finding, bool has_loader) {
  const std::string name = advise::setting_name(finding.fix.change),
                    value = advise::setting_value(finding.fix.change);
  std::vector<std::string> settings;
  if (name == "gc" && value == "freeze") settings.emplace_back("gc_freeze=True");
  const Applicable* found = find_applicable(name);
  if (!found || value.empty() || found->effect == Effect::Bits) return settings;
  const bool is_for_loader = std::holds_alternative<advise::LoaderChange>(finding.fix.change);
  if (found->is_of_loader && !(is_for_loader && has_loader)) return settings;
  settings.push_back(fmt::format("{}={}", name, value));
  if (name == "pin_memory" && value == "True") settings.push_back("non_blocking=True");
  return settings;
}

// PyTorch's sampler of an IterableDataset, whose workers each make batches of their part of the data.
bool is_iterable(const model::Loader& loader) {
  return loader.sampler == "_InfiniteConstantSampler";
}

// `loader`: that the settings are for; null if it is not known.
const char* note_of(const std::vector<std::string>& settings, const model::Loader* loader) {
  for (const std::string& setting : settings) {
    const Applicable* found = find_applicable(setting.substr(0, setting.find('=')));
    if (found && found->effect == Effect::Order) return "samples come in another order";
    if (!found || found->effect != Effect::Random) continue;
    if (loader && is_iterable(*loader))
      return "the dataset is split among the workers: batches hold other samples, in another order";
    return "samples come in the same order; random numbers that the dataset draws are others";
  }
  return "";
}

// Of a DataLoader that the script makes anew for each epoch they end with it, whatever its arguments:
// federated hospitals were predicted 1.08 times as fast and were 0.97.
bool keeps_workers(const std::vector<std::string>& settings) {
  return settings.front().starts_with("persistent_workers=");
}

std::optional<Proposal> proposal_of(const Finding& finding, bool has_loader, const model::Loader* loader) {
  Proposal proposal;
  proposal.settings = settings_of(finding, has_loader);
  if (!finding.is_complaint() || proposal.settings.empty()) return std::nullopt;
  if (loader && loader->remade > 0 && keeps_workers(proposal.settings)) return std::nullopt;
  proposal.finding = finding.id;
  const Applicable* first = find_applicable(proposal.settings[0].substr(0, proposal.settings[0].find('=')));
  if (first && first->is_of_loader) proposal.place = finding.fix.location;
  proposal.summary = finding.fix.summary;
  proposal.snippet = finding.fix.snippet;
  proposal.note = note_of(proposal.settings, loader);
  proposal.prediction = finding.prediction;
  proposal.ceiling_speedup = finding.ceiling_speedup;
  return proposal;
}

bool proposes_workers(const std::vector<Proposal>& proposals) {
  return std::ranges::any_of(proposals, [](const Proposal& proposal) {
    return proposal.settings.front().starts_with("num_workers=");
  });
}

// The best number of workers by the replay, where the report proposes none because the prediction may be off
// by as much as it gains, or is too wide to be one: a trial tells.
std::optional<Proposal> open_workers(const model::Run& run, const attribute::RankAttribution& rank) {
  const uint32_t index = predict::main_loader(run, rank);
  const auto recording = predict::extract_loader(run, rank);
  const model::Process& process = run.processes.at(rank.process);
  if (index == model::kNone || !recording || process.loaders[index].repeats_per_worker) return std::nullopt;
  Proposal best;
  double most = advise::kLeastSpeedup;
  const double now_ms = predict::replay(*recording, recording->setting).step_ms;
  const int most_workers = std::min(int(process.cpu_count), advise::kMostWorkers);
  for (int workers = 1; workers <= most_workers; workers *= 2) {
    predict::LoaderSetting setting = recording->setting;
    if (setting.workers == workers) continue;
    setting.workers = workers;
    const auto prediction = advise::what_if(run, rank, setting);
    const double speedup =
        prediction ? prediction->speedup.expected : now_ms / predict::replay(*recording, setting).step_ms;
    if (!(speedup >= most)) continue;
    most = speedup;
    best.settings = {fmt::format("num_workers={}", workers)};
    best.prediction = prediction;
    best.uncertain_speedup = prediction ? std::nullopt : std::optional(speedup);
    best.summary = "Set " + best.settings.front();
  }
  if (best.settings.empty()) return std::nullopt;
  best.finding = "dataloader-workers";
  best.place = process.loaders[index].location;
  best.note = note_of(best.settings, &process.loaders[index]);
  return best;
}

}  // namespace

std::string Proposal::request() const {
  std::string text;
  for (const std::string& setting : settings) {
    const Applicable* found = find_applicable(setting.substr(0, setting.find('=')));
    const std::string at = found && found->is_of_loader ? applicable_place(place) : "";
    text += fmt::format("{}{}{}{}", text.empty() ? "" : ",", setting, at.empty() ? "" : "@", at);
  }
  return text;
}

std::string Proposal::words() const {
  const std::string where = place.empty() ? "" : fmt::format(" ({})", file_and_line(place));
  return io::printable(fmt::format("{}{}", fmt::join(settings, ", "), where));
}

double Proposal::expected_speedup() const {
  if (prediction) return prediction->speedup.expected;
  return ceiling_speedup.value_or(uncertain_speedup.value_or(1));
}

namespace {

std::optional<TrialResult> result_of(const std::string& run_directory, bool is_whole) {
  model::Run run;
  try {
    run = model::build_run(std::vector<std::string>{run_directory});
  } catch (const io::UserError&) {
    return std::nullopt;  // no trace yet
  }
  const std::vector<attribute::RankAttribution> ranks = attribute::attribute(run);
  const advise::Diagnosis diagnosis = advise::diagnose(run, ranks);
  const report::Report report{run, ranks, diagnosis, ""};
  const attribute::RankAttribution* rank = report::shown_rank(report);
  if (!rank || rank->steps.empty()) return std::nullopt;
  const report::StepFacts steps = report::step_facts(*rank);
  const model::Process& process = run.processes.at(rank->process);
  TrialResult result{.steps = steps.count,
                     .recorded_steps = steps.recorded,
                     .step_ms = steps.mean_ms,
                     .samples_per_s = steps.samples_per_s,
                     .has_device = rank->device != model::kNone,
                     .verdict = diagnosis.verdict.sentence,
                     .proposals = {},
                     .applied = report::applied_words(run, process),
                     .not_applied = report::not_applied_words(process)};
  const uint32_t index = predict::main_loader(run, *rank);
  const model::Loader* loader = index == model::kNone ? nullptr : &process.loaders[index];
  for (const Finding& finding : diagnosis.findings)
    if (auto proposal = proposal_of(finding, !process.loaders.empty(), loader))
      result.proposals.push_back(std::move(*proposal));
  if (is_whole && !proposes_workers(result.proposals))
    if (auto open = open_workers(run, *rank)) result.proposals.push_back(std::move(*open));
  return result;
}

}  // namespace

std::optional<TrialResult> trial_result(const std::string& run_directory) {
  return result_of(run_directory, true);
}

std::optional<TrialResult> trial_so_far(const std::string& run_directory) {
  return result_of(run_directory, false);
}

bool is_applied(const Proposal& proposal, const TrialResult& result) {
  return std::ranges::all_of(proposal.settings, [&](const std::string& setting) {
    return std::ranges::any_of(result.applied, [&](const std::string& words) {
      const size_t at = words.find(setting);
      if (at == std::string::npos) return false;
      const bool is_begin = at == 0 || words[at - 1] == ' ';
      const size_t end = at + setting.size();
      return is_begin && (end == words.size() || words[end] == ' ' || words[end] == ',');
    });
  });
}

}  // namespace gpuwatch::trial
