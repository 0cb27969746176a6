// SPDX-License-Identifier: Apache-2.0
// What a trial of `gpuwatch try` showed: its step time, and what its report proposes that the library can
// apply. Reads trace files, also while they are written.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/predict/prediction.h"

namespace gpuwatch::trial {

// A finding's fix as settings that the library applies.
struct Proposal {
  std::string finding;                // its id
  std::vector<std::string> settings;  // "num_workers=4", as the report writes them
  std::string place;             // of the loader that they are for: "/home/me/train.py:88"; empty: everywhere
  std::string summary, snippet;  // the fix in words, and the code to change
  std::string note;              // what else changes: the order of samples, random numbers
  std::optional<predict::Prediction> prediction;
  std::optional<double> ceiling_speedup;
  // By the replay, where the run leaves open too much for a prediction.
  std::optional<double> uncertain_speedup;

  // "num_workers=4@/home/me/train.py:88,...", for GPUWATCH_APPLY.
  std::string request() const;
  std::string words() const;  // "num_workers=4, non_blocking=True (train.py:88)"
  // That is expected of it, however uncertain; of an upper bound nothing is known but that.
  double expected_speedup() const;
};

struct TrialResult {
  size_t steps = 0, recorded_steps = 0;
  double step_ms = 0;        // mean of the recorded steps
  double samples_per_s = 0;  // 0: not known
  bool has_device = false;
  std::string verdict;
  std::vector<Proposal> proposals;  // in the order of the report
  std::vector<std::string> applied, not_applied;
};

// Of the rank whose lines the report shows. Empty where no step was recorded yet.
std::optional<TrialResult> trial_result(const std::string& run_directory);

// The same while the job runs, without what costs most CPU time: proposals that the report does not make
// itself.
std::optional<TrialResult> trial_so_far(const std::string& run_directory);

// All settings of the proposal are among what was applied: "num_workers=4 (was 0), ... at train.py:88".
bool is_applied(const Proposal& proposal, const TrialResult& result);

}  // namespace gpuwatch::trial
