// SPDX-License-Identifier: Apache-2.0
#include "analyzer/page/step_series.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "analyzer/model/phases.h"
#include "analyzer/report/facts.h"

namespace gpuwatch::page {
namespace {

using attribute::Bottleneck;
using attribute::RankAttribution;
using attribute::StepAttribution;
using Json = nlohmann::ordered_json;
using model::Ns;
using Parts = std::array<double, attribute::kBottleneckCount>;  // ms of the mean step

constexpr size_t kMostPoints = 1000;
constexpr size_t kMostPhases = 300;

double ms(Ns ns) {
  return double(ns) / 1e6;
}
// A thousandth of a microsecond is nothing that a chart shows.
double rounded(double value) {
  return std::round(value * 1e6) / 1e6;
}
double length_of(const StepAttribution& step) {
  return ms(step.step.end - step.step.begin);
}

Parts mean_parts(const std::vector<const StepAttribution*>& steps) {
  Parts parts{};
  for (const StepAttribution* step : steps)
    for (size_t i = 0; i < attribute::kCategoryCount; ++i)
      parts[size_t(attribute::kCategories[i].bottleneck)] += ms(step->times[i]) / double(steps.size());
  return parts;
}

std::vector<const StepAttribution*> pointers(std::span<const StepAttribution> steps) {
  std::vector<const StepAttribution*> result;
  for (const StepAttribution& step : steps) result.push_back(&step);
  return result;
}

double sum(const Parts& parts) {
  double total = 0;
  for (const double part : parts) total += part;
  return total;
}

// "data loading 11.9 ms, host work 0.4 ms": what makes up most of a difference.
std::string difference_words(const Parts& from, const Parts& to) {
  constexpr double kLeast = 0.1;  // of the whole difference
  const double whole = sum(to) - sum(from);
  std::vector<std::pair<double, size_t>> rows;
  for (size_t i = 0; i < from.size(); ++i)
    if ((to[i] - from[i]) / whole >= kLeast) rows.push_back({std::abs(to[i] - from[i]), i});
  std::ranges::sort(rows, std::greater());
  std::string words;
  for (const auto& [difference, bottleneck] : rows)
    words +=
        fmt::format("{}{} {} ms", words.empty() ? "" : ", ",
                    attribute::words(static_cast<Bottleneck>(bottleneck)), report::three_digits(difference));
  return words;
}

Json parts_json(const RankAttribution& rank, size_t each) {
  std::array<std::vector<double>, attribute::kBottleneckCount> columns;
  for (size_t i = 0; i < rank.steps.size(); i += each) {
    const Parts parts =
        mean_parts(pointers(std::span(rank.steps).subspan(i, std::min(each, rank.steps.size() - i))));
    for (size_t part = 0; part < parts.size(); ++part) columns[part].push_back(rounded(parts[part]));
  }
  Json result = Json::object();
  for (size_t part = 0; part < columns.size(); ++part)
    if (std::ranges::any_of(columns[part], [](double value) { return value > 0; }))
      result[std::string(attribute::kBottleneckWords[part])] = columns[part];
  return result;
}

Json phases_json(const model::Process& process, const RankAttribution& rank, Ns origin) {
  Json result = Json::array();
  for (const model::Phase& phase : model::find_phases(process, rank.series)) {
    if (result.size() >= kMostPhases) break;
    result.push_back({{"kind", model::name_of(phase.kind)},
                      {"begin_s", double(phase.time.begin - origin) / 1e9},
                      {"end_s", double(phase.time.end - origin) / 1e9}});
  }
  return result;
}

Json series_of(const model::Run& run, const RankAttribution& rank, Ns origin) {
  const model::Process& process = run.processes.at(rank.process);
  const size_t each = (rank.steps.size() + kMostPoints - 1) / kMostPoints;
  std::vector<double> at, longest, shortest;
  for (size_t i = 0; i < rank.steps.size(); i += each) {
    const auto steps = std::span(rank.steps).subspan(i, std::min(each, rank.steps.size() - i));
    const auto [least, most] = std::ranges::minmax_element(steps, {}, length_of);
    at.push_back(double(steps.front().step.begin - origin) / 1e9);
    shortest.push_back(rounded(length_of(*least)));
    longest.push_back(rounded(length_of(*most)));
  }
  return {{"steps", rank.steps.size()},
          {"steps_a_point", std::max<size_t>(each, 1)},
          {"at_s", std::move(at)},
          {"shortest_ms", std::move(shortest)},
          {"longest_ms", std::move(longest)},
          {"parts_ms", each ? parts_json(rank, each) : Json::object()},
          {"phases", phases_json(process, rank, origin)},
          {"changes", change_words(rank)}};
}

}  // namespace

std::vector<std::string> change_words(const RankAttribution& rank) {
  constexpr size_t kLeastSteps = 20, kSlowPart = 20;  // a part of 20: 5%
  constexpr double kLeastChange = 0.05;               // less is what steps differ by anyway
  if (rank.steps.size() < kLeastSteps) return {};
  std::vector<std::string> words;
  std::vector<const StepAttribution*> by_length = pointers(rank.steps);
  std::ranges::stable_sort(by_length, {}, [](const StepAttribution* step) { return length_of(*step); });
  const auto slow_begin = by_length.end() - long(by_length.size() / kSlowPart);
  const Parts slow = mean_parts({slow_begin, by_length.end()}),
              others = mean_parts({by_length.begin(), slow_begin});
  if (sum(slow) > sum(others) * (1 + kLeastChange))
    words.push_back(fmt::format("The slowest 5% of the steps take {} ms, the others {} ms: more {}.",
                                report::three_digits(sum(slow)), report::three_digits(sum(others)),
                                difference_words(others, slow)));
  const auto all = std::span(rank.steps);
  const Parts first = mean_parts(pointers(all.first(all.size() / 3))),
              last = mean_parts(pointers(all.last(all.size() / 3)));
  if (std::abs(sum(last) / sum(first) - 1) > kLeastChange)
    words.push_back(
        fmt::format("From the first to the last third of the steps, a step went from {} to {} ms: {} {}.",
                    report::three_digits(sum(first)), report::three_digits(sum(last)),
                    sum(last) > sum(first) ? "more" : "less", difference_words(first, last)));
  else
    words.push_back("Over the run, the length of a step did not change.");
  return words;
}

Json step_series(const report::Report& report) {
  Json result = Json::array();
  Ns origin = 0;
  for (const model::Process& process : report.run.processes)
    if (process.start > 0 && (origin == 0 || process.start < origin)) origin = process.start;
  for (const RankAttribution& rank : report.ranks) result.push_back(series_of(report.run, rank, origin));
  return result;
}

}  // namespace gpuwatch::page
