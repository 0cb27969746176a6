// SPDX-License-Identifier: Apache-2.0
// A run as a Perfetto trace: threads with the calls that were hooked, GPU streams, the batches of each
// DataLoader worker, steps, and the cause of each moment of a step. Arrows lead from a launch to what it
// launched and from a batch to the step that took it.
#pragma once

#include <ostream>
#include <vector>

#include "analyzer/attribute/attribution.h"
#include "analyzer/model/run.h"

namespace gpuwatch::timeline {

void write_perfetto(const model::Run& run, const std::vector<attribute::RankAttribution>& ranks,
                    std::ostream& out);

}  // namespace gpuwatch::timeline
