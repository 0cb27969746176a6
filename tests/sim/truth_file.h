// SPDX-License-Identifier: Apache-2.0
// Reads the ground truth of this very process (GWSIM_TRUTH, set by ctest).
#pragma once

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "core/truth_log.h"

struct TruthLine {
  std::string text;

  int64_t number(const std::string& key) const {
    const size_t at = text.find("\"" + key + "\":");
    return at == std::string::npos ? -1 : std::strtoll(text.c_str() + at + key.size() + 3, nullptr, 10);
  }
  std::string word(const std::string& key) const {
    const std::string open = "\"" + key + "\":\"";
    const size_t at = text.find(open);
    if (at == std::string::npos) return "";
    const size_t from = at + open.size();
    return text.substr(from, text.find('"', from) - from);
  }
};

// Lines of this type ("op", "host") whose kind or api is `what`; empty for all.
inline std::vector<TruthLine> truth_lines(const std::string& type, const std::string& what = "") {
  gpuwatch::sim::truth_flush();
  const char* path = std::getenv("GWSIM_TRUTH");
  std::ifstream file(path ? path : "");
  std::vector<TruthLine> lines;
  for (TruthLine line; std::getline(file, line.text);) {
    if (line.word("type") != type) continue;
    if (what.empty() || line.word("kind") == what || line.word("api") == what) lines.push_back(line);
  }
  return lines;
}
