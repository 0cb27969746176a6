// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/attribute/recording_cost.h"
#include "analyzer/model/instances.h"
#include "analyzer/model/quantile.h"
#include "analyzer/model/training_framework.h"

namespace gpuwatch::report {
namespace {

// Facts "applied.1", "applied.2", ... of the library's hooks/core/applied_settings.h.
std::vector<std::string> facts_named(const model::Process& process, const std::string& prefix) {
  std::vector<std::string> found;
  for (auto at = process.facts.lower_bound(prefix);
       at != process.facts.end() && at->first.starts_with(prefix); ++at)
    found.push_back(at->second);
  return found;
}

}  // namespace

StepFacts step_facts(const attribute::RankAttribution& rank) {
  StepFacts facts;
  facts.count = rank.series.steps.size();
  facts.recorded = rank.steps.size();
  facts.source = rank.series.source;
  facts.samples_per_step = rank.series.samples_per_step;
  std::vector<double> lengths_ms;
  for (const attribute::StepAttribution& step : rank.steps)
    lengths_ms.push_back(double(step.step.end - step.step.begin) / 1e6);
  if (lengths_ms.empty()) return facts;
  std::sort(lengths_ms.begin(), lengths_ms.end());
  facts.mean_ms = rank.mean_step_ms();
  facts.p50_ms = model::percentile(lengths_ms, 0.50);
  facts.p95_ms = model::percentile(lengths_ms, 0.95);
  if (facts.mean_ms > 0) facts.samples_per_s = facts.samples_per_step * 1e3 / facts.mean_ms;
  return facts;
}

std::vector<LoaderFacts> loader_facts(const model::Process& process) {
  std::vector<LoaderFacts> result(process.loaders.size());
  std::vector<size_t> fetched(process.loaders.size());
  const std::vector<uint32_t> first = model::first_instances(process);
  for (size_t i = 0; i < result.size(); ++i) {
    result[i].loader = &process.loaders[i];
    ++result[first[i]].iterators;
  }
  for (const model::LoaderEpoch& epoch : process.epochs) {
    if (epoch.loader >= result.size()) continue;
    LoaderFacts& facts = result[first[epoch.loader]];
    for (const model::Batch& batch : epoch.batches) {
      if (batch.next.end > batch.next.begin) {
        ++facts.batches;
        facts.wait_s += double(batch.next.length()) / 1e9;
      }
      if (batch.fetch.end > batch.fetch.begin) {
        ++fetched[first[epoch.loader]];
        facts.fetch_ms_mean += double(batch.fetch.length()) / 1e6;
      }
    }
  }
  for (size_t i = 0; i < result.size(); ++i)
    if (fetched[i] > 0) result[i].fetch_ms_mean /= double(fetched[i]);
  std::erase_if(result, [](const LoaderFacts& facts) { return facts.iterators == 0; });
  return result;
}

std::string script_name(const model::Process& process) {
  const std::string& path = process.script.empty() ? process.executable : process.script;
  return path.substr(path.find_last_of('/') + 1);
}

std::string fact(const model::Process& process, const std::string& key) {
  auto found = process.facts.find(key);
  return found == process.facts.end() ? "" : found->second;
}

std::vector<std::string> applied_words(const model::Run& run, const model::Process& process) {
  std::vector<std::string> words = facts_named(process, "applied.");
  for (const model::Process& worker : run.processes) {
    if (worker.worker_of == model::kNone || &run.processes[worker.worker_of] != &process) continue;
    for (std::string& own : facts_named(worker, "applied."))
      if (std::ranges::find(words, own) == words.end()) words.push_back(std::move(own));
  }
  return words;
}

std::vector<std::string> not_applied_words(const model::Process& process) {
  return facts_named(process, "not_applied.");
}

std::string framework(const model::Process& process) {
  const model::TrainingFramework* found = model::training_framework(process);
  const std::string version = found ? fact(process, found->module) : "";
  return version.empty() ? "" : fmt::format("{} {}", found->module, version);
}

std::string framework_words(const model::Process& process) {
  const model::TrainingFramework* found = model::training_framework(process);
  const std::string version = found ? fact(process, found->module) : "";
  if (version.empty()) return "";
  return fmt::format("{} {}", found->name,
                     version.substr(0, version.find('+')));  // without "+cu130", the build
}

std::string device_name(const Report& report, const attribute::RankAttribution& rank) {
  if (rank.device == model::kNone)
    return rank.time(attribute::Category::DeviceUnobserved) > 0 ? "unobserved" : "cpu";
  const model::Device& device = report.run.processes.at(rank.process).devices.at(rank.device);
  return device.name.empty() ? fmt::format("device {}", device.ordinal) : device.name;
}

std::string end_words(const model::Process& process) {
  if (process.is_running) return "running";
  switch (process.end_state) {
    case model::EndState::kExited:
      return process.exit_code == 0 ? "exited" : fmt::format("exit code {}", process.exit_code);
    case model::EndState::kKilledOrRunning:
      return was_interrupted(process) ? "interrupted" : "killed";
    case model::EndState::kUnknown:
      break;
  }
  return "unknown";
}

bool was_interrupted(const model::Process& process) {
  return !fact(process, "interrupted").empty();
}

std::vector<OpenCallWords> open_call_words(const model::Run& run, const model::Process& process) {
  std::vector<OpenCallWords> result;
  for (size_t t = 0; t < process.threads.size(); ++t) {
    const model::Thread& thread = process.threads[t];
    if (thread.open_calls.empty()) continue;
    std::string calls;
    for (const model::OpenCall& call : thread.open_calls) {
      std::string name =
          call.operation < run.operations.size() ? run.operations[call.operation].name : "unknown call";
      calls += (calls.empty() ? "" : " > ") + name;
    }
    double waited_s = double(process.last_seen - thread.open_calls.front().since) / 1e9;
    std::string who = t == process.training_thread ? "training thread"
                      : thread.name.empty()        ? "thread"
                                                   : thread.name;
    std::string ago = waited_s > 0.001 ? fmt::format(", {:.3g} s before the last record", waited_s) : "";
    result.push_back(
        {fmt::format("{} {} in {}{}", who, thread.tid, calls, ago), t == process.training_thread});
  }
  return result;
}

std::string three_digits(double value) {
  const int decimals = std::abs(value) >= 100 ? 0 : std::abs(value) >= 10 ? 1 : 2;
  return fmt::format("{:.{}f}", value, decimals);
}

// A bound of what little surely stays says nothing about the gain once it is that wide. Of kernels it is a
// ratio of throughputs: of one GPU at most 64, float64 against float32.
std::optional<double> shown_bound(const advise::Finding& finding) {
  constexpr double kMost = 20, kMostOfKernels = 64;
  const bool is_of_kernels = finding.bottleneck == attribute::Bottleneck::Compute;
  if (finding.ceiling_speedup.value_or(0) > (is_of_kernels ? kMostOfKernels : kMost)) return std::nullopt;
  return finding.ceiling_speedup;
}

double duration_s(const model::Run& run) {
  model::Ns begin = 0, end = 0;
  for (const model::Process& process : run.processes) {
    if (process.start == 0 && process.last_seen == 0) continue;
    begin = begin == 0 ? process.start : std::min(begin, process.start);
    end = std::max(end, process.last_seen);
  }
  return double(end - begin) / 1e9;
}

double recorded_share(const Report& report) {
  size_t all = 0, recorded = 0;
  for (const attribute::RankAttribution& rank : report.ranks) {
    all += rank.series.steps.size();
    recorded += size_t(std::count_if(rank.series.steps.begin(), rank.series.steps.end(),
                                     [](const model::Step& step) { return step.is_recorded(); }));
  }
  return all > 0 ? double(recorded) / double(all) : 0;
}

std::optional<double> overhead_share(const Report& report) {
  std::optional<double> worst;
  for (const attribute::RankAttribution& rank : report.ranks) {
    const model::Process& process = report.run.processes.at(rank.process);
    if (!process.imported_from.empty()) return std::nullopt;
    const auto share = attribute::recording_cost_share(process, rank);
    if (share) worst = std::max(worst.value_or(0), *share);
  }
  return worst;
}

double matched_share(const model::Run& run) {
  const uint64_t expected = run.kernels_total + run.without_record.all_launches();
  return expected > 0 ? double(run.kernels_matched) / double(expected) : 1;
}

}  // namespace gpuwatch::report
