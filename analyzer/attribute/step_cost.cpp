// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/step_cost.h"

#include <algorithm>
#include <limits>

#include "analyzer/attribute/fetch_split.h"

namespace gpuwatch::attribute {

using model::HostCall;
using model::kNone;
using model::Ns;
using model::TimeSpan;
using trace::OpClass;

namespace {

Ns capped(uint64_t ns) {
  return static_cast<Ns>(std::min<uint64_t>(ns, kEndOfTime));
}

}  // namespace

StepCosts::StepCosts(const ProcessView& view, uint32_t thread) {
  if (thread == kNone) return;
  find_intervals(view.thread(thread));
  if (costs_.empty()) find_samples(view.process().machine_samples);
  if (costs_.empty()) return;
  measure_own_code(view.activity(thread));
  delayed_.emplace(view, thread);
  size_t next = 0;
  for (Cost& cost : costs_) {
    settle(cost, account(view.thread(thread), cost.time, next));
    delayed_->add(cost.time, cost.delayed_ns);
  }
}

// Each detail covers the time since the one before; the first of a thread, since its first step.
void StepCosts::find_intervals(const model::Thread& thread) {
  Ns since = std::numeric_limits<Ns>::max();
  for (const HostCall& call : thread.calls) {
    if (call.op_class != OpClass::OptimizerStep) continue;
    if (call.detail >= thread.cpu_details.size()) {
      if (costs_.empty()) since = std::min(since, call.end);
      continue;
    }
    const Ns begin = costs_.empty() ? std::min(since, call.begin) : costs_.back().time.end;
    if (call.end <= begin) continue;  // nested in another one
    const trace::CpuDetail& cpu = thread.cpu_details[call.detail];
    costs_.push_back({{begin, call.end}, &cpu, io_counts_of(thread, call), capped(cpu.run_delay_ns())});
  }
}

// A sample holds the counter of the thread that took it, in most jobs the training thread. Where several
// threads take turns, their differences are negative or longer than the time between.
void StepCosts::find_samples(const std::vector<model::MachineSample>& samples) {
  constexpr size_t kMostOdd = 5;  // one of so many
  size_t odd = 0;
  for (size_t i = 1; i < samples.size(); ++i) {
    const TimeSpan time{samples[i - 1].time, samples[i].time};
    const Ns delay = samples[i].run_delay_ns - samples[i - 1].run_delay_ns;
    if (time.length() <= 0 || delay < 0 || delay > time.length() ||
        (!costs_.empty() && time.begin < costs_.back().time.end)) {
      ++odd;
      continue;
    }
    costs_.push_back({time, nullptr, nullptr, delay});
  }
  if (odd * kMostOdd > samples.size()) costs_.clear();
}

void StepCosts::measure_own_code(const Activity& activity) {
  for (Cost& cost : costs_) {
    for (size_t i = activity.index_at(cost.time.begin); i < activity.size(); ++i) {
      const Stretch stretch = activity[i];
      if (stretch.begin >= cost.time.end) break;
      if (stretch.call != kNone) continue;
      cost.own_ns += std::min(stretch.end, cost.time.end) - std::max(stretch.begin, cost.time.begin);
    }
  }
}

// `next`: the first call that may lie in `time`; moved on for the interval that follows.
StepCosts::Accounted StepCosts::account(const model::Thread& thread, TimeSpan time, size_t& next) {
  const auto& calls = thread.calls;
  Accounted result;
  Ns io_until = time.begin, fetched_until = time.begin, elsewhere_until = time.begin;
  while (next < calls.size() && calls[next].begin < time.begin) ++next;
  for (; next < calls.size() && calls[next].begin < time.end; ++next) {
    const HostCall& call = calls[next];
    const Ns end = std::min(call.end, time.end);
    if (is_off_cpu(call.op_class) || call.op_class == OpClass::Fetch) {
      result.elsewhere_ns += std::max<Ns>(0, end - std::max(call.begin, elsewhere_until));
      elsewhere_until = std::max(elsewhere_until, end);
    }
    if (call.begin < fetched_until) continue;  // the fetch's own sums
    if (reads_input(call.op_class)) {
      result.io_ns += std::max<Ns>(0, end - std::max(call.begin, io_until));
      io_until = std::max(io_until, end);
    } else if (call.op_class == OpClass::Fetch && call.detail < thread.cpu_details.size()) {
      const trace::CpuDetail& cpu = thread.cpu_details[call.detail];
      const trace::IoCounts* io = io_counts_of(thread, call);
      result.cpu_ns += capped(cpu.cpu_ns());
      result.delayed_ns += capped(cpu.run_delay_ns());
      result.io_ns += io ? Ns{io->io_us()} * 1000 : 0;
      result.major_faults += cpu.major_faults();
      fetched_until = call.end;
    }
  }
  return result;
}

void StepCosts::settle(Cost& cost, const Accounted& accounted) {
  const Ns delay = std::max<Ns>(0, cost.run_delay_ns - accounted.delayed_ns);
  const Ns not_off_cpu = std::max<Ns>(0, cost.time.length() - accounted.elsewhere_ns - delay);
  const Ns cpu = cost.cpu ? std::max<Ns>(0, capped(cost.cpu->cpu_ns()) - accounted.cpu_ns) : not_off_cpu;
  const OwnTime own = own_time(cost.own_ns, cpu, delay);
  cost.delayed_ns = std::clamp<Ns>(own.delayed_ns, 0, cost.own_ns);
  // Short reads lie anywhere: taking a batch from its worker is made of them.
  const Ns io = std::max<Ns>(0, (cost.io ? Ns{cost.io->io_us()} * 1000 : 0) - accounted.io_ns);
  const Ns anywhere = std::max(cost.own_ns, cost.time.length() - accounted.elsewhere_ns);
  cost.short_io_ns = std::clamp<Ns>(share_until(io, cost.own_ns, anywhere), 0, cost.own_ns - cost.delayed_ns);
  if (!cost.cpu || cost.cpu->major_faults() <= accounted.major_faults) return;
  cost.fault_ns = std::clamp<Ns>(own.unexplained_ns, 0, cost.own_ns - cost.delayed_ns - cost.short_io_ns);
}

const StepCosts::Cost* StepCosts::at(Ns time) const {
  const auto cost =
      std::partition_point(costs_.begin(), costs_.end(), [&](const Cost& c) { return c.time.end <= time; });
  return cost == costs_.end() ? nullptr : &*cost;
}

Ns StepCosts::until(Ns time, Ns end) const {
  const Cost* cost = at(time);
  if (!cost) return end;
  return std::min(end, time < cost->time.begin ? cost->time.begin : cost->time.end);
}

void StepCosts::fill_delay(Tiling& tiling, Ns end, Cause cause) const {
  cause.category = Category::Sched;
  tiling.fill_at_most(end, delay_within({tiling.cursor(), end}), cause);
}

void StepCosts::fill(Tiling& tiling, Ns end, Cause cause) const {
  const Cost* cost = at(tiling.cursor());
  if (!cost || tiling.cursor() < cost->time.begin) return;
  const Ns from = tiling.cursor() - cost->time.begin, to = end - cost->time.begin;
  const auto fill_share = [&](Ns amount, Category category) {
    cause.category = category;
    tiling.fill_at_most(end, share_until(amount, to, cost->own_ns) - share_until(amount, from, cost->own_ns),
                        cause);
  };
  fill_delay(tiling, end, cause);
  fill_share(cost->short_io_ns, Category::InputIo);
  fill_share(cost->fault_ns, Category::PageFault);
}

}  // namespace gpuwatch::attribute
