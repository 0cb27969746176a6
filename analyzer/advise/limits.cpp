// SPDX-License-Identifier: Apache-2.0
// One sentence for each thing that could not be seen or concluded. Silence would read as "nothing there".
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "analyzer/advise/diagnose.h"
#include "analyzer/advise/input_seen.h"
#include "analyzer/advise/loader_words.h"
#include "analyzer/advise/place_words.h"
#include "analyzer/io/printable.h"
#include "analyzer/model/phases.h"
#include "analyzer/model/roles.h"
#include "analyzer/model/stacks.h"
#include "analyzer/model/training_framework.h"
#include "analyzer/model/training_stacks.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using attribute::RankAttribution;
using Limits = std::vector<Limit>;

// The conclusion would or could be another one if this had been seen.
void add_weighty(Limits& limits, std::string sentence) {
  limits.push_back({std::move(sentence), true});
}

void add_detail(Limits& limits, std::string sentence) {
  limits.push_back({std::move(sentence), false});
}

// A program that is no Python interpreter has no Python that could be missed.
bool is_python(const model::Process& process) {
  return process.executable.substr(process.executable.find_last_of('/') + 1).starts_with("python");
}

// "on" is no limit; everything else says why a source gave nothing, or gave less.
void add_sources(const model::Run& run, Limits& limits) {
  std::set<std::string> seen;
  const bool has_rank = std::any_of(run.processes.begin(), run.processes.end(),
                                    [](const model::Process& process) { return process.is_rank(); });
  for (const model::Process& process : run.processes) {
    if ((has_rank && !process.is_rank()) || !process.imported_from.empty()) continue;
    for (const auto& [name, status] : process.sources) {
      if (status.is_on() || (name == "python" && !is_python(process))) continue;
      std::string sentence = fmt::format("Source {}: {}.", io::printable(name), io::printable(status.text));
      if (seen.insert(sentence).second) limits.push_back({sentence, name == "cupti" || name == "python"});
    }
  }
}

void add_dropped(const model::Run& run, Limits& limits) {
  std::map<std::string, uint64_t> dropped, incomplete;
  for (const model::Process& process : run.processes) {
    for (const auto& [reason, count] : process.dropped_records) dropped[reason] += count;
    for (const auto& [what, count] : process.incomplete) incomplete[what] += count;
  }
  for (const auto& [reason, count] : dropped)
    if (count > 0)
      add_weighty(limits, fmt::format("{} records were dropped: {}.", count, io::printable(reason)));
  for (const auto& [what, count] : incomplete)
    if (count > 0)
      add_weighty(limits, fmt::format("{} incomplete: {}.",
                                      count == 1 ? "1 record is" : fmt::format("{} records are", count),
                                      io::printable(what)));
}

// What of a framework's data loading is not seen, by the modules that the process has loaded.
struct FrameworkLimit {
  const char *module, *other_module, *source;  // facts and source of the process; "": any
  const char* text;
};
constexpr FrameworkLimit kFrameworkLimits[] = {
#define GW_FRAMEWORK_LIMIT(module, other_module, source, text) {module, other_module, source, text},
#include "libinject/trace/frameworks.def"
};

bool applies(const FrameworkLimit& limit, const model::Process& process) {
  const auto is_loaded = [&](const char* module) { return !*module || process.facts.count(module) > 0; };
  return is_loaded(limit.module) && is_loaded(limit.other_module) && !process.sources.count(limit.source);
}

// Loaders that are not PyTorch's show their waits and, unless tf.data told of its stages, nothing of what
// made them wait.
void add_frameworks(const model::Process& process, Limits& limits) {
  std::set<std::string> waits_only;
  std::set<uint32_t> with_stages;
  for (const model::StageReading& reading : process.stage_readings) with_stages.insert(reading.loader);
  for (const model::LoaderEpoch& epoch : process.epochs) {
    const model::Loader& loader = process.loaders.at(epoch.loader);
    if (loader.num_workers < 0 && loader.framework != "torch" && !with_stages.contains(loader.id))
      waits_only.insert(loader.framework);
  }
  for (const std::string& framework : waits_only)
    add_weighty(limits, fmt::format("waiting for {} is measured, but not which of its stages is slow.",
                                    framework_name(framework)));
  if (!waits_only.empty() || !process.epochs.empty()) return;
  const auto* limit =
      std::find_if(std::begin(kFrameworkLimits), std::end(kFrameworkLimits),
                   [&](const FrameworkLimit& candidate) { return applies(candidate, process); });
  if (limit != std::end(kFrameworkLimits)) add_weighty(limits, limit->text);
}

// Training that never waits for its pipeline computes more slowly by the cores that it takes.
void add_pipeline_on_cores(const model::Run& run, const RankAttribution& rank, Limits& limits) {
  const auto pipeline = pipeline_on_cores(run, rank);
  if (pipeline && !pipeline->share)
    add_weighty(limits, fmt::format("how much {}, which works on the same CPU cores, takes from training is "
                                    "not known.",
                                    pipeline->name));
}

// A worker's lines are seen by the thread that waits for it; without workers only samples of the training
// thread tell, and a short job has few.
void add_inline_loaders(const model::Run& run, const model::Process& process, const RankAttribution& rank,
                        Limits& limits) {
  constexpr double kWorthSaying = 0.05;
  if (rank.share(Category::InputTransform) + rank.share(Category::InputWait) < kWorthSaying) return;
  for (const Category category : {Category::InputTransform, Category::InputWait})
    if (!model::training_functions(run, process, attribute::times_of(rank, category)).empty()) return;
  for (const model::Loader& loader : process.loaders) {
    const auto code = loader.num_workers == 0 ? model::sample_code(loader) : std::nullopt;
    if (!code) continue;
    add_weighty(limits, fmt::format("per-line timing of {} needs num_workers >= 1.", place_words(*code)));
    return;
  }
}

// The batches that training uses are taken by another thread, ahead of it.
void add_taking_thread(const model::Process& process, Limits& limits) {
  if (model::is_fed_by_other_threads(process))
    add_weighty(limits,
                "another thread than the training thread iterates the loader: wait_s is that "
                "thread's, and gains of loader settings are not predicted.");
}

// What another profiler's trace has no records of, in one sentence; coverage lists it source by source.
void add_imported(const model::Process& process, Limits& limits) {
  if (process.imported_from.empty()) return;
  add_weighty(
      limits,
      fmt::format("this trace comes from {}, which records no file I/O, page faults, loader workers, "
                  "CPU contention or machine state: why data came late is not known, and findings that "
                  "need these are not made. Its times include its own overhead.",
                  io::printable(process.imported_from)));
  if (process.sources.contains("host calls"))
    add_weighty(limits,
                "this trace has no calls of the host: why the GPU idled is not known. Profile with "
                "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA].");
}

// Phases that the shares of a step say nothing about.
void add_phases(const model::Process& process, const RankAttribution& rank, Limits& limits) {
  constexpr double kWorthSaying = 0.01;
  const std::vector<model::Phase> phases = model::find_phases(process, rank.series);
  const auto ns_of = [&](model::PhaseKind kind) { return double(model::total(phases, kind)); };
  // Of the same time as in the finding evaluation-share.
  const double run_ns = double(model::training_span(rank.series, phases).length());
  const double evaluation_ns = ns_of(model::PhaseKind::kEvaluation);
  if (run_ns > 0 && evaluation_ns >= kWorthSaying * run_ns)
    add_weighty(limits,
                fmt::format("evaluation ({:.0f}% of training and evaluation) is not part of the figures.",
                            100 * evaluation_ns / run_ns));
  if (const double share = rank.share(Category::Checkpoint); share >= kWorthSaying)
    add_detail(limits, fmt::format("step times contain writing checkpoints and output ({:.3g} ms a step).",
                                   share * rank.mean_step_ms()));
}

// "15 s between steps 80 and 81 were no training: ..."; steps count from 1, as progress bars do.
void add_pauses(const RankAttribution& rank, Limits& limits) {
  constexpr size_t kNamed = 3;
  const std::vector<model::Step>& steps = rank.series.steps;
  size_t said = 0;
  for (const model::Pause& pause : rank.series.pauses) {
    auto step =
        std::ranges::partition_point(steps, [&](const model::Step& s) { return s.end <= pause.time.begin; });
    while (step != steps.end() && step->begin < pause.time.end && !step->is_interrupted) ++step;
    if (step == steps.end() || step->begin >= pause.time.end) continue;
    if (++said > kNamed) break;
    const auto number = step - steps.begin() + 1;
    const std::string place = number > 1 && pause.kind == model::Pause::Kind::kPrompt
                                  ? fmt::format("between steps {} and {}", number - 1, number)
                                  : fmt::format("in step {}", number);
    add_weighty(
        limits,
        fmt::format("{:.3g} s {} were no training and are not part of the figures: {}.",
                    double(pause.time.length()) / 1e9, place,
                    pause.kind == model::Pause::Kind::kPrompt
                        ? "the script waited for input (a notebook between two cells, a debugger's prompt)"
                        : "the process did not run (stopped, suspended, or in a debugger)"));
  }
}

void add_device(const RankAttribution& rank, Limits& limits) {
  if (rank.device == model::kNone && rank.time(Category::DeviceUnobserved) == 0)
    add_detail(limits, "training ran on the CPU; nothing is said about a GPU.");
  if (rank.time(Category::DeviceUnobserved) > 0)
    add_weighty(
        limits,
        fmt::format("CUDA was used, but GPU activity was not recorded for {:.0f}% of the time: GPU busy "
                    "and idle are not known there.",
                    100 * rank.share(Category::DeviceUnobserved)));
}

// Other processes on the GPU whose part of its time NVML does not tell: gpu-shared is not concluded then.
void add_shared_device(const model::Process& process, const RankAttribution& rank, Limits& limits) {
  if (rank.device == model::kNone) return;
  size_t samples = 0, unknown = 0;
  for (const model::DeviceSample& sample : process.device_samples) {
    if (sample.is_unused || sample.device != process.devices.at(rank.device).ordinal) continue;
    ++samples;
    unknown += sample.other_processes > 0 && !sample.other_utilization_percent;
  }
  if (unknown == 0 || 2 * unknown < samples) return;
  add_weighty(limits,
              "other processes are on the same GPU, and NVML does not tell how much of its time "
              "they take (in a container without the host's process ids it cannot): see "
              "nvidia-smi on the host.");
}

void add_lost_workers(const model::Process& process, Limits& limits) {
  const bool is_any_lost = std::ranges::any_of(process.epochs, [](const model::LoaderEpoch& epoch) {
    return std::ranges::any_of(epoch.workers,
                               [](const model::Worker& worker) { return worker.process == model::kNone; });
  });
  if (is_any_lost)
    add_weighty(limits, "some loader workers left no trace; what they spent their time on is not known.");
}

void add_few_steps(const RankAttribution& rank, Limits& limits) {
  if (rank.steps.size() < kLeastSteps || rank.steps.size() >= predict::kLeastReplaySteps) return;
  add_weighty(limits, fmt::format("only {} steps were recorded: gains are upper bounds, not predictions. "
                                  "Record {} or more.",
                                  rank.steps.size(), predict::kLeastReplaySteps));
}

// Of another profiler's trace add_imported() says it.
void add_unseen_input(const model::Process& process, const RankAttribution& rank, Limits& limits) {
  if (!process.loaders.empty() || rank.steps.empty() || !process.imported_from.empty()) return;
  if (process.facts.contains("torch"))
    return add_weighty(limits,
                       "no DataLoader seen: file reads, page faults, waits in queues and for other "
                       "processes are counted as data loading; CPU time spent preparing data "
                       "cannot be separated from other Python code.");
  if (process.facts.contains("python"))
    add_weighty(limits,
                "input was not seen: no loader that gpuwatch knows was used; file reads and "
                "waits for other threads or processes are counted as data loading.");
}

// Nothing that passes through hooks shows where a step of such a job ends.
void add_unseen_steps(const model::Process& process, const RankAttribution& rank, Limits& limits) {
  const std::string framework = model::unseen_training(process);
  if (framework.empty() || !rank.series.steps.empty()) return;
  add_weighty(limits,
              fmt::format("{} runs compiled steps that are not visible on the CPU, and the data comes from "
                          "no loader that gpuwatch knows: of the input, only what the training thread itself "
                          "makes in Python is distinguished from computing. "
                          "Iterate tf.data, a PyTorch DataLoader or Ray Data to see them, or mark each step "
                          "with nvtx.annotate(\"step\").",
                          io::printable(framework)));
}

Limits of_rank(const model::Run& run, const RankAttribution& rank) {
  const model::Process& process = run.processes.at(rank.process);
  Limits limits;
  add_device(rank, limits);
  const auto warm_up = std::ranges::count_if(rank.series.steps, &model::Step::is_warm_up);
  if (warm_up > 0)
    add_detail(limits, fmt::format("{} warm-up step{} not part of the figures.", warm_up,
                                   warm_up == 1 ? " is" : "s are"));
  add_few_steps(rank, limits);
  add_unseen_input(process, rank, limits);
  add_unseen_steps(process, rank, limits);
  add_imported(process, limits);
  add_frameworks(process, limits);
  add_pipeline_on_cores(run, rank, limits);
  add_inline_loaders(run, process, rank, limits);
  add_taking_thread(process, limits);
  add_phases(process, rank, limits);
  add_pauses(rank, limits);
  add_shared_device(process, rank, limits);
  add_lost_workers(process, limits);
  return limits;
}

// The same sentence about several ranks is said once: 64 ranks had 64.
void add_ranks(const model::Run& run, const std::vector<RankAttribution>& ranks, Limits& limits) {
  struct Shared {
    Limit limit;
    std::vector<uint32_t> ranks;
  };
  std::vector<Shared> all;
  std::map<std::string, size_t> places;
  for (const RankAttribution& rank : ranks) {
    const auto number = uint32_t(std::max(run.processes.at(rank.process).rank, 0));
    for (Limit& limit : of_rank(run, rank)) {
      const auto [place, is_new] = places.try_emplace(limit.sentence, all.size());
      if (is_new) all.push_back({std::move(limit), {}});
      all[place->second].ranks.push_back(number);
    }
  }
  for (Shared& shared : all) {
    shared.limit.sentence.insert(0, ranks_prefix(run, ranks, shared.ranks));
    limits.push_back(std::move(shared.limit));
  }
}

// Where recording stopped early: how far it got.
void add_seen_part(const model::Run& run, const std::vector<RankAttribution>& ranks, Limits& limits) {
  if (run.stopped.empty()) return;
  for (const RankAttribution& rank : ranks) {
    const model::Process& process = run.processes.at(rank.process);
    if (rank.series.steps.empty() || process.training_thread >= process.threads.size()) continue;
    model::Ns last = process.start;
    for (const model::HostCall& call : process.threads[process.training_thread].calls)
      last = std::max(last, call.end);
    const double seen_s = double(last - process.start) / 1e9;
    const double run_s = double(std::max(process.alive_until, process.last_seen) - process.start) / 1e9;
    const std::string of = run_s > 1.05 * seen_s
                               ? fmt::format("of {:.3g} s, {:.0f}% of the run", run_s, 100 * seen_s / run_s)
                               : std::string("of a run of unknown length");
    return add_weighty(limits, fmt::format("the report is about the first {:.3g} s ({} steps) {}.", seen_s,
                                           rank.series.steps.size(), of));
  }
}

// What is unclear is only worth a word where records are known to be missing: else these calls needed none.
void add_missing_records(const model::CallsWithoutRecord& missing, Limits& limits) {
  if (missing.all() == 0) return;
  std::string calls;
  const auto add = [&calls](uint64_t count, const char* what) {
    if (count > 0) calls += fmt::format("{}{} {}", calls.empty() ? "" : ", ", count, what);
  };
  add(missing.launches, "kernel launches");
  add(missing.graph_launches, "graph launches");
  add(missing.copies, "copies");
  add(missing.memsets, "memsets");
  const std::string unclear =
      missing.unclear > 0
          ? fmt::format(" So have {} copies and memsets that may not need one.", missing.unclear)
          : "";
  add_weighty(limits, fmt::format("{} have no GPU record: dropped, or not delivered when the job ended.{}",
                                  calls, unclear));
}

// A trace keeps a bounded number of shapes. Another profiler's may have none for other reasons.
void add_launches_without_shape(const model::Run& run, Limits& limits) {
  constexpr double kWorthWeight = 0.10;
  std::vector<bool> has_none;
  for (const model::Kernel& kernel : run.kernels) has_none.push_back(!kernel.has_shape());
  if (std::find(has_none.begin(), has_none.end(), true) == has_none.end()) return;
  uint64_t count = 0, all = 0;
  for (const model::Process& process : run.processes) {
    if (!process.imported_from.empty()) continue;
    for (const model::Device& device : process.devices)
      for (const model::DeviceOp& op : device.operations) {
        if (op.kind != trace::RecordKind::Kernel) continue;
        ++all;
        count += op.kernel < has_none.size() && has_none[op.kernel];
      }
  }
  if (count == 0) return;
  limits.push_back(
      {fmt::format("{} of {} kernel launches are recorded by name alone, without grid and block: "
                   "they came after very many different shapes. How many SMs they fill is not "
                   "known.",
                   count, all),
       double(count) >= kWorthWeight * double(all)});
}

void add_clocks(const model::Run& run, Limits& limits) {
  if (run.device_clock_steps > 0)
    add_weighty(limits,
                fmt::format("the machine's clock was set {} times while GPU times were taken: what ran "
                            "at that moment is misplaced.",
                            run.device_clock_steps));
  if (run.device_units_per_ns != 1)
    add_detail(limits, fmt::format("another profiler changed CUPTI's time base to {:.3f} units a nanosecond; "
                                   "timestamps were converted.",
                                   run.device_units_per_ns));
}

}  // namespace

std::vector<Limit> limits(const model::Run& run, const std::vector<RankAttribution>& ranks) {
  Limits result;
  for (const std::string& sentence : run.damage) add_weighty(result, io::printable(sentence));
  // Their paths are printable; printable() would cut what follows a long one.
  for (const std::string& sentence : run.stopped) add_weighty(result, sentence);
  for (const std::string& sentence : run.stopped_children) add_weighty(result, sentence);
  if (!run.other_runs.empty()) add_weighty(result, run.other_runs);
  add_seen_part(run, ranks, result);
  add_sources(run, result);
  add_dropped(run, result);
  add_ranks(run, ranks, result);
  if (run.kernels_total > run.kernels_matched)
    add_detail(result, fmt::format("{} of {} kernels have no known launch.",
                                   run.kernels_total - run.kernels_matched, run.kernels_total));
  add_missing_records(run.without_record, result);
  add_launches_without_shape(run, result);
  add_clocks(run, result);
  for (Limit& limit : result) {
    char& first = limit.sentence.at(0);
    if (first >= 'a' && first <= 'z') first = char(first - 'a' + 'A');
  }
  return result;
}

}  // namespace gpuwatch::advise
