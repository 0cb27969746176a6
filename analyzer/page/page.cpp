// SPDX-License-Identifier: Apache-2.0
#include "analyzer/page/page.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "analyzer/model/kernel_class.h"
#include "analyzer/page/loader_views.h"
#include "analyzer/page/rank_labels.h"
#include "analyzer/page/short_paths.h"
#include "analyzer/page/step_series.h"
#include "analyzer/page/step_views.h"
#include "analyzer/report/facts.h"
#include "analyzer/report/step_rows.h"

// The page without its data: web/, put together by web/bundle.py (embedded.S).
extern "C" const char gpuwatch_page_begin[], gpuwatch_page_end[];

namespace gpuwatch::page {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kDataPlace = "@GPUWATCH_DATA@";

Json categories() {
  Json result = Json::object();
  for (const attribute::CategoryInfo& info : attribute::kCategories)
    result[std::string(info.name)] = {{"words", info.words},
                                      {"bottleneck", attribute::words(info.bottleneck)}};
  return result;
}

Json kernel_classes() {
  Json result = Json::object();
  for (const model::KernelClassInfo& info : model::kKernelClasses)
    result[std::string(info.name)] = info.words;
  return result;
}

Json rows(const report::Report& report) {
  Json result = Json::array();
  for (const attribute::RankAttribution& rank : report.ranks) {
    Json of_rank = Json::array();
    for (const report::StepRow& row : report::step_rows(report, rank))
      of_rank.push_back({{"label", row.label}, {"ms", row.ms}, {"share", row.share}, {"causes", row.causes}});
    result.push_back(std::move(of_rank));
  }
  return result;
}

// Which of the report's ranks the findings are about in the first place.
Json shown_index(const report::Report& report) {
  const attribute::RankAttribution* const shown = report::shown_rank(report);
  return shown ? Json(shown - report.ranks.data()) : Json(nullptr);
}

// By finding: up to how much faster, where nothing is predicted.
Json bounds(const report::Report& report) {
  Json result = Json::array();
  for (const advise::Finding& finding : report.diagnosis.findings) {
    const std::optional<double> bound = report::shown_bound(finding);
    result.push_back(bound ? Json(*bound) : Json(nullptr));
  }
  return result;
}

Json model_error(const report::Report& report) {
  const auto& replay = report.diagnosis.replay;
  return replay ? Json(std::abs(replay->error())) : Json(nullptr);
}

// As part of a script element: nothing in it can end that, or begin a comment.
std::string escaped(const Json& document) {
  const std::string text = document.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string result;
  result.reserve(text.size() + text.size() / 64);
  for (const char c : text) {
    if (c == '<' || c == '>' || c == '&')
      result += c == '<' ? "\\u003c" : c == '>' ? "\\u003e" : "\\u0026";
    else
      result += c;
  }
  return result;
}

}  // namespace

Json document(const report::Report& report, PageOptions options) {
  Names names;
  Json result;
  result["schema"] = "gpuwatch.page.v1";
  result["report"] = report::json(report);
  result["has_full_paths"] = options.has_full_paths;
  result["first_step"] = options.first_step;
  result["shown_rank"] = shown_index(report);
  result["labels"] = rank_labels(report);
  result["confidence"] = report::confidence(report);
  result["model_error"] = model_error(report);
  result["bounds"] = bounds(report);
  result["bottlenecks"] = attribute::kBottleneckWords;
  result["categories"] = categories();
  result["kernel_classes"] = kernel_classes();
  result["rows"] = rows(report);
  result["series"] = step_series(report);
  result["loaders"] = loader_views(report, names);
  result["views"] = step_views(report, options.first_step, names);
  result["names"] = names.all();
  if (!options.has_full_paths) {
    result["report"]["job"]["user"] = nullptr;
    shorten_paths(result, known_folders(report.run));
  }
  return result;
}

void write_page(const report::Report& report, PageOptions options, std::ostream& out) {
  const std::string_view page(gpuwatch_page_begin, size_t(gpuwatch_page_end - gpuwatch_page_begin));
  const size_t place = page.find(kDataPlace);
  out << page.substr(0, place) << escaped(document(report, options))
      << page.substr(place + kDataPlace.size());
}

}  // namespace gpuwatch::page
