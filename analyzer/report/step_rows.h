// SPDX-License-Identifier: Apache-2.0
// Where the mean step of a rank goes, as rows for people: one for each bottleneck, the largest first, each
// with its causes. Pure functions of the report.
#pragma once

#include <string>
#include <vector>

#include "analyzer/report/report.h"

namespace gpuwatch::report {

struct StepRow {
  std::string label;   // "data loading"
  double ms = 0;       // of the mean step
  double share = 0;    // of the step
  std::string causes;  // "transforms 148 ms in augment (data.py:41), reading data 27 ms"
};

std::vector<StepRow> step_rows(const Report& report, const attribute::RankAttribution& rank);

}  // namespace gpuwatch::report
