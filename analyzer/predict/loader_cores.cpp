// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/loader_cores.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "analyzer/model/cpu_time.h"
#include "analyzer/model/quantile.h"
#include "analyzer/predict/hand_over.h"
#include "analyzer/predict/late_helpers.h"

namespace gpuwatch::predict {
namespace {

using attribute::RankAttribution;
using model::Batch;
using model::LoaderEpoch;
using model::Ns;
using model::Process;

constexpr double kFull = 0.93;
constexpr double kMuchIdle = 0.3;  // of the cores
constexpr double kParallel = 1.3;
constexpr double kTrainingComputes = 0.5;  // of its time
constexpr double kLeastRunning = 0.25;
constexpr double kLeastCores = 0.25;
constexpr double kCompetes = 1.02;        // in the replay: workers and training got into each other's way
constexpr double kLeastUse = 0.5;         // of the cores that a job is said to be limited by
constexpr double kThrottled = 0.05;       // cores: a quota ends slices, not only single bursts
constexpr double kFewCores = 1.3;         // no ordinary scheduling any more
constexpr uint32_t kThreadsOfWorker = 2;  // the main one, and the one that sends batches
constexpr double kWaitedForCpu = 1.005;   // fetches stretched by less are as good as undisturbed

struct CpuUse {
  Ns begin = 0, end = 0;
  double own = 0, children = 0, machine = 0, machine_idle = 0, run_delay = 0,
         throttled = 0;  // cores
};

// From the sampler, over the recorded steps. Empty below one second: the sampler's grain is about that. A
// sample shortly before the first step will do as the first.
std::optional<CpuUse> cpu_use(const Process& process, const RankAttribution& rank) {
  constexpr Ns kShortlyBefore = 100'000'000;
  if (rank.steps.empty()) return std::nullopt;
  Ns begin = rank.steps.front().step.begin, end = rank.steps.back().step.end;
  const model::MachineSample* first = nullptr;
  const model::MachineSample* last = nullptr;
  for (const model::MachineSample& sample : process.machine_samples) {
    if (sample.time < begin - kShortlyBefore || sample.time > end) continue;
    if (!first) first = &sample;
    last = &sample;
  }
  if (!first || last->time - first->time < 900'000'000) return std::nullopt;
  double wall = double(last->time - first->time);
  CpuUse use{first->time, last->time};
  const model::CpuTime time = model::cpu_time(process, {first->time, last->time});
  use.own = time.own_ns / wall;
  use.children = time.workers_ns / wall;
  use.run_delay = std::max(0.0, double(last->run_delay_ns - first->run_delay_ns) / wall);
  use.throttled = std::max(0.0, double(last->throttled_ns - first->throttled_ns) / wall);
  use.machine = double(last->cpu_total_ns - first->cpu_total_ns) / wall;
  use.machine_idle = double(last->cpu_idle_ns - first->cpu_idle_ns) / wall;
  return use;
}

// Whether an epoch began or ended within the interval, and with it its workers.
auto began_in(const CpuUse& use) {
  return [&use](const LoaderEpoch* epoch) {
    return !epoch->workers.empty() && epoch->start.begin > use.begin && epoch->start.begin < use.end;
  };
}

// Of the interval, the part spent outside next(); and the CPU time that next() itself took.
void consumer_share(const std::vector<const LoaderEpoch*>& epochs, const CpuUse& use, double& think,
                    const HandOver& hand_over, double& in_next_cpu) {
  double in_next = 0;
  in_next_cpu = 0;
  for (const LoaderEpoch* epoch : epochs) {
    for (const Batch& batch : epoch->batches) {
      Ns overlap = std::min(batch.next.end, use.end) - std::max(batch.next.begin, use.begin);
      if (overlap <= 0) continue;
      in_next += double(overlap);
      const double cpu = epoch->workers.empty() ? double(batch.fetch_cpu_ns) + hand_over.draw_ns
                                                : hand_over.take_ns + hand_over.finish_ns;
      in_next_cpu += cpu * double(overlap) / double(batch.next.length());
    }
  }
  think = double(use.end - use.begin) - in_next;
}

double think_ms(const LoaderReplayInput& recording) {
  Mean think;
  for (const ReplayEpoch& epoch : recording.epochs)
    for (const BatchCost& batch : epoch.batches)
      if (batch.counted) think.add(batch.think_ns);
  return think.value(0) * recording.batches_per_step / 1e6;
}

void scale_think(LoaderReplayInput& recording, double factor) {
  for (ReplayEpoch& epoch : recording.epochs)
    for (BatchCost& batch : epoch.batches) batch.think_ns *= factor;
}

// Cores that training asks for, less what must have helped the fetches.
std::optional<double> without_help_to_fetches(const Process& process, const RankAttribution& rank,
                                              const CpuUse& use, const FetchCode& code, double fetch_cpu,
                                              double running, LoaderReplayInput& recording) {
  const double process_ns = use.own * double(use.end - use.begin);
  const auto time = divide_cpu_time(process, {use.begin, use.end}, process_ns, fetch_cpu);
  if (!time) return std::nullopt;
  const double steps = double(use.end - use.begin) / (recording.measured_step_ms * 1e6);
  const double batches = std::max(1.0, steps * recording.batches_per_step);
  const double helped_fetch_ns = time->helped_fetches_ns / batches;
  recording.most_fetch_help_ns = most_help(code, process.cpu_count, fetch_cpu / batches, helped_fetch_ns);
  recording.fetch_helpers_ns = std::min(helped_fetch_ns, recording.most_fetch_help_ns);
  // On a GPU the host only launches: autograd's thread does it in the training thread's place.
  if (rank.device != model::kNone) return time->training_ns / running;
  recording.helpers_ns = time->helped_training_ns / batches;
  return (time->training_ns + time->helped_training_ns) / running;
}

void measure_cores(const Process& process, const RankAttribution& rank,
                   const std::vector<const LoaderEpoch*>& epochs, const FetchCode& code,
                   LoaderReplayInput& recording) {
  double cores = std::max(1u, process.cpu_count);
  recording.cores = cores;
  recording.think_cores = 1;
  // PyTorch computes on as many threads as there are cores.
  recording.think_cores_worst = rank.device == model::kNone ? cores : 1;
  auto use = cpu_use(process, rank);
  if (!use) return;
  // What other programs take can be told only where the affinity mask is the whole machine. On a machine that
  // is full, what they take is what this job left them: how much it would get is told by how long it waited.
  // Its idle time is measured, its busy time sampled by the timer: over a second the two made 2.08 of 2
  // cores. Workers that ended meanwhile are missing among the children.
  const double busy = cores - use->machine_idle;
  if (std::abs(use->machine - cores) < 0.5) recording.idle_cores = use->machine_idle;
  const bool all_lived =
      recording.setting.persistent || std::none_of(epochs.begin(), epochs.end(), began_in(*use));
  if (std::abs(use->machine - cores) < 0.5 && busy <= kFull * cores && all_lived)
    recording.cores = std::clamp(cores - (busy - use->own - use->children), 0.5, cores);
  recording.used_cores = std::min(use->own + use->children, recording.cores);
  recording.is_throttled = use->throttled > kThrottled;
  double think = 0, in_next_cpu = 0;
  consumer_share(epochs, *use, think, recording.hand_over, in_next_cpu);
  double wall = double(use->end - use->begin);
  if (think < wall * 0.02) return;
  // While it waits for a CPU, training asks for one as well.
  double running = std::max(think - use->run_delay * wall, think * kLeastRunning);
  double asked = (use->own * wall - in_next_cpu) / running;
  if (recording.setting.workers == 0 && asked > kParallel)
    asked =
        without_help_to_fetches(process, rank, *use, code, in_next_cpu, running, recording).value_or(asked);
  recording.think_cores = std::clamp(asked, 0.0, cores);
  // What next() itself computes is counted here, too: a bit more than one core is still one thread.
  if (recording.think_cores > 1 && recording.think_cores < kParallel) recording.think_cores = 1;
  recording.think_cores_known = true;
  // Training that mostly sleeps waits for a CPU as often within next() as outside.
  if (recording.think_cores >= kTrainingComputes) scale_think(recording, running / think);
}

// The recorded work of the consumer was itself slowed where the CPUs were short. By how much the sampler
// says; where it does not, find the undisturbed work that the model slows to the recorded one.
void undisturb_think(LoaderReplayInput& recording) {
  if (recording.think_cores_known) return;
  double recorded = think_ms(recording);
  for (int i = 0; i < 4 && recorded > 0; ++i) {
    double replayed = replay(recording, recording.setting).think_ms;
    if (replayed <= 0 || std::abs(replayed / recorded - 1) < 1e-3) return;
    scale_think(recording, recorded / replayed);
  }
}

// A training thread that makes its batches itself has nobody in the job to wait for: other programs took the
// CPU, from fetches and training, and will take it from whatever else workers compute. How many of them there
// were follows from how long computing took, where each got its fair share; a worker more shares with them
// once more.
void blame_others(LoaderReplayInput& recording, const Stretch& stretch) {
  for (ReplayEpoch& epoch : recording.epochs)
    for (BatchCost& batch : epoch.batches) batch.service_ns *= stretch.of_fetches;
  HandOver& hand_over = recording.hand_over;
  for (double* cost : {&hand_over.take_ns, &hand_over.share_ns_per_byte, &hand_over.first_use_ns_per_byte,
                       &recording.restart.start_ns, &recording.restart.first_fetch_ns,
                       &recording.restart.first_fetch_cpu_ns})
    *cost *= stretch.of_computing;
  undisturb_think(recording);
  if (stretch.of_fetches > kCrowded)
    recording.cores_low = 2 * recording.cores / (stretch.of_computing * recording.cores + 1);
}

// Time that fetches spent runnable but not running has two causes. Where workers and training compete with
// each other, the cores are fewer than the affinity mask shows: those that make the model's workers wait as
// long as the recorded ones did. Where the model cannot wait that long with any cores, other programs took
// the CPU: then the delay belongs to each fetch, with more workers as with fewer.
void explain_run_delay(LoaderReplayInput& recording, double stretch, double fetch_cores,
                       uint32_t threads_of_worker) {
  auto with_cores = [&](double cores) {
    LoaderReplayInput candidate = recording;
    candidate.cores = cores;
    undisturb_think(candidate);
    return candidate;
  };
  auto stretches = [](const LoaderReplayInput& candidate) {
    return replay(candidate, candidate.setting).fetch_stretch;
  };
  LoaderReplayInput best = with_cores(recording.cores);
  const double explained = stretches(best);
  if (stretch <= kWaitedForCpu || explained >= stretch) {
    recording = best;
    return;
  }
  const double used = std::max(recording.used_cores, fetch_cores);
  double low = std::min(std::max(kLeastCores, used), recording.cores), high = recording.cores;
  // On a machine with cores to spare a thread waits for its core to wake up, however many there are: workers
  // that slept in 8 pieces waited 0.8 ms of 50 beside 1.5 idle cores of 2, as much as on 0.9 cores.
  const bool has_room = !recording.is_throttled && recording.idle_cores > kMuchIdle * recording.cores;
  // What a library's threads in the workers used is not known, and may be why the workers waited.
  const bool has_unknown_threads = recording.used_cores == 0 && threads_of_worker > kThreadsOfWorker;
  bool is_possible = !has_room && !has_unknown_threads && stretches(with_cores(low)) >= stretch;
  for (int i = 0; i < 10 && is_possible; ++i) {
    double middle = (low + high) / 2;
    best = with_cores(middle);
    (stretches(best) < stretch ? high : low) = middle;
  }
  is_possible = is_possible && used >= kLeastUse * best.cores;
  // A job that does not fill the cores that it is told of, and waited but little, tells nothing of how many
  // there are: what it waited for may as well be other programs' work, and both stay possible.
  if (is_possible && (explained > kCompetes || stretch > kFewCores)) {
    recording = best;
    recording.is_cpu_limited = true;
    return;
  }
  if (is_possible) recording.cores_low = best.cores;
  for (ReplayEpoch& epoch : recording.epochs)
    for (BatchCost& batch : epoch.batches) batch.service_ns *= stretch / explained;
  undisturb_think(recording);
}

// What the sampler says that training waited for a CPU, and no other part of the job explains, it waited for
// other programs, or for its core to wake up: it stays with it.
void restore_think(LoaderReplayInput& recording, double recorded_ms) {
  const double replayed = replay(recording, recording.setting).think_ms;
  if (replayed <= 0 || replayed >= recorded_ms) return;
  scale_think(recording, recorded_ms / replayed);
  recording.think_delay_share = 1 - replayed / recorded_ms;
  find_late_helpers(recording);
}

// As it was recorded, of the counted batches.
std::vector<double> think_times(const LoaderReplayInput& recording) {
  std::vector<double> times;
  for (const ReplayEpoch& epoch : recording.epochs)
    for (const BatchCost& batch : epoch.batches)
      if (batch.counted) times.push_back(batch.think_ns);
  return times;
}

bool is_of_one_size(const LoaderReplayInput& recording) {
  constexpr double kSpread = 1.1;
  std::vector<double> bytes;
  for (const ReplayEpoch& epoch : recording.epochs)
    for (const BatchCost& batch : epoch.batches)
      if (batch.counted) bytes.push_back(batch.bytes);
  if (bytes.empty()) return true;
  return model::quantile(bytes, 10) * kSpread >= model::median(bytes);
}

// When any worker made a batch. Sorted, disjoint.
std::vector<model::TimeSpan> at_work(const LoaderEpoch& epoch) {
  std::vector<model::TimeSpan> fetches, merged;
  for (const Batch& batch : epoch.batches)
    if (was_fetched(batch)) fetches.push_back(batch.fetch);
  std::ranges::sort(fetches, {}, &model::TimeSpan::begin);
  for (const model::TimeSpan& fetch : fetches) {
    if (merged.empty() || merged.back().end < fetch.begin)
      merged.push_back(fetch);
    else
      merged.back().end = std::max(merged.back().end, fetch.end);
  }
  return merged;
}

// From one batch to the next call of next() while hardly any worker made a batch: at the end of an epoch, or
// where they were ahead.
std::vector<double> think_alone(const std::vector<const LoaderEpoch*>& epochs) {
  constexpr double kHardly = 0.1;  // of the time
  std::vector<double> times;
  for (const LoaderEpoch* epoch : epochs) {
    std::vector<model::TimeSpan> nexts;
    for (const Batch& batch : epoch->batches)
      if (was_taken(batch)) nexts.push_back(batch.next);
    std::ranges::sort(nexts, {}, &model::TimeSpan::begin);
    const std::vector<model::TimeSpan> work = at_work(*epoch);
    auto first = work.begin();
    for (size_t i = 0; i + 1 < nexts.size(); ++i) {
      const Ns begin = nexts[i].end, end = nexts[i + 1].begin;
      while (first != work.end() && first->end <= begin) ++first;
      Ns beside = 0;
      for (auto span = first; span != work.end() && span->begin < end; ++span)
        beside += std::min(end, span->end) - std::max(begin, span->begin);
      if (double(beside) <= kHardly * double(end - begin)) times.push_back(double(end - begin));
    }
  }
  return times;
}

// Parallel training whose threads spin for each other beside workers: neither the time that its own thread
// waited for a core tells how long it takes alone, nor the CPU time. The steps that met no worker at work do,
// or the quickest twentieth: 11.7, 4.2 and 7.1 ms in three jobs whose mean was 41, 28 and 34, and without
// workers 12.3, 4.5 and 7.8. How much it loses beside them follows from the others.
void fit_spinning(LoaderReplayInput& recording, const std::vector<const LoaderEpoch*>& epochs,
                  std::vector<double> recorded_think_ns) {
  constexpr double kTrusted = 0.05, kLeastPower = 2, kMostPower = 8;
  constexpr size_t kQuickest = 20, kLeastAlone = 2;
  if (recording.setting.workers == 0 || !recording.think_cores_known || recording.think_cores <= 1) return;
  if (recorded_think_ns.empty() || std::abs(check(recording).error()) <= kTrusted) return;
  if (!is_of_one_size(recording)) return;
  LoaderReplayInput spinning = recording;
  std::vector<double> alone = think_alone(epochs);
  spinning.quick_think_ns = alone.size() >= kLeastAlone
                                ? model::median(std::move(alone))
                                : model::quantile(std::move(recorded_think_ns), kQuickest);
  for (ReplayEpoch& epoch : spinning.epochs)
    for (BatchCost& batch : epoch.batches) batch.think_ns = std::min(batch.think_ns, spinning.quick_think_ns);
  double low = kLeastPower, high = kMostPower;
  for (int i = 0; i < 12; ++i) {
    const double middle = (low + high) / 2;
    spinning.scheduling.spinning_power = middle;
    (replay(spinning, spinning.setting).step_ms < recording.measured_step_ms ? low : high) = middle;
  }
  if (std::abs(check(spinning).error()) <= kTrusted) recording = spinning;
}

uint32_t threads_of_worker(const std::vector<const LoaderEpoch*>& epochs) {
  uint32_t most = 0;
  for (const LoaderEpoch* epoch : epochs)
    for (const Batch& batch : epoch->batches) most = std::max(most, batch.thread_count);
  return most;
}

}  // namespace

Stretch recorded_stretch(const std::vector<const LoaderEpoch*>& epochs) {
  constexpr double kMost = 10;  // of computing: CPU times below a clock tick are not exact
  double wall = 0, delay = 0, cpu = 0;
  for (const LoaderEpoch* epoch : epochs) {
    for (const Batch& batch : epoch->batches) {
      if (!was_fetched(batch)) continue;
      wall += double(batch.fetch.length());
      delay += double(batch.fetch_run_delay_ns);
      cpu += double(batch.fetch_cpu_ns);
    }
  }
  if (wall <= delay) return {};
  const double of_fetches = wall / (wall - delay);
  return {of_fetches,
          cpu > 0 ? std::clamp((cpu + delay) / cpu, of_fetches, std::max(of_fetches, kMost)) : of_fetches};
}

void undisturb(const Process& process, const RankAttribution& rank,
               const std::vector<const LoaderEpoch*>& epochs, const FetchCode& code, double fetch_cores,
               LoaderReplayInput& recording) {
  const double recorded_think_ms = think_ms(recording);
  std::vector<double> recorded_think_ns = think_times(recording);
  measure_cores(process, rank, epochs, code, recording);
  const Stretch stretch = recorded_stretch(epochs);
  if (recording.setting.workers == 0 && !recording.is_throttled)
    blame_others(recording, stretch);
  else
    explain_run_delay(recording, stretch.of_fetches, fetch_cores, threads_of_worker(epochs));
  restore_think(recording, recorded_think_ms);
  fit_spinning(recording, epochs, std::move(recorded_think_ns));
}

}  // namespace gpuwatch::predict
