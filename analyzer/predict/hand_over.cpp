// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/hand_over.h"

#include <algorithm>
#include <numeric>

namespace gpuwatch::predict {
namespace {

using model::Batch;
using model::Interval;
using model::LoaderPass;
using model::Ns;

// Without workers the trace cannot show what handing a batch over costs. 0.7 ms a batch was the one constant
// that fitted 14 PyTorch loader configurations (workers 1 to 4, prefetch 1 to 4) on a desktop-class machine.
constexpr double kAssumedNs = 0.7e6;

constexpr double kSeenShare = 0.05;  // of the receipts; fewer are chance
constexpr double kLeastSeen = 5;

// CPython's default: a thread that computes keeps the interpreter's lock for so long when others want it.
constexpr Ns kSwitchInterval = 5'000'000;

constexpr double kLockMatters = 2;  // slower than this beside a computing worker: it is no C code

constexpr double kMostBusyFactor = 1000;  // practically only in a pause

void measure_worker(const LoaderPass& pass, Mean& dispatch, Mean& turnaround) {
  std::vector<const Batch*> previous(pass.workers.size() + 1, nullptr);
  for (const Batch& batch : pass.batches) {
    if (!was_fetched(batch)) continue;
    const Batch*& before = previous[std::min<size_t>(batch.worker, pass.workers.size())];
    if (before && batch.sent > before->fetch.end)
      dispatch.add(double(batch.fetch.begin - batch.sent));
    else if (before)
      turnaround.add(double(batch.fetch.begin - before->fetch.end));
    before = &batch;
  }
}

size_t owner_of(const LoaderPass& pass, const Batch& batch) {
  return std::min<size_t>(batch.worker, pass.workers.size());
}

// By worker, in order of time.
std::vector<std::vector<Interval>> fetches(const LoaderPass& pass) {
  std::vector<std::vector<Interval>> result(pass.workers.size() + 1);
  for (const Batch& batch : pass.batches)
    if (was_fetched(batch)) result[owner_of(pass, batch)].push_back(batch.fetch);
  for (std::vector<Interval>& of_worker : result)
    std::sort(of_worker.begin(), of_worker.end(),
              [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  return result;
}

// Fills in what the worker did between begin and end of the receipt.
void describe(const std::vector<Interval>& fetches, Receipt& receipt) {
  auto at = std::partition_point(fetches.begin(), fetches.end(),
                                 [&](const Interval& fetch) { return fetch.end <= receipt.begin; });
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

std::vector<uint32_t> sorted_batches(const LoaderPass& pass, Ns (*time)(const Batch&)) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < pass.batches.size(); ++i)
    if (was_taken(pass.batches[i])) order.push_back(i);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return time(pass.batches[a]) < time(pass.batches[b]); });
  return order;
}

// What receipts of one kind cost.
struct Cost {
  Mean alone, after_pause, beside;
  double beside_ns = 0, done_beside = 0;

  void add(const Receipt& receipt) {
    double length = double(receipt.end - receipt.begin);
    beside_ns += receipt.beside_ns;
    if (receipt.is_in_pause) return after_pause.add(receipt.since_pause_ns);
    if (receipt.beside_ns <= 0) return alone.add(length);
    beside.add(length);
    ++done_beside;
  }
  double count() const { return alone.count + after_pause.count + beside.count; }
  bool is_idle_seen() const {
    return alone.count + after_pause.count >= std::max(kLeastSeen, kSeenShare * count());
  }
  // With the worker idle, or as near to that as was seen.
  double undisturbed(double otherwise) const {
    Mean idle = alone;
    idle.add(after_pause);
    return is_idle_seen() ? idle.value(otherwise) : beside.value(idle.value(otherwise));
  }
  // How many times as long it takes beside a worker that computes.
  double slowdown(double undisturbed_ns) const {
    return beside_ns > 0 ? beside_ns / std::max(done_beside * undisturbed_ns, 1.0) : 1;
  }
};

}  // namespace

std::vector<Receipt> receipts(const LoaderPass& pass) {
  const auto by_worker = fetches(pass);
  std::vector<uint32_t> nexts = sorted_batches(pass, [](const Batch& batch) { return batch.next.begin; });
  std::vector<Receipt> result;
  size_t at = 0;
  Ns ready = 0;  // the receiver, for another message
  for (uint32_t i : sorted_batches(pass, received)) {
    const Batch& batch = pass.batches[i];
    while (at < nexts.size() && pass.batches[nexts[at]].next.end < received(batch)) ++at;
    if (at == nexts.size() && !was_pinned(batch)) break;
    if (!was_pinned(batch)) ready = std::max(ready, pass.batches[nexts[at]].next.begin);
    if (was_fetched(batch) && received(batch) >= std::max(ready, batch.fetch.end)) {
      Receipt receipt{.batch = i, .is_late = batch.fetch.end < ready};
      if (receipt.is_late) receipt.early_ns = double(ready - batch.fetch.end);
      receipt.begin = std::max(ready, batch.fetch.end);
      receipt.end = received(batch);
      const std::vector<Interval>& of_worker = by_worker[owner_of(pass, batch)];
      receipt.is_first = batch.fetch.begin == of_worker.front().begin;
      describe(of_worker, receipt);
      result.push_back(receipt);
    }
    ready = was_pinned(batch) ? batch.pinned.end : received(batch);
  }
  return result;
}

HandOver measure_hand_over(const std::vector<const LoaderPass*>& passes, int workers) {
  if (workers <= 0) return {.take_ns = kAssumedNs};
  Mean dispatch, turnaround, finish;
  Cost waited;
  std::vector<Receipt> early;
  for (const LoaderPass* pass : passes) {
    measure_worker(*pass, dispatch, turnaround);
    for (const Receipt& receipt : receipts(*pass)) {
      if (receipt.is_first) continue;
      if (receipt.is_late)
        early.push_back(receipt);
      else
        waited.add(receipt);
    }
    for (const Batch& batch : pass->batches)
      if (was_taken(batch) && batch.received)
        finish.add(double(batch.next.end - std::max(batch.received, batch.next.begin)));
  }
  Cost late;  // without those that may still have been on their way
  for (const Receipt& receipt : early)
    if (receipt.early_ns > waited.undisturbed(kAssumedNs)) late.add(receipt);
  HandOver cost;
  cost.measured = true;
  cost.turnaround_ns = std::max(0.0, turnaround.value(0));
  cost.finish_ns = std::max(0.0, finish.value(0));
  bool is_split = late.count() >= kLeastSeen, is_waited = waited.count() >= kLeastSeen;
  double whole = 2 * late.undisturbed(kAssumedNs);
  bool is_locked =
      late.slowdown(whole / 2) > kLockMatters;  // then what took long says nothing of an idle one
  if (!is_locked || waited.is_idle_seen()) whole = waited.undisturbed(whole);
  cost.take_ns = is_split ? late.undisturbed(kAssumedNs) : whole / 2;
  if (is_waited && !is_locked) cost.take_ns = std::min(cost.take_ns, whole);
  cost.send_ns = std::max(0.0, whole - cost.take_ns);
  cost.is_split = is_split;
  // An index goes the way that a batch comes: a feeder thread, a pipe, a sleeper who wakes up.
  cost.dispatch_ns = dispatch.count >= kLeastSeen ? std::max(0.0, dispatch.value(0)) : cost.send_ns;
  double alone = late.done_beside * cost.take_ns + waited.done_beside * whole;
  double beside = late.beside_ns + waited.beside_ns;
  cost.busy_factor = beside > 0 ? std::clamp(beside / std::max(alone, 1.0), 1.0, kMostBusyFactor) : 1;
  return cost;
}

}  // namespace gpuwatch::predict
