// SPDX-License-Identifier: Apache-2.0
// What differs between two runs of one job: the time of a step with what chance leaves open, where it goes,
// the settings, the findings, and what was predicted for the changes made. Pure functions of two reports,
// which must outlive the result.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/report/facts.h"
#include "analyzer/report/report.h"

namespace gpuwatch::compare {

// A row of "where a step goes", in both runs.
struct RowChange {
  std::string label;  // "data loading"
  double before_ms = 0, after_ms = 0;
  double before_share = 0, after_share = 0;
};

// What the first run's report promised for the changes that the second run has. Not where `differs` has more.
struct Promise {
  std::vector<const advise::Finding*> changes;
  std::optional<predict::Estimate> speedup{};  // of all of them
  std::optional<double> ceiling_speedup{};     // of one that has no prediction
};

struct Comparison {
  report::StepFacts before, after;
  std::string before_verdict, after_verdict;
  bool is_by_samples = false;  // batches of two sizes: samples a second are compared, not steps
  // Before / after, with a 90% interval: the spread of the steps, and what two runs of one job differ by
  // (predict::kRunToRun). None: a run has too few steps.
  std::optional<predict::Estimate> speedup;
  std::vector<RowChange> rows;       // the largest before first
  std::vector<std::string> changed;  // "num_workers 0 to 2"
  std::vector<std::string> applied;  // to the second run, by gpuwatch
  std::vector<std::string> differs;  // "host a, then b": then not only the job was changed
  std::vector<const advise::Finding*> gone, stays, came;  // complaints
  std::optional<Promise> promise;

  bool is_faster() const { return speedup && speedup->low > 1; }
  bool is_slower() const { return speedup && speedup->high < 1; }
};

Comparison compare(const report::Report& before, const report::Report& after);

// Whether the achieved speedup is what was promised. None: nothing was, or it cannot be told.
std::optional<bool> is_kept(const Comparison& comparison);

// It is not, but the two ranges overlap: the runs do not tell.
bool is_left_open(const Comparison& comparison);

std::string text(const Comparison& comparison, report::TextStyle style);
nlohmann::ordered_json json(const Comparison& comparison);

}  // namespace gpuwatch::compare
