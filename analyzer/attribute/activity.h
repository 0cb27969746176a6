// SPDX-License-Identifier: Apache-2.0
// What one thread was in at each moment: its nested calls flattened into stretches, each with the call that
// decides. Linear in the number of calls, looked up in logarithmic time. Times in ns.
#pragma once

#include <span>
#include <vector>

#include "analyzer/model/run.h"

namespace gpuwatch::attribute {

enum class View {
  // The outermost call that has a meaning of its own: a poll inside next() is next(), an ioctl inside a copy
  // is the copy. Garbage collection shows through everything. Steps and ranges are transparent.
  kLaunching,
  // Inside of a batch: Fetch, Collate, and calls within them that keep the thread off its CPU, innermost
  // first; all else is transparent.
  kLoading,
};

// Far enough from every time stamp, and near enough to subtract one from the other.
inline constexpr model::Ns kBeginOfTime = INT64_MIN / 4;
inline constexpr model::Ns kEndOfTime = INT64_MAX / 4;

inline constexpr uint16_t kNoOperation = 0xffff;

// CPython asks for its lock again every 5 ms (sys.setswitchinterval); who waits longer in one call waits for
// something else.
inline constexpr model::Ns kLongestLockWaitNs = 20'000'000;
inline bool is_lock_wait(const model::HostCall& call, uint16_t lock_wait) {
  return call.operation == lock_wait && lock_wait != kNoOperation &&
         call.end - call.begin <= kLongestLockWaitNs;
}

struct Stretch {
  model::Ns begin;
  model::Ns end;
  uint32_t call;  // index into Thread::calls, kNone: the thread's own code
  model::Ns length() const { return end - begin; }
};

class Activity {
 public:
  Activity(std::span<const model::HostCall> calls, View view);

  // Stretches cover all of time: the first begins at kBeginOfTime, the last ends at kEndOfTime.
  size_t size() const { return changes_.size(); }
  Stretch operator[](size_t index) const;
  size_t index_at(model::Ns time) const;
  Stretch at(model::Ns time) const { return (*this)[index_at(time)]; }

 private:
  struct Change {
    model::Ns time;
    uint32_t call;
  };
  void change(model::Ns time, uint32_t call);
  std::vector<Change> changes_;
};

}  // namespace gpuwatch::attribute
