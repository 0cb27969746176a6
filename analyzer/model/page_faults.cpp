// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/page_faults.h"

#include <utility>
#include <vector>

#include "analyzer/model/quantile.h"

namespace gpuwatch::model {

namespace {

struct Counters {
  uint64_t MachineSample::*faults;
  Ns MachineSample::*system_ns;
  Ns MachineSample::*cpu_ns;
};

std::optional<PageFaults> page_faults(const Process& process, TimeSpan span, const Counters& of) {
  constexpr size_t kFewest = 3;
  constexpr Ns kLeastCpu = 50'000'000;  // five of the ticks that procfs counts in
  std::vector<double> per_cpu_s, system_shares;
  const MachineSample* last = nullptr;
  for (const MachineSample& sample : process.machine_samples) {
    if (sample.time < span.begin || sample.time > span.end) continue;
    const MachineSample* before = std::exchange(last, &sample);
    if (!before || sample.*of.faults <= before->*of.faults || sample.*of.system_ns < before->*of.system_ns)
      continue;
    const Ns cpu_ns = sample.*of.cpu_ns - before->*of.cpu_ns;
    if (cpu_ns < kLeastCpu) continue;
    per_cpu_s.push_back(double(sample.*of.faults - before->*of.faults) / (double(cpu_ns) / 1e9));
    system_shares.push_back(double(sample.*of.system_ns - before->*of.system_ns) / double(cpu_ns));
  }
  if (per_cpu_s.size() < kFewest) return std::nullopt;
  return PageFaults{median(std::move(per_cpu_s)), median(std::move(system_shares))};
}

}  // namespace

std::optional<PageFaults> page_faults_of_workers(const Process& process, TimeSpan span) {
  return page_faults(process, span,
                     {&MachineSample::children_minor_faults, &MachineSample::children_system_ns,
                      &MachineSample::children_cpu_ns});
}

std::optional<PageFaults> page_faults_of_rank(const Process& process, TimeSpan span) {
  return page_faults(process, span,
                     {&MachineSample::minor_faults, &MachineSample::system_ns, &MachineSample::cpu_ns});
}

}  // namespace gpuwatch::model
