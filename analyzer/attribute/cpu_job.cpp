// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/cpu_job.h"

#include <algorithm>

namespace gpuwatch::attribute {

using model::HostCall;
using model::kNone;
using model::Ns;
using trace::OpClass;

CpuJob::CpuJob(const ProcessView& view, size_t steps)
    : view_(view), thread_(view.training_thread()), data_wait_(view), thread_wait_(view, steps) {
  if (thread_ == kNone) return;
  const model::Thread& thread = view.thread(thread_);
  for (const HostCall& call : thread.calls) {
    if (call.op_class != OpClass::OptimizerStep || call.detail >= thread.cpu_details.size()) continue;
    const Ns run_delay_ns = static_cast<Ns>(thread.cpu_details[call.detail].run_delay_ns());
    const model::Interval time{call.begin, call.end};
    const bool overlaps_last = !delayed_.empty() && time.begin < delayed_.back().time.end;
    if (!overlaps_last) delayed_.push_back({time, std::clamp<Ns>(run_delay_ns, 0, time.length())});
  }
}

void CpuJob::explain(Tiling& tiling, Ns end) {
  if (thread_ == kNone) return tiling.fill(end, {Category::Unknown});
  const Activity& activity = view_.activity(thread_);
  for (size_t i = activity.index_at(tiling.cursor()); tiling.cursor() < end; ++i) {
    const Stretch stretch = activity[i];
    fill_stretch(tiling, std::min(stretch.end, end), stretch);
  }
}

void CpuJob::fill_stretch(Tiling& tiling, Ns end, const Stretch& stretch) {
  if (stretch.call == kNone) return fill_computing(tiling, end);
  switch (view_.call(thread_, stretch.call).op_class) {
    case OpClass::LoaderNext:
    case OpClass::LoaderStart:
      return data_wait_.explain(tiling, end, thread_, stretch.call);
    case OpClass::Wait:
    case OpClass::Poll:
      return fill_wait(tiling, end, stretch.call);
    default:
      tiling.fill(end, {category_of_call(view_, thread_, stretch.call), thread_, stretch.call});
  }
}

// Run delay is known for optimizer steps only, as a sum for each: spread evenly over the step.
void CpuJob::fill_computing(Tiling& tiling, Ns end) {
  auto step = std::partition_point(delayed_.begin(), delayed_.end(),
                                   [&](const Delayed& d) { return d.time.end <= tiling.cursor(); });
  for (; step != delayed_.end() && step->time.begin < end; ++step) {
    tiling.fill(step->time.begin, {Category::Compute, thread_});
    const Ns until = std::min(step->time.end, end), length = step->time.length();
    const Ns delayed = share_until(step->run_delay_ns, until - step->time.begin, length) -
                       share_until(step->run_delay_ns, tiling.cursor() - step->time.begin, length);
    tiling.fill_at_most(until, delayed, {Category::Sched, thread_});
    tiling.fill(until, {Category::Compute, thread_});
  }
  tiling.fill(end, {Category::Compute, thread_});
}

// Libraries that compute on several threads wait for them on condition variables: that is computing. It is a
// wait for data where the script has no loader that is seen and another thread was reading or sleeping
// meanwhile.
void CpuJob::fill_wait(Tiling& tiling, Ns end, uint32_t call) {
  const uint32_t producer =
      view_.process().loaders.empty() ? thread_wait_.producing_waker(thread_, call) : kNone;
  if (producer == kNone) return tiling.fill(end, {Category::Compute, thread_, call});
  const Activity& activity = view_.activity(producer);
  for (size_t i = activity.index_at(tiling.cursor()); tiling.cursor() < end; ++i) {
    const Stretch stretch = activity[i];
    const OpClass op_class =
        stretch.call == kNone ? OpClass::Other : view_.call(producer, stretch.call).op_class;
    Cause cause{Category::Compute, thread_, call};
    if (is_input_io(op_class)) cause.category = Category::InputIo;
    if (op_class == OpClass::Sleep) cause.category = Category::InputTransform;
    tiling.fill(std::min(stretch.end, end), cause);
  }
}

}  // namespace gpuwatch::attribute
