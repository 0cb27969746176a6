// SPDX-License-Identifier: Apache-2.0
// The length of each step over the run and what it went into, at most so many points as a chart can show;
// what else the job did meanwhile; and sentences that say what changed. Nanoseconds in, JSON out; pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "analyzer/report/report.h"

namespace gpuwatch::page {

// For each row of the report.
nlohmann::ordered_json step_series(const report::Report& report);

// "The slowest 5% of the steps take 12.3 ms longer than the others: data loading 11.9 ms"
std::vector<std::string> change_words(const attribute::RankAttribution& rank);

}  // namespace gpuwatch::page
