// SPDX-License-Identifier: Apache-2.0
// The recorded calls that a replay of host and device repeats, and what each of them enqueued. Pure
// functions.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "analyzer/model/run.h"

namespace gpuwatch::predict {

struct CallRef {
  uint32_t thread, call;
  const model::HostCall* host;
};

// next() of a loader; in programs with loader threads of their own, the training thread's wait for them.
bool waits_for_data(trace::OpClass op_class, bool is_training_thread);

// Those of all threads that launch (autograd has its own), in order of time. Linear in the calls.
std::vector<CallRef> timeline_calls(const model::Process& process, model::TimeSpan span);

// Operations by the outermost recorded call that launched them, as indices in order of time.
class OperationsByCall {
 public:
  explicit OperationsByCall(const std::vector<model::DeviceOp>& operations) : operations_(operations) {
    for (uint32_t i = 0; i < operations.size(); ++i)
      if (operations[i].launch_call != model::kNone) order_.push_back(i);
    std::ranges::stable_sort(order_, {}, [&](uint32_t i) { return key(i); });
  }

  auto of(uint32_t thread, uint32_t call) const {
    return std::ranges::equal_range(order_, std::pair{thread, call}, {}, [&](uint32_t i) { return key(i); });
  }

 private:
  std::pair<uint32_t, uint32_t> key(uint32_t i) const {
    return {operations_[i].launch_thread, operations_[i].launch_call};
  }

  const std::vector<model::DeviceOp>& operations_;
  std::vector<uint32_t> order_;
};

}  // namespace gpuwatch::predict
