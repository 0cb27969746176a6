// SPDX-License-Identifier: Apache-2.0
// When a process captured work into CUDA graphs: what it launched then did not run, but does with each of the
// graph's launches.
#pragma once

#include <vector>

#include "analyzer/model/run.h"

namespace gpuwatch::model {

// From the beginning of each capture to its end, by time. Threads may capture at once: spans may overlap.
std::vector<Interval> captures(const Run& run, const Process& process);

bool is_captured(const std::vector<Interval>& captures, const HostCall& call);

}  // namespace gpuwatch::model
