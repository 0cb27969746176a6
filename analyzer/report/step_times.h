// SPDX-License-Identifier: Apache-2.0
// Each recorded step of a rank in columns, for programs: when it began, how long it took, and what it went
// into. Integer nanoseconds; the causes of a step sum to its length. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "analyzer/report/report.h"

namespace gpuwatch::report {

// `first_step` is the number of the first one, as `--steps A:B` counts them.
nlohmann::ordered_json step_times(const model::Process& process, const attribute::RankAttribution& rank,
                                  size_t first_step);

}  // namespace gpuwatch::report
