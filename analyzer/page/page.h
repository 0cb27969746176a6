// SPDX-License-Identifier: Apache-2.0
// The report as one HTML file that needs nothing else, no network either: to look at, and to pass on. Its
// data is the JSON report with what charts need (schema gpuwatch.page.v1); scripts and styles are in web/ and
// come with the program.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <ostream>

#include "analyzer/report/report.h"

namespace gpuwatch::page {

struct PageOptions {
  bool has_full_paths = false;  // and the user's name
  size_t first_step = 0;        // number of the report's first step, where it has not the run's
};

nlohmann::ordered_json document(const report::Report& report, PageOptions options);

void write_page(const report::Report& report, PageOptions options, std::ostream& out);

}  // namespace gpuwatch::page
