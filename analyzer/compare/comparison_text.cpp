// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "analyzer/advise/place_words.h"
#include "analyzer/compare/comparison.h"
#include "analyzer/io/printable.h"
#include "analyzer/report/layout.h"

namespace gpuwatch::compare {
namespace {

using advise::Finding;
using report::Layout;
using report::three_digits;

std::string times(double speedup) {
  return fmt::format("{:.2f}x", speedup);
}

std::string range_words(const Layout& layout, const predict::Estimate& speedup) {
  return fmt::format("{:.2f}{}{:.2f}x", speedup.low, layout.dash(), speedup.high);
}

std::string measured_words(const Layout& layout, const Comparison& comparison) {
  const report::StepFacts &before = comparison.before, &after = comparison.after;
  const std::string steps = fmt::format("{} {} {} ms a step", three_digits(before.mean_ms), layout.arrow(),
                                        three_digits(after.mean_ms));
  if (!comparison.is_by_samples) return steps;
  return fmt::format("{:.4g} {} {:.4g} samples/s (batch {:.4g} {} {:.4g}, {})", before.samples_per_s,
                     layout.arrow(), after.samples_per_s, before.samples_per_step, layout.arrow(),
                     after.samples_per_step, steps);
}

void write_headline(Layout& layout, const Comparison& comparison) {
  const std::string measured = measured_words(layout, comparison);
  if (!comparison.speedup)
    return layout.headline(fmt::format("CANNOT TELL: {}; a comparison needs ten steps of each run", measured),
                           fmt::color::yellow);
  const std::string gain = fmt::format("{}, {} ({})", measured, times(comparison.speedup->expected),
                                       range_words(layout, *comparison.speedup));
  if (comparison.is_faster()) return layout.headline("FASTER: " + gain, fmt::color::green);
  if (comparison.is_slower()) return layout.headline("SLOWER: " + gain, fmt::color::red);
  layout.headline(fmt::format("NO DIFFERENCE: {}, as two runs of one job may differ", gain),
                  fmt::color::yellow);
}

std::string joined(const std::vector<std::string>& parts) {
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string fix_words(const Finding& finding) {
  const std::string words = io::printable(finding.fix.summary.empty() ? finding.title : finding.fix.summary);
  return finding.fix.location.empty()
             ? words
             : fmt::format("{} ({})", words, advise::short_location(finding.fix.location));
}

void write_findings(Layout& layout, const char* label, const std::vector<const Finding*>& findings) {
  for (const Finding* finding : findings)
    layout.labelled(finding == findings.front() ? label : "",
                    fmt::format("{}: {}", finding->id, fix_words(*finding)));
}

std::string promised_words(const Layout& layout, const Comparison& comparison) {
  const Promise& promise = *comparison.promise;
  if (promise.ceiling_speedup) return "at most " + times(*promise.ceiling_speedup);
  if (!promise.speedup)
    return promise.changes.size() > 1 ? "not for these changes together" : "nothing that can be compared";
  const std::string range = range_words(layout, *promise.speedup);
  if (comparison.is_by_samples) return fmt::format("{} ({})", times(promise.speedup->expected), range);
  const double now = comparison.before.mean_ms;
  return fmt::format("{} ms a step ({}{}{})", three_digits(now / promise.speedup->expected),
                     three_digits(now / promise.speedup->high), layout.dash(),
                     three_digits(now / promise.speedup->low));
}

const char* kept_words(const Comparison& comparison) {
  const std::optional<bool> kept = is_kept(comparison);
  if (!kept) return "";
  if (*kept) return ": as predicted";
  return is_left_open(comparison) ? ": outside of it, by less than these runs can tell"
                                  : ": not as predicted";
}

// "+1.94", "-40.4"; "0.00" where no digit of it shows.
std::string signed_digits(double ms) {
  const std::string digits = three_digits(std::abs(ms));
  if (digits.find_first_not_of("0.") == digits.npos) return digits;
  return (ms < 0 ? "-" : "+") + digits;
}

void write_promise(Layout& layout, const Comparison& comparison) {
  if (!comparison.promise) return;
  std::vector<std::string> changes;
  for (const Finding* finding : comparison.promise->changes)
    changes.push_back('"' + fix_words(*finding) + '"');
  layout.labelled("predicted", fmt::format("{}, for {}{}", promised_words(layout, comparison),
                                           joined(changes), kept_words(comparison)));
}

void write_rows(Layout& layout, const Comparison& comparison) {
  if (comparison.rows.empty()) return;
  layout.blank();
  layout.paragraph(fmt::format("{:<20}{:>19}{:>20}{:>13}", "where a step goes", "before", "after", "change"));
  for (const RowChange& row : comparison.rows) {
    const std::string words =
        fmt::format("  {:<18}{:>10} ms {:>4.0f}%{:>11} ms {:>4.0f}%{:>10} ms", row.label,
                    three_digits(row.before_ms), 100 * row.before_share, three_digits(row.after_ms),
                    100 * row.after_share, signed_digits(row.after_ms - row.before_ms));
    layout.row(words, "", 0);
  }
}

}  // namespace

std::string text(const Comparison& comparison, report::TextStyle style) {
  Layout layout(style);
  write_headline(layout, comparison);
  layout.blank();
  layout.labelled("before", io::printable(comparison.before_verdict, 512));
  layout.labelled("after", io::printable(comparison.after_verdict, 512));
  layout.labelled("changed", joined(comparison.changed));
  layout.labelled("applied", io::printable(joined(comparison.applied), 512));
  write_promise(layout, comparison);
  write_rows(layout, comparison);
  layout.blank();
  write_findings(layout, "gone", comparison.gone);
  write_findings(layout, "stays", comparison.stays);
  write_findings(layout, "new", comparison.came);
  if (!comparison.differs.empty())
    layout.labelled("not equal",
                    joined(comparison.differs) + ": the difference is not only that of the changes made");
  return layout.take();
}

}  // namespace gpuwatch::compare
