// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/diagnose.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "analyzer/advise/input_facts.h"
#include "analyzer/advise/job_gains.h"
#include "analyzer/advise/machine.h"
#include "analyzer/advise/own_data.h"
#include "analyzer/advise/ranking.h"
#include "analyzer/advise/read_scaling.h"
#include "analyzer/advise/rule.h"
#include "analyzer/advise/unexplained.h"
#include "analyzer/advise/unproposed.h"
#include "analyzer/attribute/recording_cost.h"

namespace gpuwatch::advise {
namespace {

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
  input.recording_share = attribute::recording_cost_share(process, rank).value_or(0);
  assume_nothing(input);
  return input;
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

// Which replay an upper bound comes from: a change that no replay applies is one of the larger bottleneck.
bool rests_on_loader(const RuleInput& input, const Finding& finding) {
  if (std::holds_alternative<LoaderChange>(finding.fix.change)) return true;
  if (std::holds_alternative<StorageChange>(finding.fix.change)) return true;
  if (std::holds_alternative<StreamChange>(finding.fix.change)) return false;
  return input.rank.time(attribute::Bottleneck::Input) > input.rank.time(attribute::Bottleneck::Host);
}

// A complaint rests on the replay of the loader, or on that of the GPU's timeline.
bool is_used(const RuleInput& input, const std::vector<Finding>& findings, bool is_loader) {
  return std::ranges::any_of(findings, [&](const Finding& finding) {
    return finding.is_complaint() && rests_on_loader(input, finding) == is_loader;
  });
}

void state_doubt(const RuleInput& input, const std::vector<Finding>& findings, const char* what,
                 bool is_loader, Diagnosis& diagnosis) {
  const predict::ReplayCheck& check = is_loader ? input.loader_check : input.stream_check;
  if (check.steps == 0 || check.trust() != predict::Trust::kCeilingOnly) return;
  if (input.rank.steps.size() < predict::kLeastReplaySteps) return;  // limits() says it
  std::string sentence =
      check.steps < predict::kLeastReplaySteps
          ? fmt::format(
                "Only {} steps were recorded: gains are upper bounds, not predictions. Record {} or more.",
                check.steps, predict::kLeastReplaySteps)
          : fmt::format(
                "The simulated replay of the {} misses the unchanged run by {:.0f}%: gains that rest "
                "on it are upper bounds, not predictions.",
                what, 100 * std::abs(check.error()));
  diagnosis.limits.push_back({std::move(sentence), is_used(input, findings, is_loader)});
}

// A replay with a part that was fitted to the recorded run is not checked by it.
void state_fit(const RuleInput& input, const std::vector<Finding>& findings, Diagnosis& diagnosis) {
  if (!input.loader || input.loader->quick_think_ns <= 0) return;
  diagnosis.limits.push_back(
      {"What training loses next to the workers is fitted to the recorded run: the model error says nothing "
       "of "
       "it.",
       is_used(input, findings, true)});
}

// What the replays were off by, and which of them the first gain rests on.
void state_replay(const RuleInput& input, const std::vector<Finding>& findings, Diagnosis& diagnosis) {
  state_doubt(input, findings, "data loader", true, diagnosis);
  state_fit(input, findings, diagnosis);
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

// Who has the cores that the training thread waits for, where no finding is about that: 16 workers on 2
// cores, say, which were not asked to be fewer because training never waits for data.
void state_core_users(const RuleInput& input, const std::vector<Finding>& findings, Diagnosis& diagnosis) {
  constexpr double kWorthSaying = 0.05;  // of the step, as for the verdict
  const double waits = input.rank.share(attribute::Category::Sched);
  const auto use = machine_use(input);
  const auto is_about_cores = [](const Finding& finding) {
    return finding.is_complaint() && finding.explains.contains(attribute::Category::Sched);
  };
  if (!use || waits < kWorthSaying || std::ranges::any_of(findings, is_about_cores)) return;
  const double own = std::max(0.0, use->job_cores - use->worker_cores - use->other_child_cores);
  diagnosis.limits.push_back(
      {fmt::format("The training thread waits for a CPU core {:.0f}% of each step. Of {} cores its process "
                   "uses {:.1f}, its loader workers {:.1f}, other processes of the job {:.1f} and other "
                   "programs {:.1f}.",
                   100 * waits, input.process.cpu_count, own, use->worker_cores, use->other_child_cores,
                   use->other_cores),
       true});
}

// Sentences that were added for a rank since there were `before` of them.
void name_rank(const std::string& prefix, size_t before, std::vector<Limit>& limits) {
  for (size_t i = before; i < limits.size() && !prefix.empty(); ++i) {
    char& first = limits[i].sentence.at(0);
    if (first >= 'A' && first <= 'Z') first = char(first - 'A' + 'a');
    limits[i].sentence = prefix + limits[i].sentence;
    limits[i].sentence[0] = char(limits[i].sentence[0] - 'a' + 'A');
  }
}

// A share without a finding, and a first finding that is not about what the verdict names, are said.
void state_unexplained(const model::Run& run, const std::vector<attribute::RankAttribution>& ranks,
                       Diagnosis& diagnosis) {
  const attribute::RankAttribution* rank = worst_rank(ranks, diagnosis.groups);
  if (!rank || rank->steps.size() < kLeastSteps) return;
  const size_t before = diagnosis.limits.size();
  std::ranges::move(unexplained(run, *rank, diagnosis.findings), std::back_inserter(diagnosis.limits));
  name_rank(rank_prefix(run, ranks, *rank), before, diagnosis.limits);
  const Finding* first = first_complaint(diagnosis.findings);
  const auto bound_by = diagnosis.verdict.bottleneck;
  if (!first || !bound_by || first->bottleneck == bound_by || first->is_of_the_run) return;
  if (std::ranges::find(first->distorts, *bound_by) != first->distorts.end()) return;
  diagnosis.limits.push_back(
      {fmt::format("Change 1 is not about {}: no change of that is known to gain more.",
                   attribute::words(*bound_by)),
       true});
}

struct RankDiagnosis {
  size_t row = 0;
  std::vector<Finding> findings;
  std::optional<predict::Prediction> together;
  UnproposedChanges unproposed;
  std::string name;  // "rank 1" of several
};

// The one that the verdict is about comes first: what is said once is said of it.
std::vector<size_t> rows_in_order(const std::vector<attribute::RankAttribution>& ranks,
                                  const std::vector<attribute::StepGroup>& groups) {
  std::vector<size_t> rows(ranks.size());
  std::iota(rows.begin(), rows.end(), size_t{0});
  const attribute::RankAttribution* worst = worst_rank(ranks, groups);
  if (!worst) return rows;
  const auto first = rows.begin() + (worst - ranks.data());
  std::rotate(rows.begin(), first, first + 1);
  return rows;
}

// What holds a late rank up may have a finding, whose advice is the job's: then that it is late is a note.
void settle_straggler(std::vector<Finding>& findings) {
  const auto straggler = std::ranges::find(findings, "straggler", &Finding::id);
  if (straggler == findings.end() || !straggler->bottleneck) return;
  const bool has_cause = std::ranges::any_of(findings, [&](const Finding& finding) {
    return &finding != &*straggler && finding.is_complaint() && finding.bottleneck == straggler->bottleneck;
  });
  if (!has_cause) return;
  straggler->severity = Severity::kInfo;
  straggler->fix.summary.clear();
  std::rotate(straggler, straggler + 1, findings.end());
}

RankDiagnosis diagnose_rank(const model::Run& run, const std::vector<attribute::RankAttribution>& ranks,
                            size_t row, Diagnosis& diagnosis) {
  const attribute::RankAttribution& rank = ranks[row];
  RankReplays replays;
  if (rank.steps.size() >= kLeastSteps) replays = RankReplays(run, rank);
  RuleInput input = make_input(run, rank, replays);
  input.group = attribute::group_of(diagnosis.groups, row);
  const std::optional<OwnData> own = own_data(input);
  input.own_data = own ? &*own : nullptr;
  auto [findings, together] = rank_findings(input);
  const std::string prefix = rank_prefix(run, ranks, rank);
  RankDiagnosis result{
      row, {}, together, unproposed_changes(input, findings), prefix.substr(0, prefix.find(':'))};
  const size_t before = diagnosis.limits.size();
  if (auto limit = stall_without_setting(input, findings)) diagnosis.limits.push_back(std::move(*limit));
  state_replay(input, findings, diagnosis);
  state_work_ahead(input, diagnosis);
  state_core_users(input, findings, diagnosis);
  name_rank(prefix, before, diagnosis.limits);
  settle_straggler(findings);
  result.findings = std::move(findings);
  return result;
}

// What the ranks of a group have is predicted for the job that they are; other ranks are jobs for themselves.
void join(const std::vector<attribute::RankAttribution>& ranks, std::vector<RankDiagnosis> of_ranks,
          Diagnosis& diagnosis) {
  if (of_ranks.empty()) return;
  const size_t first = of_ranks.front().row;
  const attribute::StepGroup* group = attribute::group_of(diagnosis.groups, first);
  diagnosis.together = of_ranks.front().together;
  diagnosis.unproposed = std::move(of_ranks.front().unproposed);
  diagnosis.unproposed_on = of_ranks.front().name;
  if (group) {
    std::vector<RankFindings> of_group;
    for (RankDiagnosis& rank : of_ranks)
      if (attribute::member_of(*group, rank.row)) of_group.push_back({rank.row, std::move(rank.findings)});
    JobFindings of_job = for_whole_job(*group, ranks, std::move(of_group));
    diagnosis.findings = std::move(of_job.findings);
    diagnosis.together = of_job.together;
  }
  // A further GPU of a member's process has that member's findings, not yet those of the whole job.
  const auto is_members = [&](size_t row) {
    return group && std::ranges::find(group->members, ranks[row].process, &attribute::GroupMember::process) !=
                        group->members.end();
  };
  for (RankDiagnosis& rank : of_ranks)
    if (!is_members(rank.row)) merge(diagnosis.findings, std::move(rank.findings));
  const bool is_one_job = group && group->members.size() == of_ranks.size();
  if (ranks.size() > 1 && !is_one_job) sort_by_recovery(diagnosis.findings);
}

}  // namespace

std::string rank_prefix(const model::Run& run, const std::vector<attribute::RankAttribution>& ranks,
                        const attribute::RankAttribution& rank) {
  const bool is_one = std::ranges::all_of(
      ranks, [&](const attribute::RankAttribution& other) { return other.process == rank.process; });
  return is_one ? "" : attribute::rank_name(run.processes.at(rank.process)) + ": ";
}

std::string ranks_prefix(const model::Run& run, const std::vector<attribute::RankAttribution>& ranks,
                         const std::vector<uint32_t>& numbers) {
  std::set<uint32_t> all;
  for (const attribute::RankAttribution& rank : ranks)
    all.insert(uint32_t(std::max(run.processes.at(rank.process).rank, 0)));
  if (all.size() < 2 || numbers.empty()) return "";
  constexpr size_t kMostNamed = 8;
  const std::set<uint32_t> named(numbers.begin(), numbers.end());
  if (named.size() == all.size()) return "All ranks: ";
  if (named.size() > kMostNamed) return fmt::format("{} of {} ranks: ", named.size(), all.size());
  return fmt::format("{} {}: ", named.size() == 1 ? "Rank" : "Ranks", fmt::join(named, ", "));
}

std::optional<predict::Prediction> what_if(const model::Run& run, const attribute::RankAttribution& rank,
                                           predict::LoaderSetting setting) {
  RankReplays replays(run, rank);
  if (!replays.loader) return std::nullopt;
  return loader_prediction(make_input(run, rank, replays), *replays.loader, replays.loader_check, setting);
}

std::optional<predict::Estimate> what_if_open(const model::Run& run, const attribute::RankAttribution& rank,
                                              predict::LoaderSetting setting) {
  const RankReplays replays(run, rank);
  if (!replays.loader) return std::nullopt;
  const RuleInput input = make_input(run, rank, replays);
  const auto reads = Reads(input, *replays.loader).outlook(setting);
  return reads && reads->is_open() ? std::optional(reads->step_ms) : std::nullopt;
}

Diagnosis diagnose(const model::Run& run, const std::vector<attribute::RankAttribution>& ranks) {
  Diagnosis diagnosis;
  diagnosis.limits = limits(run, ranks);
  diagnosis.groups = attribute::step_groups(run, ranks);
  std::vector<RankDiagnosis> of_ranks;
  for (const size_t row : rows_in_order(ranks, diagnosis.groups))
    of_ranks.push_back(diagnose_rank(run, ranks, row, diagnosis));
  join(ranks, std::move(of_ranks), diagnosis);
  if (first_complaint(diagnosis.findings))
    std::erase_if(diagnosis.findings, [](const Finding& f) { return f.id == "healthy"; });
  diagnosis.verdict = verdict(run, ranks, diagnosis.findings, diagnosis.groups);
  state_unexplained(run, ranks, diagnosis);
  return diagnosis;
}

}  // namespace gpuwatch::advise
