// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/loader_words.h"
#include "analyzer/advise/machine.h"

namespace gpuwatch::advise {

extern const Rule kCpuQuota;

namespace {

constexpr double kLeastNearQuota = 0.8;

constexpr Threshold kThresholds[] = {
    {"time throttled, summed over CPU cores", kLeastThrottled, "of the time",
     "a container below its quota is never throttled, apart from single periods of 100 ms at start-up"},
    {"CPU used", kLeastNearQuota, "of the quota",
     "below it, only single bursts are throttled and a larger quota gains little"},
};

// CPU cores that the job would use without a quota: what it uses now, in the time that it was not throttled.
double wanted_cores(const RuleInput& input, const MachineUse& use, double quota) {
  const double most = std::max(double(input.process.cpu_count), quota);
  const double running =
      std::max(1 - std::min(use.throttled_share / std::max(1.0, use.job_cores), 0.95), 0.05);
  return std::clamp(std::ceil(use.job_cores / running), std::ceil(quota + 0.01), std::max(most, quota + 1));
}

void name_fix(Finding& finding, const RuleInput& input, double quota, double cores) {
  finding.fix.change = NamedChange{"CPU quota", fmt::format("{:.0f}", cores)};
  finding.fix.summary =
      fmt::format("Request {0:.0f} CPU core{1} (docker --cpus={0:.0f}, Kubernetes limits.cpu: {0:.0f})",
                  cores, cores < 1.5 ? "" : "s");
  if (!input.loader || input.loader->setting.workers <= quota) return;
  const LoaderChange fewer{LoaderOption::kNumWorkers, std::max(1, int(quota))};
  finding.fix.summary += ", or set " + setting_words(fewer, input.configured_loader()).setting;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  const double quota = cpu_quota(input.process);
  const auto use = machine_use(input);
  if (quota <= 0 || !use || use->throttled_share < kLeastThrottled) return std::nullopt;
  if (use->job_cores < kLeastNearQuota * quota) return std::nullopt;

  // Two upper bounds: all throttled time is saved, or all CPU cores are used.
  const double more_cpu = std::max(1.0, double(input.process.cpu_count) / quota);
  const double throttled = recoverable_share(input, std::min(use->throttled_share, 0.95));
  if (throttled < kLeastLost) return std::nullopt;
  const double ceiling = std::min(ceiling_without(input, throttled), more_cpu);
  const double cores = wanted_cores(input, *use, quota);
  Finding finding = make_finding(kCpuQuota, input, 1 - 1 / ceiling);
  finding.title = fmt::format(
      "CPU quota: the container gets {:.4g} of {} CPU cores, the job uses {:.0f}% of that and is throttled",
      quota, input.process.cpu_count, 100 * use->job_cores / quota);
  finding.evidence = {
      {"throttled, summed over CPU cores", 100 * use->throttled_share, "% of the time"},
      {"CPU quota", quota, "cores"},
      {"CPU used by this job", use->job_cores, "cores"},
      {"training thread waiting for a CPU core", 100 * use->run_delay_share, "% of the time"}};
  name_fix(finding, input, quota, cores);
  finding.prediction = prediction_with_cpu(input, *use, cores);
  if (!finding.prediction) finding.ceiling_speedup = ceiling;
  return finding;
}

}  // namespace

const Rule kCpuQuota{
    "cpu-quota",
    "The container's CPU quota throttles the job: all of its threads stop until the next scheduler period.",
    "The cgroup counts throttled time during the recorded steps, and the job uses nearly all of its quota. "
    "Threads that wait for a CPU core without throttling have another cause (`cpu-contention`, `cpu-steal`, "
    "`dataloader-oversubscribed`).",
    "Request as many CPU cores as the job needs, or use as many workers as the quota allows.",
    kThresholds,
    evaluate,
    attribute::CategorySet(attribute::Bottleneck::Input) |
        attribute::CategorySet{attribute::Category::Sched, attribute::Category::Compute}};

}  // namespace gpuwatch::advise
