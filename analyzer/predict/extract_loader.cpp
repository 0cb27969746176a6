// SPDX-License-Identifier: Apache-2.0
// Turns the epochs of a recorded loader into what the replay needs, and calibrates it on the trace itself.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "analyzer/model/quantile.h"
#include "analyzer/predict/hand_over.h"
#include "analyzer/predict/loader_cores.h"
#include "analyzer/predict/loader_replay.h"
#include "analyzer/predict/restart.h"
#include "analyzer/predict/unseen_workers.h"
#include "analyzer/predict/worker_parts.h"

namespace gpuwatch::predict {
namespace {

using attribute::RankAttribution;
using model::Batch;
using model::LoaderEpoch;
using model::Ns;
using model::Process;

constexpr size_t kMostBatches = 3000;  // the latest; more does not sharpen the mean, only the wait for it
constexpr size_t kLongEpoch = 2 * kMostBatches;
constexpr int kMostWorkers =
    512;  // of one rank; more is a damaged trace's, and each costs time in the replay

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

// From the end of one next() to the begin of the following.
double think_ns(const RankAttribution& rank, const Batch& batch, const Batch& following) {
  const auto* step = step_at(rank, batch.next.begin);
  Ns until = following.next.begin;
  if (step && until > step->step.end && !is_followed(rank, *step)) until = step->step.end;
  return std::max<double>(0, double(until - batch.next.end));
}

// Of an epoch's last batch: to the end of its step. A batch that was taken before a `break` has the step in
// which the next epoch begins: until then, as what follows is that epoch's.
double last_think_ns(const RankAttribution& rank, const Batch& batch, Ns next_epoch, double otherwise) {
  const auto* step = step_at(rank, batch.next.begin);
  if (!step || step->step.end <= batch.next.end) return otherwise;
  const bool is_left = next_epoch > batch.next.end && next_epoch < step->step.end;
  return double((is_left ? next_epoch : step->step.end) - batch.next.end);
}

// What a fetch cost: wall time without waiting for a CPU, and of it the CPU time and the blocked input.
void split_fetch(const Batch& batch, BatchCost& cost) {
  double blocked = double(std::max(batch.fetch_io_ns, batch.fetch_blocked_ns));
  cost.service_ns = service_ns(batch);
  cost.cpu_ns = std::min(double(batch.fetch_cpu_ns), cost.service_ns);
  if (batch.fetch_cpu_ns == 0) cost.cpu_ns = std::max(0.0, cost.service_ns - blocked);
  // Reading what is cached takes CPU time, not storage: no more than the rest is waiting for it.
  cost.io_ns = std::min(blocked, cost.service_ns - cost.cpu_ns);
  cost.collate_ns = std::clamp(double(batch.collate_ns), 0.0, cost.service_ns);
}

// As another fetch of the same worker would have taken: each new worker of the replay has this once.
void take_off_first_fetch(const Restart& restart, BatchCost& cost) {
  cost.service_ns = std::max(0.0, cost.service_ns - restart.first_fetch_ns);
  cost.cpu_ns = std::clamp(cost.cpu_ns - restart.first_fetch_cpu_ns, 0.0, cost.service_ns);
  cost.io_ns = std::min(cost.io_ns, cost.service_ns - cost.cpu_ns);
  cost.collate_ns = std::min(cost.collate_ns, cost.service_ns);
}

// `next_start`: of the epoch that follows, 0 if none does.
ReplayEpoch convert(const RankAttribution& rank, const LoaderEpoch& epoch, Ns next_start,
                    const BatchCost& typical, const LoaderReplayInput& recording, bool has_new_workers) {
  const HandOver& hand_over = recording.hand_over;
  ReplayEpoch recorded;
  const std::vector<size_t> order = taken_order(epoch);
  std::vector<double> sent(epoch.batches.size(), hand_over.send_ns);
  for (const Receipt& receipt : receipts(epoch))
    if (!receipt.is_late && !receipt.is_in_pause && !receipt.is_first)
      sent[receipt.batch] =
          std::max(0.0, double(receipt.end - receipt.begin) / hand_over.busy_factor - hand_over.take_ns);
  std::vector<bool> is_used(has_new_workers ? epoch.workers.size() : 0, false);
  size_t position = 0;
  for (size_t i = 0; i < epoch.batches.size(); ++i) {
    const Batch& batch = epoch.batches[i];
    if (!was_taken(batch)) continue;
    BatchCost cost = typical;
    if (was_fetched(batch)) {
      split_fetch(batch, cost);
      if (batch.worker < is_used.size() && !is_used[batch.worker]) {
        is_used[batch.worker] = true;
        take_off_first_fetch(recording.restart, cost);
      }
    }
    cost.send_ns = sent[i];
    cost.pin_ns = std::max<double>(0, double(batch.pinned.length()));
    cost.bytes = batch.tensors > 0 ? double(batch.bytes) : typical.bytes;
    const Batch& taken = epoch.batches[order[position]];
    cost.think_ns = position + 1 < order.size() ? think_ns(rank, taken, epoch.batches[order[position + 1]])
                                                : last_think_ns(rank, taken, next_start, typical.think_ns);
    cost.counted = step_at(rank, taken.next.begin) != nullptr;
    cost.slept_ns = epoch.workers.empty() ? cost.service_ns - cost.cpu_ns : double(taken.next.length());
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
    for (size_t i = 0; i + 1 < order.size(); ++i)
      think.push_back(think_ns(rank, epoch->batches[order[i]], epoch->batches[order[i + 1]]));
    for (const Batch& batch : epoch->batches) {
      if (!was_fetched(batch)) continue;
      service.push_back(service_ns(batch));
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

// The end of a long epoch stands for all of it: one over a text corpus has a million batches, and each of
// some hundred replays would go through all of them. Its begin is no part of the mean step, and neither are
// the batches until the workers are as far ahead as they get.
void keep_end(ReplayEpoch& epoch) {
  constexpr size_t kSettling = 256;  // twice as many as the largest number of workers has made ahead
  constexpr size_t kMostLookedAt = 10 * kLongEpoch;
  const size_t all = epoch.batches.size();
  if (all <= kLongEpoch) return;
  size_t first = all, counted = 0;
  for (; first > 0 && counted < kMostBatches && all - first < kMostLookedAt; --first)
    counted += epoch.batches[first - 1].counted;
  if (counted == 0) return;
  const size_t begin = first > kSettling ? first - kSettling : 0;
  if (begin == 0) return;
  epoch.batches.erase(epoch.batches.begin(), epoch.batches.begin() + ptrdiff_t(begin));
  for (size_t i = 0; i < kSettling; ++i) epoch.batches[i].counted = false;
  epoch.is_first = epoch.is_whole = epoch.is_counted = false;
  epoch.own_ns = 0;
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
    const bool is_first = epoch == &*first;
    const Ns next_start = i + 1 < epochs.size() ? epochs[i + 1]->start.begin : 0;
    ReplayEpoch recorded =
        convert(rank, *epoch, next_start, typical, recording, is_first || !recording.setting.persistent);
    recorded.is_first = is_first;
    recorded.is_whole = last_next_of(*epoch, next_start, ends) != nullptr;
    const std::optional<double> own_ns = own_restart_ns(rank, *epoch, i > 0 ? epochs[i - 1] : nullptr, ends);
    recorded.is_counted = own_ns.has_value();
    recorded.own_ns = own_ns ? *own_ns + first_draw_ns(*epoch, recording.hand_over.draw_ns) : 0;
    keep_end(recorded);
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

// A second loader (validation) feeds no recorded step, or few, of which it may be all that feeds them: then
// the script makes its training data otherwise. Of several that feed the steps (a labeled and an unlabeled
// set zipped, a GAN's two, tasks by turns) it is the one that training waits for longest: a setting of the
// others gains nothing.
uint32_t main_loader(const model::Run& run, const RankAttribution& rank) {
  constexpr size_t kSeldom = 10;  // one of so many steps
  struct Use {
    size_t steps = 0;
    double waited_ns = 0;
    const attribute::StepAttribution* last = nullptr;
  };
  const Process& process = run.processes.at(rank.process);
  std::vector<Use> uses(process.loaders.size());
  for (const LoaderEpoch& epoch : process.epochs) {
    if (epoch.loader >= uses.size()) continue;
    Use& use = uses[epoch.loader];
    for (const Batch& batch : epoch.batches) {
      const auto* step = was_taken(batch) ? step_at(rank, batch.next.begin) : nullptr;
      if (!step) continue;
      use.steps += std::exchange(use.last, step) != step;
      use.waited_ns += double(batch.next.length());
    }
  }
  uint32_t main = model::kNone;
  const auto most = std::ranges::max_element(uses, {}, &Use::steps);
  for (uint32_t loader = 0; loader < uses.size(); ++loader) {
    const Use& use = uses[loader];
    if (use.steps == 0 || kSeldom * use.steps < rank.steps.size() || 2 * use.steps < most->steps) continue;
    if (main == model::kNone || use.waited_ns > uses[main].waited_ns) main = loader;
  }
  return main;
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
  if (recording.setting.workers > kMostWorkers) return std::nullopt;
  recording.setting.prefetch_factor = configured.prefetch_factor > 0 ? configured.prefetch_factor : 2;
  recording.setting.in_order = configured.in_order != 0;
  recording.setting.persistent = keeps_workers(process, loader);
  recording.setting.pin = configured.pin_memory == 1;
  auto typical = typical_batch(rank, epochs);
  if (!typical) return std::nullopt;
  if (recording.setting.workers > 0) {
    recording.hand_over = measure_hand_over(epochs, recorded_stretch(epochs).of_fetches > kCrowded);
    recording.restart = measure_restart(process, loader, recording.hand_over);
  } else {
    recording.hand_over = assume_hand_over(process, epochs);
    recording.restart = assume_restart(process, loader);
    recording.company_loss = assumed_company_loss();
    recording.scheduling.spinning_power = assumed_spinning_power();
  }
  add_epochs(process, rank, loader, epochs, *typical, recording);
  recording.parts = recorded_parts(epochs, recording);
  recording.measured_step_ms = rank.mean_step_ms();
  recording.steps = rank.steps.size();
  size_t all = 0;
  for (const LoaderEpoch& epoch : process.epochs)
    if (epoch.loader == loader) all += counted_batches(rank, epoch);
  recording.batches_per_step = double(all) / double(rank.steps.size());
  undisturb(process, rank, epochs, fetch_code(run, process, epochs), cores_of_fetches(rank, epochs),
            recording);
  fit_lock(recording);
  return recording;
}

std::vector<std::string> assumptions(const LoaderReplayInput& recording, LoaderSetting setting) {
  std::vector<std::string> result;
  const LoaderSetting& recorded = recording.setting;
  const bool is_short = recording.epochs.size() > 1;
  if (setting.is_split && !recording.parts.empty())
    result.push_back(fmt::format("all {} workers make batches as quickly as {} did", setting.workers,
                                 serving_workers(recording, recorded)));
  else if (!recording.parts.empty() && setting.workers > 0 && setting.workers != recorded.workers)
    result.emplace_back("the data is divided among the workers in the parts that the recorded ones had");
  if (setting.workers > 0 && !recording.hand_over.measured)
    result.push_back(fmt::format(
        "worker-to-trainer transfer of a batch takes {:.1f} ms (assumed: this run had no workers)",
        transfer_ms(recording)));
  if (is_short && setting.workers > 0 && !setting.persistent && !recording.restart.is_cold_seen)
    result.push_back(fmt::format("starting a worker takes {:.0f} ms (assumed: this run started none)",
                                 start_ms(recording.restart)));
  if (is_short && setting.workers > 0 && setting.persistent && !recording.restart.is_warm_seen)
    result.push_back("persistent workers begin an epoch within 5 ms (assumed: this run had none)");
  if (recording.quick_think_ns > 0)
    result.push_back(fmt::format(
        "training takes {:.3g} ms a batch while no worker computes; what it loses next to them is "
        "fitted to the "
        "recorded step, so that the model error says nothing of it",
        recording.quick_think_ns / 1e6));
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
  if (recording.late_helpers_share > 0)
    result.push_back("training computes faster where it waits less (its threads fall asleep meanwhile)");
  result.push_back("same data and machine load as in the recorded steps");
  return result;
}

}  // namespace gpuwatch::predict
