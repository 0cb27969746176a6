// SPDX-License-Identifier: Apache-2.0
// When a process captured work into CUDA graphs: what it launched then did not run, but does with each of the
// graph's launches.
#pragma once

#include <vector>

#include "analyzer/model/run.h"

namespace gpuwatch::model {

// While at least one capture was under way, by whichever thread; disjoint, by time. One that was seen to
// begin and not to end is none.
std::vector<TimeSpan> captures(const Run& run, const Process& process);

bool is_captured(const std::vector<TimeSpan>& captures, const HostCall& call);

}  // namespace gpuwatch::model
