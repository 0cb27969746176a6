// SPDX-License-Identifier: Apache-2.0
// Work of the script that is no part of the model, where no hook tells the two apart: the training thread was
// seen in a library that computes no model, or in the script's own lines, one short operation after another,
// called from the script and not from within a module's forward, a backward or an optimizer, and neither to
// make data nor to wait for them. What one long call into C does, of NumPy as of PyTorch, cannot be told
// apart: it leaves no frame. Pure.
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
bool is_backward(const std::vector<StackFrame>& frames);
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

// The script's line that a sampled stack shows at work itself: between it and the innermost frame there are
// PyTorch's functions and Python's own library at most. Worth something only of a sample that interprets.
std::optional<StackFrame> own_line(const std::vector<StackFrame>& frames);
// The same, of a line in the model, too.
std::optional<StackFrame> line_at_work(const std::vector<StackFrame>& frames);

// The script's function that a sampled stack shows at work as a hook: called by a module next to its forward,
// or by the backward pass, and no part of the model itself. One that was seen to call modules, an optimizer
// or communication is (LoRA by a hook, an optimizer within backward), and so is a replaced forward().
// Or as a callback: called by what holds the loop (Keras, Lightning, Hugging Face's Trainer, fastai, Ignite).
struct Hook {
  StackFrame frame;
  bool is_callback = false;
};
std::optional<Hook> hook_function(const std::vector<StackFrame>& frames);

enum class ScriptPlace { kLibrary, kOwnLines, kHook, kCallback };

struct ScriptWork {
  size_t samples = 0;  // of the training thread
  ScriptPlace place = ScriptPlace::kLibrary;
  SampledShare share;   // of the samples, at the place with most of them
  std::string library;  // that most of it was in, of kLibrary
  // The line that called it most often, or the function of those lines, or the hook; without a file where no
  // stack shows one.
  StackFrame caller;
  SampledShare backward;  // in the backward pass: operations that belong to the loss have their part of it
};

// Within `intervals` (sorted, disjoint). nullopt with fewer than kLeastStackSamples, or without such work.
enum class ScriptPart { kLibraries, kAll };
std::optional<ScriptWork> script_work(const Run& run, const Process& process,
                                      const std::vector<TimeSpan>& intervals,
                                      ScriptPart part = ScriptPart::kLibraries);

}  // namespace gpuwatch::model
