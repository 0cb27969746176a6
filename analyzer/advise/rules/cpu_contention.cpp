// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/machine.h"

namespace gpuwatch::advise {

extern const Rule kCpuContention;

namespace {

constexpr double kLeastDelay = 0.10;
constexpr double kLeastOthers = 0.5;
constexpr double kLeastWorkers = 0.5;

constexpr Threshold kThresholds[] = {
    {"training thread runnable but not running", kLeastDelay, "of wall time",
     "an idle machine shows 1 to 3 %"},
    {"CPU used by processes that are not of this run", kLeastOthers, "cores",
     "monitoring and daemons take less"},
    {"CPU used by loader workers", kLeastWorkers, "cores", "less cannot keep the training thread waiting"},
};

double delay_share(const RuleInput& input, const MachineUse& use) {
  return std::max(use.run_delay_share, input.rank.share(attribute::Category::Sched));
}

void blame_others(Finding& finding, const RuleInput& input, const MachineUse& use, double delay) {
  finding.title = fmt::format(
      "Other processes use {:.1f} cores; the training thread waits for a CPU {:.0f} % "
      "of the time",
      use.other_cores, 100 * delay);
  finding.fix.change =
      NamedChange{"CPU affinity", fmt::format("{:.0f} cores of its own", std::max(1.0, use.job_cores))};
  finding.fix.summary = fmt::format(
      "stop the other processes, or keep {:.0f} core{} free of them (taskset, cpuset, exclusive node)",
      std::max(1.0, use.job_cores), use.job_cores < 1.5 ? "" : "s");
  finding.prediction = prediction_with_cpu(input, use, double(input.process.cpu_count));
}

void blame_workers(Finding& finding, const RuleInput& input, const MachineUse& use, double delay) {
  const int workers = input.loader->setting.workers;
  const int fits = std::max(1, std::min(workers - 1, int(input.process.cpu_count) - 1));
  finding.title = fmt::format(
      "{} loader workers take the CPU from the training thread: it waits for one "
      "{:.0f} % of the time",
      workers, 100 * delay);
  finding.fix.change = LoaderChange{LoaderOption::kNumWorkers, fits};
  finding.fix.summary =
      fmt::format("num_workers={}, or nice the workers (os.nice(10) in worker_init_fn)", fits);
  if (const model::Loader* configured = input.configured_loader())
    finding.fix.location = configured->location;
  finding.evidence.push_back({"CPU used by loader workers", use.worker_cores, "cores"});
  predict::LoaderSetting setting = input.loader_setting();
  setting.workers = fits;
  finding.prediction = loader_prediction(input, *input.loader, input.loader_check, setting);
}

std::optional<Finding> evaluate(const RuleInput& input) {
  const auto use = machine_use(input);
  if (!use || use->throttled_share >= kLeastThrottled || use->steal_share >= kLeastSteal) return std::nullopt;
  const double delay = delay_share(input, *use);
  const double lost = recoverable_share(input, std::min(delay, 0.95));
  if (delay < kLeastDelay || lost < kLeastLost) return std::nullopt;
  const bool has_workers = input.loader && input.loader->setting.workers > 1;
  const bool by_others = use->other_cores >= kLeastOthers;
  const bool by_workers = has_workers && use->worker_cores >= kLeastWorkers;
  if (!by_others && !by_workers) return std::nullopt;

  Finding finding = make_finding(kCpuContention, input, lost);
  finding.evidence = {{"training thread runnable but not running", 100 * delay, "% of wall time"},
                      {"CPU used by other processes", use->other_cores, "cores"},
                      {"CPU used by the job", use->job_cores, "cores"},
                      {"CPUs the job may use", double(input.process.cpu_count), "cores"}};
  if (by_others)
    blame_others(finding, input, *use, delay);
  else
    blame_workers(finding, input, *use, delay);
  if (!finding.prediction) finding.ceiling_speedup = 1 / (1 - finding.lost_share);
  return finding;
}

}  // namespace

const Rule kCpuContention{
    "cpu-contention",
    "The training thread waits for a CPU: other processes have it, or the job's own loader workers.",
    "Run-queue delay of the training thread without throttling (cpu-quota) and without steal time "
    "(cpu-steal). Who has the CPU: the machine's busy time less that of this run, or the workers' CPU time. "
    "Delay of the workers alone is dataloader-oversubscribed.",
    "Cores that the others stay away from (affinity, cpuset, an exclusive node), or fewer workers.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
