// SPDX-License-Identifier: Apache-2.0
// One sentence for each thing that could not be seen or concluded. Silence would read as "nothing there".
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "analyzer/advise/diagnose.h"
#include "analyzer/io/printable.h"
#include "analyzer/model/phases.h"
#include "analyzer/model/roles.h"
#include "analyzer/model/stacks.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using attribute::RankAttribution;

// A program that is no Python interpreter has no Python that could be missed.
bool is_python(const model::Process& process) {
  return process.executable.substr(process.executable.find_last_of('/') + 1).starts_with("python");
}

// "on" is no limit; everything else says why a source gave nothing, or gave less.
void add_sources(const model::Run& run, std::vector<std::string>& result) {
  std::set<std::string> seen;
  const bool has_rank = std::any_of(run.processes.begin(), run.processes.end(),
                                    [](const model::Process& process) { return process.is_rank(); });
  for (const model::Process& process : run.processes) {
    if ((has_rank && !process.is_rank()) || !process.imported_from.empty()) continue;
    for (const auto& [name, state] : process.sources) {
      if (state == "on" || (name == "python" && !is_python(process))) continue;
      std::string sentence = fmt::format("Source {}: {}.", io::printable(name), io::printable(state));
      if (seen.insert(sentence).second) result.push_back(sentence);
    }
  }
}

void add_losses(const model::Run& run, std::vector<std::string>& result) {
  std::map<std::string, uint64_t> losses;
  for (const model::Process& process : run.processes)
    for (const auto& [reason, count] : process.losses) losses[reason] += count;
  for (const auto& [reason, count] : losses)
    if (count > 0) result.push_back(fmt::format("{} records were lost: {}.", count, io::printable(reason)));
}

// Loaders that are not torch's show their waits and nothing of what made them wait.
void add_frameworks(const model::Process& process, const std::string& who, std::vector<std::string>& result) {
  const auto is_met = [&](const char* name) { return process.facts.count(name) > 0; };
  std::set<std::string> whole;
  for (const model::LoaderPass& pass : process.passes) {
    const model::Loader& loader = process.loaders.at(pass.loader);
    if (loader.num_workers < 0 && loader.framework != "torch") whole.insert(loader.framework);
  }
  for (const std::string& framework : whole)
    result.push_back(
        fmt::format("{}: waits for {} are seen whole; what its own threads did meanwhile is not known.", who,
                    io::printable(framework)));
  if (!whole.empty() || !process.passes.empty()) return;
  if (is_met("keras") && is_met("jax"))
    result.push_back(fmt::format(
        "{}: Keras on JAX takes batches from generators, which are seen over tf.data only.", who));
  else if (is_met("tensorflow") && !process.sources.count("tf.data loop"))
    result.push_back(fmt::format("{}: a dataset that a tf.function iterates itself is not seen.", who));
}

// A worker's lines are seen by the thread that waits for it. A loader without workers has nobody who waits.
void add_inline_loaders(const model::Process& process, const RankAttribution& rank, const std::string& who,
                        std::vector<std::string>& result) {
  constexpr double kWorthSaying = 0.05;
  if (rank.share(Category::InputTransform) < kWorthSaying) return;
  for (const model::Loader& loader : process.loaders) {
    const auto code = loader.num_workers == 0 ? model::sample_code(loader) : std::nullopt;
    if (!code) continue;
    result.push_back(
        fmt::format("{}: which lines of {} ({}) a sample's time goes to is seen only of a loader "
                    "with workers.",
                    who, io::printable(code->function), io::printable(code->location())));
    return;
  }
}

// The batches that training uses are taken by another thread, ahead of it.
void add_taking_thread(const model::Process& process, const std::string& who,
                       std::vector<std::string>& result) {
  if (!model::is_fed_by_other_threads(process)) return;
  result.push_back(
      fmt::format("{}: its loader is iterated by another thread than the one that trains; that "
                  "thread's waits (wait_s) are not the training's, and how the loader's settings change "
                  "the step is not predicted.",
                  who));
}

// What another profiler's trace has no records of, in one sentence; coverage lists it source by source.
void add_imported(const model::Process& process, const std::string& who, std::vector<std::string>& result) {
  if (process.imported_from.empty()) return;
  result.push_back(fmt::format(
      "{}: the trace is {}'s. It has no I/O, page faults, loader workers, waits for a CPU or state of the "
      "machine: why data was late is not known, and findings that need these are not made. What profiling "
      "cost the job is in its times.",
      who, io::printable(process.imported_from)));
}

// Phases that the shares of a step say nothing about.
void add_phases(const model::Process& process, const RankAttribution& rank, const std::string& who,
                std::vector<std::string>& result) {
  constexpr double kWorthSaying = 0.01;
  const double run_ns = double(process.last_seen - process.start);
  const double evaluation_ns =
      double(model::total(model::find_phases(process, rank.series), model::PhaseKind::kEvaluation));
  if (run_ns <= 0 || evaluation_ns < kWorthSaying * run_ns) return;
  result.push_back(fmt::format("{}: evaluation ({:.0f} % of the run) is not part of the figures.", who,
                               100 * evaluation_ns / run_ns));
}

void add_rank(const model::Run& run, const RankAttribution& rank, std::vector<std::string>& result) {
  const model::Process& process = run.processes.at(rank.process);
  std::string who = process.rank >= 0 ? fmt::format("Rank {}", process.rank) : "The process";
  if (rank.device == model::kNone && rank.time(Category::DeviceUnobserved) == 0)
    result.push_back(fmt::format("{} computed on the CPU; nothing is said about a GPU.", who));
  if (rank.time(Category::DeviceUnobserved) > 0)
    result.push_back(
        fmt::format("{} used CUDA without a device timeline: device busy and idle are not known for {:.0f} % "
                    "of the time.",
                    who, 100 * rank.share(Category::DeviceUnobserved)));
  size_t warm_up = std::count_if(rank.series.steps.begin(), rank.series.steps.end(),
                                 [](const model::Step& step) { return step.is_warm_up; });
  if (warm_up > 0)
    result.push_back(fmt::format("{}: {} warm-up steps are not part of the figures.", who, warm_up));
  if (process.loaders.empty() && process.facts.contains("torch") && !rank.steps.empty())
    result.push_back(
        fmt::format("{}: no data loader was seen. Reads, pages that had to be read and answers of other "
                    "processes count as "
                    "input; CPU time that makes data is not told from the script's other work.",
                    who));
  add_imported(process, who, result);
  add_frameworks(process, who, result);
  add_inline_loaders(process, rank, who, result);
  add_taking_thread(process, who, result);
  add_phases(process, rank, who, result);
  for (const model::LoaderPass& pass : process.passes) {
    bool worker_lost = std::any_of(pass.workers.begin(), pass.workers.end(), [](const model::Worker& worker) {
      return worker.process == model::kNone;
    });
    if (!worker_lost) continue;
    result.push_back(fmt::format("{}: some loader workers left no trace; what they did is not known.", who));
    break;
  }
}

// What is unclear is only worth a word where records are known to be missing: else these calls needed none.
void add_missing_records(const model::CallsWithoutRecord& missing, std::vector<std::string>& result) {
  if (missing.all() == 0) return;
  std::string calls;
  const auto add = [&calls](uint64_t count, const char* what) {
    if (count > 0) calls += fmt::format("{}{} {}", calls.empty() ? "" : ", ", count, what);
  };
  add(missing.launches, "launches");
  add(missing.graph_launches, "graph launches");
  add(missing.copies, "copies");
  add(missing.memsets, "memsets");
  result.push_back(
      fmt::format("{} have no device record: lost, or not delivered when the job ended.{}", calls,
                  missing.unclear > 0
                      ? fmt::format(" So have {} copies and memsets that may not need one.", missing.unclear)
                      : ""));
}

}  // namespace

std::vector<std::string> limits(const model::Run& run, const std::vector<RankAttribution>& ranks) {
  std::vector<std::string> result;
  for (const std::string& sentence : run.damage) result.push_back(io::printable(sentence));
  for (const std::string& sentence : run.stopped) result.push_back(io::printable(sentence));
  add_sources(run, result);
  add_losses(run, result);
  for (const RankAttribution& rank : ranks) add_rank(run, rank, result);
  if (run.kernels_total > run.kernels_matched)
    result.push_back(fmt::format("{} of {} kernels have no known launch.",
                                 run.kernels_total - run.kernels_matched, run.kernels_total));
  add_missing_records(run.without_record, result);
  if (run.device_clock_steps > 0)
    result.push_back(
        fmt::format("The machine's clock was set {} times while device times were taken: what ran at that "
                    "moment is misplaced.",
                    run.device_clock_steps));
  if (run.device_units_per_ns != 1)
    result.push_back(
        fmt::format("Another tool replaced the clock of device records by one of {:.3f} units a "
                    "nanosecond; times are converted.",
                    run.device_units_per_ns));
  return result;
}

}  // namespace gpuwatch::advise
