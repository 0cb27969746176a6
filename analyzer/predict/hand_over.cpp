// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/hand_over.h"
#include "analyzer/model/quantile.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace gpuwatch::predict {
namespace {

using model::Batch;
using model::LoaderEpoch;
using model::Ns;
using model::TimeSpan;

constexpr double kAssumedNs = 0.7e6;  // where too few batches show it; see unseen_workers.cpp

constexpr double kSeenShare = 0.05;  // of the receipts; fewer are chance
constexpr double kLeastSeen = 5;

// CPython's default: a thread that computes keeps the interpreter's lock for so long when others want it.
constexpr Ns kSwitchInterval = 5'000'000;

constexpr double kLockMatters = 2;  // slower than this beside a computing worker: it is no C code

constexpr double kMostBusyFactor = 1000;  // practically only in a pause

size_t owner_of(const LoaderEpoch& epoch, const Batch& batch) {
  return std::min<size_t>(batch.worker, epoch.workers.size());
}

// Where more processes compute than there are cores, most of what a hand-over takes is waiting for a core,
// which the replay adds itself: what it costs shows in those that did not have to wait. Means and lower
// quartiles of a job recorded so, and means of the same job with a core to spare, of a turnaround in C code:
// 0.40, 0.10 and 0.15 ms; of a dispatch in Python: 3.0, 0.11 and 0.25 ms.
struct Times {
  bool is_crowded = false;
  std::vector<double> values;

  void add(double value) { values.push_back(value); }
  void add(const Times& other) { values.insert(values.end(), other.values.begin(), other.values.end()); }
  double count() const { return double(values.size()); }
  double value(double otherwise) const {
    if (values.empty()) return otherwise;
    if (!is_crowded) return std::accumulate(values.begin(), values.end(), 0.0) / count();
    return model::quantile(values, 4);
  }
};

// The first turn of a worker is part of its start: its connections are set up meanwhile.
void measure_worker(const LoaderEpoch& epoch, Times& dispatch, Times& turnaround, Times& first_turnaround) {
  std::vector<const Batch*> previous(epoch.workers.size() + 1, nullptr);
  std::vector<bool> has_turned(epoch.workers.size() + 1, false);
  for (const Batch& batch : epoch.batches) {
    if (!was_fetched(batch)) continue;
    const size_t worker = owner_of(epoch, batch);
    const Batch* before = std::exchange(previous[worker], &batch);
    if (!before) continue;
    if (batch.sent > before->fetch.end)
      dispatch.add(double(batch.fetch.begin - batch.sent));
    else
      (has_turned[worker] ? turnaround : first_turnaround).add(double(batch.fetch.begin - before->fetch.end));
    has_turned[worker] = true;
  }
}

// By worker, in order of time.
std::vector<std::vector<TimeSpan>> fetches(const LoaderEpoch& epoch) {
  std::vector<std::vector<TimeSpan>> result(epoch.workers.size() + 1);
  for (const Batch& batch : epoch.batches)
    if (was_fetched(batch)) result[owner_of(epoch, batch)].push_back(batch.fetch);
  for (std::vector<TimeSpan>& of_worker : result)
    std::sort(of_worker.begin(), of_worker.end(),
              [](const TimeSpan& a, const TimeSpan& b) { return a.begin < b.begin; });
  return result;
}

// Fills in what the worker did between begin and end of the receipt.
void describe(const std::vector<TimeSpan>& fetches, Receipt& receipt) {
  auto at = std::partition_point(fetches.begin(), fetches.end(),
                                 [&](const TimeSpan& fetch) { return fetch.end <= receipt.begin; });
  Ns pause = 0;
  for (; at != fetches.end() && at->begin < receipt.end; ++at) {
    receipt.beside_ns += double(std::min(at->end, receipt.end) - std::max(at->begin, receipt.begin));
    if (at->end < receipt.end) pause = at->end;
  }
  receipt.is_in_pause = pause > 0 && receipt.end - pause < kSwitchInterval;
  if (receipt.is_in_pause) receipt.since_pause_ns = double(receipt.end - pause);
}

bool was_pinned(const Batch& batch) {
  return batch.pinned.end > batch.pinned.begin;
}

// The message was off the queue: the pin thread begins with it, or the consumer has it.
Ns received(const Batch& batch) {
  if (was_pinned(batch)) return batch.pinned.begin;
  return batch.received ? batch.received : batch.next.end;
}

std::vector<uint32_t> sorted_batches(const LoaderEpoch& epoch, Ns (*time)(const Batch&)) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < epoch.batches.size(); ++i)
    if (was_taken(epoch.batches[i])) order.push_back(i);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return time(epoch.batches[a]) < time(epoch.batches[b]); });
  return order;
}

// What receipts of one kind cost.
struct Cost {
  Times alone, after_pause, beside;
  double beside_ns = 0, done_beside = 0;

  explicit Cost(bool is_crowded) : alone{is_crowded}, after_pause{is_crowded}, beside{is_crowded} {}

  void add(const Receipt& receipt) {
    double length = double(receipt.end - receipt.begin);
    beside_ns += receipt.beside_ns;
    if (receipt.is_in_pause) return after_pause.add(receipt.since_pause_ns);
    if (receipt.beside_ns <= 0) return alone.add(length);
    beside.add(length);
    ++done_beside;
  }
  double count() const { return alone.count() + after_pause.count() + beside.count(); }
  bool is_idle_seen() const {
    return alone.count() + after_pause.count() >= std::max(kLeastSeen, kSeenShare * count());
  }
  // With the worker idle, or as near to that as was seen.
  double undisturbed(double otherwise) const {
    Times idle = alone;
    idle.add(after_pause);
    return is_idle_seen() ? idle.value(otherwise) : beside.value(idle.value(otherwise));
  }
  // How many times as long it takes beside a worker that computes.
  double slowdown(double undisturbed_ns) const {
    return beside_ns > 0 ? beside_ns / std::max(done_beside * undisturbed_ns, 1.0) : 1;
  }
};

// next() then only returns, once it has drawn the indices of another batch. Waiting for a core makes some of
// these times longer, and a sampler all of them.
double draw_ns(std::vector<double> finish) {
  constexpr double kReturns = 1e6;
  if (finish.size() < size_t(kLeastSeen)) return 0;
  const double usual = model::quantile(std::move(finish), 4);
  return usual > 2 * kReturns ? usual - kReturns : 0;
}

// Beside a worker that keeps the interpreter's lock even the quick hand-overs take long; else it was the CPU
// that they waited for.
double crowded_busy_factor(const Cost& late, const Cost& waited, double take_ns, double whole_ns) {
  const Cost& known = late.beside.count() >= kLeastSeen ? late : waited;
  const double alone_ns = &known == &late ? take_ns : whole_ns;
  const double factor = known.beside.value(0) / std::max(alone_ns, 1.0);
  return known.beside.count() >= kLeastSeen && factor >= kLockMatters ? factor : 1;
}

}  // namespace

double service_ns(const Batch& batch) {
  const double wall = double(batch.fetch.length());
  return std::min(wall, std::max(wall - double(batch.fetch_run_delay_ns), double(batch.fetch_cpu_ns)));
}

std::vector<Receipt> receipts(const LoaderEpoch& epoch) {
  const auto by_worker = fetches(epoch);
  std::vector<uint32_t> nexts = sorted_batches(epoch, [](const Batch& batch) { return batch.next.begin; });
  std::vector<Receipt> result;
  size_t at = 0;
  Ns ready = 0;  // the receiver, for another message
  for (uint32_t i : sorted_batches(epoch, received)) {
    const Batch& batch = epoch.batches[i];
    while (at < nexts.size() && epoch.batches[nexts[at]].next.end < received(batch)) ++at;
    if (at == nexts.size() && !was_pinned(batch)) break;
    if (!was_pinned(batch)) ready = std::max(ready, epoch.batches[nexts[at]].next.begin);
    if (was_fetched(batch) && received(batch) >= std::max(ready, batch.fetch.end)) {
      Receipt receipt{.batch = i, .is_late = batch.fetch.end < ready};
      if (receipt.is_late) receipt.early_ns = double(ready - batch.fetch.end);
      receipt.begin = std::max(ready, batch.fetch.end);
      receipt.end = received(batch);
      const std::vector<TimeSpan>& of_worker = by_worker[owner_of(epoch, batch)];
      receipt.is_first = batch.fetch.begin == of_worker.front().begin;
      describe(of_worker, receipt);
      result.push_back(receipt);
    }
    ready = was_pinned(batch) ? batch.pinned.end : received(batch);
  }
  return result;
}

HandOver measure_hand_over(const std::vector<const LoaderEpoch*>& epochs, bool is_crowded) {
  Times dispatch{is_crowded}, turnaround{is_crowded}, first_turnaround{is_crowded}, finish{is_crowded};
  Cost waited(is_crowded);
  std::vector<Receipt> early;
  for (const LoaderEpoch* epoch : epochs) {
    measure_worker(*epoch, dispatch, turnaround, first_turnaround);
    for (const Receipt& receipt : receipts(*epoch)) {
      if (receipt.is_first) continue;
      if (receipt.is_late)
        early.push_back(receipt);
      else
        waited.add(receipt);
    }
    for (const Batch& batch : epoch->batches)
      if (was_taken(batch) && batch.received)
        finish.add(double(batch.next.end - std::max(batch.received, batch.next.begin)));
  }
  Cost late(is_crowded);  // without those that may still have been on their way
  for (const Receipt& receipt : early)
    if (receipt.early_ns > waited.undisturbed(kAssumedNs)) late.add(receipt);
  HandOver cost;
  cost.measured = true;
  cost.turnaround_ns = std::max(0.0, turnaround.value(first_turnaround.value(0)));
  cost.finish_ns = std::max(0.0, finish.value(0));
  bool is_split = late.count() >= kLeastSeen, is_waited = waited.count() >= kLeastSeen;
  cost.draw_ns = draw_ns(std::move(finish.values));
  double whole = 2 * late.undisturbed(kAssumedNs);
  bool is_locked =
      late.slowdown(whole / 2) > kLockMatters;  // then what took long says nothing of an idle one
  if (!is_locked || waited.is_idle_seen()) whole = waited.undisturbed(whole);
  cost.take_ns = is_split ? late.undisturbed(kAssumedNs) : whole / 2;
  if (is_waited && !is_locked) cost.take_ns = std::min(cost.take_ns, whole);
  cost.send_ns = std::max(0.0, whole - cost.take_ns);
  cost.is_split = is_split;
  // An index goes the way that a batch comes: a feeder thread, a pipe, a sleeper who wakes up.
  cost.dispatch_ns = dispatch.count() >= kLeastSeen ? std::max(0.0, dispatch.value(0)) : cost.send_ns;
  double alone = late.done_beside * cost.take_ns + waited.done_beside * whole;
  double beside = late.beside_ns + waited.beside_ns;
  cost.busy_factor = beside > 0 ? std::clamp(beside / std::max(alone, 1.0), 1.0, kMostBusyFactor) : 1;
  if (is_crowded) cost.busy_factor = crowded_busy_factor(late, waited, cost.take_ns, whole);
  return cost;
}

}  // namespace gpuwatch::predict
