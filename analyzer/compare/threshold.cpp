// SPDX-License-Identifier: Apache-2.0
#include "analyzer/compare/threshold.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "analyzer/io/printable.h"
#include "analyzer/io/user_error.h"

namespace gpuwatch::compare {
namespace {

constexpr std::string_view kStep = "step";

std::string with_dashes(std::string_view words) {
  std::string name(words);
  std::ranges::replace(name, ' ', '-');
  return name;
}

std::vector<std::string> names() {
  std::vector<std::string> all{std::string(kStep)};
  for (const std::string_view words : attribute::kBottleneckWords) all.push_back(with_dashes(words));
  return all;
}

// The label of a job's row may be "GPU compute".
bool is_row(const RowChange& row, const std::string& name) {
  return with_dashes(row.label) == name || (name == "compute" && row.label.ends_with("compute"));
}

}  // namespace

Threshold parse_threshold(const std::string& text) {
  const size_t sign = text.find('=');
  Threshold result{text.substr(0, sign), -1};
  if (sign != std::string::npos) {
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + sign + 1, end, result.most);
    const bool is_whole = rest == end || std::string_view(rest, size_t(end - rest)) == "%";
    if (error != std::errc() || !is_whole || !std::isfinite(result.most)) result.most = -1;
  }
  if (result.most < 0)
    throw io::UserError(
        fmt::format("--fail-on {}: write NAME=AMOUNT, as in step=5 (percent) or data-loading=3 "
                    "(points)",
                    io::printable(text)));
  const std::vector<std::string> all = names();
  if (std::ranges::find(all, result.name) == all.end())
    throw io::UserError(fmt::format("--fail-on {}: there is no such row; names are {}",
                                    io::printable(result.name), fmt::join(all, ", ")));
  return result;
}

std::optional<std::string> exceeded(const Threshold& threshold, const Comparison& comparison) {
  if (!comparison.speedup)
    return fmt::format("{} cannot be compared: one of the runs has fewer than ten steps", threshold.name);
  if (threshold.name == kStep) {
    const double percent = 100 * (1 / comparison.speedup->expected - 1);
    if (percent <= threshold.most) return std::nullopt;
    return fmt::format("a {} took {:.1f}% longer, and {:.3g}% is allowed",
                       comparison.is_by_samples ? "sample" : "step", percent, threshold.most);
  }
  for (const RowChange& row : comparison.rows) {
    const double points = 100 * (row.after_share - row.before_share);
    if (is_row(row, threshold.name) && points > threshold.most)
      return fmt::format("{} grew from {:.1f}% to {:.1f}% of a step, by more than {:.3g} points", row.label,
                         100 * row.before_share, 100 * row.after_share, threshold.most);
  }
  return std::nullopt;
}

}  // namespace gpuwatch::compare
