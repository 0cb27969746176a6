// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/machine.h"

namespace gpuwatch::advise {

extern const Rule kMemoryPressureHost;

namespace {

constexpr double kLeastStall = 0.05;
constexpr double kLeastSwapIn = 1e6;
constexpr double kLeastFaults = 50;
constexpr double kMostAvailable = 0.10;

constexpr Threshold kThresholds[] = {
    {"some task stalled for memory (PSI)", kLeastStall, "of wall time", "XProf's lower band, as elsewhere"},
    {"swapped in, where there is no PSI", kLeastSwapIn, "bytes a second",
     "single pages of long idle programs come back at any time"},
    {"major faults, where there is no PSI", kLeastFaults, "a second",
     "each is a disk access of 0.1 to 10 ms: 0.5 % of the time and more"},
    {"memory available, with major faults", kMostAvailable, "of the limit",
     "with memory free, faults are the first reading of mapped files"},
};

double memory_limit_bytes(const model::Process& process) {
  const double limit = number_fact(process, "memory_limit_bytes"), all = number_fact(process, "memory_bytes");
  if (limit > 0 && all > 0) return std::min(limit, all);
  return std::max(limit, all);
}

bool is_squeezed(const MachineUse& use, double limit) {
  if (use.memory_stall_share >= kLeastStall) return true;
  if (use.swap_in_bytes_s >= kLeastSwapIn) return true;
  const bool is_full = limit > 0 && use.least_memory_available_bytes > 0 &&
                       use.least_memory_available_bytes < kMostAvailable * limit;
  return is_full && use.major_faults_s >= kLeastFaults;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  const auto use = machine_use(input);
  const double limit = memory_limit_bytes(input.process);
  if (!use || !is_squeezed(*use, limit)) return std::nullopt;
  const double stalled = std::clamp(
      std::max(use->memory_stall_share, input.rank.share(attribute::Category::PageFault)), 0.0, 0.95);
  const double lost = recoverable_share(input, stalled);
  Finding finding = make_finding(kMemoryPressureHost, input, lost);
  finding.title = "Memory is short: the job waits for pages that were swapped out or dropped from the cache";
  finding.evidence = {{"some task stalled for memory", 100 * use->memory_stall_share, "% of wall time"},
                      {"swapped in", use->swap_in_bytes_s / 1e6, "MB/s"},
                      {"major faults", use->major_faults_s, "a second"}};
  if (use->least_memory_available_bytes > 0)
    finding.evidence.push_back(
        {"least memory available", use->least_memory_available_bytes / (1 << 20), "MiB"});
  const int workers = input.loader ? input.loader->setting.workers : 0;
  if (workers > 1) {
    finding.fix.change = LoaderChange{LoaderOption::kNumWorkers, workers / 2};
    finding.fix.summary = fmt::format(
        "num_workers={} (each holds a copy of what the dataset changes), a smaller cache, or more memory",
        workers / 2);
    if (const model::Loader* configured = input.configured_loader())
      finding.fix.location = configured->location;
  } else {
    finding.fix.change =
        NamedChange{"memory", limit > 0 ? fmt::format("more than {:.0f} MiB", limit / (1 << 20)) : "more"};
    finding.fix.summary =
        "more memory, or smaller caches in the program; keep data memory-mapped, not in lists";
  }
  // Where the kernel keeps no account of stalls, what faults cost is not known, and nothing is promised.
  if (lost > 0) finding.ceiling_speedup = 1 / (1 - lost);
  return finding;
}

}  // namespace

const Rule kMemoryPressureHost{
    "memory-pressure-host",
    "The machine or the container is short of memory: pages are swapped in or read again while training "
    "waits.",
    "Pressure stall information of the control group or the machine; without it, pages swapped in, or major "
    "faults with next to no memory available. Major faults with memory free are first reads of mapped files "
    "(input-storage).",
    "More memory, fewer workers, smaller caches.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
