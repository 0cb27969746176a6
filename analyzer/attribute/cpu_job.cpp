// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/cpu_job.h"

#include <algorithm>

#include "analyzer/model/pipe_reader.h"

namespace gpuwatch::attribute {

using model::HostCall;
using model::kNone;
using model::Ns;
using trace::OpClass;

CpuJob::CpuJob(const ProcessView& view, size_t steps)
    : view_(view),
      thread_(view.training_thread()),
      data_wait_(view),
      thread_wait_(view, steps),
      peer_wait_(view),
      step_costs_(view, thread_) {}

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
  const OpClass op_class = view_.call(thread_, stretch.call).op_class;
  if (takes_batch(op_class)) return data_wait_.explain(tiling, end, thread_, stretch.call);
  if (op_class == OpClass::GarbageCollection && data_wait_.explain_inner(tiling, end, thread_, stretch.call))
    return;
  if (view_.is_compiling(thread_, stretch.call))
    return tiling.fill(end, {Category::Compile, thread_, stretch.call});
  if (waits_for_thread(op_class)) return fill_wait(tiling, end, stretch.call);
  tiling.fill(end, {category_of_call(view_, thread_, stretch.call), thread_, stretch.call});
}

void CpuJob::fill_computing(Tiling& tiling, Ns end) {
  while (tiling.cursor() < end) {
    const Ns until = step_costs_.until(tiling.cursor(), end);
    step_costs_.fill(tiling, until, {Category::Unknown, thread_});
    tiling.fill(until, {Category::Compute, thread_});
  }
}

// Libraries that compute on several threads wait for them on condition variables: that is computing. It is a
// wait for data where the training thread takes no batches of a loader itself and its stack is in Python's
// queue, future or connection, or another thread was reading, sleeping, or in the next() of a loader
// meanwhile.
void CpuJob::fill_wait(Tiling& tiling, Ns end, uint32_t call) {
  if (peer_wait_.is_for_peers(thread_, call)) return tiling.fill(end, {Category::CommHost, thread_, call});
  if (is_lock_wait(view_.call(thread_, call), view_.lock_wait()))
    return tiling.fill(end, {Category::Gil, thread_, call});
  const uint32_t producer =
      thread_wait_.training_takes_batches() ? kNone : thread_wait_.producing_waker(thread_, call);
  const bool is_for_result = thread_wait_.is_for_a_result(thread_, call);
  const bool is_data = thread_wait_.is_data_for_steps(thread_, call);
  // A thread that makes data and never blocks leaves no record; who answers a poll is another process.
  const bool is_poll = view_.call(thread_, call).op_class == OpClass::Poll;
  const Category otherwise = is_data && is_poll         ? Category::InputUnknown
                             : is_data                  ? Category::InputTransform
                             : is_for_result && is_poll ? Category::HostWait
                             : is_for_result            ? Category::HostCompute
                                                        : Category::Compute;
  if (producer == kNone) return tiling.fill(end, {otherwise, thread_, call});
  const Activity& activity = view_.activity(producer);
  for (size_t i = activity.index_at(tiling.cursor()); tiling.cursor() < end; ++i) {
    const Stretch stretch = activity[i];
    const OpClass op_class =
        stretch.call == kNone ? OpClass::Other : view_.call(producer, stretch.call).op_class;
    if (takes_batch(op_class)) {
      data_wait_.explain(tiling, std::min(stretch.end, end), producer, stretch.call);
      continue;
    }
    Cause cause{otherwise, thread_, call};
    if (reads_input(op_class))
      cause.category = model::reads_pipe(view_.thread(producer), view_.call(producer, stretch.call))
                           ? Category::InputUnknown  // another process makes it
                           : Category::InputIo;
    if (pauses(op_class)) cause.category = Category::InputWait;
    tiling.fill(std::min(stretch.end, end), cause);
  }
}

}  // namespace gpuwatch::attribute
