// SPDX-License-Identifier: Apache-2.0
// What a rule says of itself, for `gpuwatch explain` and `gpuwatch findings`.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/rule.h"
#include "analyzer/report/layout.h"

namespace gpuwatch::report {
namespace {

// Rules are written in Markdown; a terminal shows its backticks as they are, which reads well enough.
void write_section(Layout& layout, const char* heading, std::string_view words) {
  layout.blank();
  layout.paragraph(heading);
  layout.paragraph(std::string(words), 2);
}

}  // namespace

std::string explanation(std::string_view id, TextStyle style) {
  const auto rules = advise::all_rules();
  const auto found = std::ranges::find(rules, id, [](const advise::Rule* rule) { return rule->id; });
  if (found == rules.end()) return "";
  const advise::Rule& rule = **found;
  Layout layout(style);
  layout.headline(fmt::format("{}: {}", rule.id, rule.wrong), fmt::color::yellow);
  write_section(layout, "how it is recognized", rule.evidence);
  write_section(layout, "what to do", rule.fix);
  if (rule.thresholds.empty()) return layout.take();
  layout.blank();
  layout.paragraph("thresholds");
  for (const advise::Threshold& threshold : rule.thresholds)
    layout.paragraph(fmt::format("{}: {} ({})", threshold.name, threshold_words(threshold), threshold.reason),
                     2);
  return layout.take();
}

std::string findings_list(TextStyle style) {
  constexpr size_t kLeastWords = 30;
  Layout layout(style);
  for (const advise::Rule* rule : advise::all_rules())
    layout.row(fmt::format("{:<31}", rule->id), std::string(rule->wrong), kLeastWords);
  layout.blank();
  layout.paragraph("gpuwatch explain ID says how one is recognized, what to do and which thresholds decide");
  return layout.take();
}

std::string finding_ids() {
  std::string ids;
  for (const advise::Rule* rule : advise::all_rules()) ids += fmt::format("{}\n", rule->id);
  return ids;
}

}  // namespace gpuwatch::report
