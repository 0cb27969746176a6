// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/loader_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "analyzer/model/quantile.h"
#include "analyzer/model/steps.h"
#include "analyzer/predict/late_helpers.h"
#include "analyzer/predict/loader_simulation.h"
#include "analyzer/predict/speed_drift.h"
#include "analyzer/predict/unseen_workers.h"
#include "analyzer/predict/worker_parts.h"

namespace gpuwatch::predict {
namespace {

constexpr double kNsPerMs = 1e6;
constexpr double kCompetes = 1.05;  // fetches stretched by less are not disturbed
constexpr double kFixedPart = 0.5;

// Of what workers took to start or stop, recorded for one number of them, a part is the epoch's and a part
// each worker's: 1, 2 and 4 of them took 15, 23 and 33 ms to start. One number does not tell the parts: half
// and half is assumed, and both ends stay possible.
double for_workers(double per_worker_ns, int workers, int recorded, double fixed_part) {
  if (workers <= 0) return 0;
  return per_worker_ns * (recorded > 0 ? fixed_part * recorded + (1 - fixed_part) * workers : workers);
}

// From the end of the last step of the epoch before to the first next(), less what the epoch simulates.
double restart_ns(const LoaderReplayInput& recording, const ReplayEpoch& epoch, const LoaderSetting& setting,
                  double fixed_part) {
  const Restart& restart = recording.restart;
  auto of = [&](double per_worker_ns) {
    return for_workers(per_worker_ns, setting.workers, recording.setting.workers, fixed_part);
  };
  double result = epoch.own_ns + (setting.workers > 0 ? epoch.lead_ns : 0);
  if (epoch.is_first) return result + of(restart.start_ns);
  if (setting.persistent) return result + (setting.workers > 0 ? restart.reset_ns : 0);
  return result + of(restart.start_ns) + of(restart.stop_ns);
}

// Other runs of the job as far as the recorded one shows them. Blocks keep slow stretches together: batch
// times are not independent of their neighbours. Where the recording has all data, another run has the same
// in another order; where it has a part, that is a sample of them.
class Resampling {
 public:
  explicit Resampling(const LoaderReplayInput& recording) : epochs_(recording.epochs) {
    for (const ReplayEpoch& epoch : epochs_)
      for (const BatchCost& batch : epoch.batches)
        if (batch.counted) pool_.push_back(&batch);
    block_ = std::max<size_t>(4, size_t(std::sqrt(double(pool_.size()))));
    has_all_ = std::ranges::all_of(epochs_, &ReplayEpoch::is_whole);
  }

  std::vector<ReplayEpoch> next() {
    const std::vector<size_t> begins = block_begins();
    std::vector<ReplayEpoch> epochs = epochs_;
    size_t taken = 0;
    for (ReplayEpoch& epoch : epochs) {
      for (BatchCost& batch : epoch.batches) {
        const size_t begin = begins[taken / block_ % begins.size()];
        const bool counted = batch.counted;
        batch = *pool_[(begin + taken % block_) % pool_.size()];
        batch.counted = counted;
        ++taken;
      }
    }
    return epochs;
  }

 private:
  std::vector<size_t> block_begins() {
    std::uniform_int_distribution<size_t> anywhere(0, pool_.size() - 1);
    std::vector<size_t> begins((pool_.size() + block_ - 1) / block_);
    const size_t first = anywhere(random_);
    for (size_t i = 0; i < begins.size(); ++i)
      begins[i] = has_all_ ? (first + i * block_) % pool_.size() : anywhere(random_);
    std::ranges::shuffle(begins, random_);
    return begins;
  }

  const std::vector<ReplayEpoch>& epochs_;
  std::vector<const BatchCost*> pool_;
  size_t block_;
  bool has_all_;
  std::mt19937 random_{20240229};
};

// Starts and ends of workers of which the recorded run had only the first, which does what is done once:
// later starts took three quarters of it.
void ask_restarts(const LoaderReplayInput& recording, const LoaderSetting& setting,
                  std::vector<LoaderReplayInput>& result) {
  if (setting.workers <= 0 || recording.epochs.size() < 2) return;
  const Restart& restart = recording.restart;
  if (setting.persistent) {
    if (!restart.is_warm_seen) result.emplace_back(recording).restart.reset_ns = 0;
  } else if (recording.setting.persistent && recording.setting.workers > 0) {
    Restart& quick = result.emplace_back(recording).restart;
    for (double* cost : {&quick.start_ns, &quick.come_up_ns, &quick.first_send_ns, &quick.stop_ns})
      *cost /= 2;
  }
}

// Only the training thread's own delay is recorded: each step may be like the quick ones, one in `parts`, in
// which no thread was late.
void quicken_think(LoaderReplayInput& recording, size_t parts) {
  std::vector<double> all;
  for (const ReplayEpoch& epoch : recording.epochs)
    for (const BatchCost& batch : epoch.batches)
      if (batch.counted) all.push_back(batch.think_ns);
  if (all.empty()) return;
  const double quick_ns = model::quantile(std::move(all), parts);
  for (ReplayEpoch& epoch : recording.epochs)
    for (BatchCost& batch : epoch.batches) batch.think_ns = std::min(batch.think_ns, quick_ns);
}

// Beside training that spins, fetches took workers 12 and 17% more CPU time than inline.
constexpr double kMostLossBesideSpinning = 0.2;

void fetch_without_company(LoaderReplayInput& recording) {
  for (ReplayEpoch& epoch : recording.epochs) {
    for (BatchCost& batch : epoch.batches) {
      const double saved_ns = batch.cpu_ns * (1 - 1 / (1 + kMostLossBesideSpinning));
      batch.cpu_ns -= saved_ns;
      batch.service_ns = std::max(0.0, batch.service_ns - saved_ns);
    }
  }
}

// More workers than cores, or as many beside training that computes on several of them.
bool takes_turns(const LoaderReplayInput& recording) {
  constexpr double kCrowded = 1.5;  // times the cores
  const double asked = recording.setting.workers + recording.think_cores;
  const bool is_parallel = recording.think_cores_known && recording.think_cores > 1;
  return recording.setting.workers > std::ceil(recording.cores) ||
         (is_parallel && asked > kCrowded * recording.cores);
}

// Then how much training and fetches lost by taking turns is not known: 8 workers on two cores took 1.7 ms of
// CPU time for a batch and training 3 ms a step; without any it was 0.6 and 1.3. Two beside training on both
// were said to cost 1.6 times and cost 2.1.
void as_the_quickest(LoaderReplayInput& recording) {
  constexpr size_t kHundredth = 100;  // as the quick steps of a bound (advise/quick_steps.h)
  quicken_think(recording, kHundredth);
  std::vector<double> all;
  for (const ReplayEpoch& epoch : recording.epochs)
    for (const BatchCost& batch : epoch.batches) all.push_back(batch.cpu_ns);
  if (all.empty()) return;
  const double quick_ns = model::quantile(std::move(all), kHundredth);
  for (ReplayEpoch& epoch : recording.epochs) {
    for (BatchCost& batch : epoch.batches) {
      const double saved_ns = std::max(0.0, batch.cpu_ns - quick_ns);
      batch.cpu_ns -= saved_ns;
      batch.service_ns -= saved_ns;
    }
  }
}

// What the recording leaves open: each as the recording that would be right if it were so.
std::vector<LoaderReplayInput> open_questions(const LoaderReplayInput& recording,
                                              const LoaderSetting& setting) {
  std::vector<LoaderReplayInput> result;
  constexpr size_t kQuarter = 4;
  const HandOver& hand_over = recording.hand_over;
  if (hand_over.measured && !hand_over.is_split) {
    // Of sending and taking together, taking was 0.49 to 0.66 in the eight jobs that showed both.
    for (double part : {0.4, 0.75})
      result.emplace_back(recording).hand_over.take_ns = part * (hand_over.take_ns + hand_over.send_ns);
  }
  if (!recording.think_cores_known && recording.think_cores_worst != recording.think_cores)
    result.emplace_back(recording).think_cores = recording.think_cores_worst;
  if (recording.think_delay_share > 0 && recording.idle_cores > 0) {
    LoaderReplayInput as_recorded = recording;
    as_recorded.late_helpers_share = 0;
    result.push_back(as_recorded);
    for (ReplayEpoch& epoch : result.emplace_back(as_recorded).epochs)
      for (BatchCost& batch : epoch.batches) batch.think_ns *= 1 - recording.think_delay_share;
    if (recording.think_cores > 1) quicken_think(result.emplace_back(as_recorded), kQuarter);
  }
  // OpenMP's threads spin between two parallel regions, and give way to whoever has work.
  if (recording.think_cores_known && recording.think_cores > 1)
    result.emplace_back(recording).think_cores = 1;
  for (int looks : {kFewestLooks, kMostLooks}) result.emplace_back(recording).scheduling.looks = looks;
  if (recording.quick_think_ns > 0 && setting.workers == 0)
    fetch_without_company(result.emplace_back(recording));
  if (takes_turns(recording) && setting.workers == 0) as_the_quickest(result.emplace_back(recording));
  ask_restarts(recording, setting, result);
  if (recording.cores_low > 0) result.emplace_back(recording).cores = recording.cores_low;
  return result;
}

// The steps that a report of the replayed run would count: a first one that waits for its workers to come up
// and is so long that it is warm-up is none of them, whatever it was in the recorded run.
StepTime counted_steps(const LoaderReplayInput& recording, const Totals& totals) {
  const StepTime& first = totals.first_step;
  StepTime result = totals.steps;
  const double step_ns =
      result.batches ? result.sum_ns() / double(result.batches) * recording.batches_per_step : 0;
  if (result.batches && first.sum_ns() > model::kWarmUpFactor * step_ns) return result;
  result.wait_ns += first.wait_ns;
  result.think_ns += first.think_ns;
  result.restart_ns += first.restart_ns;
  result.batches += first.batches;
  return result;
}

LoaderReplay replay_with(const LoaderReplayInput& recording, LoaderSetting setting, double fixed_part) {
  Totals totals;
  for (const ReplayEpoch& epoch : recording.epochs) {
    EpochSimulation(recording, epoch, setting).run(totals);
    if (epoch.is_counted)
      (epoch.is_first ? totals.first_step : totals.steps).restart_ns +=
          restart_ns(recording, epoch, setting, fixed_part);
  }
  LoaderReplay result;
  const StepTime steps = counted_steps(recording, totals);
  if (steps.batches == 0) return result;
  double per_step = recording.batches_per_step / double(steps.batches) / kNsPerMs;
  result.wait_ms = steps.wait_ns * per_step;
  result.think_ms = steps.think_ns * per_step;
  result.restart_ms = steps.restart_ns * per_step;
  result.step_ms = result.wait_ms + result.think_ms + result.restart_ms;
  if (totals.service_ns > 0) result.fetch_stretch = totals.fetch_wall_ns / totals.service_ns;
  if (totals.span_ns <= 0) return result;
  double cores = setting.cores > 0 ? setting.cores : recording.cores;
  result.cpu_share = totals.cpu_ns / (totals.span_ns * cores);
  if (setting.workers > 0)
    result.worker_share = totals.worker_ns / (totals.span_ns * serving_workers(recording, setting));
  result.pin_share = totals.pin_ns / totals.span_ns;
  return result;
}

// Nine in ten other runs, if they meet speeds of the processor as stretches of this one did. It is
// independent of what else is open.
Estimate across_speeds(const LoaderReplayInput& recording, const LoaderSetting& setting, Estimate range) {
  constexpr double kNineInTen = 1.64;  // standard deviations of a normal distribution
  const double drift = kNineInTen * speed_drift(recording);
  if (drift == 0) return range;
  const double fast_ms = replay_with(at_speed(recording, 1 / (1 + drift)), setting, kFixedPart).step_ms;
  const double slow_ms = replay_with(at_speed(recording, 1 + drift), setting, kFixedPart).step_ms;
  const double middle = range.expected;
  return {middle - std::hypot(middle - range.low, std::max(0.0, middle - fast_ms)), middle,
          middle + std::hypot(range.high - middle, std::max(0.0, slow_ms - middle))};
}

}  // namespace

LoaderReplay replay(const LoaderReplayInput& recording, LoaderSetting setting) {
  return replay_with(recording, setting, kFixedPart);
}

ReplayCheck check(const LoaderReplayInput& recording) {
  return {recording.measured_step_ms, replay(recording, recording.setting).step_ms, recording.steps};
}

Estimate replay_estimate(const LoaderReplayInput& recording, LoaderSetting setting) {
  constexpr int kResamples = 40;
  Resampling resampling(recording);
  std::vector<double> steps_ms;
  LoaderReplayInput sample = recording;
  for (int i = 0; i < kResamples; ++i) {
    sample.epochs = resampling.next();
    steps_ms.push_back(replay(sample, setting).step_ms);
  }
  std::sort(steps_ms.begin(), steps_ms.end());
  Estimate range = beyond_run_to_run({steps_ms[kResamples / 20], replay(recording, setting).step_ms,
                                      steps_ms[kResamples - 1 - kResamples / 20]});
  if (setting == recording.setting) return range;
  for (const LoaderReplayInput& other : open_questions(recording, setting)) {
    double step_ms = replay(other, setting).step_ms;
    range.low = std::min(range.low, step_ms);
    range.high = std::max(range.high, step_ms);
  }
  if (!recording.hand_over.measured && setting.workers > 0) {
    const Estimate unseen = unseen_range(recording, setting, range.expected);
    range.low = std::min(range.low, unseen.low);
    range.high = std::max(range.high, unseen.high);
  }
  for (double fixed_part : {0.0, 1.0}) {
    double step_ms = replay_with(recording, setting, fixed_part).step_ms;
    range.low = std::min(range.low, step_ms);
    range.high = std::max(range.high, step_ms);
  }
  range = across_speeds(recording, setting, range);
  // Parallel training that competes with its workers may gain nothing from their working beside it.
  bool competes = recording.think_cores > 1 && setting.workers > 0 &&
                  replay(recording, setting).fetch_stretch > kCompetes;
  if (competes) {
    LoaderSetting alone = setting;
    alone.workers = 0;
    range.high = std::max(range.high, replay(recording, alone).step_ms);
  }
  return range;
}

BatchCost mean_batch(const LoaderReplayInput& recording) {
  constexpr double BatchCost::*kMeans[] = {&BatchCost::service_ns, &BatchCost::cpu_ns, &BatchCost::think_ns,
                                           &BatchCost::io_ns};
  BatchCost mean;
  size_t count = 0;
  for (const ReplayEpoch& epoch : recording.epochs) {
    count += epoch.batches.size();
    for (const BatchCost& batch : epoch.batches)
      for (const auto member : kMeans) mean.*member += batch.*member;
  }
  if (count > 0)
    for (const auto member : kMeans) mean.*member /= double(count);
  return mean;
}

double step_without_input_ms(const LoaderReplayInput& recording) {
  double think_ns = 0;
  size_t count = 0;
  for (const ReplayEpoch& epoch : recording.epochs) {
    if (epoch.is_counted) think_ns += epoch.own_ns;
    for (const BatchCost& batch : epoch.batches) {
      if (!batch.counted) continue;
      think_ns += think_after(recording, batch, 0);
      ++count;
    }
  }
  return count ? think_ns / double(count) * recording.batches_per_step / kNsPerMs : 0;
}

Limit limit(const LoaderReplayInput& recording, LoaderSetting setting) {
  constexpr double kSaturated = 0.93;  // of its time in use; the rest is hand-over and chance
  constexpr double kNoWait = 0.05;     // of the step
  LoaderReplay now = replay(recording, setting);
  if (now.wait_ms <= kNoWait * now.step_ms) return Limit::kTraining;
  if (now.cpu_share >= kSaturated) return Limit::kCpu;
  if (setting.pin && now.pin_share >= kSaturated) return Limit::kPinThread;
  if (setting.workers == 0) return Limit::kWorkers;
  LoaderSetting more = setting;
  more.workers *= 4;
  more.is_split = true;
  if (replay(recording, more).step_ms < now.step_ms * (1 - kNoWait)) return Limit::kWorkers;
  return now.cpu_share >= kSaturated * kSaturated ? Limit::kCpu : Limit::kHandOver;
}

std::string limit_words(const LoaderReplayInput& recording, LoaderSetting setting) {
  double cores = setting.cores > 0 ? setting.cores : recording.cores;
  switch (limit(recording, setting)) {
    case Limit::kTraining:
      return "training no longer waits for data";
    case Limit::kCpu:
      return fmt::format("workers and training already use all {:.1f} cores this job gets", cores);
    case Limit::kPinThread:
      return "the single pinning thread is always busy";
    case Limit::kWorkers:
      if (const int serving = serving_workers(recording, setting); serving < setting.workers)
        return fmt::format("{} of {} workers make{} all batches", serving, setting.workers,
                           serving == 1 ? "s" : "");
      if (const double share = largest_share(recording, setting); share * setting.workers > 1)
        return fmt::format("one of {} workers makes {:.0f}% of the batches", setting.workers, 100 * share);
      return setting.workers > 0 ? "the workers are always busy"
                                 : "the training thread prepares batches itself";
    case Limit::kHandOver:
      break;
  }
  return "the training thread receives batches one at a time";
}

}  // namespace gpuwatch::predict
