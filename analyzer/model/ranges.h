// SPDX-License-Identifier: Apache-2.0
// What the job says of itself: ranges reported through NVTX, read by name. Which of them are steps,
// evaluations and checkpoints, and inside which one a thread's time was. Pure functions; nanoseconds.
//
// A name is taken by its words, in lower case and without numbers: "ProfilerStep#12" is "profiler step".
//   step        "step", "iteration", "iter" or "batch", alone or with words that say nothing more (train,
//   global,
//               epoch, ...); so neither "optimizer.step" nor "aten::batch_norm"
//   evaluation  a word for it: eval, val, validation, test, ...
//   checkpoint  "checkpoint" alone or with "save": "CheckpointFunction" is something else
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/model/run.h"
#include "analyzer/model/steps.h"

namespace gpuwatch::model {

enum class RangeMeaning { kOther, kStep, kEvaluation, kCheckpoint };
RangeMeaning meaning_of(std::string_view name);

// The name without numbers, by which a range recurs: "step 17" and "step 18" are "step #".
std::string recurring_name(std::string_view name);

// In order of their begin, outermost ones only.
std::vector<TimeSpan> ranges_with_meaning(const Run& run, const Thread& thread, RangeMeaning meaning);

// From each range that is a step to the next; so time between two belongs to the first. A step by its name;
// where no name says so, by a payload that counts up by one. Of several within each other the outermost
// counts. Empty for less than three.
std::vector<Step> find_range_steps(const Run& run, const Thread& thread);

// Steps that were found by other means, moved to the begins of the range, whatever its name, that recurs once
// in each: of several the one that covers most. Empty where there is none.
std::vector<Step> align_to_ranges(const Run& run, const Thread& thread, const std::vector<Step>& steps);

// The range, innermost, in which most of these intervals' time was. `intervals` are in order and disjoint.
struct RangeShare {
  std::string name;
  std::string category;  // empty: none
  Ns ns = 0;
};
std::optional<RangeShare> innermost_range(const Run& run, const Thread& thread,
                                          const std::vector<TimeSpan>& intervals);

}  // namespace gpuwatch::model
