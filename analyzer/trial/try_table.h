// SPDX-License-Identifier: Apache-2.0
// What `gpuwatch try` found, for people and as JSON (schema gpuwatch.try.v1). Pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/report/report.h"
#include "analyzer/trial/own_clock.h"
#include "analyzer/trial/trial_result.h"

namespace gpuwatch::trial {

struct TryRow {
  std::optional<Proposal>
      change;  // what was applied on top of the changes kept before; none: the job as it is
  std::optional<TrialResult> result;  // none: no step was recorded
  std::optional<OwnClock> own_clock;  // what the script itself prints
  std::string problem;                // why there is no result: "ended with exit code 1 after 12 s"
  double compared_ms = 0;             // step time of the job with the changes kept before
  bool is_kept = false;               // it gained
  double neighbor_cores = 0;          // that other programs took meanwhile
  std::string directory, output;      // its traces; what it printed

  double speedup() const;  // measured, against what it was compared with; 0: not measured
  bool is_inside() const;  // of the predicted interval
};

struct TryOutcome {
  std::vector<std::string> command;
  std::vector<TryRow> rows;  // the job as it is first
  std::vector<std::string> notes;
};

std::string try_text(const TryOutcome& outcome, report::TextStyle style);
std::string try_json(const TryOutcome& outcome);

}  // namespace gpuwatch::trial
