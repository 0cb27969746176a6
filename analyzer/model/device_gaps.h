// SPDX-License-Identifier: Apache-2.0
// When CUPTI was not ours: from the changes that the recorder noted of its source `cupti`, the spans of a
// process in which its devices were not observed, and in words who had CUPTI.
#pragma once

#include <string>
#include <vector>

#include "analyzer/model/clock.h"
#include "analyzer/model/run.h"

namespace gpuwatch::model {

struct SourceChange {
  uint64_t ticks = 0;
  SourceStatus status;
};

// Fills Process::unobserved and says so in Process::sources. A device that was never observed has no gaps.
// `changes` in the order in which they were recorded.
void find_device_gaps(const std::vector<SourceChange>& changes, const LinearClock& clock, Process& process);

}  // namespace gpuwatch::model
