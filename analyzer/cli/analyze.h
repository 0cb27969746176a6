// SPDX-License-Identifier: Apache-2.0
// `gpuwatch analyze`: traces in, one report out. Throws io::UserError for bad input.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/report/report.h"

namespace gpuwatch::cli {

struct StepRange {
  size_t begin = 0, end = 0;  // recorded steps, counted from 0; end is not included
};

struct AnalyzeOptions {
  std::vector<std::string> traces;  // none: the newest run
  bool json = false;
  bool has_step_times = false;  // in that
  std::optional<int> rank;
  std::string steps;  // "A:B", "" for all
  bool is_verbose = false;
  bool shows_kernels = false;
  std::string perfetto;         // file for the timeline; "": none
  std::string html;             // file for the report as a page; "": none
  bool has_full_paths = false;  // in that
};

StepRange parse_steps(const std::string& text);
std::string analyze(const AnalyzeOptions& options, report::TextStyle style);

}  // namespace gpuwatch::cli
