// SPDX-License-Identifier: Apache-2.0
#include "analyzer/compare/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/advise/rule.h"
#include "analyzer/io/printable.h"
#include "analyzer/report/step_rows.h"

namespace gpuwatch::compare {
namespace {

using advise::Finding;
using attribute::RankAttribution;
using report::Report;

// Steps follow each other and are not independent (a slow epoch, a warm cache): the spread is that of the
// means of blocks of steps.
constexpr size_t kBlocks = 10;

std::optional<double> relative_error(const RankAttribution& rank) {
  const size_t block = rank.steps.size() / kBlocks;
  if (block == 0) return std::nullopt;
  std::vector<double> means(kBlocks);
  for (size_t i = 0; i < kBlocks * block; ++i) {
    const model::Step& step = rank.steps[i].step;
    means[i / block] += double(step.end - step.begin) / double(block);
  }
  double mean = 0, squares = 0;
  for (const double value : means) mean += value / double(kBlocks);
  for (const double value : means) squares += (value - mean) * (value - mean);
  if (mean <= 0) return std::nullopt;
  return std::sqrt(squares / double(kBlocks - 1) / double(kBlocks)) / mean;
}

// Both errors and the run-to-run difference are independent, and small enough to be those of the logarithm.
std::optional<predict::Estimate> measured_speedup(const RankAttribution& before, const RankAttribution& after,
                                                  double expected) {
  constexpr double kNineInTen = 1.645;  // standard deviations of a normal distribution
  const auto error_before = relative_error(before), error_after = relative_error(after);
  if (!error_before || !error_after || expected <= 0) return std::nullopt;
  const double spread = kNineInTen * std::hypot(*error_before, *error_after);
  const double factor = std::exp(std::hypot(spread, predict::kRunToRun));
  return predict::Estimate{expected / factor, expected, expected * factor};
}

bool has_samples(const report::StepFacts& facts) {
  return facts.samples_per_step > 0 && facts.samples_per_s > 0;
}

std::vector<RowChange> row_changes(const Report& before, const RankAttribution& rank_before,
                                   const Report& after, const RankAttribution& rank_after) {
  std::vector<RowChange> changes;
  for (const report::StepRow& row : report::step_rows(before, rank_before))
    changes.push_back({row.label, row.ms, 0, row.share, 0});
  for (const report::StepRow& row : report::step_rows(after, rank_after)) {
    auto change = std::ranges::find(changes, row.label, &RowChange::label);
    if (change == changes.end()) change = changes.insert(change, RowChange{row.label});
    change->after_ms = row.ms;
    change->after_share = row.share;
  }
  return changes;
}

struct LoaderField {
  const char* name;
  int model::Loader::*value;
};
constexpr LoaderField kLoaderFields[] = {
    {"num_workers", &model::Loader::num_workers},
    {"prefetch_factor", &model::Loader::prefetch_factor},
    {"persistent_workers", &model::Loader::persistent_workers},
    {"in_order", &model::Loader::in_order},
    {"pin_memory", &model::Loader::pin_memory},
    {"batch_size", &model::Loader::batch_size},
};

// A loader is the same one where its dataset is; lines move when a script is edited.
const model::Loader* counterpart(const model::Loader& loader, const model::Process& before,
                                 const model::Process& after) {
  size_t number = 0;
  for (const report::LoaderFacts& facts : report::loader_facts(before)) {
    if (facts.loader == &loader) break;
    number += facts.loader->dataset == loader.dataset;
  }
  for (const report::LoaderFacts& facts : report::loader_facts(after))
    if (facts.loader->dataset == loader.dataset && number-- == 0) return facts.loader;
  return nullptr;
}

void add_loader_changes(const model::Process& before, const model::Process& after,
                        std::vector<std::string>& changed) {
  for (const report::LoaderFacts& facts : report::loader_facts(before)) {
    const model::Loader* const other = counterpart(*facts.loader, before, after);
    if (!other) continue;
    for (const LoaderField& field : kLoaderFields) {
      const int a = facts.loader->*field.value, b = other->*field.value;
      // Without workers there is no prefetch_factor, and with them PyTorch sets one.
      if (a != b && a >= 0 && b >= 0) changed.push_back(fmt::format("{} {} to {}", field.name, a, b));
    }
  }
}

void add_difference(const char* what, const std::string& before, const std::string& after,
                    std::vector<std::string>& differs) {
  if (before == after) return;
  const auto words = [](const std::string& text) { return text.empty() ? "none" : io::printable(text); };
  differs.push_back(fmt::format("{} {}, then {}", what, words(before), words(after)));
}

std::vector<std::string> differences(const Report& before, const RankAttribution& rank_before,
                                     const Report& after, const RankAttribution& rank_after) {
  const model::Process& a = before.run.processes.at(rank_before.process);
  const model::Process& b = after.run.processes.at(rank_after.process);
  std::vector<std::string> differs;
  add_difference("script", report::script_name(a), report::script_name(b), differs);
  add_difference("host", a.host, b.host, differs);
  add_difference("CPUs", fmt::format("{}", a.cpu_count), fmt::format("{}", b.cpu_count), differs);
  add_difference("device", report::device_name(before, rank_before), report::device_name(after, rank_after),
                 differs);
  add_difference("framework", report::framework_words(a), report::framework_words(b), differs);
  add_difference("ranks", fmt::format("{}", before.ranks.size()), fmt::format("{}", after.ranks.size()),
                 differs);
  return differs;
}

std::vector<const Finding*> complaints(const Report& report) {
  std::vector<const Finding*> found;
  for (const Finding& finding : report.diagnosis.findings)
    if (finding.is_complaint()) found.push_back(&finding);
  return found;
}

bool has(const std::vector<const Finding*>& findings, const Finding& wanted) {
  return std::ranges::any_of(findings, [&](const Finding* finding) { return finding->id == wanted.id; });
}

void sort_findings(const Report& before, const Report& after, Comparison& result) {
  const auto first = complaints(before), second = complaints(after);
  for (const Finding* finding : first)
    (has(second, *finding) ? result.stays : result.gone).push_back(finding);
  for (const Finding* finding : second)
    if (!has(first, *finding)) result.came.push_back(finding);
}

bool is_in_force(const Finding& finding, const model::Process& before, const model::Process& after) {
  const auto* change = std::get_if<advise::LoaderChange>(&finding.fix.change);
  if (!change) return false;
  const std::string_view name = advise::option_name(change->option);
  const auto field = std::ranges::find(kLoaderFields, name, &LoaderField::name);
  if (field == std::end(kLoaderFields)) return false;
  for (const report::LoaderFacts& facts : report::loader_facts(before)) {
    const model::Loader* const other = counterpart(*facts.loader, before, after);
    if (other && other->*field->value == change->value && facts.loader->*field->value != change->value)
      return true;
  }
  return false;
}

// Settings of the loader that the second run has. Without any, findings that are gone: no more can be seen of
// other changes. Next to a setting they may only have been symptoms of the same cause.
std::vector<const Finding*> made_changes(const std::vector<const Finding*>& all, const Comparison& result,
                                         const model::Process& before, const model::Process& after) {
  std::vector<const Finding*> made;
  std::ranges::copy_if(all, std::back_inserter(made),
                       [&](const Finding* finding) { return is_in_force(*finding, before, after); });
  return made.empty() ? result.gone : made;
}

bool is_of_steps(const Finding& finding) {
  return finding.prediction && finding.prediction->metric == "step_ms" && !finding.is_alternative;
}

// Findings are predicted on top of each other, in their order: several are where they are the first of them.
std::optional<predict::Estimate> joint_speedup(const std::vector<const Finding*>& all,
                                               const std::vector<const Finding*>& made) {
  size_t count = 0;
  for (const Finding* finding : all) {
    if (!is_of_steps(*finding)) continue;
    if (count == made.size() || made[count] != finding) break;
    ++count;
  }
  if (count == 0 || count != made.size()) return std::nullopt;
  const double now = made.front()->prediction->now;
  const predict::Estimate& last = made.back()->prediction->value;
  return predict::Estimate{now / last.high, now / last.expected, now / last.low};
}

std::optional<Promise> promise_of(const Report& before, const Report& after, const Comparison& result) {
  const model::Process& first = before.run.processes.at(report::shown_rank(before)->process);
  const model::Process& second = after.run.processes.at(report::shown_rank(after)->process);
  const std::vector<const Finding*> all = complaints(before);
  Promise promise{.changes = made_changes(all, result, first, second)};
  if (promise.changes.empty()) return std::nullopt;
  // A step of another batch is none that was predicted, and samples a second cannot be told from steps.
  if (!result.is_by_samples) promise.speedup = joint_speedup(all, promise.changes);
  if (promise.speedup || promise.changes.size() > 1) return promise;
  const Finding& only = *promise.changes.front();
  const auto& alone = only.alone ? only.alone : only.prediction;
  if (alone && (alone->metric == "samples_per_s") == result.is_by_samples) promise.speedup = alone->speedup;
  if (!alone) promise.ceiling_speedup = only.ceiling_speedup;
  return promise;
}

}  // namespace

Comparison compare(const Report& before, const Report& after) {
  Comparison result;
  result.before_verdict = before.diagnosis.verdict.sentence;
  result.after_verdict = after.diagnosis.verdict.sentence;
  const RankAttribution *first = report::shown_rank(before), *second = report::shown_rank(after);
  if (!first || !second) return result;
  result.before = report::step_facts(*first);
  result.after = report::step_facts(*second);
  result.is_by_samples = has_samples(result.before) && has_samples(result.after) &&
                         result.before.samples_per_step != result.after.samples_per_step;
  const double expected = result.is_by_samples ? result.after.samples_per_s / result.before.samples_per_s
                          : result.after.mean_ms > 0 ? result.before.mean_ms / result.after.mean_ms
                                                     : 0;
  result.speedup = measured_speedup(*first, *second, expected);
  result.rows = row_changes(before, *first, after, *second);
  add_loader_changes(before.run.processes.at(first->process), after.run.processes.at(second->process),
                     result.changed);
  result.applied = report::applied_words(after.run, after.run.processes.at(second->process));
  result.differs = differences(before, *first, after, *second);
  sort_findings(before, after, result);
  if (result.differs.empty()) result.promise = promise_of(before, after, result);
  return result;
}

std::optional<bool> is_kept(const Comparison& comparison) {
  if (!comparison.promise || !comparison.speedup) return std::nullopt;
  const predict::Estimate& achieved = *comparison.speedup;
  if (const auto& promised = comparison.promise->speedup)
    return promised->low <= achieved.expected && achieved.expected <= promised->high;
  if (const auto& most = comparison.promise->ceiling_speedup) return achieved.expected <= *most;
  return std::nullopt;
}

bool is_left_open(const Comparison& comparison) {
  const auto kept = is_kept(comparison);
  if (!kept || *kept || !comparison.promise->speedup) return false;
  const predict::Estimate &achieved = *comparison.speedup, &promised = *comparison.promise->speedup;
  return achieved.low <= promised.high && promised.low <= achieved.high;
}

}  // namespace gpuwatch::compare
