// SPDX-License-Identifier: Apache-2.0
// What the page calls the rows of the report: "rank 1", or "rank 1, GPU 0" where a process uses several GPUs.
#pragma once

#include <string>
#include <vector>

#include "analyzer/report/report.h"

namespace gpuwatch::page {

// In the order of Report::ranks.
std::vector<std::string> rank_labels(const report::Report& report);

}  // namespace gpuwatch::page
