// SPDX-License-Identifier: Apache-2.0
// `gpuwatch analyze`: traces in, one report out. Throws io::UserError for bad input.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace gpuwatch::cli {

struct StepRange {
  size_t begin = 0, end = 0;  // recorded steps, counted from 0; end is not included
};

struct AnalyzeOptions {
  std::vector<std::string> traces;  // none: the newest run
  bool json = false;
  std::optional<int> rank;
  std::string steps;  // "A:B", "" for all
};

StepRange parse_steps(const std::string& text);
std::string analyze(const AnalyzeOptions& options, bool to_terminal, size_t width);

}  // namespace gpuwatch::cli
