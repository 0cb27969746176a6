// SPDX-License-Identifier: Apache-2.0
// `gpuwatch diff`: the first run compared with each of the others. Throws io::UserError for what the user can
// mend.
#pragma once

#include <string>
#include <vector>

#include "analyzer/report/report.h"

namespace gpuwatch::cli {

struct DiffOptions {
  std::vector<std::string> runs;  // a run directory or trace file each
  bool json = false;
  std::vector<std::string> fail_on;  // compare::parse_threshold
};

struct DiffResult {
  std::string output;
  std::vector<std::string> exceeded;  // a sentence for each threshold that a run exceeds
};

DiffResult diff(const DiffOptions& options, report::TextStyle style);

}  // namespace gpuwatch::cli
