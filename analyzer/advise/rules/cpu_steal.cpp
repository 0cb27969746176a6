// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/machine.h"

namespace gpuwatch::advise {

extern const Rule kCpuSteal;

namespace {

constexpr Threshold kThresholds[] = {
    {"steal time", kLeastSteal, "of the requested CPU time",
     "a virtual machine on a host that is not oversold shows less than 1%"},
    {"steal time", kLeastSteal, "of one CPU core",
     "a job that requests little CPU time loses no more than that"},
};

std::optional<Finding> evaluate(const RuleInput& input) {
  const auto use = machine_use(input);
  if (!use) return std::nullopt;
  const double lost = std::min(use->steal_share, use->steal_cores);
  const double recoverable = recoverable_share(input, lost);
  if (lost < kLeastSteal || recoverable < kLeastLost) return std::nullopt;
  Finding finding = make_finding(kCpuSteal, input, recoverable);
  finding.title = fmt::format(
      "Steal time: the hypervisor withholds {:.0f}% of the CPU time that this virtual machine requests",
      100 * use->steal_share);
  finding.evidence = {{"steal time", 100 * use->steal_share, "% of the requested CPU time"},
                      {"CPU withheld", use->steal_cores, "cores"},
                      {"steal time", use->steal_cores * use->wall_s, "s"},
                      {"CPU used by this job", use->job_cores, "cores"},
                      {"CPU of the virtual machine", use->cores, "cores"}};
  finding.fix.change = NamedChange{"instance type", "without burst credits"};
  finding.fix.summary =
      "Use an instance type with dedicated CPU cores (a burstable one may have spent its CPU credits)";
  finding.ceiling_speedup = ceiling_without(input, recoverable);
  return finding;
}

}  // namespace

const Rule kCpuSteal{
    "cpu-steal",
    "The virtual machine does not get the CPU time it requests: its burst credits are spent, or the host is "
    "oversold.",
    "The kernel counts steal time during the recorded steps. Neither a CPU quota nor other processes on "
    "this machine show up as steal time.",
    "Use an instance type with dedicated CPU cores and without burst credits. No setting of the job helps.",
    kThresholds,
    evaluate,
    attribute::CategorySet(attribute::Bottleneck::Input) |
        attribute::CategorySet{attribute::Category::Sched}};

}  // namespace gpuwatch::advise
