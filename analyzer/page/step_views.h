// SPDX-License-Identifier: Apache-2.0
// Single steps of a run, everything that happened in them: what the attribution says of each moment, host
// threads, GPU streams, DataLoader workers. Chosen are typical, slow and first steps of each rank; the others
// are left out of the file. `first_step` is the number of the report's first step.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "analyzer/page/slices.h"
#include "analyzer/report/report.h"

namespace gpuwatch::page {

nlohmann::ordered_json step_views(const report::Report& report, size_t first_step, Names& names);

}  // namespace gpuwatch::page
