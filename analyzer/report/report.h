// SPDX-License-Identifier: Apache-2.0
// The report of a run: for people (text) and for programs (JSON, schema gpuwatch.report.v1). Both are made
// from the same Report, so that they cannot disagree. Text from traces is made printable on its way out.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/advise/finding.h"
#include "analyzer/attribute/attribution.h"
#include "analyzer/model/run.h"

namespace gpuwatch::report {

struct Report {
  const model::Run& run;
  const std::vector<attribute::RankAttribution>& ranks;
  const advise::Diagnosis& diagnosis;
  std::string version;  // of gpuwatch
};

struct TextStyle {
  bool colors = false;
  bool unicode = false;        // arrows and dashes beyond ASCII
  bool is_verbose = false;     // every limit and every thread, not only those that bear on the conclusion
  bool shows_kernels = false;  // kernel classes and the kernels that take most of the time
  size_t width = 80;           // columns; longer lines are wrapped
};

std::string text(const Report& report, TextStyle style);
nlohmann::ordered_json json(const Report& report);

nlohmann::ordered_json prediction_json(const predict::Prediction& prediction);

// From the rules themselves: documentation of one finding ("" for an unknown id), all in a line each, and
// docs/findings.md.
std::string explanation(std::string_view id, TextStyle style);
std::string findings_list(TextStyle style);
std::string findings_markdown();
std::string finding_ids();  // one a line

// "high: model error 0.3%, overhead 0.01%, no records dropped": what the predictions rest on.
std::string confidence(const Report& report);

// The rank whose lines the text shows: the one that computes least.
const attribute::RankAttribution* shown_rank(const Report& report);

}  // namespace gpuwatch::report
