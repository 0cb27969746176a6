// SPDX-License-Identifier: Apache-2.0
// Joins device operations to the host calls that launched them, by CUPTI's correlation id.
#pragma once

#include "analyzer/model/run.h"

namespace gpuwatch::model {

struct MatchCount {
  uint64_t kernels = 0;
  uint64_t matched = 0;
};

// Fills DeviceOp::launch_thread and launch_call for every device of the process.
MatchCount match_launches(Process& process);

// Adds the calls that CUPTI gave a correlation id and no record: lost, or not yet delivered when the process
// ended or was killed. Work captured into a graph, a failed call, a copy from host to host or of nothing, and
// a prefetch leave none.
void count_calls_without_record(Run& run, const Process& process);

}  // namespace gpuwatch::model
