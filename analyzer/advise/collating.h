// SPDX-License-Identifier: Apache-2.0
// What stack samples show of collating: whose collate_fn it is, and what takes its time. Samples are those of
// the loader's workers or, without any, of the training thread while it collates. Pure functions.
#pragma once

#include <optional>

#include "analyzer/advise/rule.h"
#include "analyzer/model/stacks.h"

namespace gpuwatch::advise {

struct Collating {
  std::optional<model::StackFrame> users;   // the script's collate_fn, the line of it that was seen most
  std::optional<model::SeenFunction> slow;  // at least half of the time, in collate_fn or called by it
  bool is_default = false;                  // PyTorch's own, with nothing of the script in it
};

// Of the time to make a batch; 0 where that was not seen.
double collating_share(const RuleInput& input);

// The same where it is most of it, else 0. Then cheaper samples are not what to begin with.
double collating_mostly(const RuleInput& input);

// `share`: of the time to make a batch.
Collating seen_collating(const RuleInput& input, double share);

// The recorded batches with so much `left` of the time that collating took.
predict::LoaderReplayInput with_collating(const predict::LoaderReplayInput& recorded, double left);

// Rows of a table of Hugging Face's, as Python lists: no format was set, and no transform. Not of a table
// that is streamed, whose rows came 12 times as slowly in a format.
bool has_unformatted_rows(const RuleInput& input);

}  // namespace gpuwatch::advise
