// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/analyze.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "analyzer/advise/diagnose.h"
#include "analyzer/cli/private_file.h"
#include "analyzer/io/printable.h"
#include "analyzer/io/user_error.h"
#include "analyzer/model/build.h"
#include "analyzer/page/page.h"
#include "analyzer/report/report.h"
#include "analyzer/report/step_times.h"
#include "analyzer/timeline/perfetto.h"

namespace gpuwatch::cli {
namespace {

using attribute::RankAttribution;

void keep_rank(const model::Run& run, std::vector<RankAttribution>& ranks, int wanted) {
  auto number = [&](const RankAttribution& rank) { return std::max(run.processes.at(rank.process).rank, 0); };
  std::erase_if(ranks, [&](const RankAttribution& rank) { return number(rank) != wanted; });
  if (ranks.empty())
    throw io::UserError(
        fmt::format("--rank {}: this run has no such rank; leave --rank out to see all", wanted));
}

void keep_steps(RankAttribution& rank, StepRange range) {
  size_t end = std::min(range.end, rank.steps.size());
  if (range.begin >= end)
    throw io::UserError(
        fmt::format("--steps begins at step {}, but only {} steps were recorded; choose a smaller number",
                    range.begin, rank.steps.size()));
  rank.steps.assign(rank.steps.begin() + long(range.begin), rank.steps.begin() + long(end));
  rank.times.fill(0);
  rank.wall_ns = 0;
  for (const attribute::StepAttribution& step : rank.steps) {
    for (size_t i = 0; i < attribute::kCategoryCount; ++i) rank.times[i] += step.times[i];
    rank.wall_ns += step.step.end - step.step.begin;
  }
  model::Ns first = rank.steps.front().step.begin, last = rank.steps.back().step.end;
  std::erase_if(rank.slices,
                [&](const attribute::Slice& slice) { return slice.begin < first || slice.end > last; });
}

// What people are told of the files.
std::string write_files(const report::Report& report, const AnalyzeOptions& options, size_t first_step) {
  std::string words;
  if (!options.perfetto.empty()) {
    write_private_file("--perfetto", options.perfetto,
                       [&](std::ostream& out) { timeline::write_perfetto(report.run, report.ranks, out); });
    words += fmt::format("timeline   {}, for https://ui.perfetto.dev\n", io::printable(options.perfetto));
  }
  if (!options.html.empty()) {
    write_private_file("--html", options.html, [&](std::ostream& out) {
      page::write_page(report, {.has_full_paths = options.has_full_paths, .first_step = first_step}, out);
    });
    words += fmt::format("page       {}, for any browser\n", io::printable(options.html));
  }
  return words;
}

std::string json(const report::Report& report, bool has_step_times, size_t first_step) {
  nlohmann::ordered_json result = report::json(report);
  for (size_t i = 0; has_step_times && i < report.ranks.size(); ++i) {
    const RankAttribution& rank = report.ranks[i];
    result["ranks"][i]["step_times"] =
        report::step_times(report.run.processes.at(rank.process), rank, first_step);
  }
  // Invalid UTF-8 cannot occur (all text is made printable); should it, a replacement beats an exception.
  return result.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

StepRange parse_steps(const std::string& text) {
  StepRange range{0, std::numeric_limits<size_t>::max()};
  size_t colon = text.find(':');
  auto number = [&](std::string_view part, size_t& value) {
    auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    return part.empty() || (error == std::errc() && end == part.data() + part.size());
  };
  bool is_good = colon != std::string::npos && text.size() > 1 &&
                 number(std::string_view(text).substr(0, colon), range.begin) &&
                 number(std::string_view(text).substr(colon + 1), range.end) && range.begin < range.end;
  if (!is_good) throw io::UserError(fmt::format("--steps {}: write A:B, as in 100:200", io::printable(text)));
  return range;
}

std::string analyze(const AnalyzeOptions& options, report::TextStyle style) {
  style.is_verbose = options.is_verbose;
  style.shows_kernels = options.shows_kernels;
  std::optional<StepRange> steps;
  if (!options.steps.empty()) steps = parse_steps(options.steps);
  model::Run run = model::build_run(options.traces);
  std::vector<RankAttribution> ranks = attribute::attribute(run);
  if (options.rank) keep_rank(run, ranks, *options.rank);
  if (steps)
    for (RankAttribution& rank : ranks) keep_steps(rank, *steps);
  advise::Diagnosis diagnosis = advise::diagnose(run, ranks);
  report::Report report{run, ranks, diagnosis, GPUWATCH_VERSION};
  const size_t first_step = steps ? steps->begin : 0;
  const std::string written = write_files(report, options, first_step);
  if (options.json) return json(report, options.has_step_times, first_step);
  return report::text(report, style) + written;
}

}  // namespace gpuwatch::cli
