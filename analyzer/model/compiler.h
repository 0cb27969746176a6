// SPDX-License-Identifier: Apache-2.0
// Calls that a compiler of the job made (torch.compile, Triton, JAX), by the Python stack recorded with them:
// waits for its processes, files of its cache. Pure functions.
#pragma once

#include <optional>

#include "analyzer/model/run.h"
#include "analyzer/model/stacks.h"

namespace gpuwatch::model {

// False also where the call has no stack: a call of less than 1 ms, or one of a thread that does not train.
bool is_in_compiler(const Run& run, const Thread& thread, const HostCall& call);

// The user's line that had its code compiled.
std::optional<StackFrame> compiled_line_of(const Run& run, const Thread& thread, const HostCall& call);

}  // namespace gpuwatch::model
