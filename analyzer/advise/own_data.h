// SPDX-License-Identifier: Apache-2.0
// Data that the training loop of a job without a GPU makes itself, while no loader is seen: in a generator or
// a get_batch() of the script (model/own_input.h). It looks like computing, and to a framework whose steps
// are compiled (JAX) there is nothing else to see. There also data that another thread makes, and the loop
// waits for: no step tells that from computing. Pure functions.
#pragma once

#include <optional>

#include "analyzer/advise/rule.h"
#include "analyzer/model/own_input.h"

namespace gpuwatch::advise {

struct OwnData {
  model::SampledShare share;  // of the time that stands for the run (steady_time.h)
  bool is_awaited = false;    // another thread makes it
  // Of the same time: recorded calls that open, find, read and receive, of the training thread or of the
  // thread that it waits for, and the part of them that is remote.
  double reading = 0, remote = 0;
  const model::Mount* mount = nullptr;  // that took most of it, null if not known
  double files = 0;                     // of these calls, those that opened one
  model::StackFrame function, line;
};

enum class OwnDataCause { kComputes, kReadsRemote, kReadsFiles };
OwnDataCause cause_of(const OwnData& data);

// nullopt with a GPU, with a loader, and where it is less than 5% of the time.
std::optional<OwnData> own_data(const RuleInput& input);

// Where RuleInput::own_data has this cause: evidence, place, bound and verdict. Title and fix are the rule's.
std::optional<Finding> own_data_finding(const Rule& rule, const RuleInput& input, OwnDataCause cause);

// "the training thread spends 97% of the time in batches()", "... waits 84% of the time in main() for another
// thread"
std::string own_data_words(const RuleInput& input);

inline constexpr double kLeastOwnData = 0.05;
inline constexpr Threshold kOwnDataShare{
    "stack samples of the training thread in such code, low end of the 95% interval", kLeastOwnData,
    "of the step", "the lower of XProf's two bands"};

}  // namespace gpuwatch::advise
