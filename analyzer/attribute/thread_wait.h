// SPDX-License-Identifier: Apache-2.0
// A launching thread blocked outside of any known loader: on whom, and is it for data? Recorded waits do not
// name who ended them, so the waker is inferred: of the threads that were not blocked themselves when the
// wait ended, the one whose own last call ended last. Times in ns.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "analyzer/attribute/process_view.h"
#include "analyzer/attribute/thread_lives.h"

namespace gpuwatch::attribute {

// kAnswer: from another process, and no data.
enum class WaitKind { kData, kInterpreterLock, kAnswer, kUnknown };

class ThreadWait {
 public:
  // `steps`: how many steps the process took, to tell waits that belong to a step from singular ones.
  ThreadWait(const ProcessView& view, size_t steps) : view_(view), steps_(steps) {}

  // Another thread that feeds the device and was not blocked when the wait ended (the training thread while
  // autograd's thread waits for work, or the other way round); kNone if there is none.
  uint32_t feeding_waker(uint32_t thread, uint32_t call) const;
  // Where all of these were blocked by then: the one that went to wait itself last, within the wait, and
  // when: less than a millisecond before its end, or, of the backward pass, after launching kernels.
  // It gave its work to the waiting thread, which took until the end of the wait to get a CPU.
  struct HandOver {
    uint32_t thread;
    model::Ns time;
  };
  std::optional<HandOver> handed_over(uint32_t thread, uint32_t call) const;
  // A thread that never feeds the device and was not blocked when the wait ended; kNone if there is none.
  uint32_t producing_waker(uint32_t thread, uint32_t call);

  // Who was making data at `time` while `waker` may have been blocked, and in which stretch: one of a pool at
  // work is the pool at work. `waker` itself when all are blocked.
  struct Producer {
    uint32_t thread;
    Stretch stretch;
  };
  Producer producing_at(uint32_t waker, model::Ns time);

  bool training_takes_batches() const { return view_.takes_batches(); }

  // Python's own way to wait for another thread: its stack says so, or that of most calls of this operation.
  bool is_for_a_result(uint32_t thread, uint32_t call);
  // What is waited for so is data: where it belongs to the steps, not to one in a hundred of them.
  bool is_data_for_steps(uint32_t thread, uint32_t call);

  WaitKind kind(uint32_t thread, uint32_t call, uint32_t producer);

 private:
  bool is_blocked(uint32_t thread, model::Ns time) const;
  bool launches_within(uint32_t thread, model::TimeSpan span) const;
  bool leads_to_input_copy(uint32_t thread, uint32_t call) const;
  bool recurs(uint32_t thread, uint16_t operation);
  const ThreadLives& lives();

  const ProcessView& view_;
  size_t steps_;
  std::optional<ThreadLives> lives_;
  std::map<std::pair<uint32_t, uint16_t>, bool> recurs_;
  struct Waits {
    size_t calls = 0;                    // that waited for a result, or have no stack and may have
    bool is_mostly_for_results = false;  // of those with a stack
  };
  bool is_python_lock(uint16_t operation) const;
  const Waits& waits(uint32_t thread, uint16_t operation);
  std::optional<bool> stack_waits_for_a_result(uint32_t thread, const model::HostCall& call);
  std::map<std::pair<uint32_t, uint16_t>, Waits> waits_;
  std::map<const std::string*, bool> texts_;  // stacks that were looked at
};

}  // namespace gpuwatch::attribute
