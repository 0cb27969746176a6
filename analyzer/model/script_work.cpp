// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/script_work.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "analyzer/model/own_input.h"
#include "analyzer/model/packages.h"
#include "analyzer/model/training_stacks.h"

namespace gpuwatch::model {
namespace {

// Compute the model, or call what does from their own lines.
constexpr std::string_view kComputeModels[] = {
    "torch",    "torchvision",  "torchaudio", "functorch",  "triton",          "tensorflow", "keras",
    "tf_keras", "jax",          "jaxlib",     "flax",       "haiku",           "equinox",    "optax",
    "einops",   "opt_einsum",   "xformers",   "flash_attn", "torch_geometric", "dgl",        "kornia",
    "gpytorch", "torchmetrics", "deepspeed",  "apex",       "bitsandbytes",    "peft",       "torch_scatter"};
// Hold the loop that calls the script's lines and the model's.
constexpr std::string_view kHoldLoops[] = {
    "transformers", "lightning", "pytorch_lightning", "accelerate", "fastai", "fastcore",
    "ignite",       "skorch",    "composer",          "catalyst"};
// Of Python's own library: pass a call on.
constexpr std::string_view kPassOn[] = {"contextlib", "functools", "threading", "runpy", "concurrent"};

// Of Python's own library: take the model's objects apart, and are no part of it. An average of the weights
// kept by copy.deepcopy() took a third of each step, most of it within torch/_tensor.py.
constexpr std::string_view kTakeApart[] = {"copy", "pickle"};

template <size_t kCount>
bool is_one_of(const std::string_view (&names)[kCount], std::string_view name) {
  return std::ranges::find(names, name) != std::end(names);
}

std::string_view first_part(std::string_view path) {
  return path.substr(0, path.find_first_of("/."));
}

// What calls the script's lines as a part of the model: a module's forward, an autograd function, tracing.
constexpr std::string_view kCallModels[] = {
    "/torch/nn/",         "/torch/autograd/", "/torch/optim/", "/torch/_tensor.py", "/torch/_dynamo/",
    "/keras/src/layers/", "/flax/",           "/haiku/",       "/equinox/",         "/jax/_src/",
    "/tensorflow/python/"};

bool calls_model(const StackFrame& frame) {
  return std::ranges::any_of(
      kCallModels, [&](std::string_view part) { return frame.file.find(part) != std::string::npos; });
}

using Stacks = std::unordered_map<uint32_t, std::vector<StackFrame>>;  // by text

Stacks stacks_of(const Run& run, const std::vector<const WorkerStack*>& samples) {
  Stacks stacks;
  for (const WorkerStack* sample : samples) {
    const auto text = run.texts.find(sample->text);
    if (text == run.texts.end()) continue;
    const auto [stack, is_new] = stacks.try_emplace(sample->text);
    if (is_new) stack->second = frames_of(text->second);
  }
  return stacks;
}

// Thin functions around one operation.
bool is_operation(const StackFrame& frame) {
  const bool is_method = frame.file.ends_with("/torch/_tensor.py") && !frame.function.ends_with("backward");
  return is_method || frame.file.ends_with("/torch/nn/functional.py");
}

using Frames = std::vector<StackFrame>::const_iterator;

// Lightning calls training_step() from within the optimizer's step: what is outside of it says nothing.
bool is_called_by_model(Frames line, Frames end) {
  return std::any_of(line, std::find_if(line, end, holds_loop), calls_model);
}

// Calls hooks: a module, the backward pass itself, or what stands between it and a module's backward hook.
bool calls_hooks(const StackFrame& frame) {
  if (frame.file.ends_with("/torch/nn/modules/module.py"))
    return frame.function.find("_call_impl") != std::string::npos;
  if (frame.file.ends_with("/torch/autograd/graph.py")) return frame.function == "_engine_run_backward";
  if (frame.file.ends_with("/torch/autograd/__init__.py")) return frame.function == "backward";  // before 2.3
  return frame.file.ends_with("/torch/utils/hooks.py");
}

// Calls the callbacks that a script hands to what holds its loop. A Keras callback that took statistics of
// the weights in each batch was 72% of the samples, less than half of them in NumPy.
bool calls_callbacks(const StackFrame& frame) {
  constexpr std::string_view kFiles[] = {"/keras/src/callbacks/callback_list.py",
                                         "/transformers/trainer_callback.py", "/fastai/callback/core.py"};
  if (std::ranges::any_of(kFiles, [&](std::string_view file) { return frame.file.ends_with(file); }))
    return true;
  if (frame.file.ends_with("/trainer/call.py")) return frame.function == "_call_callback_hooks";  // Lightning
  return frame.file.ends_with("/ignite/engine/engine.py") && frame.function.ends_with("_fire_event");
}

// Modules and layers are asked for their parameters by what watches them.
bool is_part_of_model(const StackFrame& frame) {
  constexpr std::string_view kParts[] = {
      "/torch/nn/",       "/torch/optim/",          "/torch/distributed/",
      "/torch/autograd/", "/tensorflow/trainer.py", "/transformers/trainer.py"};
  if (frame.file.ends_with("/torch/nn/modules/module.py"))
    return frame.function.find("_call_impl") != std::string::npos;
  if (frame.file.find("/keras/src/layers/") != std::string::npos) return frame.function.ends_with("__call__");
  return std::ranges::any_of(
      kParts, [&](std::string_view part) { return frame.file.find(part) != std::string::npos; });
}

bool is_transform(const StackFrame& frame) {
  return frame.file.find("/transforms/") != std::string::npos;
}

}  // namespace

std::string_view library_of(const StackFrame& frame) {
  const std::string_view file = frame.file;
  if (frame.is_of_package) return known_package(file);
  constexpr std::string_view kPackages = "-packages/", kPython = "/lib/python3.";
  if (const size_t at = file.rfind(kPackages); at != std::string_view::npos)
    return first_part(file.substr(at + kPackages.size()));
  const size_t at = file.find(kPython);
  if (at == std::string_view::npos) return "";
  const size_t folder = file.find('/', at + kPython.size());
  return folder == std::string_view::npos ? "" : first_part(file.substr(folder + 1));
}

bool computes_model(const StackFrame& frame) {
  return is_one_of(kComputeModels, library_of(frame));
}

bool holds_loop(const StackFrame& frame) {
  return is_one_of(kHoldLoops, library_of(frame));
}

bool is_backward(const std::vector<StackFrame>& frames) {
  const auto is_autograd = [](const StackFrame& frame) {
    return frame.file.find("/torch/autograd/") != std::string::npos || frame.function.ends_with("backward");
  };
  return !frames.empty() && is_torch_or_interpreter(frames.front()) &&
         std::any_of(frames.begin(), std::ranges::find_if(frames, is_users), is_autograd);
}

bool runs_in_model(const std::vector<StackFrame>& frames) {
  return std::ranges::any_of(frames, calls_model) && std::ranges::none_of(frames, is_transform);
}

void note_loops(const std::vector<StackFrame>& frames, LoopLibraries& loops) {
  const auto outermost = std::find_if(frames.rbegin(), frames.rend(), calls_model);
  for (auto frame = frames.rbegin(); frame != outermost && outermost != frames.rend(); ++frame) {
    const std::string_view library = library_of(*frame);
    const bool is_package = frame->is_of_package || frame->file.find("-packages/") != std::string::npos;
    if (is_package && !computes_model(*frame)) loops.emplace(library);
  }
}

std::optional<LibraryCall> library_call(const std::vector<StackFrame>& frames, const LoopLibraries& loops) {
  const auto caller = std::ranges::find_if(frames, is_users);
  // Deep in a library a recorded stack does not reach the script.
  const bool is_cut = caller == frames.end() && frames.size() >= kRecordedFrames;
  if (caller == frames.end() && !is_cut) return std::nullopt;
  const bool takes_apart = std::any_of(frames.begin(), caller, [](const StackFrame& frame) {
    return is_one_of(kTakeApart, library_of(frame));
  });
  if (!takes_apart && std::any_of(frames.begin(), caller, computes_model)) return std::nullopt;
  if (is_called_by_model(is_cut ? frames.begin() : caller, frames.end())) return std::nullopt;
  if (waits_for_a_result(frames) || data_code(frames)) return std::nullopt;  // waits for data, or makes them
  for (auto frame = caller; frame != frames.begin();) {
    const std::string_view library = library_of(*--frame);
    if (library.empty() || is_one_of(kHoldLoops, library) || is_one_of(kPassOn, library)) continue;
    if (loops.contains(library)) continue;
    return LibraryCall{std::string(library), is_cut ? StackFrame() : *caller};
  }
  return std::nullopt;
}

std::optional<StackFrame> own_line(const std::vector<StackFrame>& frames) {
  const auto line = std::ranges::find_if(frames, is_users);
  return is_called_by_model(line, frames.end()) ? std::nullopt : line_at_work(frames);
}

std::optional<StackFrame> line_at_work(const std::vector<StackFrame>& frames) {
  const auto line = std::ranges::find_if(frames, is_users);
  if (line == frames.end()) return std::nullopt;
  const bool is_alone = std::all_of(frames.begin(), line, [](const StackFrame& frame) {
    return is_torch_or_interpreter(frame) && (!calls_model(frame) || is_operation(frame));
  });
  if (!is_alone || waits_for_a_result(frames) || data_code(frames)) return std::nullopt;
  return *line;
}

namespace {

Frames hook_in(const std::vector<StackFrame>& frames) {
  for (auto frame = frames.begin(); frame != frames.end() && std::next(frame) != frames.end(); ++frame)
    if (is_users(*frame) && !frame->function.ends_with("forward") &&
        (calls_hooks(*std::next(frame)) || calls_callbacks(*std::next(frame))))
      return frame;
  return frames.end();
}

bool calls_model_within(const std::vector<StackFrame>& frames, Frames hook) {
  return std::any_of(frames.begin(), hook, is_part_of_model);
}

}  // namespace

std::optional<Hook> hook_function(const std::vector<StackFrame>& frames) {
  const auto hook = hook_in(frames);
  if (hook == frames.end() || calls_model_within(frames, hook)) return std::nullopt;
  return Hook{*hook, calls_callbacks(*std::next(hook))};
}

namespace {

// Functions that look like hooks in some samples, and in others call parts of the model.
using ModelHooks = std::set<std::pair<std::string, std::string>>;  // file and function

// What is only known of all stacks together.
struct KnownOfAll {
  LoopLibraries loops;
  ModelHooks model_hooks;

  explicit KnownOfAll(const Stacks& stacks) {
    for (const auto& [text, frames] : stacks) {
      note_loops(frames, loops);
      const auto hook = hook_in(frames);
      if (hook != frames.end() && calls_model_within(frames, hook))
        model_hooks.emplace(hook->file, hook->function);
    }
  }
};

// What one text of a stack shows.
struct SeenWork {
  std::optional<LibraryCall> call;
  std::optional<StackFrame> own;
  std::optional<Hook> hook;
  bool is_backward = false;
};

SeenWork seen_work(const std::vector<StackFrame>& frames, const KnownOfAll& known) {
  SeenWork seen{library_call(frames, known.loops), own_line(frames), hook_function(frames),
                is_backward(frames)};
  if (seen.hook && known.model_hooks.contains({seen.hook->frame.file, seen.hook->frame.function}))
    seen.hook.reset();
  return seen;
}

// Weights of samples.
struct WorkTally {
  double all = 0, libraries = 0, own = 0, backward = 0;
  double hooks = 0, callbacks = 0;  // hooks: with callbacks
  std::map<std::string, double> by_library;
  FunctionTallies callers, own_functions, hook_functions;

  void add(const SeenWork& seen, double weight, bool counts_own, bool counts_hooks) {
    all += weight;
    if (seen.is_backward) backward += weight;
    if (seen.hook && counts_hooks) {
      hooks += weight;
      if (seen.hook->is_callback) callbacks += weight;
      hook_functions.add(seen.hook->frame, weight);
    } else if (seen.call) {
      libraries += weight;
      by_library[seen.call->library] += weight;
      if (!seen.call->caller.file.empty()) callers.add(seen.call->caller, weight);
    } else if (seen.own && counts_own) {
      own += weight;
      own_functions.add(*seen.own, weight);
    }
  }
};

ScriptPlace place_of_most(const WorkTally& tally) {
  if (tally.hooks > std::max(tally.own, tally.libraries))
    return 2 * tally.callbacks > tally.hooks ? ScriptPlace::kCallback : ScriptPlace::kHook;
  return tally.own > tally.libraries ? ScriptPlace::kOwnLines : ScriptPlace::kLibrary;
}

ScriptWork summed(const WorkTally& tally, size_t samples) {
  ScriptWork work{.samples = samples,
                  .place = place_of_most(tally),
                  .backward = sampled_share(tally.backward / tally.all, double(samples))};
  const auto at = [&](double weight, const FunctionTallies& functions) {
    work.share = sampled_share(weight / tally.all, double(samples));
    const auto by_share = functions.by_share();
    if (!by_share.empty()) work.caller = by_share.front().frame;
  };
  switch (work.place) {
    case ScriptPlace::kHook:
    case ScriptPlace::kCallback:
      at(tally.hooks, tally.hook_functions);
      break;
    case ScriptPlace::kOwnLines:
      at(tally.own, tally.own_functions);
      break;
    case ScriptPlace::kLibrary:
      at(tally.libraries, tally.callers);
      work.library = std::ranges::max_element(tally.by_library, {}, [](const auto& entry) {
                       return entry.second;
                     })->first;
  }
  return work;
}

}  // namespace

std::optional<ScriptWork> script_work(const Run& run, const Process& process,
                                      const std::vector<TimeSpan>& intervals, ScriptPart part) {
  const std::vector<const WorkerStack*> samples = training_samples(process, intervals);
  const Stacks stacks = stacks_of(run, samples);
  const KnownOfAll known(stacks);
  std::unordered_map<uint32_t, SeenWork> seen;
  for (const auto& [text, frames] : stacks) seen.emplace(text, seen_work(frames, known));
  const bool counts_all = part == ScriptPart::kAll;
  size_t count = 0;
  WorkTally tally;
  for (const WorkerStack* sample : samples) {
    const auto work = seen.find(sample->text);
    if (work == seen.end()) continue;
    tally.add(work->second, double(std::max<Ns>(0, sample->weight)), counts_all && sample->interprets,
              counts_all);
    ++count;
  }
  if (count < kLeastStackSamples || tally.libraries + tally.own + tally.hooks <= 0) return std::nullopt;
  return summed(tally, count);
}

}  // namespace gpuwatch::model
