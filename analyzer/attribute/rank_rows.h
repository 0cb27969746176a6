// SPDX-License-Identifier: Apache-2.0
// Attribution of one process with its steps already found: a row for each device it used, else one.
#pragma once

#include <vector>

#include "analyzer/attribute/attribution.h"

namespace gpuwatch::attribute {

std::vector<RankAttribution> attribute_process(const model::Run& run, uint32_t process,
                                               const model::StepSeries& series);

}  // namespace gpuwatch::attribute
