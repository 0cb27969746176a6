// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/host_walk.h"

#include <algorithm>

namespace gpuwatch::attribute {

using model::DeviceOp;
using model::HostCall;
using model::kNone;
using model::Ns;
using trace::OpClass;

namespace {

// From a thread to the one that it waited for, and once more (autograd's thread, training thread, loader).
constexpr int kMaxHandOvers = 2;

}  // namespace

void HostWalk::explain(const Gap& gap, Tiling& tiling) {
  const DeviceOp* next = gap.next;
  const bool is_launch_known = next && next->launch_thread != kNone && next->launch_call != kNone;
  const uint32_t thread = is_launch_known ? next->launch_thread : view_.training_thread();
  if (thread == kNone || !is_recorded(thread)) return tiling.fill(gap.time.end, {Category::Unknown});
  const Ns launched = is_launch_known ? view_.call(thread, next->launch_call).end : gap.time.end;
  if (launched <= gap.time.begin) return fill_device_side(gap, tiling);

  Refill refill = refill_at(thread, gap.time.begin);
  walk(tiling, std::min(launched, gap.time.end), thread, refill, 0);
  const uint16_t stream = next ? next->stream : uint16_t{0xffff};
  const uint32_t launch_call = is_launch_known ? next->launch_call : kNone;
  fill_feeding(tiling, gap.time.end, {Category::DeviceLaunchGap, thread, launch_call, stream}, refill);
}

// Another profiler may have recorded the device alone. Our own recorder sees threads that make no calls.
bool HostWalk::is_recorded(uint32_t thread) const {
  return view_.process().imported_from.empty() || !view_.feeding_threads().empty() ||
         !view_.thread(thread).calls.empty();
}

void HostWalk::explain_thread(Tiling& tiling, Ns end, uint32_t thread) {
  Refill none;
  walk(tiling, end, thread, none, 0);
}

void HostWalk::fill_device_side(const Gap& gap, Tiling& tiling) const {
  const bool is_other_stream = gap.previous && gap.previous->stream != gap.next->stream;
  const bool is_dependency = is_other_stream || gap.time.length() > kLaunchGapNs;
  const uint16_t stream = is_other_stream ? gap.previous->stream : gap.next->stream;
  tiling.fill(gap.time.end, {is_dependency ? Category::DeviceDependency : Category::DeviceLaunchGap,
                             gap.next->launch_thread, gap.next->launch_call, stream});
}

HostWalk::Refill HostWalk::refill_at(uint32_t thread, Ns time) const {
  const std::optional<SyncStall> stall = sync_stall_at(view_, thread, time);
  return {stall, stall ? stall->host_waited_ns : 0};
}

void HostWalk::walk(Tiling& tiling, Ns end, uint32_t thread, Refill& refill, int depth) {
  if (tiling.cursor() >= end) return;
  const Activity& activity = view_.activity(thread);
  for (size_t i = activity.index_at(tiling.cursor()); tiling.cursor() < end; ++i) {
    fill_stretch(tiling, std::min(activity[i].end, end), thread, i, refill, depth);
  }
}

void HostWalk::fill_stretch(Tiling& tiling, Ns end, uint32_t thread, size_t stretch_index, Refill& refill,
                            int depth) {
  const Stretch stretch = view_.activity(thread)[stretch_index];
  Cause cause{Category::Unknown, thread, stretch.call};
  if (stretch.call == kNone) return fill_own_code(tiling, end, thread, stretch_index, refill);
  if (refill.stall && refill.stall->thread == thread && refill.stall->call == stretch.call) {
    cause.category = refill.stall->category;
    return tiling.fill(end, cause);
  }
  const OpClass op_class = view_.call(thread, stretch.call).op_class;
  if (takes_batch(op_class)) return data_wait_.explain(tiling, end, thread, stretch.call);
  if (op_class == OpClass::GarbageCollection && data_wait_.explain_inner(tiling, end, thread, stretch.call))
    return;
  if (view_.is_compiling(thread, stretch.call))
    return tiling.fill(end, {Category::Compile, thread, stretch.call});
  if (waits_for_thread(op_class)) return fill_wait(tiling, end, thread, stretch.call, refill, depth);
  cause.category = category_of_call(view_, thread, stretch.call);
  fill_feeding(tiling, end, cause, refill);
}

// What held up the script's own work is told from it; code between launches is too short for that.
void HostWalk::fill_own_code(Tiling& tiling, Ns end, uint32_t thread, size_t stretch_index, Refill& refill) {
  const Cause cause{own_code(thread).category(stretch_index), thread};
  if (thread != view_.training_thread()) return fill_feeding(tiling, end, cause, refill);
  if (cause.category != Category::HostCompute) {
    step_costs_.fill_delay(tiling, end, cause);
    return fill_feeding(tiling, end, cause, refill);
  }
  while (tiling.cursor() < end) {
    const model::TimeSpan framework = own_code(thread).next_operator(tiling.cursor(), end);
    const Ns until = step_costs_.until(tiling.cursor(), framework.begin);
    step_costs_.fill(tiling, until, cause);
    tiling.fill(until, cause);
    if (until == framework.begin)
      fill_feeding(tiling, framework.end, {Category::LaunchDispatch, thread}, refill);
  }
}

const OwnCode& HostWalk::own_code(uint32_t thread) {
  const StepCosts* costs = thread == view_.training_thread() ? &step_costs_ : nullptr;
  return own_code_.try_emplace(thread, view_, thread, steps_, costs).first->second;
}

void HostWalk::fill_feeding(Tiling& tiling, Ns end, const Cause& cause, Refill& refill) {
  if (refill.left_ns > 0 && is_feeding(cause.category)) {
    const SyncStall& stall = *refill.stall;
    refill.left_ns -= tiling.fill_at_most(end, refill.left_ns, {stall.category, stall.thread, stall.call});
  }
  tiling.fill(end, cause);
}

void HostWalk::fill_wait(Tiling& tiling, Ns end, uint32_t thread, uint32_t call, Refill& refill, int depth) {
  if (peer_wait_.is_for_peers(thread, call)) return tiling.fill(end, {Category::CommHost, thread, call});
  if (depth < kMaxHandOvers) {
    const uint32_t waker = thread_wait_.feeding_waker(thread, call);
    if (waker != kNone) return walk(tiling, end, waker, refill, depth + 1);
    if (const auto from = thread_wait_.handed_over(thread, call)) {
      walk(tiling, std::min(end, from->time), from->thread, refill, depth + 1);
      return fill_feeding(tiling, end, {Category::LaunchDispatch, thread, call}, refill);
    }
  }
  const uint32_t producer = thread_wait_.producing_waker(thread, call);
  Cause cause{Category::Unknown, thread, call};
  switch (thread_wait_.kind(thread, call, producer)) {
    case WaitKind::kData:
      if (producer != kNone) return fill_producing(tiling, end, producer, cause);
      cause.category = Category::InputUnknown;
      break;
    case WaitKind::kInterpreterLock:
      cause.category = Category::Gil;
      break;
    case WaitKind::kAnswer:
      cause.category = Category::HostWait;
      break;
    case WaitKind::kUnknown:
      break;
  }
  tiling.fill(end, cause);
}

// A data wait by what those who make the data were doing. Slices point to the consumer's wait.
void HostWalk::fill_producing(Tiling& tiling, Ns end, uint32_t waker, Cause cause) {
  while (tiling.cursor() < end) {
    const auto [producer, stretch] = thread_wait_.producing_at(waker, tiling.cursor());
    const Ns until = std::min(stretch.end, end);
    const OpClass op_class =
        stretch.call == kNone ? OpClass::Other : view_.call(producer, stretch.call).op_class;
    if (takes_batch(op_class)) {
      data_wait_.explain(tiling, until, producer, stretch.call);
      continue;
    }
    cause.category = reads_input(op_class)        ? Category::InputIo
                     : waits_for_thread(op_class) ? Category::InputNoPrefetch
                     : pauses(op_class)           ? Category::InputWait
                                                  : Category::InputTransform;
    tiling.fill(until, cause);
  }
}

}  // namespace gpuwatch::attribute
