// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/hand_over.h"

#include <algorithm>

namespace gpuwatch::predict {
namespace {

using model::Batch;
using model::LoaderPass;
using model::Ns;

// Without workers the trace cannot show what handing a batch over costs. 0.7 ms a batch was the one constant
// that fitted 14 PyTorch loader configurations (workers 1 to 4, prefetch 1 to 4) on a desktop-class machine.
constexpr double kAssumedNs = 0.7e6;

constexpr double kSeenShare = 0.05;  // of the batches; fewer are chance

// The recorder leaves shorter blocks out; a message that is there already is found without one.
constexpr double kLeastBlockNs = 20e3;

bool is_wait(trace::OpClass op_class) {
  return op_class == trace::OpClass::Poll || op_class == trace::OpClass::Wait;
}

// Where libc waits were not recorded: the consumer waited at least until the worker was done.
double until_fetched(const Batch& batch) {
  return was_fetched(batch) ? std::max<double>(0, double(batch.fetch.end - batch.next.begin)) : 0;
}

// For each batch: was its worker at work on another one when the consumer took it?
std::vector<bool> owner_was_busy(const LoaderPass& pass) {
  std::vector<bool> busy(pass.batches.size(), false);
  std::vector<size_t> pending(pass.workers.size() + 1, 0);  // first batch of the worker not known to be over
  for (size_t i = 0; i < pass.batches.size(); ++i) {
    const Batch& batch = pass.batches[i];
    size_t worker = std::min<size_t>(batch.worker, pass.workers.size());
    size_t& other = pending[worker];
    auto is_over = [&](const Batch& candidate) {
      bool is_of_worker = std::min<size_t>(candidate.worker, pass.workers.size()) == worker;
      return !is_of_worker || candidate.fetch.end < batch.next.end;
    };
    while (other < pass.batches.size() && is_over(pass.batches[other])) ++other;
    busy[i] = other < pass.batches.size() && pass.batches[other].fetch.begin < batch.next.end;
  }
  return busy;
}

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

}  // namespace

std::vector<double> blocked_in_next(const model::Process& process, const LoaderPass& pass) {
  std::vector<double> blocked(pass.batches.size(), 0);
  uint32_t consumer =
      pass.loader < process.loaders.size() ? process.loaders[pass.loader].thread : model::kNone;
  if (consumer >= process.threads.size()) consumer = process.training_thread;
  bool has_waits = false;
  if (consumer < process.threads.size()) {
    const std::vector<model::HostCall>& calls = process.threads[consumer].calls;
    size_t i = 0;
    for (const model::HostCall& call : calls) {
      if (!is_wait(call.op_class)) continue;
      while (i < pass.batches.size() && pass.batches[i].next.end < call.end) ++i;
      if (i == pass.batches.size()) break;
      if (call.begin < pass.batches[i].next.begin) continue;
      blocked[i] += double(call.end - call.begin);
      has_waits = true;
    }
  }
  for (size_t i = 0; i < blocked.size() && !has_waits; ++i) blocked[i] = until_fetched(pass.batches[i]);
  return blocked;
}

bool consumer_waited(double blocked_ns) {
  return blocked_ns >= kLeastBlockNs;
}

double receive_ns(const Batch& batch) {
  return std::max<double>(0, double((batch.received ? batch.received : batch.next.end) - batch.fetch.end));
}

HandOver measure_hand_over(const std::vector<const LoaderPass*>& passes,
                           const std::vector<std::vector<double>>& blocked_ns, int workers) {
  if (workers <= 0)
    return {.receive_ns = kAssumedNs, .ready_ns = kAssumedNs, .ready_worst_ns = 2 * kAssumedNs};
  Mean dispatch, turnaround, receive, finish, owner_idle, owner_busy;
  for (size_t p = 0; p < passes.size(); ++p) {
    measure_worker(*passes[p], dispatch, turnaround);
    std::vector<bool> busy = owner_was_busy(*passes[p]);
    for (size_t i = 0; i < passes[p]->batches.size(); ++i) {
      const Batch& batch = passes[p]->batches[i];
      if (!was_taken(batch)) continue;
      bool waited = consumer_waited(blocked_ns[p][i]);
      // What next() takes beside its sleep: reading the batch and asking its worker for the memory.
      (busy[i] ? owner_busy : owner_idle).add(std::max(0.0, double(batch.next.length()) - blocked_ns[p][i]));
      if (!was_fetched(batch) || !waited) continue;
      receive.add(receive_ns(batch));
      finish.add(batch.received ? double(batch.next.end - batch.received) : 0);
    }
  }
  HandOver cost;
  cost.measured = true;
  cost.dispatch_ns = std::max(0.0, dispatch.value(0));
  cost.turnaround_ns = std::max(0.0, turnaround.value(0));
  cost.receive_ns = receive.value(kAssumedNs);
  cost.finish_ns = std::max(0.0, finish.value(0));
  double all = owner_idle.count + owner_busy.count;
  bool is_seen = owner_idle.count > 0 && owner_idle.count >= kSeenShare * all;
  cost.ready_ns = is_seen ? owner_idle.value(0) : std::min(owner_busy.value(kAssumedNs), kAssumedNs);
  cost.owner_busy_ns = std::max(0.0, owner_busy.value(0) - cost.ready_ns);
  cost.ready_worst_ns = is_seen ? cost.ready_ns : std::max(cost.ready_ns, owner_busy.value(0));
  return cost;
}

}  // namespace gpuwatch::predict
