// SPDX-License-Identifier: Apache-2.0
// The report for people, from top to bottom: verdict, the job, where a step goes, how it ended, findings,
// what would not help, how far to trust it, what could not be seen, what to do next.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/advise/diagnose.h"
#include "analyzer/advise/early_end.h"
#include "analyzer/advise/input_seen.h"
#include "analyzer/advise/place_words.h"
#include "analyzer/advise/rule.h"
#include "analyzer/io/printable.h"
#include "analyzer/model/cpu_time.h"
#include "analyzer/model/training_framework.h"
#include "analyzer/model/training_stacks.h"
#include "analyzer/report/facts.h"
#include "analyzer/report/kernel_rows.h"
#include "analyzer/report/layout.h"
#include "analyzer/report/step_rows.h"

namespace gpuwatch::report {
namespace {

using advise::Finding;
using attribute::RankAttribution;

std::string clean(const std::string& text) {
  return io::printable(text);
}

std::string joined(const std::vector<std::string>& parts) {
  std::string result;
  for (const std::string& part : parts) result += (result.empty() ? "" : ", ") + part;
  return result;
}

// "2.3", "14", and near 1 with the two decimals that matter there: "1.03".
std::string times(double speedup) {
  if (speedup < 1.095) return fmt::format("{:.2f}", speedup);
  return speedup < 9.95 ? fmt::format("{:.1f}", speedup) : fmt::format("{:.0f}", speedup);
}

fmt::color verdict_color(const std::string& id) {
  if (id == "healthy" || id == "cpu-job" || id == "compute-bound") return fmt::color::green;
  return id == "too-short" || id == "cannot-tell" || id == "no-training" ? fmt::color::yellow
                                                                         : fmt::color::red;
}

// ---- the job --------------------------------------------------------------------------------------------

constexpr double kMostlyRecorded = 0.9;  // of the steps: what is missing then is warm-up

std::string cpu_words(const model::Process& process) {
  if (process.machine_samples.size() < 2) return "";
  const model::TimeSpan span{process.machine_samples.front().time, process.machine_samples.back().time};
  if (span.length() <= 0) return "";
  const model::CpuTime time = model::cpu_time(process, span);
  const double cores = (time.own_ns + time.workers_ns + time.other_children_ns) / double(span.length());
  return fmt::format("{}{:.1f} of {} CPU cores used", time.is_least ? "at least " : "", cores,
                     process.cpu_count);
}

std::string job_words(const Report& report, const RankAttribution& rank) {
  const model::Process& process = report.run.processes.at(rank.process);
  std::vector<std::string> parts{clean(script_name(process))};
  if (const std::string name = framework_words(process); !name.empty()) parts.push_back(clean(name));
  parts.push_back(
      fmt::format("{}x {}", std::max<size_t>(1, report.ranks.size()),
                  rank.device == model::kNone && rank.time(attribute::Category::DeviceUnobserved) == 0
                      ? "CPU"
                      : clean(device_name(report, rank))));
  const StepFacts steps = step_facts(rank);
  if (steps.count == 0 && !model::unseen_training(process).empty()) {
    parts.push_back("no steps seen");
    if (const std::string cpu = cpu_words(process); !cpu.empty()) parts.push_back(cpu);
    return joined(parts);
  }
  const bool is_mostly_recorded = double(steps.recorded) >= kMostlyRecorded * double(steps.count);
  parts.push_back(is_mostly_recorded
                      ? fmt::format("{} steps", steps.count)
                      : fmt::format("{} steps ({} recorded in detail)", steps.count, steps.recorded));
  if (process.is_running) parts.push_back("still running");
  return joined(parts);
}

std::string speed_words(const RankAttribution& rank, const model::Process& process) {
  const StepFacts steps = step_facts(rank);
  if (steps.recorded == 0) return "";
  std::vector<std::string> parts;
  if (steps.samples_per_step > 0) {
    parts.push_back(fmt::format("{:.4g} samples/s", steps.samples_per_s));
    parts.push_back(fmt::format("batch {:.4g}", steps.samples_per_step));
  }
  parts.push_back(fmt::format("{} ms a step", three_digits(steps.mean_ms)));
  for (const LoaderFacts& loader : loader_facts(process)) {
    if (loader.batches == 0) continue;
    if (loader.loader->num_workers >= 0)
      parts.push_back(fmt::format("num_workers={}", loader.loader->num_workers));
    break;
  }
  if (const std::string cpu = cpu_words(process); !cpu.empty()) parts.push_back(cpu);
  return joined(parts);
}

void write_job(Layout& layout, const Report& report, const RankAttribution& rank) {
  layout.blank();
  layout.paragraph(job_words(report, rank));
  const model::Process& process = report.run.processes.at(rank.process);
  const std::string speed = speed_words(rank, process);
  if (!speed.empty()) layout.paragraph(advise::rank_prefix(report.run, report.ranks, rank) + speed);
  for (const std::string& words : applied_words(report.run, process))
    layout.labelled("applied", clean(words));
  for (const std::string& words : not_applied_words(process)) layout.labelled("not applied", clean(words));
}

// ---- where a step goes ------------------------------------------------------------------------------------

void write_step(Layout& layout, const Report& report, const RankAttribution& rank) {
  constexpr size_t kBar = 10, kLeastWithBar = 60;
  layout.blank();
  const bool is_one = advise::rank_prefix(report.run, report.ranks, rank).empty();
  layout.paragraph(is_one ? "where a step goes"
                          : fmt::format("where a step of {} goes",
                                        attribute::rank_name(report.run.processes.at(rank.process))));
  for (const StepRow& row : step_rows(report, rank)) {
    std::string head =
        fmt::format("  {:<14} {:>5} ms {:>3.0f}%  ", row.label, three_digits(row.ms), 100 * row.share);
    if (layout.width() >= kLeastWithBar)
      head += fmt::format("{:<{}}  ", std::string(size_t(std::lround(row.share * kBar)), '#'), kBar);
    layout.row(head, row.causes, columns(row.causes));
  }
}

// Of ranks that wait for each other: what each works on its own, the slowest first.
void write_ranks(Layout& layout, const Report& report) {
  constexpr size_t kMost = 4;
  for (const attribute::StepGroup& group : report.diagnosis.groups) {
    std::vector<std::pair<double, std::string>> own;
    for (const attribute::GroupMember& member : group.members)
      own.emplace_back(group.step_ms - member.waiting_ms,
                       attribute::rank_name(report.run.processes.at(member.process)));
    std::ranges::stable_sort(own, [](const auto& a, const auto& b) { return a.first > b.first; });
    std::string words;
    for (size_t i = 0; i < std::min(kMost, own.size()); ++i)
      words += fmt::format("{}{} {} ms", i ? ", " : "", own[i].second, three_digits(own[i].first));
    if (own.size() > kMost)
      words += fmt::format(", {} more down to {} ms", own.size() - kMost, three_digits(own.back().first));
    layout.blank();
    layout.labelled("ranks", fmt::format("time per step without waiting for other ranks: {}{}", words,
                                         group.late ? "" : "; no straggler"));
  }
}

// Of a job without steps: the lines that its training thread was seen at.
void write_places(Layout& layout, const Report& report, const RankAttribution& rank) {
  constexpr size_t kMost = 6;
  const auto functions = model::training_functions(report.run, report.run.processes.at(rank.process));
  if (functions.empty()) return;
  layout.blank();
  layout.paragraph("where the training thread was");
  for (size_t i = 0; i < std::min(kMost, functions.size()); ++i) {
    const model::StackFrame& frame = functions[i].frame;
    const std::string words = advise::place_words(frame);
    layout.row(fmt::format("  {:>3.0f}%  ", 100 * functions[i].share), words, columns(words));
  }
}

// ---- how the job ended -----------------------------------------------------------------------------------

// A process that serves one that trains, as loader workers do and those of torch.compile, which it kills at
// its end.
bool is_helper(const model::Run& run, const model::Process& process) {
  if (process.worker_of != model::kNone) return true;
  if (process.is_rank()) return false;
  uint32_t parent = process.parent;
  for (size_t i = 0; i < run.processes.size() && parent != model::kNone; ++i) {
    if (run.processes[parent].is_rank()) return true;
    parent = run.processes[parent].parent;
  }
  return false;
}

// Of the threads of a killed process, what the training thread waited in says why; libraries' threads wait
// all the time.
void write_waits(Layout& layout, const Report& report, const model::Process& process, bool all_threads) {
  size_t hidden = 0;
  for (const OpenCallWords& call : open_call_words(report.run, process)) {
    if (call.is_training || all_threads)
      layout.labelled("", clean(call.sentence));
    else
      ++hidden;
  }
  if (hidden > 0)
    layout.labelled("", fmt::format("{} other thread{} inside a call, too (-v lists them)", hidden,
                                    hidden == 1 ? " was" : "s were"));
}

void write_end(Layout& layout, const Report& report, bool all_threads) {
  for (const model::Process& process : report.run.processes) {
    if (is_helper(report.run, process) || process.is_running) continue;
    if (was_interrupted(process)) {
      layout.blank();
      layout.labelled("ended", "by gpuwatch try, at the end of a step");
    } else if (process.end_state == model::EndState::kKilledOrRunning) {
      layout.blank();
      layout.labelled("killed", fmt::format("process {} was killed, or its machine was lost", process.pid));
      write_waits(layout, report, process, all_threads);
    } else if (process.end_state == model::EndState::kExited && process.exit_code != 0) {
      layout.blank();
      layout.labelled("ended",
                      fmt::format("process {} ended with exit code {}", process.pid, process.exit_code));
    }
  }
}

// ---- findings --------------------------------------------------------------------------------------------

std::string prediction_words(const Layout& layout, const predict::Prediction& p) {
  return fmt::format("{} {} {} {}, {}x ({}{}{}x)", three_digits(p.now), layout.arrow(),
                     three_digits(p.value.expected), p.metric == "step_ms" ? "ms a step" : "samples/s",
                     times(p.speedup.expected), times(p.speedup.low), layout.dash(), times(p.speedup.high));
}

std::string gain_words(const Layout& layout, const Finding& finding) {
  if (finding.prediction) return prediction_words(layout, *finding.prediction);
  const std::optional<double> bound = shown_bound(finding);
  return bound ? fmt::format("up to {}x", times(*bound)) : "";
}

// "Set num_workers=4" becomes "Then set num_workers=4"; names like OMP_NUM_THREADS keep their first letter.
std::string after_another(const char* how, std::string fix) {
  if (fix.size() > 1 && fix[0] >= 'A' && fix[0] <= 'Z' && fix[1] >= 'a' && fix[1] <= 'z')
    fix[0] = char(fix[0] - 'A' + 'a');
  return how + fix;
}

std::string fix_words(const Finding& finding, bool is_after_another) {
  std::string words = clean(finding.fix.summary.empty() ? finding.title : finding.fix.summary);
  if (finding.is_alternative)
    words = after_another("Or instead ", std::move(words));
  else if (is_after_another)
    words = after_another("Then ", std::move(words));
  if (!finding.fix.location.empty())
    words += fmt::format(" ({})", advise::short_location(finding.fix.location));
  return words;
}

std::string evidence_number(double value) {
  return value == std::floor(value) ? fmt::format("{:.0f}", value) : three_digits(value);
}

// "data stall 94% of the step; time to make a batch 614 ms"
std::string evidence_words(const Finding& finding) {
  constexpr size_t kShown = 2;
  std::string words;
  for (size_t i = 0; i < std::min(kShown, finding.evidence.size()); ++i) {
    const advise::Evidence& row = finding.evidence[i];
    const std::string unit = clean(row.unit);
    words += fmt::format("{}{} {}{}{}", i ? "; " : "", clean(row.what), evidence_number(row.value),
                         unit.empty() || unit.starts_with('%') ? "" : " ", unit);
  }
  return words;
}

void write_findings(Layout& layout, const Report& report) {
  constexpr size_t kIndent = 3;
  const advise::Diagnosis& diagnosis = report.diagnosis;
  size_t number = 0;
  bool is_after_another = false;
  for (const Finding& finding : diagnosis.findings) {
    if (!finding.is_complaint()) continue;
    layout.blank();
    const std::string fix = fix_words(finding, is_after_another && !finding.is_conditional);
    layout.both_ends(fmt::format("{}. {}", ++number, fix), gain_words(layout, finding), kIndent);
    layout.paragraph(advise::ranks_prefix(report.run, report.ranks, finding.ranks) + clean(finding.title),
                     kIndent);
    layout.paragraph(evidence_words(finding), kIndent);
    if (finding.prediction && !finding.is_conditional) is_after_another = true;
  }
  if (!diagnosis.together) return;
  layout.blank();
  layout.labelled("together", prediction_words(layout, *diagnosis.together));
}

// ---- closing lines ---------------------------------------------------------------------------------------

void write_notes(Layout& layout, const Report& report) {
  for (const Finding& finding : report.diagnosis.findings) {
    if (finding.is_complaint() || finding.id == "healthy") continue;
    const std::string fix = io::printable(finding.fix.summary, 512);
    layout.labelled("note", advise::ranks_prefix(report.run, report.ranks, finding.ranks) +
                                clean(finding.title) + (fix.empty() ? "" : ". " + fix));
  }
}

// Of the report's predictions: a bound is no better for a good model.
std::string trust_words(const Report& report) {
  const auto& replay = report.diagnosis.replay;
  if (!replay) return "";
  if (replay->trust() == predict::Trust::kCeilingOnly) return "low, gains are upper bounds: ";
  const Finding* first = advise::first_complaint(report.diagnosis.findings);
  if (first && !first->prediction) return "change 1 is not predicted: ";
  return replay->trust() == predict::Trust::kPredict ? "high: " : "medium, intervals are wider: ";
}

std::string next_words(const Report& report, const Finding* first) {
  const std::string& verdict = report.diagnosis.verdict.id;
  if (first) {
    const std::string where =
        first->fix.location.empty() ? "" : fmt::format(" ({})", advise::short_location(first->fix.location));
    return fmt::format("make change 1{}, run again, compare with gpuwatch diff", where);
  }
  if (verdict == "too-short") return "record a longer run";
  if (verdict == "no-training" && advise::ended_early(report.run))
    return "make the job run, then record again";
  const RankAttribution* rank = shown_rank(report);
  if (rank && !rank->steps.empty() && !advise::is_input_seen(report.run.processes.at(rank->process), *rank))
    return "see which Python lines take the time: py-spy record -- python train.py";
  const auto pipeline = rank ? advise::pipeline_on_cores(report.run, *rank) : std::nullopt;
  if (pipeline && !pipeline->share)
    return fmt::format("train on one batch again and again{}: what that gains is what {} takes",
                       pipeline->name == "tf.data" ? " (dataset.take(1).cache().repeat())" : "",
                       clean(pipeline->name));
  constexpr double kWorthTrying = 1.1;  // of a bound
  const Finding* kernels = advise::find(report.diagnosis.findings, "compute-bound");
  if (kernels && kernels->ceiling_speedup.value_or(1) >= kWorthTrying)
    return "what the note proposes, if the GPU's own work is to take less time";
  return verdict == "healthy" || verdict == "cpu-job" || verdict == "compute-bound" ? "nothing" : "";
}

void write_next(Layout& layout, const Report& report) {
  const Finding* first = advise::first_complaint(report.diagnosis.findings);
  layout.labelled("next", next_words(report, first));
  if (first) layout.labelled("learn more", "gpuwatch explain " + first->id);
}

void write_limits(Layout& layout, const std::vector<advise::Limit>& limits, bool all) {
  size_t hidden = 0;
  bool is_first = true;
  for (const advise::Limit& limit : limits) {
    if (!all && !limit.bears_on_conclusion) {
      ++hidden;
      continue;
    }
    layout.labelled(is_first ? "not seen" : "", io::printable(limit.sentence, 512));
    is_first = false;
  }
  if (hidden == 0) return;
  layout.labelled(is_first ? "not seen" : "", fmt::format("-v shows {}{}", hidden, is_first ? "" : " more"));
}

void write_unproposed(Layout& layout, const char* label, const advise::Diagnosis& diagnosis,
                      const std::vector<std::string>& changes) {
  const std::string words = joined(changes), &on = diagnosis.unproposed_on;
  layout.labelled(label, words.empty() || on.empty() ? words : on + ": " + words);
}

void write_closing(Layout& layout, const Report& report, bool has_steps, bool all_limits) {
  layout.blank();
  write_notes(layout, report);
  write_unproposed(layout, "may gain", report.diagnosis, report.diagnosis.unproposed.may_gain);
  write_unproposed(layout, "no gain", report.diagnosis, report.diagnosis.unproposed.no_gain);
  if (has_steps) layout.labelled("confidence", confidence(report));
  write_limits(layout, report.diagnosis.limits, all_limits);
  write_next(layout, report);
}

}  // namespace

const RankAttribution* shown_rank(const Report& report) {
  const RankAttribution* worst = advise::worst_rank(report.ranks, report.diagnosis.groups);
  return worst || report.ranks.empty() ? worst : &report.ranks.front();
}

std::string confidence(const Report& report) {
  std::vector<std::string> parts;
  const auto& replay = report.diagnosis.replay;
  if (replay) parts.push_back(fmt::format("model error {:.1f}%", 100 * std::abs(replay->error())));
  if (const std::optional<double> overhead = overhead_share(report))
    parts.push_back(fmt::format("overhead {:.1g}%", std::max(0.01, 100 * *overhead)));
  uint64_t dropped = 0;
  for (const model::Process& process : report.run.processes)
    for (const auto& [reason, count] : process.dropped_records) dropped += count;
  parts.push_back(dropped > 0 ? fmt::format("{} records dropped", dropped) : "no records dropped");
  if (report.run.kernels_total > 0) {
    const double matched = matched_share(report.run);
    parts.push_back(matched == 1
                        ? "all kernels matched to their launches"
                        : fmt::format("{:.1f}% of kernels matched to their launches", 100 * matched));
  }
  return trust_words(report) + joined(parts);
}

std::string text(const Report& report, TextStyle style) {
  Layout layout(style);
  const advise::Verdict& verdict = report.diagnosis.verdict;
  layout.headline(io::printable(verdict.sentence, 512), verdict_color(verdict.id));
  const RankAttribution* rank = shown_rank(report);
  const bool has_steps = rank && !rank->steps.empty();
  if (rank) write_job(layout, report, *rank);
  if (has_steps) write_step(layout, report, *rank);
  if (has_steps) write_ranks(layout, report);
  if (rank && !has_steps) write_places(layout, report, *rank);
  if (has_steps && style.shows_kernels) write_kernels(layout, report, *rank);
  write_end(layout, report, style.is_verbose);
  write_findings(layout, report);
  write_closing(layout, report, has_steps, style.is_verbose);
  return layout.take();
}

}  // namespace gpuwatch::report
