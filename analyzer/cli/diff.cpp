// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/diff.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "analyzer/advise/diagnose.h"
#include "analyzer/compare/comparison.h"
#include "analyzer/compare/threshold.h"
#include "analyzer/io/printable.h"
#include "analyzer/io/user_error.h"
#include "analyzer/model/build.h"

namespace gpuwatch::cli {
namespace {

// A report refers to all that it is about.
struct ReadRun {
  explicit ReadRun(const std::string& path) : run(model::build_run(std::vector{path})) {}

  model::Run run;
  std::vector<attribute::RankAttribution> ranks = attribute::attribute(run);
  advise::Diagnosis diagnosis = advise::diagnose(run, ranks);
  report::Report report{run, ranks, diagnosis, GPUWATCH_VERSION};
};

}  // namespace

DiffResult diff(const DiffOptions& options, report::TextStyle style) {
  std::vector<compare::Threshold> thresholds;
  for (const std::string& text : options.fail_on) thresholds.push_back(compare::parse_threshold(text));
  if (options.runs.size() < 2)
    throw io::UserError("diff compares two runs or more; name their directories: gpuwatch diff BEFORE AFTER");
  const ReadRun first(options.runs.front());
  DiffResult result;
  auto all = nlohmann::ordered_json::array();
  for (size_t i = 1; i < options.runs.size(); ++i) {
    const ReadRun other(options.runs[i]);
    const compare::Comparison comparison = compare::compare(first.report, other.report);
    const std::string name = io::printable(options.runs[i]);
    if (i > 1) result.output += '\n';
    if (options.runs.size() > 2) result.output += name + "\n";
    result.output += compare::text(comparison, style);
    all.push_back(compare::json(comparison));
    for (const compare::Threshold& threshold : thresholds)
      if (auto words = compare::exceeded(threshold, comparison))
        result.exceeded.push_back(fmt::format("{}: {}", name, *words));
  }
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  if (options.json) result.output = (all.size() == 1 ? all[0] : all).dump(2, ' ', false, kReplace) + "\n";
  return result;
}

}  // namespace gpuwatch::cli
