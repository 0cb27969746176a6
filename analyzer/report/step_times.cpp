// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/step_times.h"

#include <nlohmann/json.hpp>

namespace gpuwatch::report {

using attribute::StepAttribution;
using Json = nlohmann::ordered_json;

nlohmann::ordered_json step_times(const model::Process& process, const attribute::RankAttribution& rank,
                                  size_t first_step) {
  Json result;
  result["first_step"] = first_step;
  // Of the process, on the wall clock; what begin_ns counts from.
  result["start_unix_ns"] = process.start_realtime_ns > 0 ? Json(process.start_realtime_ns) : Json(nullptr);
  result["begin_ns"] = Json::array();
  result["length_ns"] = Json::array();
  for (const StepAttribution& each : rank.steps) {
    result["begin_ns"].push_back(each.step.begin - process.start);
    result["length_ns"].push_back(each.step.end - each.step.begin);
  }
  result["attribution_ns"] = Json::object();
  for (size_t i = 0; i < attribute::kCategoryCount; ++i) {
    if (rank.times[i] == 0) continue;
    Json& column = result["attribution_ns"][std::string(attribute::kCategories[i].name)] = Json::array();
    for (const StepAttribution& each : rank.steps) column.push_back(each.times[i]);
  }
  return result;
}

}  // namespace gpuwatch::report
