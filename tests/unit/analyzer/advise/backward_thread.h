// SPDX-License-Identifier: Apache-2.0
// PyTorch runs the backward pass of a GPU on a thread of its own.
#pragma once

#include <tuple>
#include <utility>
#include <vector>

#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::test {

// Moves those of the training thread's calls to a second thread. `is_backward`: by position in a step.
inline void move_to_backward_thread(Job& job, const std::vector<bool>& is_backward) {
  std::vector<model::Thread>& threads = job.process().threads;
  threads.resize(2);
  threads[1].name = "pt_autograd_0";
  const std::vector<model::HostCall> calls = std::exchange(threads[0].calls, {});
  threads[1].call_details = threads[0].call_details;
  threads[1].event_details = threads[0].event_details;
  std::vector<std::pair<uint32_t, uint32_t>> moved;  // thread and call, of each call
  for (size_t i = 0; i < calls.size(); ++i) {
    const uint32_t thread = is_backward[i % is_backward.size()] ? 1 : 0;
    moved.emplace_back(thread, uint32_t(threads[thread].calls.size()));
    threads[thread].calls.push_back(calls[i]);
  }
  for (model::DeviceOp& op : job.process().devices[0].operations)
    std::tie(op.launch_thread, op.launch_call) = moved[op.launch_call];
}

}  // namespace gpuwatch::test
