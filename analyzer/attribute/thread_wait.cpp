// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/thread_wait.h"

#include <algorithm>
#include <limits>

#include "analyzer/model/backward_thread.h"
#include "analyzer/model/stacks.h"

namespace gpuwatch::attribute {

using model::HostCall;
using model::kNone;
using model::Ns;

bool ThreadWait::is_blocked(uint32_t thread, Ns time) const {
  const uint32_t call = view_.activity(thread).at(time).call;
  return call != kNone && waits_for_thread(view_.call(thread, call).op_class);
}

uint32_t ThreadWait::feeding_waker(uint32_t thread, uint32_t call) const {
  const Ns woken = view_.call(thread, call).end;
  for (const uint32_t other : view_.feeding_threads()) {
    if (other != thread && !is_blocked(other, woken - 1)) return other;
  }
  return kNone;
}

std::optional<ThreadWait::HandOver> ThreadWait::handed_over(uint32_t thread, uint32_t call) const {
  constexpr Ns kLongest = 1'000'000;  // an idle CPU is there in 50 us
  const HostCall& wait = view_.call(thread, call);
  const bool is_of_training = thread == view_.training_thread();
  std::optional<HandOver> last;
  for (const uint32_t other : view_.feeding_threads()) {
    if (other == thread) continue;
    const Ns began = view_.activity(other).at(wait.end - 1).begin;
    if (began <= wait.begin || (last && began <= last->time)) continue;
    // Later, something else ended the wait; but not that for the backward pass, on a busy CPU.
    const bool is_for_backward = is_of_training && model::runs_backward(view_.process(), other) &&
                                 launches_within(other, {wait.begin, began});
    if (began > wait.end - kLongest || is_for_backward) last = {other, began};
  }
  return last;
}

bool ThreadWait::launches_within(uint32_t thread, model::TimeSpan span) const {
  const std::vector<HostCall>& calls = view_.thread(thread).calls;
  const auto first = std::ranges::lower_bound(calls, span.begin, {}, &HostCall::begin);
  const auto until = std::ranges::find_if(first, calls.end(), [&](const HostCall& call) {
    return call.begin >= span.end || call.op_class == trace::OpClass::Launch;
  });
  return until != calls.end() && until->begin < span.end;
}

// Of those that never feed the device, from the first call to the last.
const ThreadLives& ThreadWait::lives() {
  if (lives_) return *lives_;
  std::vector<ThreadLife> lives;
  for (const uint32_t thread : view_.other_threads()) {
    const Activity& activity = view_.activity(thread);
    if (activity.size() > 1)
      lives.push_back({activity[1].begin, activity[activity.size() - 1].begin, thread});
  }
  return lives_.emplace(std::move(lives));
}

uint32_t ThreadWait::producing_waker(uint32_t waiting, uint32_t call) {
  const Ns time = view_.call(waiting, call).end - 1;
  uint32_t best = kNone;
  Ns latest = std::numeric_limits<Ns>::min();
  for (const uint32_t thread : lives().at(time)) {
    const Ns begin = view_.activity(thread).at(time).begin;
    if (begin <= latest || is_blocked(thread, time)) continue;
    best = thread;
    latest = begin;
  }
  // A thread without later calls may have ended long ago: only if there is no other.
  return best == kNone ? lives().ended_last(time) : best;
}

ThreadWait::Producer ThreadWait::producing_at(uint32_t waker, Ns time) {
  const Stretch own = view_.activity(waker).at(time);
  if (!is_blocked(waker, time)) return {waker, own};
  Ns until = own.end;
  for (const uint32_t thread : lives().at(time)) {
    const Stretch stretch = view_.activity(thread).at(time);
    if (!is_blocked(thread, time))
      return {thread, {stretch.begin, std::min(stretch.end, own.end), stretch.call}};
    until = std::min(until, stretch.end);
  }
  return {waker, {own.begin, until, own.call}};
}

std::optional<bool> ThreadWait::stack_waits_for_a_result(uint32_t thread, const HostCall& call) {
  const std::string* text = model::stack_of(view_.run(), view_.thread(thread), call);
  if (!text) return std::nullopt;
  const auto [known, is_new] = texts_.try_emplace(text, false);
  if (is_new) known->second = model::waits_for_a_result(model::frames_of(*text));
  return known->second;
}

// CPython makes its locks of semaphores, and PyTorch's own compute threads use none. Where an interpreter's
// frames cannot be read, this is all that tells.
bool ThreadWait::is_python_lock(uint16_t operation) const {
  return view_.process().facts.contains("python") &&
         view_.run().operations[operation].name.starts_with("sem_");
}

// Stacks are rationed: a call without one is taken for what those with one are.
const ThreadWait::Waits& ThreadWait::waits(uint32_t thread, uint16_t operation) {
  const auto [entry, is_new] = waits_.try_emplace({thread, operation});
  Waits& waits = entry->second;
  if (!is_new) return waits;
  size_t with_stack = 0, for_results = 0, without_stack = 0;
  for (const HostCall& call : view_.thread(thread).calls) {
    if (call.operation != operation || call.failed()) continue;
    const std::optional<bool> is_for_result = stack_waits_for_a_result(thread, call);
    with_stack += is_for_result.has_value();
    for_results += is_for_result.value_or(false);
    without_stack += !is_for_result;
  }
  waits.is_mostly_for_results =
      with_stack > 0 ? 2 * for_results > with_stack : is_python_lock(operation) && recurs(thread, operation);
  waits.calls = for_results + (waits.is_mostly_for_results ? without_stack : 0);
  return waits;
}

// A wait that ended by its time-out got none: nobody made what it waited for.
bool ThreadWait::is_for_a_result(uint32_t thread, uint32_t call) {
  if (view_.call(thread, call).failed() || is_lock_wait(view_.call(thread, call), view_.lock_wait()))
    return false;
  const std::optional<bool> own = stack_waits_for_a_result(thread, view_.call(thread, call));
  return own ? *own : waits(thread, view_.call(thread, call).operation).is_mostly_for_results;
}

// A checkpoint's future or a logger's queue is waited for now and then; data, at least where a chunk of it is
// used up.
bool ThreadWait::is_data_for_steps(uint32_t thread, uint32_t call) {
  constexpr size_t kStepsPerChunk = 50, kFewest = 3;
  if (training_takes_batches() || !is_for_a_result(thread, call)) return false;
  const size_t calls = waits(thread, view_.call(thread, call).operation).calls;
  return calls >= std::max(kFewest, steps_ / kStepsPerChunk);
}

// What the thread gives the device first after the wait is a copy to it.
bool ThreadWait::leads_to_input_copy(uint32_t thread, uint32_t call) const {
  const std::vector<HostCall>& calls = view_.thread(thread).calls;
  const size_t end = std::min<size_t>(calls.size(), size_t{call} + kNeighborReach);
  for (uint32_t next = call + 1; next < end; ++next) {
    if (!enqueues(calls[next].op_class)) continue;
    return calls[next].op_class == trace::OpClass::Copy &&
           view_.copy_facts(thread, next).kind == trace::RecordKind::CopyH2D;
  }
  return false;
}

bool ThreadWait::recurs(uint32_t thread, uint16_t operation) {
  const auto [entry, is_new] = recurs_.try_emplace({thread, operation}, false);
  if (is_new) {
    const std::vector<HostCall>& calls = view_.thread(thread).calls;
    const auto times = std::count_if(calls.begin(), calls.end(),
                                     [&](const HostCall& call) { return call.operation == operation; });
    entry->second = steps_ > 1 && static_cast<size_t>(times) >= steps_ / 2;
  }
  return entry->second;
}

WaitKind ThreadWait::kind(uint32_t thread, uint32_t call, uint32_t producer) {
  const uint16_t operation = view_.call(thread, call).operation;
  const bool for_lock = is_lock_wait(view_.call(thread, call), view_.lock_wait());
  const bool takes_batches = training_takes_batches();
  // Its copies follow next(): a wait between the two is for the lock, which the loader's pin thread has.
  if (for_lock && takes_batches) return WaitKind::kInterpreterLock;
  if (leads_to_input_copy(thread, call)) return WaitKind::kData;
  if (for_lock) return WaitKind::kInterpreterLock;
  const bool is_poll = view_.call(thread, call).op_class == trace::OpClass::Poll;
  if (takes_batches) return is_poll ? WaitKind::kAnswer : WaitKind::kUnknown;
  return producer != kNone || recurs(thread, operation) ? WaitKind::kData : WaitKind::kUnknown;
}

}  // namespace gpuwatch::attribute
