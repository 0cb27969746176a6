// SPDX-License-Identifier: Apache-2.0
// Calls that allocate and free GPU memory, without those for pinned host memory, and allocations that failed
// and were tried again. Pure functions.
#pragma once

#include <vector>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

bool allocates_device_memory(const RuleInput& input, const model::HostCall& call);
bool frees_device_memory(const RuleInput& input, const model::HostCall& call);

// An allocation failed for want of memory, the framework returned what it had cached to the driver, and an
// allocation succeeded: from the begin of the first to the end of the last.
struct AllocationRetry {
  model::TimeSpan time;
  uint32_t thread = 0, call = 0;  // that failed first
};
std::vector<AllocationRetry> allocation_retries(const RuleInput& input);

// Retries recur in the recorded steps: the memory is too small for what the job does.
bool is_out_of_device_memory(const RuleInput& input);

}  // namespace gpuwatch::advise
