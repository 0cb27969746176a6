// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/loader_words.h"
#include "analyzer/advise/machine.h"

namespace gpuwatch::advise {

extern const Rule kMemoryPressureHost;

namespace {

constexpr double kLeastStall = 0.05;
constexpr double kLeastSwapIn = 1e6;
constexpr double kLeastFaults = 50;
constexpr double kMostAvailable = 0.10;

constexpr Threshold kThresholds[] = {
    {"some task stalled for memory (PSI)", kLeastStall, "of the wall time", "XProf's lower band"},
    {"memory swapped in, without PSI", kLeastSwapIn, "bytes/s",
     "single pages of idle programs are swapped in at any time"},
    {"major page faults, without PSI", kLeastFaults, "a second",
     "each is a disk access of 0.1 to 10 ms: at least 0.5% of the time"},
    {"available memory, with major page faults", kMostAvailable, "of the memory limit",
     "with memory available, major faults are first reads of mapped files"},
};

double memory_limit_bytes(const model::Process& process) {
  const double limit = number_fact(process, "memory_limit_bytes"), all = number_fact(process, "memory_bytes");
  if (limit > 0 && all > 0) return std::min(limit, all);
  return std::max(limit, all);
}

bool is_short_of_memory(const MachineUse& use, double limit) {
  if (use.memory_stall_share >= kLeastStall) return true;
  if (use.swap_in_bytes_s >= kLeastSwapIn) return true;
  const bool is_full = limit > 0 && use.least_memory_available_bytes > 0 &&
                       use.least_memory_available_bytes < kMostAvailable * limit;
  return is_full && use.major_faults_s >= kLeastFaults;
}

// The sign of memory pressure that the finding rests on.
std::string pressure_words(const MachineUse& use) {
  if (use.memory_stall_share >= kLeastStall)
    return fmt::format("tasks stall for memory {:.0f}% of the time", 100 * use.memory_stall_share);
  if (use.swap_in_bytes_s >= kLeastSwapIn)
    return fmt::format("{:.3g} MB/s are swapped in", use.swap_in_bytes_s / 1e6);
  return fmt::format("{:.3g} major page faults a second", use.major_faults_s);
}

std::optional<Finding> evaluate(const RuleInput& input) {
  const auto use = machine_use(input);
  const double limit = memory_limit_bytes(input.process);
  if (!use || !is_short_of_memory(*use, limit)) return std::nullopt;
  const double stalled = std::clamp(
      std::max(use->memory_stall_share, input.rank.share(attribute::Category::PageFault)), 0.0, 0.95);
  const double lost = recoverable_share(input, stalled);
  Finding finding = make_finding(kMemoryPressureHost, input, lost);
  finding.title = "Host memory pressure: " + pressure_words(*use);
  finding.evidence = {{"some task stalled for memory", 100 * use->memory_stall_share, "% of the wall time"},
                      {"swapped in", use->swap_in_bytes_s / 1e6, "MB/s"},
                      {"major page faults", use->major_faults_s, "a second"}};
  if (use->least_memory_available_bytes > 0)
    finding.evidence.push_back(
        {"lowest available memory", use->least_memory_available_bytes / (1 << 20), "MiB"});
  const int workers = input.loader ? input.loader->setting.workers : 0;
  if (workers > 1) {
    // Each worker holds a copy of the pages that its dataset changes, reference counts included.
    propose(finding, input, {LoaderOption::kNumWorkers, workers / 2});
    finding.fix.summary += ", use smaller caches, or add memory";
  } else {
    finding.fix.change =
        NamedChange{"memory", limit > 0 ? fmt::format("more than {:.0f} MiB", limit / (1 << 20)) : "more"};
    finding.fix.summary = "Add memory or use smaller caches, and keep data memory-mapped instead of in lists";
  }
  // Without PSI the time that faults cost is not known, so no gain is promised.
  if (lost > 0) finding.ceiling_speedup = ceiling_without(input, lost);
  return finding;
}

}  // namespace

const Rule kMemoryPressureHost{
    "memory-pressure-host",
    "The machine or the container is short of memory: training waits while pages are swapped in or read "
    "again.",
    "Pressure stall information (PSI) of the cgroup or the machine; without PSI, memory swapped in, or major "
    "page faults with hardly any memory available. Major faults with memory available are first reads of "
    "mapped files (`input-storage`).",
    "More memory, fewer workers, smaller caches.",
    kThresholds,
    evaluate,
    attribute::CategorySet(attribute::Bottleneck::Input) |
        attribute::CategorySet{attribute::Category::PageFault, attribute::Category::Sched,
                               attribute::Category::HostCompute}};

}  // namespace gpuwatch::advise
