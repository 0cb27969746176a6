// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/restart.h"

#include <algorithm>
#include <utility>

#include "analyzer/model/quantile.h"
#include "analyzer/predict/hand_over.h"

namespace gpuwatch::predict {
namespace {

using model::Batch;
using model::LoaderEpoch;
using model::Ns;
using model::Process;
using model::TimeSpan;

// A run that shows only one kind of start: four forked workers took 40 to 55 ms from the construction to the
// first batch on a desktop-class machine, living ones 5 ms.
constexpr double kAssumedStartNs = 5e6;
constexpr double kAssumedComeUpNs = 25e6;
constexpr double kAssumedFirstSendNs = 5e6;
constexpr double kAssumedStopNs = 5e6;
constexpr double kAssumedResetNs = 5e6;

uint32_t consumer_of(const Process& process, uint32_t loader) {
  uint32_t consumer = process.loaders[loader].thread;
  return consumer < process.threads.size() ? consumer : process.training_thread;
}

// From the first index that a worker was sent to its first fetch, mean over the epoch's workers.
void measure_come_up(const LoaderEpoch& epoch, Mean& come_up) {
  std::vector<bool> seen(epoch.workers.size(), false);
  for (const Batch& batch : epoch.batches) {
    if (batch.worker >= seen.size() || seen[batch.worker] || !was_fetched(batch) || batch.sent == 0) continue;
    seen[batch.worker] = true;
    come_up.add(std::max(0.0, double(batch.fetch.begin - batch.sent)));
  }
}

// Of the first two fetches of each worker: computing, and all else.
struct FirstFetches {
  std::vector<std::pair<double, double>> cpu_ns, other_ns;
};

void add_first_fetches(const LoaderEpoch& epoch, FirstFetches& fetches) {
  std::vector<std::vector<const Batch*>> of_workers(epoch.workers.size());
  for (const Batch& batch : epoch.batches)
    if (batch.worker < of_workers.size() && was_fetched(batch)) of_workers[batch.worker].push_back(&batch);
  for (const std::vector<const Batch*>& batches : of_workers) {
    if (batches.size() < 2) continue;
    const double cpu[] = {double(batches[0]->fetch_cpu_ns), double(batches[1]->fetch_cpu_ns)};
    fetches.cpu_ns.emplace_back(cpu[0], cpu[1]);
    fetches.other_ns.emplace_back(service_ns(*batches[0]) - cpu[0], service_ns(*batches[1]) - cpu[1]);
  }
}

// What the first one took longer. Batches differ: it is because it was the first where that holds for three
// workers in four.
double longer_ns(const std::vector<std::pair<double, double>>& fetches) {
  constexpr size_t kFewest = 4;
  constexpr double kLeast = 0.1;  // of the second fetch
  std::vector<double> longer, seconds;
  for (const auto& [first, second] : fetches) {
    longer.push_back(first - second);
    seconds.push_back(second);
  }
  if (fetches.size() < kFewest || model::quantile(longer, 4) <= 0) return 0;
  const double typical = model::median(std::move(longer));
  return typical < kLeast * model::median(std::move(seconds)) ? 0 : typical;
}

// Of its batches; 0: none was taken.
Ns last_next_end(const LoaderEpoch& epoch) {
  Ns end = 0;
  for (const Batch& batch : epoch.batches) end = std::max(end, batch.next.end);
  return end;
}

}  // namespace

const TimeSpan* last_next_of(const LoaderEpoch& epoch, Ns next_start,
                             const std::vector<TimeSpan>& last_nexts) {
  const Ns after = last_next_end(epoch);
  auto found = std::lower_bound(last_nexts.begin(), last_nexts.end(), after,
                                [](const TimeSpan& call, Ns time) { return call.begin < time; });
  return found == last_nexts.end() || (next_start > 0 && found->begin > next_start) ? nullptr : &*found;
}

double first_draw_ns(const LoaderEpoch& epoch, double usual_ns) {
  if (!epoch.workers.empty()) return 0;
  const Ns next = first_next(epoch);
  const auto first = std::ranges::find_if(
      epoch.batches, [&](const Batch& batch) { return was_taken(batch) && batch.next.begin == next; });
  if (first == epoch.batches.end() || !was_fetched(*first)) return 0;
  return std::max(0.0, double(first->fetch.begin - first->next.begin) - usual_ns);
}

Ns first_sent(const LoaderEpoch& epoch) {
  Ns first = 0;
  for (const Batch& batch : epoch.batches)
    if (batch.sent > 0 && (first == 0 || batch.sent < first)) first = batch.sent;
  return first;
}

Ns first_next(const LoaderEpoch& epoch) {
  Ns first = 0;
  for (const Batch& batch : epoch.batches)
    if (was_taken(batch) && (first == 0 || batch.next.begin < first)) first = batch.next.begin;
  return first;
}

std::vector<TimeSpan> last_nexts(const Process& process, uint32_t loader) {
  std::vector<TimeSpan> result;
  uint32_t consumer = consumer_of(process, loader);
  if (consumer >= process.threads.size()) return result;
  for (const model::HostCall& call : process.threads[consumer].calls)
    if (call.op_class == trace::OpClass::LoaderNext && call.failed() &&
        call.correlation_or_object == process.loaders[loader].id)
      result.push_back({call.begin, call.end});
  return result;
}

bool keeps_workers(const Process& process, uint32_t loader) {
  const model::Loader& configured = process.loaders[loader];
  if (configured.persistent_workers != 1 || configured.remade > 0) return false;
  const LoaderEpoch* before = nullptr;
  size_t changes = 0, new_workers = 0;
  for (const LoaderEpoch& epoch : process.epochs) {
    if (epoch.loader != loader || epoch.workers.empty() || first_next(epoch) == 0) continue;
    if (const LoaderEpoch* last = std::exchange(before, &epoch)) {
      ++changes;
      new_workers += last->workers.front().pid != epoch.workers.front().pid;
    }
  }
  return 2 * new_workers <= changes;
}

Restart measure_restart(const Process& process, uint32_t loader, const HandOver& hand_over) {
  const bool is_persistent = keeps_workers(process, loader);
  const std::vector<TimeSpan> ends = last_nexts(process, loader);
  Mean first_start, start, come_up, first_send, stop, reset;
  FirstFetches first_fetches;
  std::vector<const LoaderEpoch*> epochs;
  for (const LoaderEpoch& epoch : process.epochs)
    if (epoch.loader == loader) epochs.push_back(&epoch);
  for (size_t i = 0; i < epochs.size(); ++i) {
    const LoaderEpoch& epoch = *epochs[i];
    const Ns sent = first_sent(epoch);
    if (epoch.workers.empty() || sent <= 0) continue;
    const bool is_start_seen = epoch.start.begin > 0 && sent >= epoch.start.begin;
    const double workers = double(epoch.workers.size()), began = double(sent - epoch.start.begin);
    if (is_persistent && i > 0) {
      if (is_start_seen) reset.add(began);
      continue;
    }
    if (is_start_seen) (i == 0 ? first_start : start).add(began / workers);
    measure_come_up(epoch, come_up);
    add_first_fetches(epoch, first_fetches);
    for (const Receipt& receipt : receipts(epoch))
      if (receipt.is_first && !receipt.is_late) first_send.add(double(receipt.end - receipt.begin));
    const TimeSpan* end = last_next_of(epoch, i + 1 < epochs.size() ? epochs[i + 1]->start.begin : 0, ends);
    if (end && !is_persistent) stop.add(double(end->length()) / workers);
  }
  Restart result;
  result.is_cold_seen = come_up.count > 0;
  result.is_warm_seen = reset.count > 0;
  result.start_ns = start.value(first_start.value(kAssumedStartNs));
  result.come_up_ns = come_up.value(kAssumedComeUpNs);
  result.first_send_ns =
      std::max(0.0, first_send.value(kAssumedFirstSendNs) - hand_over.send_ns - hand_over.take_ns);
  result.stop_ns = stop.value(kAssumedStopNs);
  result.reset_ns = reset.value(kAssumedResetNs);
  result.first_fetch_cpu_ns = longer_ns(first_fetches.cpu_ns);
  result.first_fetch_ns = result.first_fetch_cpu_ns + longer_ns(first_fetches.other_ns);
  return result;
}

std::optional<double> own_restart_ns(const attribute::RankAttribution& rank, const LoaderEpoch& epoch,
                                     const LoaderEpoch* before, const std::vector<TimeSpan>& last_nexts) {
  const Ns next = first_next(epoch), sent = first_sent(epoch);
  auto after = std::upper_bound(rank.steps.begin(), rank.steps.end(), next,
                                [](Ns t, const attribute::StepAttribution& s) { return t < s.step.begin; });
  if (after == rank.steps.begin()) return std::nullopt;
  const model::Step& step = std::prev(after)->step;
  if (next >= step.end || epoch.start.begin <= 0 || epoch.start.begin < step.begin) return std::nullopt;
  // Until the workers have their first indices; from then on the lead, which the replay knows.
  // What follows a batch that was taken before a `break` is that batch's until the epoch begins: counted
  // twice, 40 steps of an epoch took 33 ms each instead of 18.
  const bool has_left_batch = before && last_next_end(*before) > step.begin;
  double own = double((sent > 0 ? sent : next) - (has_left_batch ? epoch.start.begin : step.begin));
  if (sent > epoch.start.begin) own -= double(sent - epoch.start.begin);
  for (const TimeSpan& call : last_nexts)
    if (call.begin >= step.begin && call.end <= next) own -= double(call.length());
  return std::max(0.0, own);
}

}  // namespace gpuwatch::predict
