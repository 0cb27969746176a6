// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/data_wait.h"

#include <algorithm>
#include <tuple>

#include "analyzer/attribute/head_of_line.h"

namespace gpuwatch::attribute {

using model::Batch;
using model::HostCall;
using model::kNone;
using model::LoaderEpoch;
using model::Ns;
using model::TimeSpan;
using trace::OpClass;

namespace {

bool has_fetch_at(const std::vector<HostCall>& calls, Ns begin) {
  auto call = std::lower_bound(calls.begin(), calls.end(), begin,
                               [](const HostCall& a, Ns time) { return a.begin < time; });
  // Where a damaged clock makes all calls begin at once, not all of them are searched for each batch.
  constexpr size_t kMostAtOnce = 64;
  for (size_t i = 0; i < kMostAtOnce && call != calls.end() && call->begin == begin; ++call, ++i) {
    if (call->op_class == OpClass::Fetch) return true;
  }
  return false;
}

}  // namespace

DataWait::DataWait(const ProcessView& view) : view_(view), contention_(view.process()) {
  const model::Process& process = view.process();
  for (uint32_t i = 0; i < process.epochs.size(); ++i) {
    const LoaderEpoch& epoch = process.epochs[i];
    const uint32_t thread = process.loaders[epoch.loader].thread;
    for (uint32_t j = 0; j < epoch.batches.size(); ++j) {
      const TimeSpan next = epoch.batches[j].next;
      if (next.length() > 0) deliveries_.push_back({next, thread, i, j});
    }
  }
  std::sort(deliveries_.begin(), deliveries_.end(), [](const Delivery& a, const Delivery& b) {
    return std::tie(a.thread, a.next.begin) < std::tie(b.thread, b.next.begin);
  });
  for (const model::Thread& thread : process.threads) {
    for (const HostCall& call : thread.calls) {
      if (call.op_class == OpClass::PinBatch)
        pin_[call.correlation_or_object].push_back({call.begin, call.end});
    }
  }
  for (auto& [loader, intervals] : pin_) {
    std::sort(intervals.begin(), intervals.end(),
              [](const TimeSpan& a, const TimeSpan& b) { return a.begin < b.begin; });
  }
}

const DataWait::Delivery* DataWait::delivery_of(uint32_t thread, TimeSpan call) const {
  const auto after = std::upper_bound(deliveries_.begin(), deliveries_.end(), std::tie(thread, call.begin),
                                      [](const auto& key, const Delivery& delivery) {
                                        return key < std::tie(delivery.thread, delivery.next.begin);
                                      });
  if (after == deliveries_.begin()) return nullptr;
  const Delivery& delivery = *(after - 1);
  return delivery.thread == thread && delivery.next.end > call.begin ? &delivery : nullptr;
}

void DataWait::explain(Tiling& tiling, Ns end, uint32_t thread, uint32_t call_index) {
  const HostCall& call = view_.call(thread, call_index);
  Cause cause{Category::InputUnknown, thread, call_index};
  if (call.op_class == OpClass::LoaderStart) {
    cause.category = Category::InputStartup;
  } else if (call.failed()) {
    cause.category = Category::Phase;  // StopIteration: the epoch is over, workers are shut down
  } else if (const Delivery* delivery = delivery_of(thread, {call.begin, call.end})) {
    const LoaderEpoch& epoch = view_.process().epochs[delivery->epoch];
    const bool has_worker = epoch.batches[delivery->batch].worker < epoch.workers.size();
    if (has_worker) {
      explain_worker(tiling, end, *delivery, cause);
    } else {
      explain_inline(tiling, end, *delivery, cause);
    }
  }
  tiling.fill(end, cause);
}

// What a fetch allocates sets the collector off, and without the fetch it would not run: 14 of 46 ms of a
// step went to it where 2048 samples were made one by one.
bool DataWait::explain_inner(Tiling& tiling, Ns end, uint32_t thread, uint32_t call_index) {
  const HostCall& call = view_.call(thread, call_index);
  const Delivery* delivery = delivery_of(thread, {call.begin, call.end});
  if (!delivery) return false;
  const LoaderEpoch& epoch = view_.process().epochs[delivery->epoch];
  const Batch& batch = epoch.batches[delivery->batch];
  if (batch.worker < epoch.workers.size() || batch.fetch.length() <= 0) return false;
  const Cause cause{Category::InputUnknown, thread, call_index};
  explain_inline(tiling, end, *delivery, cause);
  tiling.fill(end, cause);
  return true;
}

// The owner's states follow each other: not started, without the index, on its way, fetching, handing over,
// taken. A time that was not seen (0) makes its state, and those before it, unknown.
void DataWait::explain_worker(Tiling& tiling, Ns end, const Delivery& delivery, Cause cause) {
  const LoaderEpoch& epoch = view_.process().epochs[delivery.epoch];
  const Batch& batch = epoch.batches[delivery.batch];
  const model::Worker& worker = epoch.workers[batch.worker];
  const uint32_t loader = view_.process().loaders[epoch.loader].id;
  const auto fill_until = [&](Ns time, Category category) {
    cause.category = category;
    tiling.fill(std::min(time, end), cause);
  };
  fill_until(worker.start, Category::InputStartup);
  if (batch.fetch.length() > 0) {
    const Predecessor before = predecessor(epoch, delivery.batch);
    if (!before.exists && worker.start > epoch.start.begin) {
      fill_until(batch.fetch.begin, Category::InputStartup);
    }
    fill_until(batch.sent, Category::InputNoPrefetch);
    const bool ran_dry = batch.sent > before.fetched;
    fill_until(batch.fetch.begin, ran_dry ? Category::InputNoPrefetch : Category::InputTransfer);
    fill_fetch(tiling, std::min(batch.fetch.end, end), delivery, cause);
    cause.category = Category::InputTransfer;
    fill_pinning(tiling, std::min(batch.received ? batch.received : end, end), loader, cause);
  } else {
    fill_until(batch.received, Category::InputUnknown);
  }
  if (batch.received) {
    cause.category = Category::InputWakeup;
    fill_pinning(tiling, end, loader, cause);
  }
}

// Without workers the batch is made inside next(): before it the sampler, after it pinning.
void DataWait::explain_inline(Tiling& tiling, Ns end, const Delivery& delivery, Cause cause) {
  const LoaderEpoch& epoch = view_.process().epochs[delivery.epoch];
  const Batch& batch = epoch.batches[delivery.batch];
  const model::Loader& loader = view_.process().loaders[epoch.loader];
  if (batch.fetch.length() <= 0) return;
  cause.category = Category::InputTransform;
  tiling.fill(std::min(batch.fetch.begin, end), cause);
  fill_fetch(tiling, std::min(batch.fetch.end, end), delivery, cause);
  cause.category = loader.pin_memory == 1 ? Category::InputPin : Category::InputTransfer;
  tiling.fill(end, cause);
}

void DataWait::fill_fetch(Tiling& tiling, Ns end, const Delivery& delivery, Cause cause) {
  if (tiling.cursor() >= end) return;
  const LoaderEpoch& epoch = view_.process().epochs[delivery.epoch];
  const Batch& batch = epoch.batches[delivery.batch];
  if (split_of_ != &batch) {
    const Loading& thread = loading_thread(epoch, batch, delivery.thread);
    split_.emplace(batch, FetchingThread{thread.calls, thread.activity.get(), view_.lock_wait()},
                   contention_);
    split_of_ = &batch;
  }
  const bool in_order = view_.process().loaders[epoch.loader].in_order != 0;
  const Ns alone = in_order ? alone_since(epoch, delivery.batch) : end;
  split_->fill(tiling, std::min(alone, end), cause);
  cause.category = Category::InputHeadOfLine;
  tiling.fill(end, cause);
}

void DataWait::fill_pinning(Tiling& tiling, Ns end, uint32_t loader, Cause cause) const {
  const auto found = pin_.find(loader);
  if (found != pin_.end()) {
    const std::vector<TimeSpan>& pinned = found->second;
    auto next = std::partition_point(pinned.begin(), pinned.end(), [&](const TimeSpan& interval) {
      return interval.end <= tiling.cursor();
    });
    for (; next != pinned.end() && next->begin < end; ++next) {
      tiling.fill(next->begin, cause);
      tiling.fill(std::min(next->end, end), {Category::InputPin, cause.thread, cause.call});
    }
  }
  tiling.fill(end, cause);
}

// The thread that made the batch: in the worker's process, or the consumer itself.
const DataWait::Loading& DataWait::loading_thread(const LoaderEpoch& epoch, const Batch& batch,
                                                  uint32_t consumer) {
  static const Loading kNoTrace;
  const auto& processes = view_.run().processes;
  const bool is_inline = batch.worker >= epoch.workers.size();
  const uint32_t process = is_inline ? kNone : epoch.workers[batch.worker].process;
  if (!is_inline && process >= processes.size()) return kNoTrace;
  const auto& threads = is_inline ? view_.process().threads : processes[process].threads;
  uint32_t index = consumer;
  if (!is_inline) {
    const auto fetching = std::find_if(threads.begin(), threads.end(), [&](const model::Thread& thread) {
      return has_fetch_at(thread.calls, batch.fetch.begin);
    });
    index = static_cast<uint32_t>(fetching - threads.begin());
  }
  if (index >= threads.size()) return kNoTrace;
  Loading& loading = loading_[{process, index}];
  if (!loading.activity) {
    loading.calls = &threads[index].calls;
    loading.activity = std::make_unique<Activity>(threads[index].calls, View::kLoading);
  }
  return loading;
}

}  // namespace gpuwatch::attribute
