// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/loader_words.h"
#include "analyzer/advise/machine.h"

namespace gpuwatch::advise {

extern const Rule kCpuContention;

namespace {

constexpr double kLeastDelay = 0.10;
constexpr double kLeastOthers = 0.5;
constexpr double kLeastWorkers = 0.5, kLeastOtherChildren = 0.5;

constexpr Threshold kThresholds[] = {
    {"training thread runnable but not running", kLeastDelay, "of the time", "an idle machine shows 1 to 3%"},
    {"CPU used by processes outside of this run", kLeastOthers, "cores", "monitoring and daemons use less"},
    {"CPU used by loader workers", kLeastWorkers, "cores",
     "less than that cannot keep the training thread from running"},
    {"CPU used by other processes that the job started", kLeastOtherChildren, "cores",
     "as of loader workers"},
};

double delay_share(const RuleInput& input, const MachineUse& use) {
  return std::max(use.run_delay_share, input.rank.share(attribute::Category::Sched));
}

void blame_others(Finding& finding, const RuleInput& input, const MachineUse& use, double delay) {
  finding.title = fmt::format(
      "CPU contention: other processes use {:.1f} cores, "
      "the training thread waits for a core {:.0f}% of the time",
      use.other_cores, 100 * delay);
  const double cores = std::max(1.0, use.job_cores);
  finding.fix.change = NamedChange{
      "CPU affinity", fmt::format("{:.0f} cores of its own", cores)};  // words: ok, fix.value in JSON
  finding.fix.summary = fmt::format(
      "Stop the other processes, or reserve {:.0f} CPU core{} for this job (taskset, cpuset, exclusive node)",
      cores, cores < 1.5 ? "" : "s");
  finding.prediction = prediction_with_cpu(input, use, double(input.process.cpu_count));
}

int fewer_workers(const RuleInput& input) {
  return std::max(1, std::min(input.loader->setting.workers - 1, int(input.process.cpu_count) - 1));
}

// Where the job fills the cores, its work takes as long with fewer workers, unless the replay knows better:
// cheaper transforms are what helps then (input-decode).
bool do_fewer_workers_help(const RuleInput& input, const MachineUse& use) {
  if (!fills_cores(input, use)) return true;
  predict::LoaderSetting setting = input.loader_setting();
  const double now = expected_step_ms(input, *input.loader, setting);
  setting.workers = fewer_workers(input);
  return now >= kLeastSpeedup * expected_step_ms(input, *input.loader, setting);
}

void blame_workers(Finding& finding, const RuleInput& input, const MachineUse& use, double delay) {
  const int workers = input.loader->setting.workers;
  const int fits = fewer_workers(input);
  finding.title = fmt::format(
      "CPU contention: {} loader workers compete with the training thread, "
      "which waits for a core {:.0f}% of the time",
      workers, 100 * delay);
  const LoaderChange change{LoaderOption::kNumWorkers, fits};
  const model::Loader* configured = input.configured_loader();
  finding.fix.change = change;
  finding.fix.summary =
      fmt::format("Set {}, or lower the workers' priority with os.nice(10) in worker_init_fn",
                  setting_words(change, configured).setting);
  if (configured) finding.fix.location = configured->location;
  finding.evidence.insert(finding.evidence.begin() + 1,
                          {"CPU used by loader workers", use.worker_cores, "cores"});
  predict::LoaderSetting setting = input.loader_setting();
  setting.workers = fits;
  finding.prediction = loader_prediction(input, *input.loader, input.loader_check, setting);
}

void blame_other_children(Finding& finding, const RuleInput& input, const MachineUse& use, double delay) {
  finding.title = fmt::format(
      "CPU contention: processes that the job itself started use {:.1f} cores, "
      "the training thread waits for a core {:.0f}% of the time",
      use.other_child_cores, 100 * delay);
  const double cores = double(input.process.cpu_count) + std::ceil(use.other_child_cores);
  finding.fix.change = NamedChange{"CPU cores", fmt::format("{:.0f}", cores)};
  finding.fix.summary = fmt::format(
      "Use {:.0f} CPU cores for each rank, or let the processes that the job starts (a loader, "
      "environments) compute less",
      cores);
  finding.evidence.insert(finding.evidence.begin() + 1,
                          {"CPU used by processes that the job started", use.other_child_cores, "cores"});
}

// Of a job that computes on the CPU: each operation waits for the slowest of its threads, and some of them
// have no core. What that costs shows nowhere but in the time of the operations: no prediction, no upper
// bound.
double cores_of(const RuleInput& input) {
  const double quota = cpu_quota(input.process), cores = double(input.process.cpu_count);
  return quota > 0 ? std::min(cores, std::ceil(quota)) : cores;
}

// Short operations use one thread, however many there are: then the cores are not full, and that thread has
// one. With 16 threads on 2 cores it waited for a core 46% of the time, while 1.6 of them were used. Within a
// quota PyTorch's default is the machine's cores, which hurts where the quota throttles.
bool has_more_threads_than_cores(const RuleInput& input, const MachineUse& use) {
  const double threads = number_fact(input.process, "torch_threads");
  if (input.device || input.device_hidden() || input.process.cpu_count == 0) return false;
  const double own = use.job_cores - use.worker_cores - use.other_child_cores;
  if (own < use.job_cores / 2) return false;
  // Others on the machine make it worse, and are no reason for so many threads.
  if (threads > double(input.process.cpu_count))
    return fills_cores(input, use) || delay_share(input, use) >= kLeastDelay;
  if (use.other_cores >= kLeastOthers) return false;  // they fill the cores
  return threads > cores_of(input) && use.throttled_share >= kLeastThrottled;
}

Finding of_own_threads(const RuleInput& input, const MachineUse& use, double delay) {
  const double cores = cores_of(input), threads = number_fact(input.process, "torch_threads");
  Finding finding = make_finding(kCpuContention, input, std::max(delay, kLeastDelay));
  finding.title =
      fmt::format("CPU contention: PyTorch is set to {:.0f} threads for each operation, on {:.0f} core{}",
                  threads, cores, cores < 1.5 ? "" : "s");
  finding.evidence = {{"threads for each operation", threads, "threads"},
                      {"CPU available to this job", cores, "cores"},
                      {"training thread waiting for a CPU core", 100 * delay, "% of the time"}};
  if (use.other_cores >= kLeastOthers)
    finding.evidence.push_back({"CPU used by other processes", use.other_cores, "cores"});
  const std::string fits = fmt::format("{:.0f}", cores);
  finding.fix.change = NamedChange{"torch.set_num_threads", fits};
  finding.fix.summary = fmt::format("Call torch.set_num_threads({0}), or set OMP_NUM_THREADS={0}", fits);
  finding.fix.snippet = fmt::format("torch.set_num_threads({})", fits);
  finding.distorts = {attribute::Bottleneck::Compute, attribute::Bottleneck::Host,
                      attribute::Bottleneck::Input};
  return finding;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  const auto use = machine_use(input);
  if (use && has_more_threads_than_cores(input, *use))
    return of_own_threads(input, *use, delay_share(input, *use));
  if (!use || use->throttled_share >= kLeastThrottled || use->steal_share >= kLeastSteal) return std::nullopt;
  const double delay = delay_share(input, *use);
  const double lost = recoverable_share(input, std::min(delay, 0.95));
  if (delay < kLeastDelay || lost < kLeastLost) return std::nullopt;
  const bool has_workers = input.loader && input.loader->setting.workers > 1;
  const bool by_others = use->other_cores >= kLeastOthers;
  const bool by_workers =
      has_workers && use->worker_cores >= kLeastWorkers && do_fewer_workers_help(input, *use);
  const bool by_other_children = use->other_child_cores >= kLeastOtherChildren;
  if (!by_others && !by_workers && !by_other_children) return std::nullopt;

  Finding finding = make_finding(kCpuContention, input, lost);
  finding.evidence = {{"training thread waiting for a CPU core", 100 * delay, "% of the time"},
                      {"CPU used by other processes", use->other_cores, "cores"},
                      {"CPU used by this job", use->job_cores, "cores"},
                      {"CPU available to this job", double(input.process.cpu_count), "cores"}};
  if (by_others)
    blame_others(finding, input, *use, delay);
  else if (by_workers)
    blame_workers(finding, input, *use, delay);
  else
    blame_other_children(finding, input, *use, delay);
  if (!finding.prediction) finding.ceiling_speedup = ceiling_without(input, finding.lost_share);
  return finding;
}

}  // namespace

const Rule kCpuContention{
    "cpu-contention",
    "CPU contention: the training thread waits for a CPU core that other processes, or those that the job "
    "itself started (loader workers, environments), are using, or PyTorch computes with more threads than "
    "there are "
    "cores.",
    "The training thread is runnable but not running, without throttling (`cpu-quota`) or steal time "
    "(`cpu-steal`). The CPU time of other processes, of the loader workers, and of whatever else the job "
    "started shows which of them is the cause. If only the workers wait, the finding is "
    "`dataloader-oversubscribed`. On a CPU job: `torch.get_num_threads()` above the cores that the job may "
    "use.",
    "Call `torch.set_num_threads()` with the number of cores. Reserve CPU cores for the job (affinity, "
    "cpuset, an exclusive node), or use fewer workers.",
    kThresholds,
    evaluate,
    {attribute::Category::Sched, attribute::Category::InputCpuStarved, attribute::Category::InputWakeup}};

}  // namespace gpuwatch::advise
