// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/machine.h"

namespace gpuwatch::advise {

extern const Rule kCpuSteal;

namespace {

constexpr Threshold kThresholds[] = {
    {"CPU time taken by the host", kLeastSteal, "of the CPU time asked for",
     "virtual machines that are not oversold show below 1 %"},
    {"CPU time taken by the host", kLeastSteal, "of one CPU's",
     "a job that asks for little is held up for no longer than that"},
};

std::optional<Finding> evaluate(const RuleInput& input) {
  const auto use = machine_use(input);
  if (!use) return std::nullopt;
  const double lost = std::min(use->steal_share, use->steal_cores);
  const double recoverable = recoverable_share(input, lost);
  if (lost < kLeastSteal || recoverable < kLeastLost) return std::nullopt;
  Finding finding = make_finding(kCpuSteal, input, recoverable);
  finding.title = fmt::format("The host takes {:.0f} % of the CPU time that this virtual machine asks for",
                              100 * use->steal_share);
  finding.evidence = {{"steal time", 100 * use->steal_share, "% of the CPU time asked for"},
                      {"steal time", use->steal_cores, "cores"},
                      {"steal time", use->steal_cores * use->wall_s, "s"},
                      {"CPU used by the job", use->job_cores, "cores"},
                      {"CPUs of the machine", use->cores, "cores"}};
  finding.fix.change = NamedChange{"instance type", "without burst credits"};
  finding.fix.summary =
      "an instance type with dedicated CPUs; on a burstable one the CPU credits are spent (no setting helps)";
  finding.ceiling_speedup = 1 / (1 - recoverable);
  return finding;
}

}  // namespace

const Rule kCpuSteal{
    "cpu-steal",
    "The virtual machine does not get the CPU it asks for: burst credits are spent, or the host is oversold.",
    "Steal time in the kernel's CPU accounting during the recorded steps. Neither a quota nor processes on "
    "this machine show as steal.",
    "Another instance type, with CPUs that are not shared or without burst credits.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
