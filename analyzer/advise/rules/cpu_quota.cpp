// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/advise/machine.h"

namespace gpuwatch::advise {

extern const Rule kCpuQuota;

namespace {

constexpr double kLeastNearQuota = 0.8;

constexpr Threshold kThresholds[] = {
    {"time throttled, summed over CPUs", kLeastThrottled, "of wall time",
     "a container that stays below its quota shows none; single periods of 100 ms come from start-up"},
    {"CPU used", kLeastNearQuota, "of the quota",
     "less, and it is single bursts that are throttled: more quota gains little"},
};

// Cores that the job would use with all it asks for: what it uses now in the time that it was let run.
double wanted_cores(const RuleInput& input, const MachineUse& use, double quota) {
  const double most = std::max(double(input.process.cpu_count), quota);
  const double running =
      std::max(1 - std::min(use.throttled_share / std::max(1.0, use.job_cores), 0.95), 0.05);
  return std::clamp(std::ceil(use.job_cores / running), std::ceil(quota + 0.01), std::max(most, quota + 1));
}

std::optional<Finding> evaluate(const RuleInput& input) {
  const double quota = cpu_quota(input.process);
  const auto use = machine_use(input);
  if (quota <= 0 || !use || use->throttled_share < kLeastThrottled) return std::nullopt;
  if (use->job_cores < kLeastNearQuota * quota) return std::nullopt;

  // Whichever is less: all throttled time was the training thread's, or the job runs on every CPU there is.
  const double more_cpu = std::max(1.0, double(input.process.cpu_count) / quota);
  const double throttled = recoverable_share(input, std::min(use->throttled_share, 0.95));
  if (throttled < kLeastLost) return std::nullopt;
  const double ceiling = std::min(1 / (1 - throttled), more_cpu);
  const double cores = wanted_cores(input, *use, quota);
  Finding finding = make_finding(kCpuQuota, input, 1 - 1 / ceiling);
  finding.title = fmt::format("The container's CPU quota stops the job: it has {:.4g} CPU{} of {}", quota,
                              quota == 1 ? "" : "s", input.process.cpu_count);
  finding.evidence = {
      {"time throttled, summed over CPUs", 100 * use->throttled_share, "% of wall time"},
      {"CPU quota", quota, "cores"},
      {"CPU used by the job", use->job_cores, "cores"},
      {"training thread runnable but not running", 100 * use->run_delay_share, "% of wall time"}};
  finding.fix.change = NamedChange{"CPU quota", fmt::format("{:.0f}", cores)};
  finding.fix.summary = fmt::format(
      "ask for {:.0f} CPUs (docker --cpus={:.0f}, Kubernetes limits.cpu: {:.0f})", cores, cores, cores);
  if (input.loader && input.loader->setting.workers > quota)
    finding.fix.summary += fmt::format(", or num_workers={}", std::max(1, int(quota)));
  finding.prediction = prediction_with_cpu(input, *use, cores);
  if (!finding.prediction) finding.ceiling_speedup = ceiling;
  return finding;
}

}  // namespace

const Rule kCpuQuota{
    "cpu-quota",
    "The container's CPU quota throttles the job: all its threads stop until the next period of the "
    "scheduler.",
    "The control group counts throttled time during the recorded steps, and the job uses nearly all of its "
    "quota. Run-queue delay without throttled time has another cause (cpu-contention, cpu-steal, "
    "dataloader-oversubscribed).",
    "A larger quota, with the number of CPUs that the job asks for, or as many workers as fit.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
