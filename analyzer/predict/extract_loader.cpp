// SPDX-License-Identifier: Apache-2.0
// Turns the epochs of a recorded loader into what the replay needs, and calibrates it on the trace itself.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/model/cpu_time.h"
#include "analyzer/model/quantile.h"
#include "analyzer/predict/hand_over.h"
#include "analyzer/predict/helper_threads.h"
#include "analyzer/predict/loader_replay.h"
#include "analyzer/predict/restart.h"
#include "analyzer/predict/unseen_workers.h"

namespace gpuwatch::predict {
namespace {

using attribute::RankAttribution;
using model::Batch;
using model::LoaderEpoch;
using model::Ns;
using model::Process;

constexpr size_t kMostBatches = 3000;  // the latest; more does not sharpen the mean, only the wait for it
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
constexpr double kCrowded = 1.1;          // fetches stretched by more waited for a core as a rule
constexpr uint32_t kThreadsOfWorker = 2;  // the main one, and the one that sends batches
constexpr double kWaitedForCpu = 1.005;   // fetches stretched by less are as good as undisturbed

double median(std::vector<double> values, double otherwise) {
  return values.empty() ? otherwise : model::median(std::move(values));
}

const attribute::StepAttribution* step_at(const RankAttribution& rank, Ns time) {
  auto after = std::upper_bound(rank.steps.begin(), rank.steps.end(), time,
                                [](Ns t, const attribute::StepAttribution& s) { return t < s.step.begin; });
  if (after == rank.steps.begin()) return nullptr;
  const auto& step = *std::prev(after);
  return time < step.step.end ? &step : nullptr;
}

size_t counted_batches(const RankAttribution& rank, const LoaderEpoch& epoch) {
  return size_t(std::count_if(epoch.batches.begin(), epoch.batches.end(), [&](const Batch& batch) {
    return was_taken(batch) && step_at(rank, batch.next.begin);
  }));
}

// Order in which the consumer took them; without in_order that is not the order of their indices.
std::vector<size_t> taken_order(const LoaderEpoch& epoch) {
  std::vector<size_t> order;
  for (size_t i = 0; i < epoch.batches.size(); ++i)
    if (was_taken(epoch.batches[i])) order.push_back(i);
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return epoch.batches[a].next.begin < epoch.batches[b].next.begin; });
  return order;
}

// Whether the recording goes on where a step ends. It does not where it was off or stopped, and an evaluation
// or a pause is no part of training.
bool is_followed(const RankAttribution& rank, const attribute::StepAttribution& step) {
  const auto* next = &step + 1;
  return next != rank.steps.data() + rank.steps.size() && next->step.begin == step.step.end;
}

// From the end of one next() to the begin of the following, or to the end of its step.
double think_ns(const RankAttribution& rank, const LoaderEpoch& epoch, const std::vector<size_t>& order,
                size_t position, double otherwise) {
  const Batch& batch = epoch.batches[order[position]];
  const auto* step = step_at(rank, batch.next.begin);
  if (position + 1 < order.size()) {
    Ns until = epoch.batches[order[position + 1]].next.begin;
    if (step && until > step->step.end && !is_followed(rank, *step)) until = step->step.end;
    return std::max<double>(0, double(until - batch.next.end));
  }
  return step && step->step.end > batch.next.end ? double(step->step.end - batch.next.end) : otherwise;
}

// What a fetch cost: wall time without waiting for a CPU, and of it the CPU time and the blocked input.
void split_fetch(const Batch& batch, BatchCost& cost) {
  double wall = double(batch.fetch.length());
  double blocked = double(std::max(batch.fetch_io_ns, batch.fetch_blocked_ns));
  cost.service_ns = std::max(wall - double(batch.fetch_run_delay_ns), double(batch.fetch_cpu_ns));
  cost.service_ns = std::min(cost.service_ns, wall);
  cost.cpu_ns = std::min(double(batch.fetch_cpu_ns), cost.service_ns);
  if (batch.fetch_cpu_ns == 0) cost.cpu_ns = std::max(0.0, cost.service_ns - blocked);
  // Reading what is cached takes CPU time, not storage: no more than the rest is waiting for it.
  cost.io_ns = std::min(blocked, cost.service_ns - cost.cpu_ns);
  cost.collate_ns = std::clamp(double(batch.collate_ns), 0.0, cost.service_ns);
}

ReplayEpoch convert(const RankAttribution& rank, const LoaderEpoch& epoch, const BatchCost& typical,
                    const HandOver& hand_over) {
  ReplayEpoch recorded;
  const std::vector<size_t> order = taken_order(epoch);
  std::vector<double> sent(epoch.batches.size(), hand_over.send_ns);
  for (const Receipt& receipt : receipts(epoch))
    if (!receipt.is_late && !receipt.is_in_pause && !receipt.is_first)
      sent[receipt.batch] =
          std::max(0.0, double(receipt.end - receipt.begin) / hand_over.busy_factor - hand_over.take_ns);
  size_t position = 0;
  for (size_t i = 0; i < epoch.batches.size(); ++i) {
    const Batch& batch = epoch.batches[i];
    if (!was_taken(batch)) continue;
    BatchCost cost = typical;
    if (was_fetched(batch)) split_fetch(batch, cost);
    cost.send_ns = sent[i];
    cost.pin_ns = std::max<double>(0, double(batch.pinned.length()));
    cost.bytes = batch.tensors > 0 ? double(batch.bytes) : typical.bytes;
    cost.think_ns = think_ns(rank, epoch, order, position, typical.think_ns);
    cost.counted = step_at(rank, epoch.batches[order[position]].next.begin) != nullptr;
    recorded.batches.push_back(cost);
    ++position;
  }
  Ns first = first_sent(epoch);
  if (first > 0) recorded.lead_ns = std::max<double>(0, double(first_next(epoch) - first));
  return recorded;
}

// Stands in for batches whose fetch was lost, and for the work after the last batch of an epoch.
std::optional<BatchCost> typical_batch(const RankAttribution& rank,
                                       const std::vector<const LoaderEpoch*>& epochs) {
  std::vector<double> service, cpu, think, bytes;
  size_t taken = 0;
  for (const LoaderEpoch* epoch : epochs) {
    const std::vector<size_t> order = taken_order(*epoch);
    taken += order.size();
    for (size_t i = 0; i + 1 < order.size(); ++i) think.push_back(think_ns(rank, *epoch, order, i, 0));
    for (const Batch& batch : epoch->batches) {
      if (!was_fetched(batch)) continue;
      service.push_back(double(batch.fetch.length() - batch.fetch_run_delay_ns));
      cpu.push_back(double(batch.fetch_cpu_ns));
      if (batch.tensors > 0) bytes.push_back(double(batch.bytes));
    }
  }
  if (service.size() * 2 < taken || service.empty()) return std::nullopt;
  BatchCost typical;
  typical.service_ns = std::max(0.0, median(service, 0));
  typical.cpu_ns = std::min(median(cpu, 0), typical.service_ns);
  typical.think_ns = median(think, 0);
  typical.bytes = median(bytes, 0);
  return typical;
}

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
std::optional<double> without_help_to_fetches(const Process& process, const CpuUse& use, double fetch_cpu,
                                              double running, LoaderReplayInput& recording) {
  const double process_ns = use.own * double(use.end - use.begin);
  const auto time = divide_cpu_time(process, {use.begin, use.end}, process_ns, fetch_cpu);
  if (!time) return std::nullopt;
  const double steps = double(use.end - use.begin) / (recording.measured_step_ms * 1e6);
  const double batches = std::max(1.0, steps * recording.batches_per_step);
  recording.helpers_ns = time->helped_training_ns / batches;
  recording.fetch_helpers_ns = time->helped_fetches_ns / batches;
  return (time->training_ns + time->helped_training_ns) / running;
}

void measure_cores(const Process& process, const RankAttribution& rank,
                   const std::vector<const LoaderEpoch*>& epochs, LoaderReplayInput& recording) {
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
    asked = without_help_to_fetches(process, *use, in_next_cpu, running, recording).value_or(asked);
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

// How many times as long fetches took for waiting for a CPU: all of a fetch, and its computing alone.
struct Stretch {
  double of_fetches = 1, of_computing = 1;
};

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

// A training thread that makes its batches itself has nobody in the job to wait for: other programs took the
// CPU, from fetches and training, and will take it from whatever else workers compute. How many of them there
// were follows from how long computing took, where each got its fair share; a worker more shares with them
// once more.
void blame_others(LoaderReplayInput& recording, const Stretch& stretch) {
  for (ReplayEpoch& epoch : recording.epochs)
    for (BatchCost& batch : epoch.batches) batch.service_ns *= stretch.of_fetches;
  HandOver& hand_over = recording.hand_over;
  for (double* cost : {&hand_over.take_ns, &hand_over.share_ns_per_byte, &hand_over.first_use_ns_per_byte,
                       &recording.restart.start_ns, &recording.restart.first_fetch_ns})
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
}

// How long a message waits beside a worker that keeps the interpreter's lock is known least of all costs: few
// messages got through. It is fitted to the recorded step time, which it decides.
void fit_lock(LoaderReplayInput& recording) {
  constexpr double kMatters = 2, kMost = 1000, kExact = 0.005;
  double& factor = recording.hand_over.busy_factor;
  if (factor < kMatters || std::abs(check(recording).error()) < kExact) return;
  const double measured = factor;
  double low = 1, high = kMost;
  for (int i = 0; i < 12; ++i) {
    factor = std::sqrt(low * high);
    (check(recording).error() < 0 ? low : high) = factor;
  }
  if (std::abs(check(recording).error()) > 4 * kExact) factor = measured;  // something else is off
}

// Cores that fetches alone used over the recorded steps, on average.
double cores_of_fetches(const RankAttribution& rank, const std::vector<const LoaderEpoch*>& epochs) {
  double cpu = 0;
  for (const LoaderEpoch* epoch : epochs)
    for (const Batch& batch : epoch->batches)
      if (was_taken(batch) && step_at(rank, batch.next.begin)) cpu += double(batch.fetch_cpu_ns);
  return rank.wall_ns > 0 ? cpu / double(rank.wall_ns) : 0;
}

uint32_t threads_of_worker(const std::vector<const LoaderEpoch*>& epochs) {
  uint32_t most = 0;
  for (const LoaderEpoch* epoch : epochs)
    for (const Batch& batch : epoch->batches) most = std::max(most, batch.thread_count);
  return most;
}

void add_epochs(const Process& process, const RankAttribution& rank, uint32_t loader,
                const std::vector<const LoaderEpoch*>& epochs, const BatchCost& typical,
                LoaderReplayInput& recording) {
  auto first = std::find_if(process.epochs.begin(), process.epochs.end(),
                            [&](const LoaderEpoch& epoch) { return epoch.loader == loader; });
  const std::vector<model::TimeSpan> ends = last_nexts(process, loader);
  Mean pinned;
  for (size_t i = 0; i < epochs.size(); ++i) {
    const LoaderEpoch* epoch = epochs[i];
    ReplayEpoch recorded = convert(rank, *epoch, typical, recording.hand_over);
    recorded.is_first = epoch == &*first;
    const Ns next_start = i + 1 < epochs.size() ? epochs[i + 1]->start.begin : 0;
    recorded.is_whole = last_next_of(*epoch, next_start, ends) != nullptr;
    const std::optional<double> own_ns = own_restart_ns(rank, *epoch, ends);
    recorded.is_counted = own_ns.has_value();
    recorded.own_ns = own_ns.value_or(0);
    for (const BatchCost& batch : recorded.batches)
      if (batch.pin_ns > 0) pinned.add(batch.pin_ns);
    recording.epochs.push_back(std::move(recorded));
  }
  recording.pin_ns = pinned.value(0);
}

// Of a batch of mean size.
double transfer_ms(const LoaderReplayInput& recording) {
  Mean bytes;
  for (const ReplayEpoch& epoch : recording.epochs)
    for (const BatchCost& batch : epoch.batches) bytes.add(batch.bytes);
  const HandOver& cost = recording.hand_over;
  const double per_byte = cost.share_ns_per_byte + cost.first_use_ns_per_byte;
  return (cost.send_ns + cost.take_ns + cost.finish_ns + bytes.value(0) * per_byte) / 1e6;
}

double start_ms(const Restart& restart) {
  return (restart.start_ns + restart.come_up_ns + restart.first_send_ns + restart.first_fetch_ns) / 1e6;
}

}  // namespace

// A second loader (validation) feeds no recorded step, or few.
uint32_t main_loader(const model::Run& run, const RankAttribution& rank) {
  const Process& process = run.processes.at(rank.process);
  std::vector<size_t> batches(process.loaders.size());
  for (const LoaderEpoch& epoch : process.epochs)
    if (epoch.loader < batches.size()) batches[epoch.loader] += counted_batches(rank, epoch);
  auto most = std::max_element(batches.begin(), batches.end());
  return most == batches.end() || *most == 0 ? model::kNone : uint32_t(most - batches.begin());
}

std::optional<LoaderReplayInput> extract_loader(const model::Run& run, const RankAttribution& rank) {
  const Process& process = run.processes.at(rank.process);
  uint32_t loader = main_loader(run, rank);
  if (loader == model::kNone || rank.steps.empty()) return std::nullopt;
  // Iterated ahead of training by a thread of its own: what that thread waits for does not stop the step.
  if (process.loaders[loader].thread != process.training_thread) return std::nullopt;

  std::vector<const LoaderEpoch*> epochs;
  size_t counted = 0;
  for (auto epoch = process.epochs.rbegin(); epoch != process.epochs.rend() && counted < kMostBatches;
       ++epoch) {
    size_t here = epoch->loader == loader ? counted_batches(rank, *epoch) : 0;
    if (here == 0) continue;
    epochs.insert(epochs.begin(), &*epoch);
    counted += here;
  }

  const model::Loader& configured = process.loaders[loader];
  LoaderReplayInput recording;
  size_t workers_seen = epochs.front()->workers.size();
  recording.setting.workers = configured.num_workers >= 0 ? configured.num_workers : int(workers_seen);
  recording.setting.prefetch_factor = configured.prefetch_factor > 0 ? configured.prefetch_factor : 2;
  recording.setting.in_order = configured.in_order != 0;
  recording.setting.persistent = configured.persistent_workers == 1;
  recording.setting.pin = configured.pin_memory == 1;
  auto typical = typical_batch(rank, epochs);
  if (!typical) return std::nullopt;
  if (recording.setting.workers > 0) {
    recording.hand_over = measure_hand_over(epochs, recorded_stretch(epochs).of_fetches > kCrowded);
    recording.restart = measure_restart(process, loader, recording.hand_over);
  } else {
    recording.hand_over = assume_hand_over(epochs);
    recording.restart = assume_restart(process, loader);
    recording.company_loss = assumed_company_loss();
  }
  add_epochs(process, rank, loader, epochs, *typical, recording);
  recording.measured_step_ms = rank.mean_step_ms();
  recording.steps = rank.steps.size();
  size_t all = 0;
  for (const LoaderEpoch& epoch : process.epochs)
    if (epoch.loader == loader) all += counted_batches(rank, epoch);
  recording.batches_per_step = double(all) / double(rank.steps.size());
  const double recorded_think_ms = think_ms(recording);
  measure_cores(process, rank, epochs, recording);
  const Stretch stretch = recorded_stretch(epochs);
  if (recording.setting.workers == 0 && !recording.is_throttled)
    blame_others(recording, stretch);
  else
    explain_run_delay(recording, stretch.of_fetches, cores_of_fetches(rank, epochs),
                      threads_of_worker(epochs));
  restore_think(recording, recorded_think_ms);
  fit_lock(recording);
  return recording;
}

std::vector<std::string> assumptions(const LoaderReplayInput& recording, LoaderSetting setting) {
  std::vector<std::string> result;
  const LoaderSetting& recorded = recording.setting;
  const bool is_short = recording.epochs.size() > 1;
  if (setting.workers > 0 && !recording.hand_over.measured)
    result.push_back(fmt::format(
        "worker-to-trainer transfer of a batch takes {:.1f} ms (assumed: this run had no workers)",
        transfer_ms(recording)));
  if (is_short && setting.workers > 0 && !setting.persistent && !recording.restart.is_cold_seen)
    result.push_back(fmt::format("starting a worker takes {:.0f} ms (assumed: this run started none)",
                                 start_ms(recording.restart)));
  if (is_short && setting.workers > 0 && setting.persistent && !recording.restart.is_warm_seen)
    result.push_back("persistent workers begin an epoch within 5 ms (assumed: this run had none)");
  if (!setting.in_order && recorded.in_order) result.push_back("the order of batches may change");
  if (setting.pin && recording.pin_ns <= 0)
    result.push_back("pinning a batch takes no time (assumed: this run pinned none)");
  if (setting.io_factor != 1)
    result.push_back(fmt::format("reading data takes {:g}x as long", setting.io_factor));
  if (setting.cpu_factor != 1)
    result.push_back(fmt::format("transforms take {:g}x as long", setting.cpu_factor));
  if (setting.cores > 0)
    result.push_back(fmt::format("the job gets {:g} CPU cores, as fast as the recorded ones", setting.cores));
  else if (recording.is_cpu_limited)
    result.push_back("no more CPU time than the workers of this run got");
  if (!recording.think_cores_known)
    result.push_back("CPU use of the training thread is assumed, not measured");
  result.push_back("same data and machine load as in the recorded steps");
  return result;
}

}  // namespace gpuwatch::predict
