// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "analyzer/advise/diagnose.h"
#include "analyzer/advise/early_end.h"
#include "analyzer/advise/input_seen.h"
#include "analyzer/advise/kernel_gains.h"
#include "analyzer/advise/ranking.h"
#include "analyzer/advise/unexplained.h"
#include "analyzer/io/printable.h"

namespace gpuwatch::advise {
namespace {

using attribute::Bottleneck;
using attribute::Category;
using attribute::Group;
using attribute::RankAttribution;
using attribute::StepGroup;

constexpr double kMostlyBusy = 0.8;  // the rest is below XProf's upper band
constexpr double kBound = 0.05;      // XProf's lower band: below it a job is not bound by this

struct Loss {
  const char* id;
  const char* heading;
  Bottleneck bottleneck;
  const char* gpu;       // "the GPU idles 58% of each step waiting for data"
  const char* training;  // the same of a job without a GPU
};

constexpr Loss kLosses[] = {
    {"input-bound", "INPUT-BOUND", Bottleneck::Input, "the GPU idles {} of each step waiting for data",
     "training waits for data {} of each step"},
    {"host-bound", "HOST-BOUND", Bottleneck::Host,
     "the GPU idles {} of each step waiting for the training script on the CPU",
     "other work than computing the model takes {} of each step"},
    {"copy-bound", "COPY-BOUND", Bottleneck::Copy, "copies to or from the GPU block {} of each step",
     "copies take {} of each step"},
    {"comm-bound", "COMM-BOUND", Bottleneck::Communication,
     "communication between ranks blocks {} of each step",
     "communication between ranks takes {} of each step"},
};

// Of the step, what a change is expected to gain: the best finding's part, or half of what none explains,
// which may be all of it or nothing.
double recoverable(const model::Run& run, const RankAttribution& rank, const std::vector<Finding>& findings,
                   Bottleneck bottleneck) {
  double best = 0;
  for (const Finding& finding : findings)
    if (finding.bottleneck == bottleneck && is_about(run.processes.at(rank.process), finding))
      best = std::max(best, expected_recovery(finding) / finding.part_of_run);
  if (bottleneck == Bottleneck::Compute) return best;
  return std::max(best, unexplained_share(run, rank, findings, bottleneck) / 2);
}

// Of the step. On a CPU job the script's own work is part of what counts as computing, and a finding about it
// tells how much: pandas took 48% of a step in which training waited for data 9%.
double share_of(const model::Run& run, const RankAttribution& rank, const std::vector<Finding>& findings,
                Bottleneck bottleneck) {
  double share = rank.share(bottleneck);
  if (rank.device != model::kNone || bottleneck != Bottleneck::Host) return share;
  for (const Finding& finding : findings)
    if (finding.is_complaint() && finding.bottleneck == bottleneck && !finding.is_of_the_run &&
        is_about(run.processes.at(rank.process), finding))
      share = std::max(share, finding.lost_share);
  return share;
}

// Null: the model's compute. Where two gain about the same, the one that takes more of the step.
const Loss* most_recoverable(const model::Run& run, const RankAttribution& rank,
                             const std::vector<Finding>& findings) {
  constexpr double kSame = 0.03;  // of the step: gains differ as much from run to run
  const auto share = [&](const Loss& loss) { return share_of(run, rank, findings, loss.bottleneck); };
  const Loss* most = std::max_element(std::begin(kLosses), std::end(kLosses),
                                      [&](const Loss& a, const Loss& b) { return share(a) < share(b); });
  double gain = recoverable(run, rank, findings, most->bottleneck) + kSame;
  for (const Loss& loss : kLosses) {
    const double other = recoverable(run, rank, findings, loss.bottleneck);
    if (other <= gain || share(loss) < kBound) continue;
    most = &loss;
    gain = other;
  }
  return recoverable(run, rank, findings, Bottleneck::Compute) > gain ? nullptr : most;
}

std::string percent(double share) {
  return fmt::format("{:.0f}%", 100 * share);
}

// Of the time that the machine left to the job.
double own_share(const RankAttribution& rank, double share) {
  const double own = 1 - rank.share(Bottleneck::Machine);
  return own > 0 ? share / own : 0;
}

// Others took it: it says nothing of the job, and nothing of the job removes it.
std::string machine_words(const RankAttribution& rank) {
  const double share = rank.share(Bottleneck::Machine);
  return share < kBound
             ? ""
             : fmt::format("; the training thread waits for a CPU core {} of the time", percent(share));
}

// What the run loses between its steps, where that is more than what the steps can gain.
std::string outside_of_steps(const std::vector<Finding>& findings, double gained_in_steps) {
  const Finding* first = first_complaint(findings);
  if (!first || !first->is_of_the_run) return "";
  const auto of_steps = std::ranges::find(findings, false, &Finding::is_of_the_run);
  const double part_of_run = of_steps == findings.end() ? 1 : of_steps->part_of_run;
  if (expected_recovery(*first) <= part_of_run * gained_in_steps) return "";
  std::string words = io::printable(first->title);
  if (!words.empty()) words.front() = char(std::tolower(static_cast<unsigned char>(words.front())));
  return "; " + words;
}

Verdict bound_by(const RankAttribution& rank, const Loss& loss, double share) {
  const double step = rank.mean_step_ms();
  const char* words = rank.device == model::kNone ? loss.training : loss.gpu;
  const bool is_sampled = share > rank.share(loss.bottleneck);  // by a finding, of time in another category
  return {loss.id,
          fmt::format("{}: {} ({:.4g} of {:.4g} ms{}){}", loss.heading,
                      fmt::format(fmt::runtime(words), percent(share)), share * step, step,
                      is_sampled ? ", most of it among \"compute\" below" : "", machine_words(rank)),
          share < 1 ? 1 / (1 - share) : 1, loss.bottleneck};
}

// Its last steps say nothing of why it left no end: it may have waited for a peer, or for its device. The
// trace of a job that runs on another machine looks the same.
bool has_no_end(const model::Process& process) {
  return process.end_state == model::EndState::kKilledOrRunning && !process.is_running;
}

Verdict without_end(const model::Run& run, const model::Process& process, const RankAttribution& rank) {
  std::string in;
  if (process.training_thread < process.threads.size())
    for (const model::OpenCall& call : process.threads[process.training_thread].open_calls)
      if (in.empty() && call.operation < run.operations.size())
        in = " in " + io::printable(run.operations[call.operation].name);
  return {
      "cannot-tell",
      fmt::format("KILLED{} after {} steps, or still running on another machine: computing took {} of each "
                  "step until then",
                  in, rank.series.steps.size(), percent(rank.share(Group::DeviceBusy))),
      1};
}

// The job does not wait for its input or its host by more than the bound.
// A complaint of the machine alone leaves the job healthy.
bool is_about_the_job(const Finding& finding) {
  return finding.is_complaint() && finding.bottleneck != Bottleneck::Machine &&
         !finding.explains.contains(Category::Sched);
}

// The most that a finding about data loading says it gains.
double input_ceiling(const std::vector<Finding>& findings, bool also_predicted) {
  double ceiling = 1;
  for (const Finding& finding : findings) {
    if (!finding.is_complaint() || finding.bottleneck != Bottleneck::Input || finding.is_of_the_run) continue;
    if (finding.known_gain() && !also_predicted) continue;
    const bool is_of_steps = finding.prediction && finding.prediction->metric == "step_ms";
    ceiling = std::max(ceiling,
                       is_of_steps ? finding.prediction->speedup.high : finding.ceiling_speedup.value_or(1));
  }
  return ceiling;
}

// `ceiling`: of faster data loading, which is hidden where only the cores that it takes show. Not said of a
// pipeline on the same cores that nothing is known of: "up to 1.00x" stood where only its next() was seen.
Verdict on_cpu(const RankAttribution& rank, const std::vector<Finding>& findings, double ceiling,
               bool is_hidden, const std::optional<PipelineOnCores>& pipeline) {
  const Finding* first = first_complaint(findings);
  const bool is_known = is_hidden || !pipeline || pipeline->share;
  const bool is_elsewhere = first && is_about_the_job(*first) && first->bottleneck != Bottleneck::Input &&
                            !first->is_of_the_run && ceiling < kLeastSpeedup;
  std::string loading;
  if (!is_known)
    loading = fmt::format("; what {} takes from it on the same cores is not known{}", pipeline->name,
                          is_elsewhere ? ", and of the rest change 1 gains most" : "");
  else if (is_elsewhere)
    loading = "; data loading is no limit, change 1 is";
  else
    loading = fmt::format("{}; faster data loading gains up to {:.2f}x",
                          is_hidden ? ", and data loading takes CPU cores from it" : "", ceiling);
  return {"cpu-job",
          fmt::format("CPU JOB: training computes on the CPU {} of the time{}{}",
                      percent(rank.share(Category::Compute)), loading, machine_words(rank)),
          ceiling};
}

Verdict not_bound(const model::Run& run, const RankAttribution& rank, const std::vector<Finding>& findings) {
  const model::Process& process = run.processes.at(rank.process);
  const bool has_complaints = std::ranges::any_of(findings, is_about_the_job);
  const double compute = rank.share(Category::Compute);
  double ceiling = compute > 0 ? (1 - rank.share(Bottleneck::Machine)) / compute : 1;
  const auto pipeline = pipeline_on_cores(run, rank);
  if (pipeline && pipeline->share && *pipeline->share < 1)
    ceiling = std::max(ceiling, 1 / (1 - *pipeline->share));
  if (!is_input_seen(process, rank))
    return {
        "cpu-job",
        fmt::format("CPU JOB: the training thread computes {} of the time; how much of that prepares data "
                    "is not known (no loader was seen)",
                    percent(compute)),
        1};
  if (rank.device == model::kNone) {
    // Training does not wait for it: a rule that only knows a bound says that it takes CPU cores from
    // training.
    const bool is_hidden = input_ceiling(findings, false) > ceiling;
    // One report said "faster data loading gains up to 1.63x" above a finding of up to 2.3x.
    return on_cpu(rank, findings, std::max(ceiling, input_ceiling(findings, true)), is_hidden, pipeline);
  }
  if (has_complaints) {
    const std::string host =
        ceiling < kLeastSpeedup
            ? ""
            : fmt::format("; faster data loading and host code gain up to {:.2f}x", ceiling);
    return {"compute-bound",
            fmt::format("COMPUTE-BOUND: the GPU is busy {} of the time; {}{}{}", percent(compute),
                        compute >= kMostlyBusy ? "only faster GPU work can speed this up"
                                               : "faster GPU work gains most",
                        host, machine_words(rank)),
            ceiling};
  }
  return {"healthy",
          fmt::format("HEALTHY: nothing to gain in data loading or on the host (up to {:.2f}x){}", ceiling,
                      machine_words(rank)),
          ceiling};
}

// The GPU is the limit, and what little time it idles leads to no advice.
bool is_remainder(const model::Process& process, const RankAttribution& rank, const Loss& loss,
                  const std::vector<Finding>& findings) {
  return rank.device != model::kNone && rank.share(Category::Compute) >= kGpuIsTheLimit &&
         loss.bottleneck != Bottleneck::Communication &&
         std::ranges::none_of(findings, [&](const Finding& finding) {
           return finding.is_complaint() && finding.bottleneck == loss.bottleneck &&
                  is_about(process, finding);
         });
}

// The device alone was recorded, and it idles more than anything that is known costs.
bool is_idle_unexplained(const model::Process& process, const RankAttribution& rank, const Loss* loss) {
  const double unknown = rank.share(Category::Unknown);
  return process.sources.contains("host calls") && unknown >= kBound &&
         (!loss || unknown > rank.share(loss->bottleneck));
}

// Whatever else it waits for, the GPU that it does not use comes first.
Verdict gpu_unused(const RankAttribution& rank, const Finding& finding) {
  return {"cpu-job",
          fmt::format(
              "CPU JOB: the machine has a GPU that is not used; training computes on the CPU {} of the time",
              percent(rank.share(Category::Compute))),
          finding.ceiling_speedup.value_or(1), Bottleneck::Compute};
}

// Whoever waits for its peers waits for one of them: they do not count as idle.
double at_work(const RankAttribution& rank) {
  return rank.share(Group::DeviceBusy) + rank.share(Category::CommHost);
}

// Of several ranks, whose step the verdict is about, and who waits for it.
std::string rank_words(const model::Run& run, const RankAttribution& rank,
                       const std::vector<RankAttribution>& ranks, const StepGroup* late) {
  const auto has_steps = [](const RankAttribution& each) { return !each.steps.empty(); };
  if (std::ranges::count_if(ranks, has_steps) < 2) return "";
  const std::string name = attribute::rank_name(run.processes.at(rank.process));
  if (!late) return ", on " + name;
  const size_t others = late->members.size() - 1;
  std::string who = fmt::format("the other {} ranks wait", others);
  for (const attribute::GroupMember& member : late->members)
    if (others == 1 && member.process != rank.process)
      who = attribute::rank_name(run.processes.at(member.process)) + " waits";
  return fmt::format(", on {}; {} for it {} of each step", name, who,
                     percent(late->late->others_wait_ms / late->step_ms));
}

// The group that waits for this rank; null if none does.
const StepGroup* held_up_by(const std::vector<RankAttribution>& ranks, const std::vector<StepGroup>& groups,
                            const RankAttribution& rank) {
  const StepGroup* group = attribute::group_of(groups, size_t(&rank - ranks.data()));
  return group && group->late && group->late_member()->process == rank.process ? group : nullptr;
}

// Without what the rank loses, the step is that of the rank that works longest.
double job_ceiling(const std::vector<RankAttribution>& ranks, const StepGroup& group, Bottleneck bottleneck) {
  attribute::OwnWork work;
  for (const attribute::GroupMember& member : group.members) {
    std::vector<double>& own_ms = work.emplace_back(member.own_ms);
    for (size_t i = 0; i < own_ms.size(); ++i)
      for (size_t c = 0; c < attribute::kCategoryCount; ++c)
        if (attribute::kCategories[c].bottleneck == bottleneck)
          own_ms[i] -= double(ranks[member.row].steps[member.steps[i]].times[c]) / 1e6;
  }
  const double least_ms = attribute::mean_step_ms(work);
  return least_ms > 0 ? std::max(1.0, group.step_ms / least_ms) : 1;
}

}  // namespace

const RankAttribution* worst_rank(const std::vector<RankAttribution>& ranks,
                                  const std::vector<StepGroup>& groups) {
  const RankAttribution* worst = nullptr;
  for (const RankAttribution& rank : ranks)
    if (!rank.steps.empty() && (!worst || at_work(rank) < at_work(*worst))) worst = &rank;
  if (!worst) return nullptr;
  const StepGroup* group = attribute::group_of(groups, size_t(worst - ranks.data()));
  return group && group->late ? &ranks[group->late_member()->row] : worst;
}

Verdict verdict(const model::Run& run, const std::vector<RankAttribution>& ranks,
                const std::vector<Finding>& findings, const std::vector<StepGroup>& groups) {
  for (const Finding& finding : findings)
    if (finding.verdict) return *finding.verdict;
  const RankAttribution* rank = worst_rank(ranks, groups);
  if (!rank) return verdict_without_steps(run);
  if (rank->steps.size() < kLeastSteps)
    return verdict_with_few_steps(run.processes.at(rank->process), rank->steps.size());
  const Loss* loss = most_recoverable(run, *rank, findings);
  const double lost = loss ? share_of(run, *rank, findings, loss->bottleneck) : 0;
  const bool is_bound = loss && own_share(*rank, lost) >= kBound &&
                        !is_remainder(run.processes.at(rank->process), *rank, *loss, findings);
  const double hidden = rank->share(Bottleneck::Unobserved);
  if (hidden > 0.5 && !is_bound)
    return {"cannot-tell",
            fmt::format("CANNOT TELL: what the GPU did was not recorded for {} of the time", percent(hidden)),
            1};
  if (rank->share(Category::Unknown) > 0.5)
    return {"cannot-tell",
            fmt::format("CANNOT TELL: {} of the time has no known cause",
                        percent(rank->share(Category::Unknown))),
            1};
  const Finding* unused = find(findings, "gpu-unused");
  if (unused && (!is_bound || rank->share(Category::Compute) >= lost)) return gpu_unused(*rank, *unused);
  const model::Process& process = run.processes.at(rank->process);
  if (is_idle_unexplained(process, *rank, loss))
    return {"cannot-tell",
            fmt::format("CANNOT TELL: the GPU idles {} of each step, and why is not in this trace: it has no "
                        "calls of the host",
                        percent(rank->share(Category::Unknown))),
            1};
  const StepGroup* late = held_up_by(ranks, groups, *rank);
  if (is_bound) {
    Verdict bound = bound_by(*rank, *loss, lost);
    bound.sentence += outside_of_steps(findings, recoverable(run, *rank, findings, loss->bottleneck));
    bound.sentence += rank_words(run, *rank, ranks, late);
    if (late)
      bound.ceiling_speedup = std::min(bound.ceiling_speedup, job_ceiling(ranks, *late, loss->bottleneck));
    return bound;
  }
  if (has_no_end(process)) return without_end(run, process, *rank);
  Verdict free = not_bound(run, *rank, findings);
  free.sentence += outside_of_steps(findings, 0);
  if (late) free.sentence += rank_words(run, *rank, ranks, late);
  return free;
}

}  // namespace gpuwatch::advise
