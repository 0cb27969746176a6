// SPDX-License-Identifier: Apache-2.0
// Work of the script that is no part of the model, where no hook tells the two apart: the training thread was
// seen in a library that computes no model, called from the script's own line and not from within a module's
// forward, a backward or an optimizer, and neither to make data nor to wait for them. What the script's own
// lines compute cannot be told apart: a call into C, of NumPy as of PyTorch, leaves no frame. Pure.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/model/sampled_share.h"
#include "analyzer/model/stacks.h"

namespace gpuwatch::model {

// A sampled stack (innermost first) with a module's forward, an autograd function, an optimizer or tracing in
// it. Transforms are modules, too, but compute no model.
bool runs_in_model(const std::vector<StackFrame>& frames);
// The package or the module of Python's own library that a frame is of; "" for the script.
std::string_view library_of(const StackFrame& frame);
// Of a library that computes models; that holds the training loop.
bool computes_model(const StackFrame& frame);
bool holds_loop(const StackFrame& frame);

// Where a sampled stack (innermost first) shows such work.
struct LibraryCall {
  std::string library;  // "sklearn"
  StackFrame caller;    // the script's line; without a file where the recorded stack does not reach it
};
// Libraries that hold the loop although no list names them: a function of theirs was seen to call the model
// (a fit() of a library of models). What their own lines compute cannot be told from it, what they call can.
using LoopLibraries = std::set<std::string, std::less<>>;
void note_loops(const std::vector<StackFrame>& frames, LoopLibraries& loops);
std::optional<LibraryCall> library_call(const std::vector<StackFrame>& frames,
                                        const LoopLibraries& loops = {});

struct ScriptWork {
  size_t samples = 0;   // of the training thread
  SampledShare share;   // of them, in such work
  std::string library;  // that most of it was in
  StackFrame caller;    // the line that called it most often; without a file where no stack shows one
};

// Within `intervals` (sorted, disjoint). nullopt with fewer than kLeastStackSamples, or without such work.
std::optional<ScriptWork> script_work(const Run& run, const Process& process,
                                      const std::vector<TimeSpan>& intervals);

}  // namespace gpuwatch::model
