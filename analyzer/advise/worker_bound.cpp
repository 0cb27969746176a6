// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/worker_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "analyzer/advise/input_facts.h"
#include "analyzer/advise/machine.h"
#include "analyzer/advise/read_scaling.h"

namespace gpuwatch::advise {
namespace {

// Of /dev/shm, as in the rule shm-limit: samples once a second miss the peaks.
constexpr double kShmRoom = 0.7;
constexpr double kNoLimit = 1e9;

// Of /dev/shm, before the first batch was made: a data set that lies there, other jobs' batches. 0 where no
// sample tells: with too many workers one is killed.
double shm_used_before(const model::Process& process) {
  model::Ns first = std::numeric_limits<model::Ns>::max();
  for (const model::LoaderEpoch& epoch : process.epochs)
    for (const model::Batch& batch : epoch.batches)
      if (batch.fetch.length() > 0) first = std::min(first, batch.fetch.begin);
  double used = 0;
  for (const model::MachineSample& sample : process.machine_samples)
    if (sample.time < first) used = double(sample.shm_used_bytes);
  return used;
}

// Batches that /dev/shm holds for each rank, by what the recorded ones took at most; kNoLimit where that was
// not seen.
double batches_in_shm(const RuleInput& input) {
  const double size = number_fact(input.process, "shm_bytes"), before = shm_used_before(input.process);
  double most = before;
  for (const model::MachineSample& sample : input.process.machine_samples)
    most = std::max(most, double(sample.shm_used_bytes));
  if (size <= 0 || most <= before || !input.loader || input.loader->setting.workers < 1) return kNoLimit;
  const predict::LoaderSetting& recorded = input.loader->setting;
  const double in_flight = double(recorded.workers) * std::max(recorded.prefetch_factor, 1);
  return std::max(0.0, kShmRoom * size - before) / (most - before) * in_flight;
}

std::string core_words(const RuleInput& input, double cores) {
  if (input.ranks_on_host > 1)
    return fmt::format("each of the {} ranks on this machine gets {:.3g} of its {} CPU cores",
                       input.ranks_on_host, cores, input.process.cpu_count);
  return fmt::format("this job gets {:.3g} CPU core{}", cores, cores == 1 ? "" : "s");
}

bool leaves_cores_idle(const RuleInput& input, const predict::LoaderReplayInput& loader, double step_ms) {
  constexpr double kRoom = 0.8;  // of the cores; a mean hides when all compute at once
  const double service_ms = predict::mean_batch(loader).service_ns * loader.batches_per_step / 1e6;
  const double asked_ms = cpu_share(input, loader) * service_ms + loader.think_cores * input.input_floor_ms();
  return asked_ms < kRoom * cores_of_rank(input) * step_ms;
}

// Workers whose batches wait behind a slow one ask for no CPU time meanwhile. Of three, whose slowest batch
// took 13 times the mean, five are as many as two cores carry, and were worth 1.3 times; eight gained 1.75
// times.
int beyond_cores(const RuleInput& input, const predict::LoaderReplayInput& loader,
                 predict::LoaderSetting setting, const WorkerBound& bound, double step_ms) {
  constexpr double kLeastBlocked = 0.1;  // of the step
  constexpr double kWorthMore = 0.25;    // twice as many have to gain a quarter
  int count = setting.workers;
  if (input.rank.share(attribute::Category::InputHeadOfLine) < kLeastBlocked) return count;
  const Reads reads(input, loader);
  for (setting.workers = bound.most + 1; setting.workers <= bound.most_idle; ++setting.workers) {
    const double more_ms = reads.step_ms(setting);
    if (!leaves_cores_idle(input, loader, more_ms)) break;
    if (step_ms / more_ms - 1 < kWorthMore * (double(setting.workers) / count - 1)) continue;
    count = setting.workers;
    step_ms = more_ms;
  }
  return count;
}

}  // namespace

double cores_of_rank(const RuleInput& input) {
  double cores = std::max(1u, input.process.cpu_count);
  const double quota = cpu_quota(input.process);
  if (quota > 0) cores = std::min(cores, quota);
  return cores / std::max(1, input.ranks_on_host);
}

double cpu_share(const RuleInput& input, const predict::LoaderReplayInput& loader) {
  const predict::BatchCost mean = predict::mean_batch(loader);
  if (mean.service_ns <= 0) return 1;
  double cpu_ns = mean.cpu_ns;
  // A fetch that waits for its library's threads hardly computes itself; its worker does.
  const InputFacts* facts = input.facts;
  if (facts && facts->sampled_batches > 0)
    cpu_ns = std::max(cpu_ns, facts->sampled_worker_cpu_ns / facts->sampled_batches);
  return cpu_ns / mean.service_ns;
}

WorkerBound worker_bound(const RuleInput& input, const predict::LoaderReplayInput& loader,
                         const predict::LoaderSetting& setting) {
  constexpr double kMostIdle = 2;  // times as many: of 20 next to two cores nothing was known any more
  WorkerBound bound;
  const double share = cpu_share(input, loader), cores = cores_of_rank(input);
  // A worker a core at least: what training leaves of the cores, the replay knows.
  const double by_cpu = std::floor(cores / std::max(share, 1e-3));
  const double by_shm = std::floor(batches_in_shm(input) / std::max(setting.prefetch_factor, 1));
  bound.most_idle = std::max(1, int(std::min({by_shm, kMostIdle * by_cpu, double(bound.most)})));
  if (by_cpu < bound.most) {
    bound.most = std::max(1, int(by_cpu));
    bound.cause =
        fmt::format("a worker computes {:.0f}% of its time, and {}", 100 * share, core_words(input, cores));
  }
  if (by_shm < bound.most) {
    bound.most = std::max(1, int(by_shm));
    bound.cause = fmt::format("/dev/shm of {:.0f} MiB holds the batches of {} worker{}",
                              number_fact(input.process, "shm_bytes") / (1 << 20), bound.most,
                              bound.most == 1 ? "" : "s");
  }
  if (bound.cause.empty()) bound.cause = fmt::format("more than {} are not predicted", kMostWorkers);
  bound.most = std::max(bound.most, loader.setting.workers);
  return bound;
}

predict::LoaderSetting setting_before(const RuleInput& input, const predict::LoaderReplayInput& loader) {
  return input.assumed_loader.value_or(loader.setting);
}

int best_workers(const RuleInput& input, const predict::LoaderReplayInput& loader,
                 predict::LoaderSetting setting) {
  constexpr int kInVain = 2;  // as many again without a gain: no more will help
  const WorkerBound bound = worker_bound(input, loader, setting);
  const Reads reads(input, loader);
  std::vector<double> steps_ms;
  double best = 0;
  int best_count = 1;
  for (setting.workers = 1; setting.workers <= bound.most && setting.workers <= kInVain * best_count + 2;
       ++setting.workers) {
    steps_ms.push_back(reads.step_ms(setting));
    if (best > 0 && steps_ms.back() * kWithinBestCount > best) continue;
    best = steps_ms.back();
    best_count = setting.workers;
  }
  best = *std::ranges::min_element(steps_ms);
  size_t count = 1;
  while (steps_ms[count - 1] > best * kWithinBestCount) ++count;
  // Workers that are never idle make up for no slow batch, and hide what else would gain: beside one that was
  // busy 98% of a step, pinned memory gained nothing, beside two 10%. One more, if that leaves them slack.
  const double service_ms = predict::mean_batch(loader).service_ns * loader.batches_per_step / 1e6;
  const auto are_busy = [&](size_t workers) {
    return service_ms > kBusyWorkers * double(workers) * steps_ms[workers - 1];
  };
  const bool can_be_more = count < steps_ms.size() && steps_ms[count] <= steps_ms[count - 1];
  if (can_be_more && are_busy(count) && !are_busy(count + 1)) ++count;
  setting.workers = int(count);
  return beyond_cores(input, loader, setting, bound, steps_ms[count - 1]);
}

int most_prefetched(const RuleInput& input, const predict::LoaderSetting& setting, int most) {
  const double by_shm = batches_in_shm(input) / std::max(setting.workers, 1);
  return std::clamp(int(std::min(by_shm, double(most))), std::max(setting.prefetch_factor, 1),
                    std::max(most, setting.prefetch_factor));
}

}  // namespace gpuwatch::advise
