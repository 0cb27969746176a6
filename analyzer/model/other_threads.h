// SPDX-License-Identifier: Apache-2.0
// Python code that another thread of the training process executed while the training thread was sampled: it
// had the GIL (hooks/stacks/training_stacks.h). Threads that Python's threading started; one of PyTorch's own
// that runs the script's backward() is training itself. Pure.
#pragma once

#include <optional>
#include <vector>

#include "analyzer/model/run.h"
#include "analyzer/model/sampled_share.h"
#include "analyzer/model/stacks.h"

namespace gpuwatch::model {

struct OtherThreadWork {
  size_t samples = 0;                   // of the training thread
  SampledShare share;                   // of them, while such a thread had the GIL
  StackFrame line;                      // of the user's function that most of it was in, else of a package's
  double of_threads = 0;                // the function's part of `share`
  std::string package;                  // whose function it is; empty: the user's
  std::optional<StackFrame> called_at;  // the user's line that called it most on the training thread
};

// Samples within `intervals` (sorted, disjoint). nullopt with fewer than kLeastStackSamples, or without such
// a thread.
std::optional<OtherThreadWork> other_thread_work(const Run& run, const Process& process,
                                                 const std::vector<TimeSpan>& intervals);

}  // namespace gpuwatch::model
