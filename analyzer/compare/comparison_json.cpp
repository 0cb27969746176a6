// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "analyzer/compare/comparison.h"
#include "analyzer/io/printable.h"

namespace gpuwatch::compare {
namespace {

using Json = nlohmann::ordered_json;

Json estimate(const std::optional<predict::Estimate>& value) {
  if (!value) return nullptr;
  return {{"low", value->low}, {"expected", value->expected}, {"high", value->high}};
}

Json steps(const report::StepFacts& facts, const std::string& verdict) {
  const auto known = [](double value) { return value > 0 ? Json(value) : Json(nullptr); };
  return {{"verdict", io::printable(verdict, 512)},
          {"steps", facts.count},
          {"recorded", facts.recorded},
          {"step_ms", known(facts.mean_ms)},
          {"samples_per_step", known(facts.samples_per_step)},
          {"samples_per_s", known(facts.samples_per_s)}};
}

Json findings(const std::vector<const advise::Finding*>& found) {
  Json result = Json::array();
  for (const advise::Finding* finding : found)
    result.push_back({{"id", finding->id},
                      {"fix", io::printable(finding->fix.summary)},
                      {"location", io::printable(finding->fix.location)}});
  return result;
}

Json promise(const Comparison& comparison) {
  if (!comparison.promise) return nullptr;
  const std::optional<bool> kept = is_kept(comparison);
  const auto& ceiling = comparison.promise->ceiling_speedup;
  return {{"changes", findings(comparison.promise->changes)},
          {"speedup", estimate(comparison.promise->speedup)},
          {"ceiling_speedup", ceiling ? Json(*ceiling) : Json(nullptr)},
          {"inside", kept ? Json(*kept) : Json(nullptr)}};
}

}  // namespace

Json json(const Comparison& comparison) {
  Json result;
  result["schema"] = "gpuwatch.diff.v1";
  result["before"] = steps(comparison.before, comparison.before_verdict);
  result["after"] = steps(comparison.after, comparison.after_verdict);
  result["compared"] = comparison.is_by_samples ? "samples_per_s" : "step_ms";
  result["speedup"] = estimate(comparison.speedup);
  result["predicted"] = promise(comparison);
  result["changed"] = comparison.changed;
  result["applied"] = Json::array();
  for (const std::string& words : comparison.applied) result["applied"].push_back(io::printable(words));
  result["differs"] = comparison.differs;
  result["rows"] = Json::array();
  for (const RowChange& row : comparison.rows)
    result["rows"].push_back({{"name", row.label},
                              {"before_ms", row.before_ms},
                              {"after_ms", row.after_ms},
                              {"before_share", row.before_share},
                              {"after_share", row.after_share}});
  result["gone"] = findings(comparison.gone);
  result["stays"] = findings(comparison.stays);
  result["new"] = findings(comparison.came);
  return result;
}

}  // namespace gpuwatch::compare
