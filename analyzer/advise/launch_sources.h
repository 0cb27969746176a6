// SPDX-License-Identifier: Apache-2.0
// Whose launches a step has: those of the optimizer, of the script's own functions (a loop over parameters or
// over samples), and of the model, which is the rest. A compiler of the model leaves the first two as they
// are. What the script's are, stack samples of the training thread tell: launches come in the same order in
// each step, and a launch is of the function that was seen at the nearest place in that order. Pure
// functions.
#pragma once

#include <string>
#include <vector>

#include "analyzer/advise/rule.h"
#include "analyzer/model/stacks.h"

namespace gpuwatch::advise {

struct LaunchSource {
  bool is_optimizer = false;
  model::StackFrame function;     // that launches, PyTorch's or the script's
  model::StackFrame line;         // of the script, that leads there; without a file where none does
  std::vector<uint64_t> members;  // thread and call of its launches, sorted
  double a_step = 0;
  // Its launches follow the model's: it makes the loss, and the backward pass has launches for it, too: about
  // two for each, and at most what two for each of the model's leave. Slices of a tensor have more there than
  // in the forward pass: 120 pairs of members were bounded by 2.1 times with two each, and gained 2.3.
  bool is_of_loss = false;
  std::vector<uint64_t> backward, backward_at_most;
};

// The launches with these threads and calls. Keeps a reference.
predict::EventFilter is_one_of(const std::vector<uint64_t>& members);

// Those with more than a few launches a step. Requires `input.streams`.
std::vector<LaunchSource> launch_sources(const RuleInput& input);

}  // namespace gpuwatch::advise
