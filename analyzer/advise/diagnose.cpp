// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "analyzer/advise/input_facts.h"
#include "analyzer/advise/rule.h"
#include "analyzer/advise/storage.h"

namespace gpuwatch::advise {
namespace {

constexpr double kLargeSpeedup = 1.10;

// The replays of one rank, prepared once.
struct RankReplays {
  std::optional<predict::LoaderReplayInput> loader;
  std::optional<predict::ProducerReplayInput> producers;
  std::optional<predict::StreamReplayInput> streams;
  predict::ReplayCheck loader_check, stream_check;
  std::optional<InputFacts> facts;

  RankReplays() = default;
  RankReplays(const model::Run& run, const attribute::RankAttribution& rank)
      : loader(predict::extract_loader(run, rank)),
        producers(predict::extract_producers(run, rank)),
        streams(predict::extract_streams(run, rank)) {
    if (loader) loader_check = predict::check(*loader);
    if (streams) stream_check = predict::check(*streams);
    if (loader) facts = input_facts(run, rank);
  }
};

int ranks_on_host(const model::Run& run, const model::Process& process) {
  int ranks = 0;
  for (const model::Process& other : run.processes) ranks += other.is_rank() && other.host == process.host;
  return std::max(ranks, 1);
}

RuleInput make_input(const model::Run& run, const attribute::RankAttribution& rank,
                     const RankReplays& replays) {
  const model::Process& process = run.processes.at(rank.process);
  RuleInput input{.run = run, .rank = rank, .process = process};
  if (rank.device != model::kNone) input.device = &process.devices.at(rank.device);
  input.ranks_on_host = ranks_on_host(run, process);
  input.loader = replays.loader ? &*replays.loader : nullptr;
  input.producers = replays.producers ? &*replays.producers : nullptr;
  input.streams = replays.streams ? &*replays.streams : nullptr;
  input.loader_check = replays.loader_check;
  input.stream_check = replays.stream_check;
  input.facts = replays.facts ? &*replays.facts : nullptr;
  assume_nothing(input);
  return input;
}

// A ceiling is no promise: at least, it gains nothing, and nothing is expected of it. Nor is a change worse
// than no change, for it can be taken back.
predict::Estimate gain(const Finding& finding) {
  if (finding.prediction) {
    const predict::Estimate& speedup = finding.prediction->speedup;
    return {std::max(1.0, speedup.low), std::max(1.0, speedup.expected), speedup.high};
  }
  double ceiling = finding.ceiling_speedup.value_or(1);
  if (finding.lost_share < 1) ceiling = std::min(ceiling, 1 / (1 - finding.lost_share));
  return {1, 1, ceiling};
}

bool ranks_before(const Finding& a, const Finding& b) {
  if (a.is_complaint() != b.is_complaint()) return a.is_complaint();
  const predict::Estimate of_a = gain(a), of_b = gain(b);
  return std::tie(of_a.low, of_a.expected, of_a.high) > std::tie(of_b.low, of_b.expected, of_b.high);
}

// What applying `finding`, of a step's time, leaves for the ones after it. `streams` keeps their timeline.
void assume(RuleInput& input, const Finding& finding, predict::StreamReplayInput& streams) {
  input.now_ms = finding.prediction->value.expected;
  const predict::LoaderReplayInput* loader = input.loader      ? input.loader
                                             : input.producers ? &input.producers->loader
                                                               : nullptr;
  if (!loader) return;
  predict::LoaderSetting setting = input.assumed_loader.value_or(loader->setting);
  if (!apply(finding.fix.change, setting)) return;
  input.assumed_loader = setting;
  double recorded = predict::replay(*loader, loader->setting).wait_ms;
  input.input_factor = recorded > 0 ? predict::replay(*loader, setting).wait_ms / recorded : 1;
  if (!input.streams) return;
  streams = with_assumed_input(input);
  input.assumed_streams = &streams;
  input.assumed_step_ms = predict::replay(streams).step_ms;
}

// A rule compares replays with each other; the prediction starts from the recorded step, and decides. One
// that may as well be a loss is named only where a large gain is expected.
bool is_worth_naming(const Finding& finding) {
  if (!finding.is_complaint()) return true;
  if (!finding.prediction) return finding.ceiling_speedup.value_or(kLeastSpeedup) >= kLeastSpeedup;
  const predict::Estimate& speedup = finding.prediction->speedup;
  return speedup.expected >= (speedup.low >= 1 ? kLeastSpeedup : kLargeSpeedup);
}

bool has_enough_steps(const attribute::RankAttribution& rank) {
  return rank.steps.size() >= kLeastSteps;
}

std::vector<Finding> evaluate_all(const RuleInput& input, const std::vector<Finding>& except) {
  std::vector<Finding> findings;
  for (const Rule* rule : all_rules()) {
    bool is_known =
        std::any_of(except.begin(), except.end(), [&](const Finding& f) { return f.id == rule->id; });
    if (is_known || (!has_enough_steps(input.rank) && !rule->without_steps)) continue;
    auto finding = rule->evaluate(input);
    if (finding && is_worth_naming(*finding)) findings.push_back(std::move(*finding));
  }
  return findings;
}

// Findings of one rank, best first, each predicted on top of those before it: one that gains nothing any more
// disappears, one that only shows once the first is applied (a longer buffer for more workers) appears.
std::vector<Finding> rank_findings(const RuleInput& recorded) {
  std::vector<Finding> result;
  RuleInput input = recorded;
  predict::StreamReplayInput streams;
  std::string applied;
  for (std::vector<Finding> open = evaluate_all(input, result); !open.empty();) {
    auto best = std::min_element(open.begin(), open.end(), ranks_before);
    Finding first = std::move(*best);
    open.erase(best);
    if (first.prediction && !applied.empty() && !first.is_conditional)
      first.prediction->assumptions.emplace_back("applied after: " + applied);
    bool changes_what_follows = first.is_complaint() && first.prediction && !first.is_conditional;
    result.push_back(first);
    if (!changes_what_follows) continue;
    assume(input, first, streams);
    applied += (applied.empty() ? "" : ", ") + first.fix.summary;
    open = evaluate_all(input, result);
  }
  if (first_complaint(result)) std::erase_if(result, [](const Finding& f) { return f.id == "healthy"; });
  return result;
}

void merge(std::vector<Finding>& all, std::vector<Finding> of_rank) {
  for (Finding& finding : of_rank) {
    auto known = std::find_if(all.begin(), all.end(), [&](const Finding& f) { return f.id == finding.id; });
    if (known == all.end()) {
      all.push_back(std::move(finding));
      continue;
    }
    std::vector<uint32_t> ranks = known->ranks;
    ranks.insert(ranks.end(), finding.ranks.begin(), finding.ranks.end());
    if (finding.lost_share > known->lost_share) *known = std::move(finding);
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    known->ranks = ranks;
  }
}

std::string gain_words(double speedup) {
  double percent = 100 * (speedup - 1);
  return percent < 1 ? "<1%" : fmt::format("{:.0f}%", percent);
}

// What a user would try next and what it would bring: the answer that saves the attempt.
class NoGain {
 public:
  NoGain(const RuleInput& input, predict::LoaderSetting setting)
      : input_(input), setting_(setting), now_(expected_step_ms(input, *input.loader, setting)) {}

  void add(const std::string& change, predict::LoaderSetting changed, const std::string& why = "") {
    double speedup = now_ / expected_step_ms(input_, *input_.loader, changed);
    if (speedup >= kLeastSpeedup) return;
    result_.push_back(fmt::format("{} ({}{}{})", change, gain_words(speedup), why.empty() ? "" : ": ", why));
  }

  std::vector<std::string> list() {
    predict::LoaderSetting more = setting_;
    if (setting_.workers < 1) {  // no worker is suggested: if that is because none would help, say so
      more.workers = int(std::max(1u, input_.process.cpu_count));
      add(fmt::format("num_workers={}", more.workers), more);
      return std::move(result_);
    }
    more.workers = setting_.workers * 2;
    add(fmt::format("more than {} worker{}", setting_.workers, setting_.workers == 1 ? "" : "s"), more,
        predict::limit_words(*input_.loader, setting_));
    more = setting_;
    more.prefetch_factor *= 2;
    add(fmt::format("prefetch_factor={}", more.prefetch_factor), more);
    if (input_.facts && input_.facts->io_share() >= kReadsAtAll) {
      const double speedup = ceiling_without_reading(input_);
      if (speedup < kLeastSpeedup)
        result_.push_back(fmt::format("faster storage ({}: reading takes {:.0f}% of making a batch)",
                                      gain_words(speedup), 100 * input_.facts->io_share()));
    }
    return std::move(result_);
  }

 private:
  // Of the fetch: a dataset that does not read is not asked about disks.
  static constexpr double kReadsAtAll = 0.01;

  const RuleInput& input_;
  const predict::LoaderSetting setting_;
  const double now_;
  std::vector<std::string> result_;
};

std::vector<std::string> without_gain(const RuleInput& input, const std::vector<Finding>& findings) {
  if (!input.loader || input.loader_check.trust() == predict::Trust::kCeilingOnly) return {};
  predict::LoaderSetting setting = input.loader->setting;
  for (const Finding& finding : findings)
    if (finding.is_complaint()) apply(finding.fix.change, setting);
  return NoGain(input, setting).list();
}

// Which replay an upper bound comes from: a change that no replay applies is one of the larger bottleneck.
bool rests_on_loader(const RuleInput& input, const Finding& finding) {
  if (std::holds_alternative<LoaderChange>(finding.fix.change)) return true;
  if (std::holds_alternative<StorageChange>(finding.fix.change)) return true;
  if (std::holds_alternative<StreamChange>(finding.fix.change)) return false;
  return input.rank.time(attribute::Bottleneck::Input) > input.rank.time(attribute::Bottleneck::Host);
}

void state_doubt(const RuleInput& input, const std::vector<Finding>& findings, const char* what,
                 bool is_loader, Diagnosis& diagnosis) {
  const predict::ReplayCheck& check = is_loader ? input.loader_check : input.stream_check;
  if (check.steps == 0 || check.trust() != predict::Trust::kCeilingOnly) return;
  std::string sentence =
      check.steps < predict::kLeastReplaySteps
          ? fmt::format(
                "Only {} steps were recorded: gains are upper bounds, not predictions. Record {} or more.",
                check.steps, predict::kLeastReplaySteps)
          : fmt::format(
                "The simulated replay of the {} misses the unchanged run by {:.0f}%: gains that rest "
                "on it are upper bounds, not predictions.",
                what, 100 * std::abs(check.error()));
  const bool is_used = std::ranges::any_of(findings, [&](const Finding& finding) {
    return finding.is_complaint() && rests_on_loader(input, finding) == is_loader;
  });
  diagnosis.limits.push_back({std::move(sentence), is_used});
}

// What the replays were off by, and which of them the first gain rests on.
void state_replay(const RuleInput& input, const std::vector<Finding>& findings, Diagnosis& diagnosis) {
  state_doubt(input, findings, "data loader", true, diagnosis);
  if (input.loader_check.steps == 0 || input.loader_check.steps >= predict::kLeastReplaySteps)
    state_doubt(input, findings, "GPU timeline", false, diagnosis);
  const Finding* first = first_complaint(findings);
  if (diagnosis.replay || !first) return;
  const predict::ReplayCheck& used = first->prediction                ? first->prediction->replay
                                     : rests_on_loader(input, *first) ? input.loader_check
                                                                      : input.stream_check;
  if (used.steps > 0) diagnosis.replay = used;
}

// steps.mean_ms is the script's clock; predictions start from the step with its work.
void state_work_ahead(const RuleInput& input, Diagnosis& diagnosis) {
  constexpr double kWorthSaying = 0.02;
  const double script_ms = input.rank.mean_step_ms();
  if (!input.streams || input.now_ms <= script_ms * (1 + kWorthSaying)) return;
  diagnosis.limits.push_back(
      {fmt::format(
           "The script ended its steps before the GPU had finished them: {:.1f} ms a step by the script's "
           "clock (shares are of that), {:.1f} ms with the unfinished work, which predictions start from.",
           script_ms, input.now_ms),
       true});
}

}  // namespace

std::optional<predict::Prediction> what_if(const model::Run& run, const attribute::RankAttribution& rank,
                                           predict::LoaderSetting setting) {
  RankReplays replays(run, rank);
  if (!replays.loader) return std::nullopt;
  return loader_prediction(make_input(run, rank, replays), *replays.loader, replays.loader_check, setting);
}

Diagnosis diagnose(const model::Run& run, const std::vector<attribute::RankAttribution>& ranks) {
  Diagnosis diagnosis;
  diagnosis.limits = limits(run, ranks);
  for (const attribute::RankAttribution& rank : ranks) {
    RankReplays replays;
    if (has_enough_steps(rank)) replays = RankReplays(run, rank);
    RuleInput input = make_input(run, rank, replays);
    std::vector<Finding> findings = rank_findings(input);
    if (diagnosis.no_gain.empty()) diagnosis.no_gain = without_gain(input, findings);
    state_replay(input, findings, diagnosis);
    state_work_ahead(input, diagnosis);
    merge(diagnosis.findings, std::move(findings));
  }
  if (ranks.size() > 1) std::stable_sort(diagnosis.findings.begin(), diagnosis.findings.end(), ranks_before);
  if (first_complaint(diagnosis.findings))
    std::erase_if(diagnosis.findings, [](const Finding& f) { return f.id == "healthy"; });
  diagnosis.verdict = verdict(run, ranks, diagnosis.findings);
  return diagnosis;
}

}  // namespace gpuwatch::advise
