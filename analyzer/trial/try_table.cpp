// SPDX-License-Identifier: Apache-2.0
#include "analyzer/trial/try_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "analyzer/io/printable.h"
#include "analyzer/report/facts.h"
#include "analyzer/report/layout.h"

namespace gpuwatch::trial {
namespace {

using Json = nlohmann::ordered_json;
using report::Layout;
using report::three_digits;

std::string clean(const std::string& text) {
  return io::printable(text, 512);
}

std::string times(double speedup) {
  return speedup < 1.095 ? fmt::format("{:.2f}x", speedup) : fmt::format("{:.1f}x", speedup);
}

// As step times of the job that it was compared with: both columns are then of one basis.
std::string predicted_words(const TryRow& row, const Layout& layout) {
  if (!row.change) return "";
  if (row.change->prediction && row.compared_ms > 0) {
    const predict::Estimate& gain = row.change->prediction->speedup;
    return fmt::format("{} ms ({}{}{})", three_digits(row.compared_ms / gain.expected),
                       three_digits(row.compared_ms / gain.high), layout.dash(),
                       three_digits(row.compared_ms / gain.low));
  }
  if (row.change->ceiling_speedup) return "up to " + times(*row.change->ceiling_speedup);
  if (row.change->uncertain_speedup) return "nothing: the run leaves too much open";
  return "";
}

std::string measured_words(const TryRow& row) {
  if (!row.result) return row.change ? "not measured" : "";
  std::string words = fmt::format("{} ms a step", three_digits(row.result->step_ms));
  if (row.speedup() > 0) words += fmt::format(", {}", times(row.speedup()));
  return words;
}

std::string verdict_words(const TryRow& row) {
  if (!row.change || !row.result) return "";
  if (!row.is_kept) return "no gain, taken back";
  if (!row.change->prediction) return "kept";
  return row.is_inside() ? "kept, as predicted" : "kept, outside the predicted interval";
}

void write_rows(Layout& layout, const std::vector<TryRow>& rows) {
  constexpr size_t kIndent = 3;
  for (size_t i = 0; i < rows.size(); ++i) {
    const TryRow& row = rows[i];
    layout.blank();
    layout.both_ends(fmt::format("{}. {}", i + 1, row.change ? clean(row.change->words()) : "as it is"),
                     measured_words(row), kIndent);
    const std::string predicted = predicted_words(row, layout), verdict = verdict_words(row);
    if (!predicted.empty()) layout.both_ends("   predicted " + predicted, verdict, kIndent);
    if (!row.problem.empty()) layout.paragraph(clean(row.problem), kIndent);
  }
}

std::string total_words(const TryOutcome& outcome, const Layout& layout) {
  const TryRow *first = &outcome.rows.front(), *last = nullptr;
  for (const TryRow& row : outcome.rows)
    if (row.is_kept) last = &row;
  if (outcome.rows.size() == 1) return "no setting that can be applied is expected to gain; none was tried";
  if (!last) return "nothing that was tried makes this job faster";
  return fmt::format("{} {} {} ms a step, {}", three_digits(first->result->step_ms), layout.arrow(),
                     three_digits(last->result->step_ms),
                     times(first->result->step_ms / last->result->step_ms));
}

void write_own_clock(Layout& layout, const TryOutcome& outcome) {
  const TryRow *first = &outcome.rows.front(), *last = nullptr;
  for (const TryRow& row : outcome.rows)
    if (row.is_kept) last = &row;
  if (!last || !first->own_clock || !last->own_clock) return;
  const std::optional<double> speedup = own_speedup(*first->own_clock, *last->own_clock);
  if (!speedup) return;
  layout.labelled(
      "own clock",
      fmt::format("the script prints {} {} {} {}, {}", three_digits(first->own_clock->value), layout.arrow(),
                  three_digits(last->own_clock->value), clean(last->own_clock->unit), times(*speedup)));
}

void write_changes(Layout& layout, const TryOutcome& outcome) {
  for (const TryRow& row : outcome.rows) {
    if (!row.is_kept) continue;
    layout.labelled(
        "change",
        fmt::format("{}{}", clean(row.change->summary),
                    row.change->place.empty() ? "" : fmt::format(" ({})", clean(row.change->place))));
    if (!row.change->snippet.empty()) layout.labelled("", clean(row.change->snippet));
    if (!row.change->note.empty()) layout.labelled("", clean(row.change->note));
  }
}

// The report of the fastest trial says what else could be changed; of a job that failed, what it printed.
void write_next(Layout& layout, const TryOutcome& outcome) {
  if (outcome.rows.empty()) return;
  const TryRow* best = &outcome.rows.front();
  for (const TryRow& row : outcome.rows)
    if (row.is_kept) best = &row;
  if (!best->result) return layout.labelled("next", fmt::format("read {}", clean(best->output)));
  layout.labelled("next",
                  fmt::format("gpuwatch analyze {} ({})", clean(best->directory),
                              best->is_kept ? "what else there is to gain" : "what to change in the code"));
}

Json number_or_null(double value) {
  return value > 0 ? Json(value) : Json(nullptr);
}

Json prediction_json(const TryRow& row) {
  if (!row.change->prediction) return nullptr;
  const predict::Estimate& gain = row.change->prediction->speedup;
  return {{"low_ms", row.compared_ms / gain.high},
          {"expected_ms", row.compared_ms / gain.expected},
          {"high_ms", row.compared_ms / gain.low},
          {"speedup", {{"low", gain.low}, {"expected", gain.expected}, {"high", gain.high}}},
          {"assumptions", row.change->prediction->assumptions}};
}

Json change_json(const TryRow& row) {
  const Proposal& change = *row.change;
  return {{"finding", change.finding},
          {"settings", change.settings},
          {"location", change.place.empty() ? Json(nullptr) : Json(clean(change.place))},
          {"summary", clean(change.summary)},
          {"snippet", clean(change.snippet)},
          {"note", change.note},
          {"prediction", prediction_json(row)},
          {"ceiling", change.ceiling_speedup ? Json(*change.ceiling_speedup) : Json(nullptr)}};
}

Json row_json(const TryRow& row) {
  Json result;
  result["change"] = row.change ? change_json(row) : Json(nullptr);
  result["step_ms"] = row.result ? Json(row.result->step_ms) : Json(nullptr);
  result["samples_per_s"] = row.result ? number_or_null(row.result->samples_per_s) : Json(nullptr);
  result["steps"] = row.result ? row.result->steps : 0;
  result["verdict"] = row.result ? Json(clean(row.result->verdict)) : Json(nullptr);
  result["applied"] = row.result ? row.result->applied : std::vector<std::string>();
  result["not_applied"] = row.result ? row.result->not_applied : std::vector<std::string>();
  result["compared_ms"] = number_or_null(row.compared_ms);
  result["speedup"] = number_or_null(row.speedup());
  result["inside"] =
      row.change && row.change->prediction && row.result ? Json(row.is_inside()) : Json(nullptr);
  result["kept"] = row.is_kept;
  result["neighbor_cores"] = row.neighbor_cores;
  result["own_clock"] = row.own_clock
                            ? Json{{"unit", clean(row.own_clock->unit)}, {"value", row.own_clock->value}}
                            : Json(nullptr);
  result["problem"] = row.problem.empty() ? Json(nullptr) : Json(clean(row.problem));
  result["directory"] = clean(row.directory);
  return result;
}

}  // namespace

double TryRow::speedup() const {
  return result && compared_ms > 0 && result->step_ms > 0 ? compared_ms / result->step_ms : 0;
}

bool TryRow::is_inside() const {
  if (!change || !change->prediction || !result) return false;
  const predict::Estimate& gain = change->prediction->speedup;
  return speedup() >= gain.low && speedup() <= gain.high;
}

std::string try_text(const TryOutcome& outcome, report::TextStyle style) {
  Layout layout(style);
  const bool is_measured = !outcome.rows.empty() && outcome.rows.front().result;
  if (is_measured) layout.paragraph(clean(outcome.rows.front().result->verdict));
  write_rows(layout, outcome.rows);
  layout.blank();
  if (is_measured) {
    layout.labelled("together", total_words(outcome, layout));
    write_own_clock(layout, outcome);
    write_changes(layout, outcome);
  }
  for (const std::string& note : outcome.notes) layout.labelled("note", clean(note));
  write_next(layout, outcome);
  return layout.take();
}

std::string try_json(const TryOutcome& outcome) {
  constexpr auto kReplace = Json::error_handler_t::replace;
  Json result;
  result["schema"] = "gpuwatch.try.v1";
  result["command"] = Json::array();
  for (const std::string& word : outcome.command) result["command"].push_back(clean(word));
  result["trials"] = Json::array();
  for (const TryRow& row : outcome.rows) result["trials"].push_back(row_json(row));
  result["notes"] = outcome.notes;
  return result.dump(2, ' ', false, kReplace) + "\n";
}

}  // namespace gpuwatch::trial
