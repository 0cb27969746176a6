// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/fetch_split.h"

#include <algorithm>

namespace gpuwatch::attribute {

using model::Batch;
using model::HostCall;
using model::kNone;
using model::Ns;
using model::TimeSpan;
using trace::OpClass;

Ns share_until(Ns amount, Ns when, Ns whole) {
  return whole > 0 ? static_cast<Ns>(static_cast<__int128>(amount) * when / whole) : 0;
}

FetchSplit::FetchSplit(const Batch& batch, const FetchingThread& thread, const CpuContention& contention)
    : batch_(batch), thread_(thread), contention_(contention) {
  if (thread.activity) {
    read_sums();
  } else {
    contention_ns_ = contention.until(batch.fetch.end) - contention.until(batch.fetch.begin);
    blocked_ns_ = batch.fetch_blocked_ns;
    collate_ns_ = batch.collate_ns;
  }
  const Ns length = batch.fetch.length();
  blocked_ns_ = std::clamp<Ns>(blocked_ns_, 0, length);
  collate_ns_ = std::clamp<Ns>(collate_ns_, 0, length - blocked_ns_);
  transform_ns_ = std::max<Ns>(0, length - blocked_ns_ - collate_ns_ - waiting_ns_);
  short_io_ns_ = std::clamp<Ns>(batch.fetch_io_ns - batch.fetch_blocked_ns, 0, transform_ns_);
  const Ns working = transform_ns_ + collate_ns_;
  const OwnTime own = own_time(working, batch.fetch_cpu_ns, batch.fetch_run_delay_ns);
  // Short reads use a CPU, too, and the delay in them is part of them; who waits for a page uses none.
  const Ns delayed = share_until(own.delayed_ns, working - short_io_ns_, working);
  if (batch.major_faults > 0 && thread.calls) {
    const Ns room = std::max<Ns>(0, transform_ns_ - short_io_ns_ - own.delayed_ns);
    short_io_ns_ += std::clamp<Ns>(own.unexplained_ns, 0, room);
  }
  delayed_ns_ = std::min(delayed, working - short_io_ns_);
}

// Of the thread's stretches, so that the parts fit what fill_in_place() finds.
void FetchSplit::read_sums() {
  const std::vector<HostCall>& calls = *thread_.calls;
  const TimeSpan fetch = batch_.fetch;
  auto call = std::lower_bound(calls.begin(), calls.end(), fetch.begin,
                               [](const HostCall& a, Ns time) { return a.begin < time; });
  for (; call != calls.end() && call->begin < fetch.end; ++call) {
    const bool is_nested = !collates_.empty() && call->begin < collates_.back().end;
    if (call->op_class == OpClass::Collate && !is_nested) collates_.push_back({call->begin, call->end});
  }
  const Activity& activity = *thread_.activity;
  for (size_t i = activity.index_at(fetch.begin); i < activity.size(); ++i) {
    const Stretch stretch = activity[i];
    if (stretch.begin >= fetch.end) break;
    const TimeSpan part{std::max(stretch.begin, fetch.begin), std::min(stretch.end, fetch.end)};
    const Ns length = part.length();
    const Category category = category_at(stretch);
    if (category == Category::InputIo) {
      blocked_ns_ += length;
    } else if (is_waiting(stretch)) {
      waiting_ns_ += length;
    } else {
      if (category == Category::InputCollate) collate_ns_ += length;
      contention_ns_ += contention_.until(part.end) - contention_.until(part.begin);
    }
  }
}

void FetchSplit::fill(Tiling& tiling, Ns end, Cause cause) const {
  if (thread_.activity) {
    fill_in_place(tiling, end, cause);
  } else {
    fill_evenly(tiling, end, cause);
  }
}

void FetchSplit::fill_in_place(Tiling& tiling, Ns end, Cause cause) const {
  for (size_t i = thread_.activity->index_at(tiling.cursor()); tiling.cursor() < end; ++i) {
    const Stretch stretch = (*thread_.activity)[i];
    cause.category = category_at(stretch);
    const Ns until = std::min(stretch.end, end);
    if (cause.category == Category::InputIo || is_waiting(stretch)) {
      tiling.fill(until, cause);
    } else {
      fill_work(tiling, until, cause);
    }
  }
}

bool FetchSplit::is_waiting(const Stretch& stretch) const {
  return stretch.call != kNone && is_off_cpu((*thread_.calls)[stretch.call].op_class);
}

// Waiting for threads of its own, the code that called is still at its work; asleep, it computes nothing.
Category FetchSplit::category_at(const Stretch& stretch) const {
  if (stretch.call == kNone) return Category::InputTransform;
  const HostCall& call = (*thread_.calls)[stretch.call];
  if (reads_input(call.op_class)) return Category::InputIo;
  if (is_lock_wait(call, thread_.lock_wait)) return Category::InputGil;
  const auto after = std::partition_point(collates_.begin(), collates_.end(),
                                          [&](const TimeSpan& c) { return c.begin <= call.begin; });
  const bool is_collating = after != collates_.begin() && call.begin < (after - 1)->end;
  if (is_collating) return Category::InputCollate;
  return pauses(call.op_class) ? Category::InputWait : Category::InputTransform;
}

// Of the fetch's run delay, what falls before `time`; differences over its own work add up to all of it. What
// contention does not account for was caused by other programs, and is spread evenly.
Ns FetchSplit::delay_until(Ns time) const {
  const Ns begin = batch_.fetch.begin, contended_ns = std::min(delayed_ns_, contention_ns_);
  const Ns own = thread_.activity ? transform_ns_ + collate_ns_ : batch_.fetch.length();
  return share_until(contended_ns, contention_.until(time) - contention_.until(begin), contention_ns_) +
         share_until(delayed_ns_ - contended_ns, time - begin, own);
}

// Sums within a stretch of the thread's own work, in proportion to its length.
void FetchSplit::fill_work(Tiling& tiling, Ns end, Cause cause) const {
  const Category work = cause.category;
  const Ns from = tiling.cursor() - batch_.fetch.begin, to = end - batch_.fetch.begin;
  const auto fill_share = [&](Ns amount, Ns whole, Category category) {
    cause.category = category;
    tiling.fill_at_most(end, share_until(amount, to, whole) - share_until(amount, from, whole), cause);
  };
  const Ns delay = delay_until(end) - delay_until(tiling.cursor());
  if (work == Category::InputTransform) fill_share(short_io_ns_, transform_ns_, Category::InputIo);
  cause.category = Category::InputCpuStarved;
  tiling.fill_at_most(end, delay, cause);
  cause.category = work;
  tiling.fill(end, cause);
}

void FetchSplit::fill_evenly(Tiling& tiling, Ns end, Cause cause) const {
  const Ns length = batch_.fetch.length();
  const Ns from = tiling.cursor() - batch_.fetch.begin, to = end - batch_.fetch.begin;
  const auto fill_share = [&](Ns amount, Category category) {
    cause.category = category;
    tiling.fill_at_most(end, share_until(amount, to, length) - share_until(amount, from, length), cause);
  };
  const Ns own = transform_ns_ - short_io_ns_ + collate_ns_;
  const Ns delay = delay_until(end) - delay_until(tiling.cursor());
  fill_share(blocked_ns_ + short_io_ns_, Category::InputIo);
  cause.category = Category::InputCpuStarved;
  tiling.fill_at_most(end, delay, cause);
  fill_share(share_until(own - delayed_ns_, collate_ns_, own), Category::InputCollate);
  cause.category = Category::InputTransform;
  tiling.fill(end, cause);
}

}  // namespace gpuwatch::attribute
