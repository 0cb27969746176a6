// SPDX-License-Identifier: Apache-2.0
// How much longer the recorded steps are because they were recorded. Estimated from what calls and CUPTI's
// records were measured to cost; not measured in this run.
#pragma once

#include <optional>

#include "analyzer/attribute/attribution.h"
#include "analyzer/model/run.h"

namespace gpuwatch::attribute {

// Of the steps' time. Nothing for a trace that another profiler recorded, or for a rank without steps.
std::optional<double> recording_cost_share(const model::Process& process, const RankAttribution& rank);

}  // namespace gpuwatch::attribute
